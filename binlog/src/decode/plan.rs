//! How to read one table's rows, worked out once for each table map.

use mysql_async::Value;
use oxferry_schema::{Column, JsonLeaf, Row, Table};

use super::{
    DecodeError, Reader, RowsKind, TableMap,
    kind::{Kind, Logged},
};
use crate::RowChange;

/// How to read the rows of one table.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    columns: Vec<(Kind, Box<str>)>,
}

impl Plan {
    /// Works out how to read the rows that follow a table map event.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] when the log's table isn't the described one, which
    /// means that it was changed in between.
    pub(crate) fn compile(map: &TableMap<'_>, table: &Table) -> Result<Self, DecodeError> {
        let (logged, described) = (map.types.len(), table.columns.len());
        if logged != described || logged == 0 {
            return Err(DecodeError::ColumnCount {
                logged: logged as u64,
                described: described as u64,
            });
        }
        let mut metadata = Reader::new(map.metadata);
        let compile = |(code, column): (&u8, &Column)| {
            let kind = Kind::compile(Logged::read(*code, &mut metadata)?, column)?;
            Ok((kind, column.name.as_str().into()))
        };
        let columns = map.types.iter().zip(&table.columns).map(compile);
        Ok(Self {
            columns: columns.collect::<Result<_, _>>()?,
        })
    }

    /// Reads every change of a rows event's body.
    ///
    /// `extended` says that the event is of the form that servers write since
    /// MySQL 5.6.
    pub(crate) fn changes(
        &self,
        kind: RowsKind,
        extended: bool,
        body: &[u8],
    ) -> Result<Vec<RowChange>, DecodeError> {
        let mut reader = kind.open(body, extended, self.columns.len() as u64)?;
        let mut changes = Vec::new();
        while !reader.is_empty() {
            let first = self.row(&mut reader)?;
            changes.push(match kind {
                RowsKind::Write => RowChange {
                    before: None,
                    after: Some(first),
                },
                RowsKind::Delete => RowChange {
                    before: Some(first),
                    after: None,
                },
                RowsKind::Update => RowChange {
                    before: Some(first),
                    after: Some(self.row(&mut reader)?),
                },
            });
        }
        Ok(changes)
    }

    /// Reads one image: a bit for each column that is NULL, then the values
    /// of the others.
    fn row(&self, reader: &mut Reader<'_>) -> Result<Row, DecodeError> {
        let nulls = self.columns.len().div_ceil(8) as u64;
        let nulls = reader.take(nulls, "bits of the columns that are NULL")?;
        let mut values = Vec::with_capacity(self.columns.len());
        let mut leaves = Vec::new();
        for (at, (kind, name)) in self.columns.iter().enumerate() {
            let byte = nulls.get(at / 8).copied().unwrap_or_default();
            if byte >> (at % 8) & 1 == 1 {
                values.push(Value::NULL);
                continue;
            }
            let mut found = Vec::new();
            let read = kind.read(reader, &mut found);
            values.push(read.map_err(|source| DecodeError::Value {
                column: name.to_string(),
                source: Box::new(source),
            })?);
            leaves.extend(found.into_iter().map(|(path, value)| JsonLeaf {
                column: at,
                path,
                value,
            }));
        }
        Ok(Row::new(values).with_leaves(leaves))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tables::table;

    /// Each type, its code in the log, and its metadata.
    const COLUMNS: &[(&str, u8, &[u8])] = &[
        ("mediumint", 9, &[]),
        ("bigint unsigned", 8, &[]),
        ("float", 4, &[4]),
        ("double", 5, &[8]),
        ("decimal(20,4)", 246, &[20, 4]),
        ("year", 13, &[]),
        ("date", 10, &[]),
        ("time(2)", 19, &[2]),
        ("datetime(6)", 18, &[6]),
        ("timestamp", 17, &[0]),
        ("bit(12)", 16, &[4, 1]),
        ("char(255)", 254, &[0xCE, 0xFC]),
        ("varchar(300)", 15, &[0xB0, 4]),
        ("binary(5)", 254, &[0xFE, 5]),
        ("enum('a','b')", 254, &[0xF7, 1]),
        ("set('x','y')", 254, &[0xF8, 1]),
        ("mediumblob", 252, &[3]),
        ("json", 245, &[4]),
        ("point", 255, &[4]),
        ("vector(2)", 242, &[4]),
    ];

    fn compile(types: &[&str]) -> Result<Plan, DecodeError> {
        let codes: Vec<u8> = COLUMNS.iter().map(|column| column.1).collect();
        let metadata = COLUMNS.iter().map(|column| column.2).collect::<Vec<_>>();
        let map = TableMap {
            id: 1,
            schema: b"s",
            table: b"t",
            types: &codes,
            metadata: &metadata.concat(),
        };
        Plan::compile(&map, &table("s.t", types))
    }

    fn types() -> Vec<&'static str> {
        COLUMNS.iter().map(|column| column.0).collect()
    }

    #[test]
    fn every_changed_type_is_noticed() {
        assert!(compile(&types()).is_ok());
        for (at, other) in [
            (0, "int"),
            (4, "decimal(20,5)"),
            (7, "time(3)"),
            (8, "datetime"),
            (10, "bit(11)"),
            (11, "varchar(255)"),
            (13, "binary(6)"),
            (14, "set('a','b')"),
            (16, "blob"),
            (17, "longblob"),
        ] {
            let mut types = types();
            types[at] = other;
            let error = compile(&types).unwrap_err();
            assert!(
                matches!(error, DecodeError::ColumnType { .. }),
                "{other}: {error}"
            );
        }
        assert!(matches!(
            compile(&types()[1..]),
            Err(DecodeError::ColumnCount { .. })
        ));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_without_panicking(
            nulls: [u8; 3],
            rows in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..400),
        ) {
            let plan = compile(&types()).unwrap();
            let head = [1, 0, 0, 0, 0, 0, 1, 0, 2, 0, 20, 0xFF, 0xFF, 0xFF];
            let body = [&head[..], &nulls, &rows].concat();
            let _ = plan.changes(RowsKind::Write, true, &body);
            let _ = plan.changes(RowsKind::Update, true, &rows);
            let _ = TableMap::parse(&rows);
        }
    }
}

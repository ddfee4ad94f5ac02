//! How to read one table's rows, worked out once for each table map.

use mysql_async::Value;
use oxferry_schema::{Column, Row, Table};

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
        for (at, (kind, name)) in self.columns.iter().enumerate() {
            let byte = nulls.get(at / 8).copied().unwrap_or_default();
            values.push(if byte >> (at % 8) & 1 == 1 {
                Value::NULL
            } else {
                kind.read(reader).map_err(|source| DecodeError::Value {
                    column: name.to_string(),
                    source: Box::new(source),
                })?
            });
        }
        Ok(Row::new(values))
    }
}

//! Which index tells a table's rows apart.

use crate::{Column, Ident, Index, Key, KeyKind, KeyPart, KeySide, Remedy, Row, RowKey, Table};

/// Why a table's rows can't be told apart, or not here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no suitable index.
    #[error(
        "table {table} has neither a primary key nor a visible unique index whose columns are all whole and NOT NULL: add one"
    )]
    Missing {
        /// The table.
        table: String,
    },
    /// Values of a column's type can't be told apart exactly.
    #[error(
        "column {column} of the key {index} of table {table} is {column_type}, whose values can't be told apart exactly: add a primary or unique key over other columns"
    )]
    UnsupportedType {
        /// The table.
        table: String,
        /// The key's index.
        index: String,
        /// The column.
        column: String,
        /// Its whole type.
        column_type: String,
    },
    /// Another table's column can't hold the key's values.
    #[error(
        "key column {column} becomes {column_type} in {table}, which can't tell the source's rows apart while they are copied: keep its type, or give the source another key first"
    )]
    NotCarried {
        /// The other table.
        table: String,
        /// Its column.
        column: String,
        /// Its whole type.
        column_type: String,
    },
    /// The key's index and the columns contradict each other.
    #[error(
        "index {index} of table {table} names column {column}, which the table lacks: was the table changed just now?"
    )]
    UnknownColumn {
        /// The table.
        table: String,
        /// The key's index.
        index: String,
        /// The column.
        column: String,
    },
}

impl KeyError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Missing { .. } | Self::UnsupportedType { .. } | Self::NotCarried { .. } => {
                Remedy::Usage
            }
            Self::UnknownColumn { .. } => Remedy::Retry,
        }
    }
}

impl Table {
    /// Returns the index that tells the rows apart: the primary key, or else
    /// the first unique index that the optimizer may use and whose parts are
    /// all whole columns that are NOT NULL, of types whose values can be told
    /// apart exactly.
    ///
    /// Parts may be descending: the index is the same set of columns either
    /// way, and is read backwards where it must be.
    ///
    /// # Errors
    ///
    /// [`KeyError::Missing`] when there is none, [`KeyError::UnsupportedType`]
    /// when all there are have a column of another type.
    pub fn row_key(&self) -> Result<RowKey, KeyError> {
        let primary = self
            .indexes
            .iter()
            .find(|index| index.name.as_str() == "PRIMARY");
        let candidates = primary.into_iter().chain(&self.indexes);
        let mut first = None;
        for index in candidates.filter(|index| tells_rows_apart(index)) {
            match RowKey::over(self, index) {
                Ok(key) => return Ok(key),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| KeyError::Missing {
            table: self.name.plain(),
        }))
    }
}

impl RowKey {
    fn over(table: &Table, index: &Index) -> Result<Self, KeyError> {
        let mut key = Self {
            index: index.name.clone(),
            columns: Vec::new(),
            ordinals: Vec::new(),
            kinds: Vec::new(),
        };
        for name in index.parts.iter().filter_map(|part| part.column.as_ref()) {
            let (ordinal, column) = table
                .ordinal_of(name.as_str())
                .and_then(|at| Some((at, table.columns.get(at)?)))
                .ok_or_else(|| KeyError::UnknownColumn {
                    table: table.name.plain(),
                    index: index.name.as_str().to_owned(),
                    column: name.as_str().to_owned(),
                })?;
            let kind = KeyKind::of(column).ok_or_else(|| KeyError::UnsupportedType {
                table: table.name.plain(),
                index: index.name.as_str().to_owned(),
                column: column.name.as_str().to_owned(),
                column_type: column.column_type.clone(),
            })?;
            key.columns.push(name.clone());
            key.ordinals.push(ordinal);
            key.kinds.push(kind);
        }
        Ok(key)
    }

    /// Returns whether the client orders and compares the key's values as the
    /// server does: only then it can tell in which range a key lies.
    #[must_use]
    pub fn is_client_ordered(&self) -> bool {
        self.kinds.iter().all(KeyKind::is_client_ordered)
    }

    /// Returns the key of a row of the table; `None` where the row has no
    /// usable value in one of the columns.
    #[must_use]
    pub fn key_of(&self, row: &Row) -> Option<Key> {
        let parts = self.ordinals.iter().zip(&self.kinds);
        let parts: Option<Vec<KeyPart>> = parts
            .map(|(ordinal, kind)| kind.part(row.values().get(*ordinal)?))
            .collect();
        parts.map(Key::new)
    }

    /// Returns how the key stands in the statements of its own table.
    ///
    /// # Errors
    ///
    /// [`KeyError::UnknownColumn`] when `table` isn't the key's.
    pub fn side(&self, table: &Table) -> Result<KeySide, KeyError> {
        self.side_in(table, &self.columns)
    }

    /// Returns how the key stands in another table, in which `columns`, in key
    /// order, hold its values.
    ///
    /// # Errors
    ///
    /// [`KeyError::NotCarried`] when a column there can't hold them;
    /// [`KeyError::UnknownColumn`] when it isn't there.
    pub fn side_in(&self, table: &Table, columns: &[Ident]) -> Result<KeySide, KeyError> {
        let find = |name: &Ident| {
            let found = table.ordinal_of(name.as_str());
            found
                .and_then(|at| table.columns.get(at))
                .ok_or_else(|| KeyError::UnknownColumn {
                    table: table.name.plain(),
                    index: self.index.as_str().to_owned(),
                    column: name.as_str().to_owned(),
                })
        };
        let columns: Vec<&Column> = columns.iter().map(find).collect::<Result<_, _>>()?;
        KeySide::new(&self.kinds, columns).map_err(|column| KeyError::NotCarried {
            table: table.name.plain(),
            column: column.name.as_str().to_owned(),
            column_type: column.column_type.clone(),
        })
    }
}

fn tells_rows_apart(index: &Index) -> bool {
    let whole =
        |part: &crate::IndexPart| part.column.is_some() && part.prefix.is_none() && !part.nullable;
    index.unique && index.visible && !index.parts.is_empty() && index.parts.iter().all(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        IndexPart, Value,
        fixture::{self, column, ident},
    };

    fn part(text: &str) -> IndexPart {
        IndexPart {
            column: Some(ident(text)),
            prefix: None,
            nullable: false,
            descending: false,
        }
    }

    fn unique(text: &str, parts: Vec<IndexPart>) -> Index {
        Index {
            name: ident(text),
            unique: true,
            visible: true,
            kind: "BTREE".to_owned(),
            parts,
        }
    }

    fn table(indexes: Vec<Index>) -> Table {
        let columns = [
            column("a", "int"),
            column("b", "bigint"),
            column("c", "varchar"),
        ];
        fixture::table(columns, indexes)
    }

    #[test]
    fn the_primary_key_wins_over_any_unique_index() {
        let table = table(vec![
            unique("u", vec![part("a")]),
            unique("PRIMARY", vec![part("b"), part("a")]),
        ]);
        let key = table.row_key().unwrap();
        assert_eq!((key.index.as_str(), key.ordinals), ("PRIMARY", vec![1, 0]));
    }

    #[test]
    fn an_index_that_is_nullable_cut_computed_or_hidden_tells_no_rows_apart() {
        let mut parts = [part("a"), part("c"), part("b")];
        parts[0].nullable = true;
        parts[1].prefix = Some(10);
        parts[2].column = None;
        let mut indexes: Vec<_> = parts
            .into_iter()
            .map(|part| unique("u", vec![part]))
            .collect();
        let mut hidden = unique("hidden", vec![part("a")]);
        hidden.visible = false;
        indexes.push(hidden);
        assert_eq!(
            table(indexes.clone()).row_key(),
            Err(KeyError::Missing {
                table: "d.t".to_owned()
            })
        );
        indexes.push(unique("good", vec![part("b")]));
        assert_eq!(table(indexes).row_key().unwrap().index, ident("good"));
    }

    #[test]
    fn a_key_that_cannot_be_told_apart_is_passed_over() {
        let mut table = table(vec![
            unique("PRIMARY", vec![part("a"), part("f")]),
            unique("u", vec![part("b")]),
        ]);
        table.columns.push(column("f", "double"));
        assert_eq!(table.row_key().unwrap().index, ident("u"));
        table.indexes.pop();
        let error = table.row_key().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("column f of the key PRIMARY of table d.t is double"),
            "{error}"
        );
        assert_eq!(error.remedy(), Remedy::Usage);
    }

    #[test]
    fn the_client_orders_numbers_and_bytes_alone() {
        let mut table = table(vec![unique("PRIMARY", vec![part("a"), part("b")])]);
        assert!(table.row_key().unwrap().is_client_ordered());
        table.columns[1] = column("b", "date");
        assert!(!table.row_key().unwrap().is_client_ordered());
    }

    #[test]
    fn a_rows_key_is_its_key_columns_values() {
        let table = table(vec![unique("PRIMARY", vec![part("b"), part("a")])]);
        let key = table.row_key().unwrap();
        let row = Row::new([Value::Int(1), Value::Int(2), Value::NULL]);
        let expected = Key::new([KeyPart::Int(2), KeyPart::Int(1)]);
        assert_eq!(key.key_of(&row), Some(expected));
        assert_eq!(key.key_of(&Row::new([Value::Int(1), Value::NULL])), None);
    }
}

//! Which index tells a table's rows apart.

use crate::{Column, Index, Remedy, RowKey, Table};

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
    /// The client does not know the order of a column's type.
    #[error(
        "column {column} of the key {index} of table {table} is {column_type}: only keys of integer columns are supported so far"
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
            Self::Missing { .. } | Self::UnsupportedType { .. } => Remedy::Usage,
            Self::UnknownColumn { .. } => Remedy::Retry,
        }
    }
}

impl Table {
    /// Returns the index that tells the rows apart: the primary key, or else
    /// the first unique index that the optimizer may use and whose parts are
    /// all whole columns that are NOT NULL.
    ///
    /// Parts may be descending: the index is the same set of columns either
    /// way, and is read backwards where it must be.
    ///
    /// # Errors
    ///
    /// [`KeyError::Missing`] when there is none.
    pub fn row_key(&self) -> Result<RowKey, KeyError> {
        let primary = self
            .indexes
            .iter()
            .find(|index| index.name.as_str() == "PRIMARY");
        let index = primary
            .into_iter()
            .chain(&self.indexes)
            .find(|index| tells_rows_apart(index))
            .ok_or_else(|| KeyError::Missing {
                table: self.name.plain(),
            })?;
        let columns: Vec<_> = index
            .parts
            .iter()
            .filter_map(|part| part.column.clone())
            .collect();
        let ordinals = columns
            .iter()
            .map(|column| {
                self.ordinal_of(column.as_str())
                    .ok_or_else(|| KeyError::UnknownColumn {
                        table: self.name.plain(),
                        index: index.name.as_str().to_owned(),
                        column: column.as_str().to_owned(),
                    })
            })
            .collect::<Result<_, _>>()?;
        Ok(RowKey {
            index: index.name.clone(),
            columns,
            ordinals,
        })
    }
}

impl RowKey {
    /// Checks that the client orders and compares the key's values as the
    /// server does: that all its columns are integers.
    ///
    /// # Errors
    ///
    /// [`KeyError::UnsupportedType`] names the first column that is none.
    pub fn client_ordered(&self, table: &Table) -> Result<(), KeyError> {
        let columns = self.ordinals.iter().filter_map(|at| table.columns.get(*at));
        columns
            .filter(|column| !is_integer(column))
            .map(Err)
            .next()
            .unwrap_or(Ok(()))
            .map_err(|column: &Column| KeyError::UnsupportedType {
                table: table.name.plain(),
                index: self.index.as_str().to_owned(),
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

fn is_integer(column: &Column) -> bool {
    matches!(
        column.data_type.as_str(),
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ident, IndexPart, TableName};

    fn name(text: &str) -> Ident {
        Ident::new(text).unwrap()
    }

    fn column(text: &str, data_type: &str) -> Column {
        Column {
            name: name(text),
            data_type: data_type.to_owned(),
            column_type: data_type.to_owned(),
            charset: None,
            collation: None,
            nullable: false,
            invisible: false,
            generated: None,
            auto_increment: false,
            members: Vec::new(),
        }
    }

    fn part(text: &str) -> IndexPart {
        IndexPart {
            column: Some(name(text)),
            prefix: None,
            nullable: false,
            descending: false,
        }
    }

    fn unique(text: &str, parts: Vec<IndexPart>) -> Index {
        Index {
            name: name(text),
            unique: true,
            visible: true,
            kind: "BTREE".to_owned(),
            parts,
        }
    }

    fn table(indexes: Vec<Index>) -> Table {
        Table {
            name: TableName::new(name("d"), name("t")),
            columns: vec![
                column("a", "int"),
                column("b", "bigint"),
                column("c", "varchar"),
            ],
            indexes,
            engine: "InnoDB".to_owned(),
            row_estimate: 0,
            size_bytes: 0,
            auto_increment: None,
            create_statement: String::new(),
        }
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
        assert_eq!(table(indexes).row_key().unwrap().index, name("good"));
    }

    #[test]
    fn a_key_that_is_no_integer_is_refused_by_name_and_type() {
        let table = table(vec![unique("PRIMARY", vec![part("a"), part("c")])]);
        let error = table.row_key().unwrap().client_ordered(&table).unwrap_err();
        assert_eq!(
            error.to_string(),
            "column c of the key PRIMARY of table d.t is varchar: only keys of integer columns are supported so far"
        );
        assert_eq!(error.remedy(), Remedy::Usage);
    }

    #[test]
    fn integer_keys_are_ordered_by_the_client() {
        let table = table(vec![unique("PRIMARY", vec![part("a"), part("b")])]);
        assert_eq!(table.row_key().unwrap().client_ordered(&table), Ok(()));
    }
}

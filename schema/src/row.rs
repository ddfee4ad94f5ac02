//! Whole rows.

use crate::{JsonLeaf, Value};

/// A whole row: one value for each stored column of the *source* table, in
/// the order of [`Table::columns`](crate::Table::columns).
///
/// What each type looks like here, whichever way the row came:
///
/// | column type | value |
/// |---|---|
/// | integers, YEAR | `Int` or `UInt` |
/// | BIT(n) | `UInt` |
/// | FLOAT, DOUBLE | `Float`, `Double` |
/// | DECIMAL | `Bytes`: its decimal text |
/// | DATE, DATETIME, TIMESTAMP | `Date`; a TIMESTAMP in UTC |
/// | TIME | `Time` |
/// | CHAR, VARCHAR, TEXT | `Bytes` in the column's own character set |
/// | BINARY(n) | `Bytes`, padded to its length |
/// | VARBINARY, BLOB, GEOMETRY, VECTOR | `Bytes` |
/// | ENUM, SET | `Bytes`: the text of the member or members, in UTF-8 |
/// | JSON | `Bytes`: JSON text in UTF-8, with [`Row::leaves`] |
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    values: Box<[Value]>,
    leaves: Box<[JsonLeaf]>,
}

impl Row {
    /// Takes the values, one for each column.
    #[must_use]
    pub fn new(values: impl Into<Box<[Value]>>) -> Self {
        Self {
            values: values.into(),
            leaves: Box::default(),
        }
    }

    /// Adds what the text of the row's JSON documents doesn't tell.
    #[must_use]
    pub fn with_leaves(mut self, leaves: impl Into<Box<[JsonLeaf]>>) -> Self {
        self.leaves = leaves.into();
        self
    }

    /// Returns the values inside JSON documents whose type their text doesn't
    /// tell, in the order of the columns.
    #[must_use]
    pub fn leaves(&self) -> &[JsonLeaf] {
        &self.leaves
    }

    /// Returns the values, one for each column.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns about how much memory the row takes, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let heap = |value: &Value| {
            if let Value::Bytes(bytes) = value {
                bytes.len()
            } else {
                0
            }
        };
        size_of::<Self>()
            + self
                .values
                .iter()
                .map(|v| size_of::<Value>() + heap(v))
                .sum::<usize>()
            + self.leaves.iter().map(JsonLeaf::size_bytes).sum::<usize>()
    }
}

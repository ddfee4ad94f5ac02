//! Whole rows.

use crate::Value;

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
/// | JSON | `Bytes`: JSON text in UTF-8 |
#[derive(Clone, Debug, PartialEq)]
pub struct Row(Box<[Value]>);

impl Row {
    /// Takes the values, one for each column.
    #[must_use]
    pub fn new(values: impl Into<Box<[Value]>>) -> Self {
        Self(values.into())
    }

    /// Returns the values, one for each column.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.0
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
                .0
                .iter()
                .map(|v| size_of::<Value>() + heap(v))
                .sum::<usize>()
    }
}

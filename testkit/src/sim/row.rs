//! Rows, keys and changes of the simulated servers, small on purpose.

use std::collections::BTreeMap;

use oxferry_copier::KeyedChange;
use oxferry_schema::{Key, KeyPart, KeyRange, Row, Value};

/// A row without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SimRow {
    /// Differs from every other row image ever written.
    pub(super) version: i64,
    /// The value of the secondary unique key.
    pub(super) unique: i64,
}

/// What one key's row shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowChange {
    pub(super) table: usize,
    pub(super) key: i64,
    pub(super) image: Option<SimRow>,
}

/// The rows of every table.
pub(super) type Tables = Vec<BTreeMap<i64, SimRow>>;

impl SimRow {
    /// Returns the row as the engine carries it.
    fn to_row(self) -> Row {
        Row::new([Value::Int(self.version), Value::Int(self.unique)])
    }

    /// Reads a row that the engine carried.
    fn from_row(row: &Row) -> Option<Self> {
        match row.values() {
            [Value::Int(version), Value::Int(unique)] => Some(Self {
                version: *version,
                unique: *unique,
            }),
            _ => None,
        }
    }
}

impl RowChange {
    /// Returns the change as the engine takes it.
    pub(super) fn to_keyed(self) -> KeyedChange {
        KeyedChange {
            key: key(self.key),
            image: self.image.map(SimRow::to_row),
        }
    }

    /// Reads a change that the engine gave out.
    pub(super) fn from_keyed(table: usize, change: &KeyedChange) -> Option<Self> {
        let [KeyPart::Int(number)] = change.key.parts() else {
            return None;
        };
        Some(Self {
            table,
            key: i64::try_from(*number).ok()?,
            image: change.image.as_ref().and_then(SimRow::from_row),
        })
    }

    /// Changes the row.
    pub(super) fn apply(self, tables: &mut Tables) {
        match self.image {
            Some(row) => tables[self.table].insert(self.key, row),
            None => tables[self.table].remove(&self.key),
        };
    }
}

/// Returns the engine's key for a number.
pub(super) fn key(number: i64) -> Key {
    Key::new([KeyPart::Int(number.into())])
}

/// Returns the range `[lower, upper)`.
pub(super) fn range(lower: Option<i64>, upper: Option<i64>) -> KeyRange {
    KeyRange {
        lower: lower.map(key),
        upper: upper.map(key),
    }
}

/// Returns the number of a bound.
pub(super) fn number(bound: Option<&Key>) -> Option<i64> {
    match bound?.parts() {
        [KeyPart::Int(number)] => i64::try_from(*number).ok(),
        _ => None,
    }
}

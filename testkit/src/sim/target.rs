//! The simulated target.

use std::collections::BTreeMap;

use super::{
    order::Order,
    row::{RowChange, SimRow, Tables},
};

/// The target's tables.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) rows: Tables,
    /// Which tables have a secondary unique index.
    pub(super) unique: Vec<bool>,
    orders: Vec<Order>,
}

impl Target {
    /// Makes empty tables.
    pub(super) fn new(unique: Vec<bool>, orders: Vec<Order>) -> Self {
        Self {
            orders,
            rows: vec![BTreeMap::new(); unique.len()],
            unique,
        }
    }

    /// Inserts a row, and says whether none with its key was there.
    #[must_use]
    pub(super) fn insert(&mut self, table: usize, key: i64, row: SimRow) -> bool {
        self.rows[table].insert(key, row).is_none()
    }

    /// Applies a change as REPLACE and DELETE do: rows with the row's
    /// key or its unique value go.
    pub(super) fn replace(&mut self, change: RowChange) {
        let RowChange { table, key, image } = change;
        let order = self.orders[table];
        self.rows[table].retain(|k, _| !order.same(*k, key));
        if let Some(row) = image
            && self.unique[table]
        {
            self.rows[table].retain(|k, held| *k == key || held.unique != row.unique);
        }
        change.apply(&mut self.rows);
    }

    /// Builds the unique index, and says whether no value was there twice.
    #[must_use]
    pub(super) fn build_index(&mut self, table: usize) -> bool {
        self.unique[table] = true;
        let mut values: Vec<_> = self.rows[table].values().map(|row| row.unique).collect();
        values.sort_unstable();
        values.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// Returns the keys whose rows differ from `other`.
    pub(super) fn differences(&self, other: &Tables) -> Vec<(usize, i64)> {
        let mut found = Vec::new();
        for (table, (mine, theirs)) in self.rows.iter().zip(other).enumerate() {
            if mine == theirs {
                continue;
            }
            let mut keys: Vec<_> = mine.keys().chain(theirs.keys()).copied().collect();
            keys.sort_unstable();
            keys.dedup();
            keys.retain(|key| mine.get(key) != theirs.get(key));
            found.extend(keys.into_iter().map(|key| (table, key)));
        }
        found
    }
}

//! A side without a server.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
};

use oxferry_schema::{Key, KeyRange};

use crate::fingerprint::{
    ColumnFingerprint, Fingerprint, FingerprintError, Fingerprints, KeyedFingerprint, Summary,
};

/// A table's fingerprints in memory: for tests and simulations.
#[derive(Debug, Default)]
pub struct MemorySide {
    rows: Mutex<BTreeMap<Key, Fingerprint>>,
    /// A collation: where a key stands; equal places are the same key.
    place: Option<fn(&Key) -> u64>,
}

impl MemorySide {
    /// Takes the rows.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = KeyedFingerprint>) -> Self {
        Self {
            rows: Mutex::new(rows.into_iter().collect()),
            place: None,
        }
    }

    /// Orders and compares keys as their `place`s, instead of as the client.
    #[must_use]
    pub const fn collated(mut self, place: fn(&Key) -> u64) -> Self {
        self.place = Some(place);
        self
    }

    /// Lends the rows, to look at or to change.
    pub fn rows(&self) -> MutexGuard<'_, BTreeMap<Key, Fingerprint>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers [`Fingerprints::summary`] at once.
    #[must_use]
    pub fn summary_now(&self, range: &KeyRange) -> Summary {
        let mut summary = Summary::default();
        let all = NonZeroUsize::MAX;
        for (_, row) in self.page_now(range, all) {
            summary.add(&row);
        }
        summary
    }

    /// Answers [`Fingerprints::page`] at once.
    #[must_use]
    pub fn page_now(&self, range: &KeyRange, limit: NonZeroUsize) -> Vec<KeyedFingerprint> {
        let rows = self.rows();
        let inside = rows.iter().filter(|(key, _)| self.holds(range, key));
        let mut inside: Vec<_> = inside.map(|(key, row)| (key.clone(), *row)).collect();
        if let Some(place) = self.place {
            inside.sort_by_key(|(key, _)| place(key));
        }
        inside.truncate(limit.get());
        inside
    }

    /// Answers [`Fingerprints::by_keys`] at once.
    #[must_use]
    pub fn by_keys_now(&self, keys: &[Key]) -> Vec<KeyedFingerprint> {
        let rows = self.rows();
        let found = rows.iter().filter(|(key, _)| match self.place {
            Some(place) => keys.iter().any(|asked| place(asked) == place(key)),
            None => keys.contains(key),
        });
        found.map(|(key, row)| (key.clone(), *row)).collect()
    }

    fn holds(&self, range: &KeyRange, key: &Key) -> bool {
        let Some(place) = self.place else {
            return range.contains(key);
        };
        let (lower, upper) = (range.lower.as_ref(), range.upper.as_ref());
        lower.is_none_or(|lower| place(lower) <= place(key))
            && upper.is_none_or(|upper| place(key) < place(upper))
    }
}

impl Fingerprints for MemorySide {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    async fn columns(&self, key: &Key) -> Result<Vec<ColumnFingerprint>, FingerprintError> {
        let value = self.rows().get(key).copied();
        let column = |value| ColumnFingerprint {
            column: "value".to_owned(),
            column_type: "hash".to_owned(),
            value,
        };
        Ok(value.map(column).into_iter().collect())
    }

    async fn summary(&self, range: &KeyRange) -> Result<Summary, FingerprintError> {
        Ok(self.summary_now(range))
    }

    async fn page(
        &self,
        range: &KeyRange,
        limit: NonZeroUsize,
    ) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        Ok(self.page_now(range, limit))
    }

    async fn by_keys(&self, keys: &[Key]) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        Ok(self.by_keys_now(keys))
    }
}

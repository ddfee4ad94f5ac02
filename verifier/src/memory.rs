//! A side without a server.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
};

use oxferry_schema::{Key, KeyRange};

use crate::fingerprint::{Fingerprint, FingerprintError, Fingerprints, KeyedFingerprint, Summary};

/// A table's fingerprints in memory: for tests and simulations.
#[derive(Debug, Default)]
pub struct MemorySide(Mutex<BTreeMap<Key, Fingerprint>>);

impl MemorySide {
    /// Takes the rows.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = KeyedFingerprint>) -> Self {
        Self(Mutex::new(rows.into_iter().collect()))
    }

    /// Lends the rows, to look at or to change.
    pub fn rows(&self) -> MutexGuard<'_, BTreeMap<Key, Fingerprint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers [`Fingerprints::summary`] at once.
    #[must_use]
    pub fn summary_now(&self, range: &KeyRange) -> Summary {
        let mut summary = Summary::default();
        for (_, row) in self.rows().iter().filter(|(key, _)| range.contains(key)) {
            summary.add(row);
        }
        summary
    }

    /// Answers [`Fingerprints::page`] at once.
    #[must_use]
    pub fn page_now(&self, range: &KeyRange, limit: NonZeroUsize) -> Vec<KeyedFingerprint> {
        let rows = self.rows();
        let inside = rows.iter().filter(|(key, _)| range.contains(key));
        inside
            .take(limit.get())
            .map(|(key, row)| (key.clone(), *row))
            .collect()
    }

    /// Answers [`Fingerprints::by_keys`] at once.
    #[must_use]
    pub fn by_keys_now(&self, keys: &[Key]) -> Vec<KeyedFingerprint> {
        let rows = self.rows();
        let mut found: Vec<KeyedFingerprint> = keys
            .iter()
            .filter_map(|key| Some((key.clone(), *rows.get(key)?)))
            .collect();
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found
    }
}

impl Fingerprints for MemorySide {
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

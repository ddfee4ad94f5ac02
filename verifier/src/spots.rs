//! A quick look at a few rows.

use std::{collections::HashSet, num::NonZeroUsize};

use oxferry_schema::{Key, KeyRange};

use crate::fingerprint::{FingerprintError, Fingerprints, KeyedFingerprint};

/// Returns whether the first `rows` rows of each side, in its own order, and
/// those of `keys` are the same on both sides. Nobody may write meanwhile.
///
/// # Errors
///
/// [`FingerprintError`] when a side can't be read.
pub async fn spots_agree<S: Fingerprints, T: Fingerprints>(
    source: &S,
    target: &T,
    rows: NonZeroUsize,
    keys: &[Key],
) -> Result<bool, FingerprintError> {
    let first = source.page(&KeyRange::ALL, rows).await?;
    let found = target.by_keys(&keys_of(&first)).await?;
    if !holds(&found, &first) {
        return Ok(false);
    }
    let first = target.page(&KeyRange::ALL, rows).await?;
    let found = source.by_keys(&keys_of(&first)).await?;
    if !holds(&found, &first) {
        return Ok(false);
    }
    let asked: HashSet<&Key> = keys.iter().collect();
    let named = |rows: Vec<KeyedFingerprint>| -> HashSet<KeyedFingerprint> {
        let rows = rows.into_iter();
        rows.filter(|(key, _)| asked.contains(key)).collect()
    };
    Ok(named(source.by_keys(keys).await?) == named(target.by_keys(keys).await?))
}

fn keys_of(rows: &[KeyedFingerprint]) -> Vec<Key> {
    rows.iter().map(|(key, _)| key.clone()).collect()
}

fn holds(all: &[KeyedFingerprint], some: &[KeyedFingerprint]) -> bool {
    let all: HashSet<&KeyedFingerprint> = all.iter().collect();
    some.iter().all(|row| all.contains(row))
}

//! Reading one side by the rows of the other.

use std::num::NonZeroUsize;

use oxferry_schema::{Key, KeyRange};

use crate::{
    Backward, Fingerprints,
    fingerprint::{FingerprintError, KeyedFingerprint},
};

/// Reads a page of the target, and what it is compared with.
pub(super) async fn backward<S: Fingerprints, T: Fingerprints>(
    source: &S,
    target: &T,
    range: &KeyRange,
    limit: NonZeroUsize,
) -> Result<Backward, FingerprintError> {
    let page = target.page(range, limit).await?;
    let held = source.by_keys(&keys_of(&page)).await?;
    let again = target.by_keys(&Backward::doubtful(&page, &held)).await?;
    Ok(Backward {
        page,
        source: held,
        again,
    })
}

pub(super) fn keys_of(rows: &[KeyedFingerprint]) -> Vec<Key> {
    rows.iter().map(|(key, _)| key.clone()).collect()
}

//! Changes by key, and the batches that they are applied in.

use oxferry_schema::{Key, Row};

/// What one key's row shall be.
///
/// An update that changes the key is two of these: the old key without an
/// image, then the new key with one.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a change is its key and its image"
)]
pub struct KeyedChange {
    /// The row's key.
    pub key: Key,
    /// The whole row, or `None` where the row is gone.
    pub image: Option<Row>,
}

/// Changes to apply in one transaction on the target, each key once.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a batch is its changes")]
pub struct Batch {
    /// The changes, in key order.
    pub changes: Vec<KeyedChange>,
}

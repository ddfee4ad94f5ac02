//! Who knows the order of a table's keys.

use oxferry_schema::{KeySide, RowKey};

/// Who knows the order and the equality of a table's keys, and whether both
/// sides have the same; decides how the two are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each is compared in its own way")]
pub enum KeyOrder {
    /// The client and both servers agree: a key's range can be told.
    Shared,
    /// Both servers agree, the client can't tell in which range a key lies.
    Server,
    /// The target has another order: a range of the source means nothing there.
    Apart,
}

impl KeyOrder {
    /// Tells the order of `key` out of its kinds and of the target's side.
    #[must_use]
    pub fn of(key: &RowKey, target: &KeySide) -> Self {
        match (target.keeps_order(), key.is_client_ordered()) {
            (false, _) => Self::Apart,
            (true, true) => Self::Shared,
            (true, false) => Self::Server,
        }
    }
}

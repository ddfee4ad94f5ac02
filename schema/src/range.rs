//! Half-open ranges of keys: what a chunk covers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Key;

/// The keys `lower <= key < upper`; a missing bound leaves that end open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRange {
    /// The first key inside, or `None` from the first row on.
    pub lower: Option<Key>,
    /// The first key behind, or `None` to the last row and beyond.
    pub upper: Option<Key>,
}

impl KeyRange {
    /// Covers every key.
    pub const ALL: Self = Self {
        lower: None,
        upper: None,
    };

    /// Returns whether `key` lies inside.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.lower.as_ref().is_none_or(|lower| lower <= key)
            && self.upper.as_ref().is_none_or(|upper| key < upper)
    }
}

impl fmt::Display for KeyRange {
    /// Writes `[7, 9)`, with `min` and `max` for open ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lower {
            Some(lower) => write!(f, "[{lower}, ")?,
            None => f.write_str("[min, ")?,
        }
        match &self.upper {
            Some(upper) => write!(f, "{upper})"),
            None => f.write_str("max]"),
        }
    }
}

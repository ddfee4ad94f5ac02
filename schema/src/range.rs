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

    /// Returns the one key that a range up to that key's [successor] holds;
    /// `None` for any other range, and for one without an upper end.
    ///
    /// [successor]: Key::successor
    #[must_use]
    pub fn only_key(&self) -> Option<&Key> {
        let (lower, upper) = (self.lower.as_ref()?, self.upper.as_ref()?);
        (lower.successor().as_ref() == Some(upper)).then_some(lower)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyPart;

    #[test]
    fn a_range_up_to_a_keys_successor_holds_that_key_alone() {
        let only = |lower: KeyPart, upper: Option<KeyPart>| {
            let range = KeyRange {
                lower: Some(Key::new([lower])),
                upper: upper.map(|upper| Key::new([upper])),
            };
            range.only_key().is_some()
        };
        let bytes = |bytes: &[u8]| KeyPart::Bytes(bytes.into());
        assert!(only(bytes(b"abc"), Some(bytes(b"abc\0"))));
        assert!(!only(bytes(b"abc"), Some(bytes(b"abd"))));
        assert!(only(KeyPart::Int(3), Some(KeyPart::Int(4))));
        assert!(!only(KeyPart::Text(b"a"[..].into()), None));
        assert_eq!(KeyRange::ALL.only_key(), None);
    }
}

//! Row identities: values of a table's key columns.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Value;

/// One column's value in a [`Key`], of a type whose order and equality are
/// the same here as on the server.
///
/// Wide enough for every MySQL integer, signed or not. One column always
/// yields one variant, so values of different variants are never compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyPart {
    /// A value of an integer column: `-2^63 ..= 2^64 - 1`.
    Int(i128),
}

/// A row's identity: the values of the key columns, in key order.
///
/// Ordered as the server orders the key's index: column after column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key(Box<[KeyPart]>);

impl Key {
    /// Puts the parts together, in the order of the key's columns.
    #[must_use]
    pub fn new(parts: impl Into<Box<[KeyPart]>>) -> Self {
        Self(parts.into())
    }

    /// Returns the parts, in the order of the key's columns.
    #[must_use]
    pub fn parts(&self) -> &[KeyPart] {
        &self.0
    }

    /// Returns the parts as statement parameters.
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        self.0.iter().map(KeyPart::to_value)
    }

    /// Returns about how much memory the key takes, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.0.len() * size_of::<KeyPart>()
    }
}

impl fmt::Display for Key {
    /// Writes `7` or `(7, 8)`: what a person looks for in the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = &*self.0 {
            return write!(f, "{only}");
        }
        f.write_str("(")?;
        for (i, part) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{part}")?;
        }
        f.write_str(")")
    }
}

impl KeyPart {
    /// Reads a part out of an integer column's value, `None` if it is none.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Int(v) => Some(Self::Int((*v).into())),
            Value::UInt(v) => Some(Self::Int((*v).into())),
            // The text protocol sends integers as digits.
            Value::Bytes(digits) => std::str::from_utf8(digits)
                .ok()?
                .parse()
                .ok()
                .map(Self::Int),
            _ => None,
        }
    }

    /// Returns the part as a statement parameter.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Int(v) => i64::try_from(*v).map_or_else(
                |_| Value::UInt(u64::try_from(*v).unwrap_or(u64::MAX)),
                Value::Int,
            ),
        }
    }
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(v) => write!(f, "{v}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_like_the_index() {
        let key = |a, b| Key::new([KeyPart::Int(a), KeyPart::Int(b)]);
        assert!(key(1, 9) < key(2, 0));
        assert!(key(-1, 0) < key(0, 0));
    }

    #[test]
    fn integers_survive_at_both_ends() {
        for value in [
            Value::Int(i64::MIN),
            Value::Int(-1),
            Value::Int(0),
            Value::UInt(u64::MAX),
        ] {
            assert_eq!(KeyPart::from_value(&value).unwrap().to_value(), value);
        }
        assert_eq!(KeyPart::from_value(&Value::NULL), None);
    }
}

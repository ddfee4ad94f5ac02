//! Row identities: values of a table's key columns.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Value;

/// One column's value in a [`Key`].
///
/// Equal here means equal on the server. The converse holds for `Int` and
/// `Bytes` alone, and so does the order: `'a'` and `'A'` are two values here
/// and may be one key there. [`RowKey::is_client_ordered`] tells.
///
/// One column always yields one variant; the order between variants means
/// nothing.
///
/// [`RowKey::is_client_ordered`]: crate::RowKey::is_client_ordered
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyPart {
    /// A value of an integer, YEAR or BIT column, `-2^63 ..= 2^64 - 1`; an
    /// ENUM's ordinal, 0 for the empty error value; a SET's bits.
    Int(i128),
    /// A value of a BINARY or VARBINARY column, ordered byte by byte.
    Bytes(#[serde(with = "hex")] Box<[u8]>),
    /// A value of a character column, in the column's own character set.
    Text(#[serde(with = "hex")] Box<[u8]>),
    /// A DECIMAL, a date or a time, as the server prints it.
    Literal(Box<str>),
}

/// A row's identity: the values of the key columns, in key order.
///
/// Where all its parts are ordered as on the server, a key is ordered as the
/// server orders the key's index: column after column.
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

    /// Returns the lowest key that sorts behind this one, so that
    /// `[key, behind)` holds this key alone; `None` where there is none, or
    /// where the client doesn't know the order.
    #[must_use]
    pub fn successor(&self) -> Option<Self> {
        let mut parts = self.0.to_vec();
        for index in (0..parts.len()).rev() {
            let part = parts.get_mut(index)?;
            match part {
                KeyPart::Int(value) if *value < i128::from(u64::MAX) => {
                    *value += 1;
                    return Some(Self::new(parts));
                }
                // The highest value: the part before it moves on, and this one
                // starts with the lowest.
                KeyPart::Int(value) => *value = i128::from(i64::MIN),
                KeyPart::Bytes(bytes) => {
                    let behind = bytes.iter().copied().chain([0]).collect();
                    *part = KeyPart::Bytes(behind);
                    return Some(Self::new(parts));
                }
                KeyPart::Text(_) | KeyPart::Literal(_) => return None,
            }
        }
        None
    }

    /// Returns about how much memory the key takes, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let heap = |part: &KeyPart| match part {
            KeyPart::Int(_) => 0,
            KeyPart::Bytes(bytes) | KeyPart::Text(bytes) => bytes.len(),
            KeyPart::Literal(text) => text.len(),
        };
        let parts = self.0.iter();
        size_of::<Self>()
            + parts
                .map(|part| size_of::<KeyPart>() + heap(part))
                .sum::<usize>()
    }
}

impl fmt::Display for Key {
    /// Writes `7` or `(7, 'x')`: what a person looks for in the table.
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
    /// Reads an integer out of a value, `None` if it is none.
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

    /// Returns the part as a statement parameter; what surrounds the place
    /// gives it its type, see [`KeySide`](crate::KeySide).
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Int(v) => i64::try_from(*v).map_or_else(
                |_| Value::UInt(u64::try_from(*v).unwrap_or(u64::MAX)),
                Value::Int,
            ),
            Self::Bytes(bytes) | Self::Text(bytes) => Value::Bytes(bytes.to_vec()),
            Self::Literal(text) => Value::Bytes(text.as_bytes().to_vec()),
        }
    }
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            f.write_str("0x")?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
        };
        match self {
            Self::Int(v) => write!(f, "{v}"),
            Self::Bytes(bytes) => hex(f, bytes),
            Self::Literal(text) => write!(f, "'{text}'"),
            Self::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if !text.contains(char::is_control) => {
                    write!(f, "'{}'", text.replace('\'', "''"))
                }
                _ => hex(f, bytes),
            },
        }
    }
}

/// Bytes in JSON: hexadecimal digits.
mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        to.serialize_str(&digits)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[u8]>, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || {
            D::Error::custom(format!(
                "{text:?} is not an even number of hexadecimal digits"
            ))
        };
        let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
        let digits = digits
            .filter(|digits| digits.len() % 2 == 0)
            .ok_or_else(wrong)?;
        let byte = |pair: &[u32]| match pair {
            [high, low] => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        digits
            .chunks(2)
            .map(byte)
            .collect::<Option<_>>()
            .ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: &[u8]) -> KeyPart {
        KeyPart::Bytes(bytes.into())
    }

    #[test]
    fn keys_order_like_the_index() {
        let key = |a, b| Key::new([KeyPart::Int(a), KeyPart::Int(b)]);
        assert!(key(1, 9) < key(2, 0));
        assert!(key(-1, 0) < key(0, 0));
        assert!(bytes(b"a") < bytes(b"a\0"));
        assert!(bytes(b"a\xff") < bytes(b"b"));
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

    #[test]
    fn the_key_behind_leaves_no_room_between() {
        let key =
            |parts: &[i128]| Key::new(parts.iter().map(|n| KeyPart::Int(*n)).collect::<Vec<_>>());
        assert_eq!(key(&[7]).successor(), Some(key(&[8])));
        assert_eq!(key(&[7, -1]).successor(), Some(key(&[7, 0])));
        let max = i128::from(u64::MAX);
        let min = i128::from(i64::MIN);
        assert_eq!(key(&[7, max]).successor(), Some(key(&[8, min])));
        assert_eq!(key(&[max]).successor(), None);
        assert_eq!(
            Key::new([bytes(b"a")]).successor(),
            Some(Key::new([bytes(b"a\0")]))
        );
        assert_eq!(Key::new([KeyPart::Text(b"a"[..].into())]).successor(), None);
    }

    #[test]
    fn every_part_survives_json_and_reads_well() {
        let key = Key::new([
            KeyPart::Int(-5),
            bytes(b"\x00\xab"),
            KeyPart::Text("it's".as_bytes().into()),
            KeyPart::Text(b"\xe9"[..].into()),
            KeyPart::Literal("1.50".into()),
        ]);
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(
            json,
            r#"[{"Int":-5},{"Bytes":"00ab"},{"Text":"69742773"},{"Text":"e9"},{"Literal":"1.50"}]"#
        );
        assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), key);
        assert_eq!(key.to_string(), "(-5, 0x00AB, 'it''s', 0xE9, '1.50')");
        for wrong in [r#"[{"Bytes":"0"}]"#, r#"[{"Bytes":"0g"}]"#] {
            assert!(serde_json::from_str::<Key>(wrong).is_err());
        }
    }
}

//! Which types a key's columns have, and how their values make key parts.

use serde::{Deserialize, Serialize};

use crate::{Column, KeyPart, Value};

/// The type of a key column, as far as its values' order and equality go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever handles keys handles every kind"
)]
pub enum KeyKind {
    /// TINYINT to BIGINT, YEAR.
    Int {
        /// Whether values reach above `2^63 - 1`.
        unsigned: bool,
    },
    /// BIT(n).
    Bit,
    /// ENUM, by its members in their order, in UTF-8.
    Enum(Vec<String>),
    /// SET, by its members in their order, in UTF-8.
    Set(Vec<String>),
    /// BINARY(n), with its length in bytes, or VARBINARY.
    Bytes {
        /// The length that values are padded to.
        length: Option<u32>,
    },
    /// DECIMAL.
    Decimal {
        /// All digits.
        digits: u32,
        /// Those behind the point.
        scale: u32,
    },
    /// DATE.
    Date,
    /// DATETIME and TIMESTAMP.
    DateTime {
        /// Digits behind the seconds, 0 to 6.
        fraction: u32,
    },
    /// TIME.
    Time {
        /// Digits behind the seconds, 0 to 6.
        fraction: u32,
    },
    /// CHAR and VARCHAR: only the server knows their order and equality.
    Text {
        /// The character set.
        charset: String,
        /// The collation.
        collation: String,
    },
}

impl KeyKind {
    /// Reads the kind out of a column's type; `None` for types that can't be a
    /// key here: FLOAT and DOUBLE, whose values don't survive being written as
    /// text or compared, and those of which only a prefix can be indexed.
    #[must_use]
    pub fn of(column: &Column) -> Option<Self> {
        let numbers = type_numbers(&column.column_type);
        let number = |at: usize| numbers.get(at).copied();
        Some(match column.data_type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" => Self::Int {
                unsigned: column.column_type.contains("unsigned"),
            },
            "bit" => Self::Bit,
            "enum" => Self::Enum(column.members.clone()),
            "set" => Self::Set(column.members.clone()),
            "binary" => Self::Bytes {
                length: Some(number(0).unwrap_or(1)),
            },
            "varbinary" => Self::Bytes { length: None },
            "decimal" => Self::Decimal {
                digits: number(0).unwrap_or(10),
                scale: number(1).unwrap_or(0),
            },
            "date" => Self::Date,
            "datetime" | "timestamp" => Self::DateTime {
                fraction: number(0).unwrap_or(0),
            },
            "time" => Self::Time {
                fraction: number(0).unwrap_or(0),
            },
            "char" | "varchar" => Self::Text {
                charset: column.charset.clone()?,
                collation: column.collation.clone()?,
            },
            _ => return None,
        })
    }

    /// Returns whether the client orders and compares values as the server
    /// does.
    #[must_use]
    pub const fn is_client_ordered(&self) -> bool {
        match self {
            Self::Int { .. } | Self::Bit | Self::Enum(_) | Self::Set(_) | Self::Bytes { .. } => {
                true
            }
            // Decimals and times could be, but a range that holds one value
            // alone can't be written down for them.
            Self::Decimal { .. } | Self::Date | Self::DateTime { .. } | Self::Time { .. } => false,
            Self::Text { .. } => false,
        }
    }

    /// Makes a key part out of a row image's value, which looks as
    /// [`Row`](crate::Row) says; `None` for NULL, and what can't be of the type.
    #[must_use]
    pub fn part(&self, value: &Value) -> Option<KeyPart> {
        match (self, value) {
            (Self::Int { .. } | Self::Bit, value) => KeyPart::from_value(value),
            (Self::Enum(members), Value::Bytes(text)) => {
                let at = members.iter().position(|member| member.as_bytes() == text);
                let ordinal = match at {
                    Some(at) => at + 1,
                    None if text.is_empty() => 0,
                    None => return None,
                };
                Some(KeyPart::Int(i128::try_from(ordinal).ok()?))
            }
            (Self::Set(members), Value::Bytes(text)) => bits(members, text).map(KeyPart::Int),
            (Self::Bytes { .. }, Value::Bytes(bytes)) => {
                Some(KeyPart::Bytes(bytes.as_slice().into()))
            }
            (Self::Text { .. }, Value::Bytes(bytes)) => {
                Some(KeyPart::Text(bytes.as_slice().into()))
            }
            (Self::Decimal { .. }, Value::Bytes(text)) => literal(text),
            (Self::Date, Value::Date(y, m, d, ..)) => {
                Some(KeyPart::Literal(format!("{y:04}-{m:02}-{d:02}").into()))
            }
            (Self::DateTime { fraction }, Value::Date(y, m, d, h, min, s, micros)) => {
                let behind = behind_point(*micros, *fraction);
                let text = format!("{y:04}-{m:02}-{d:02} {h:02}:{min:02}:{s:02}{behind}");
                Some(KeyPart::Literal(text.into()))
            }
            (Self::Time { fraction }, Value::Time(negative, days, h, min, s, micros)) => {
                let sign = if *negative { "-" } else { "" };
                let hours = u64::from(*days) * 24 + u64::from(*h);
                let behind = behind_point(*micros, *fraction);
                let text = format!("{sign}{hours:02}:{min:02}:{s:02}{behind}");
                Some(KeyPart::Literal(text.into()))
            }
            _ => None,
        }
    }

    /// Makes a key part out of what [`KeySide::select_list`] has the server
    /// send.
    ///
    /// [`KeySide::select_list`]: crate::KeySide::select_list
    pub(crate) fn part_read(&self, value: &Value) -> Option<KeyPart> {
        match (self, value) {
            (Self::Int { .. } | Self::Bit | Self::Enum(_) | Self::Set(_), value) => {
                KeyPart::from_value(value)
            }
            (Self::Bytes { .. }, Value::Bytes(bytes)) => {
                Some(KeyPart::Bytes(bytes.as_slice().into()))
            }
            (Self::Text { .. }, Value::Bytes(bytes)) => {
                Some(KeyPart::Text(bytes.as_slice().into()))
            }
            (_, Value::Bytes(text)) => literal(text),
            _ => None,
        }
    }

    /// Returns the text of an ENUM's or SET's value, in UTF-8; `None` for
    /// other kinds.
    pub(crate) fn member_text(&self, part: &KeyPart) -> Option<String> {
        match (self, part) {
            (Self::Enum(members), KeyPart::Int(ordinal)) => {
                let at = usize::try_from(*ordinal).ok()?.checked_sub(1);
                Some(
                    at.and_then(|at| members.get(at))
                        .cloned()
                        .unwrap_or_default(),
                )
            }
            (Self::Set(members), KeyPart::Int(bits)) => {
                let held = members
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| bits >> at & 1 == 1);
                let held: Vec<&str> = held.map(|(_, member)| member.as_str()).collect();
                Some(held.join(","))
            }
            _ => None,
        }
    }
}

/// Returns the numbers in a type's parentheses: `[10, 2]` of `decimal(10,2)`.
pub(crate) fn type_numbers(column_type: &str) -> Vec<u32> {
    let inside = column_type.split_once('(');
    let inside = inside.and_then(|(_, rest)| rest.split_once(')'));
    inside.map_or_else(Vec::new, |(numbers, _)| {
        numbers
            .split(',')
            .map_while(|n| n.trim().parse().ok())
            .collect()
    })
}

fn literal(text: &[u8]) -> Option<KeyPart> {
    let text = std::str::from_utf8(text).ok()?;
    Some(KeyPart::Literal(text.into()))
}

/// Returns `.1234` for four digits.
fn behind_point(micros: u32, digits: u32) -> String {
    let all = format!("{micros:06}");
    let kept = usize::try_from(digits.min(6))
        .ok()
        .and_then(|kept| all.get(..kept));
    match kept {
        None | Some("") => String::new(),
        Some(kept) => format!(".{kept}"),
    }
}

fn bits(members: &[String], text: &[u8]) -> Option<i128> {
    if text.is_empty() {
        return Some(0);
    }
    text.split(|byte| *byte == b',').try_fold(0, |bits, name| {
        let at = members
            .iter()
            .position(|member| member.as_bytes() == name)?;
        Some(bits | 1_i128 << at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_numbers_in_a_key_and_text_in_a_row() {
        let list: Vec<String> = ["z", "b", "a"].map(str::to_owned).into();
        let an_enum = KeyKind::Enum(list.clone());
        let part = |text: &str| an_enum.part(&Value::from(text));
        assert_eq!(part("a"), Some(KeyPart::Int(3)));
        assert_eq!(part(""), Some(KeyPart::Int(0)));
        assert_eq!(part("A"), None);
        assert_eq!(an_enum.member_text(&KeyPart::Int(2)).unwrap(), "b");
        assert_eq!(an_enum.member_text(&KeyPart::Int(0)).unwrap(), "");
        let set = KeyKind::Set(list);
        assert_eq!(set.part(&Value::from("z,a")), Some(KeyPart::Int(5)));
        assert_eq!(set.part(&Value::from("")), Some(KeyPart::Int(0)));
        assert_eq!(set.member_text(&KeyPart::Int(5)).unwrap(), "z,a");
    }

    #[test]
    fn times_read_as_the_server_prints_them() {
        let text = |part: Option<KeyPart>| part.unwrap().to_string();
        let moment = Value::Date(2020, 1, 2, 3, 4, 5, 120_000);
        assert_eq!(text(KeyKind::Date.part(&moment)), "'2020-01-02'");
        let fine = KeyKind::DateTime { fraction: 3 };
        assert_eq!(text(fine.part(&moment)), "'2020-01-02 03:04:05.120'");
        let time = Value::Time(true, 34, 22, 59, 58, 7);
        assert_eq!(
            text(KeyKind::Time { fraction: 6 }.part(&time)),
            "'-838:59:58.000007'"
        );
        assert_eq!(
            text(KeyKind::Time { fraction: 0 }.part(&time)),
            "'-838:59:58'"
        );
    }

    #[test]
    fn null_is_no_key() {
        assert_eq!(KeyKind::Bytes { length: None }.part(&Value::NULL), None);
        assert_eq!(KeyKind::Int { unsigned: true }.part(&Value::NULL), None);
    }
}

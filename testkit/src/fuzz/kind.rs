//! Types of columns.

use fastrand::Rng;

/// A column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// An integer of so many bytes: 1, 2, 3, 4 or 8.
    Int {
        bytes: u32,
        unsigned: bool,
    },
    /// `DECIMAL(digits,scale)`.
    Decimal {
        digits: usize,
        scale: usize,
    },
    Float,
    Double,
    Bit {
        width: u32,
    },
    Year,
    Date,
    /// With so many digits of a second.
    DateTime {
        digits: usize,
    },
    Timestamp {
        digits: usize,
    },
    Time {
        digits: usize,
    },
    Char {
        length: usize,
        text: Text,
    },
    Varchar {
        length: usize,
        text: Text,
    },
    LongText {
        text: Text,
    },
    Binary {
        length: usize,
    },
    Varbinary {
        length: usize,
    },
    Blob,
    Enum {
        members: Vec<String>,
        text: Text,
    },
    Set {
        members: usize,
    },
    Json,
}

/// A character set and a collation of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) charset: &'static str,
    pub(super) collation: &'static str,
}

const TEXTS: [Text; 14] = [
    Text::new("utf8mb4", "utf8mb4_0900_ai_ci"),
    Text::new("utf8mb4", "utf8mb4_0900_ai_ci"),
    Text::new("utf8mb4", "utf8mb4_bin"),
    Text::new("utf8mb4", "utf8mb4_general_ci"),
    Text::new("utf8mb4", "utf8mb4_unicode_ci"),
    Text::new("utf8mb4", "utf8mb4_0900_as_cs"),
    Text::new("utf8mb4", "utf8mb4_0900_bin"),
    Text::new("utf8mb3", "utf8mb3_general_ci"),
    Text::new("latin1", "latin1_swedish_ci"),
    Text::new("latin1", "latin1_bin"),
    Text::new("latin1", "latin1_german2_ci"),
    Text::new("ucs2", "ucs2_general_ci"),
    Text::new("gbk", "gbk_chinese_ci"),
    Text::new("utf16", "utf16_general_ci"),
];

impl Text {
    const fn new(charset: &'static str, collation: &'static str) -> Self {
        Self { charset, collation }
    }

    pub(super) fn draw(rng: &mut Rng) -> Self {
        one_of(rng, &TEXTS).unwrap_or(Self::new("utf8mb4", "utf8mb4_bin"))
    }

    fn sql(self) -> String {
        format!(" CHARACTER SET {} COLLATE {}", self.charset, self.collation)
    }
}

/// One of these at random; nothing of nothing.
pub(super) fn one_of<T: Clone>(rng: &mut Rng, all: &[T]) -> Option<T> {
    if all.is_empty() {
        return None;
    }
    all.get(rng.usize(0..all.len())).cloned()
}

impl Kind {
    /// Any type.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        match rng.u32(0..12) {
            0 => Self::Float,
            1 => Self::Double,
            2 => Self::LongText {
                text: Text::draw(rng),
            },
            3 => Self::Blob,
            4 => Self::Json,
            _ => Self::draw_for_key(rng),
        }
    }

    /// A type that a key column may have; integers more often than others.
    pub(super) fn draw_for_key(rng: &mut Rng) -> Self {
        match rng.u32(0..20) {
            0..5 => Self::integer(rng),
            5 | 6 => {
                let digits = rng.usize(1..40);
                Self::Decimal {
                    digits,
                    scale: rng.usize(0..=digits.min(20)),
                }
            }
            7 => Self::Bit {
                width: rng.u32(5..=64),
            },
            8 => Self::Date,
            9 => Self::DateTime {
                digits: rng.usize(0..=6),
            },
            10 => Self::Timestamp {
                digits: rng.usize(0..=6),
            },
            11 => Self::Time {
                digits: rng.usize(0..=6),
            },
            12 => Self::Char {
                length: rng.usize(4..20),
                text: Text::draw(rng),
            },
            13..16 => Self::Varchar {
                length: rng.usize(4..40),
                text: Text::draw(rng),
            },
            16 => Self::Binary {
                length: rng.usize(3..12),
            },
            17 => Self::Varbinary {
                length: rng.usize(3..20),
            },
            18 => Self::draw_enum(rng),
            _ => match rng.u32(0..3) {
                0 => Self::Year,
                _ => Self::Set {
                    members: rng.usize(6..=64),
                },
            },
        }
    }

    fn integer(rng: &mut Rng) -> Self {
        let bytes = one_of(rng, &[1, 2, 3, 4, 4, 8, 8]).unwrap_or(4);
        Self::Int {
            bytes,
            unsigned: rng.bool(),
        }
    }

    fn draw_enum(rng: &mut Rng) -> Self {
        let count = one_of(rng, &[3, 5, 130, 300]).unwrap_or(3);
        let members = (0..count).map(|at| format!("m{at}")).collect();
        Self::Enum {
            members,
            text: Text {
                charset: "utf8mb4",
                collation: "utf8mb4_0900_ai_ci",
            },
        }
    }

    /// The type as SQL.
    pub(super) fn sql(&self) -> String {
        match self {
            Self::Int { bytes, unsigned } => {
                let name = match bytes {
                    1 => "TINYINT",
                    2 => "SMALLINT",
                    3 => "MEDIUMINT",
                    4 => "INT",
                    _ => "BIGINT",
                };
                format!("{name}{}", if *unsigned { " UNSIGNED" } else { "" })
            }
            Self::Decimal { digits, scale } => format!("DECIMAL({digits},{scale})"),
            Self::Float => "FLOAT".to_owned(),
            Self::Double => "DOUBLE".to_owned(),
            Self::Bit { width } => format!("BIT({width})"),
            Self::Year => "YEAR".to_owned(),
            Self::Date => "DATE".to_owned(),
            Self::DateTime { digits } => format!("DATETIME({digits})"),
            Self::Timestamp { digits } => format!("TIMESTAMP({digits})"),
            Self::Time { digits } => format!("TIME({digits})"),
            Self::Char { length, text } => format!("CHAR({length}){}", text.sql()),
            Self::Varchar { length, text } => format!("VARCHAR({length}){}", text.sql()),
            Self::LongText { text } => format!("LONGTEXT{}", text.sql()),
            Self::Binary { length } => format!("BINARY({length})"),
            Self::Varbinary { length } => format!("VARBINARY({length})"),
            Self::Blob => "BLOB".to_owned(),
            Self::Enum { members, text } => {
                let members: Vec<String> = members.iter().map(|m| format!("'{m}'")).collect();
                format!("ENUM({}){}", members.join(","), text.sql())
            }
            Self::Set { members } => {
                let members: Vec<String> = (0..*members).map(|at| format!("'s{at}'")).collect();
                format!("SET({})", members.join(","))
            }
            Self::Json => "JSON".to_owned(),
        }
    }

    /// Whether an index needs no prefix for it.
    pub(super) const fn is_indexable(&self) -> bool {
        !matches!(self, Self::LongText { .. } | Self::Blob | Self::Json)
    }

    /// Whether it may have more than a few dozen values.
    pub(super) const fn is_wide(&self) -> bool {
        !matches!(
            self,
            Self::Year | Self::Int { bytes: 1, .. } | Self::Enum { .. }
        )
    }
}

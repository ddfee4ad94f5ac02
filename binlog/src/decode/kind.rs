//! How one column's values are laid out in a row image.

use oxferry_schema::Column;

use super::{DecodeError, Reader};

/// The layout of one column's values, and what is needed to make sense of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An integer of so many bytes.
    Int { bytes: u8, unsigned: bool },
    /// A FLOAT.
    Float,
    /// A DOUBLE.
    Double,
    /// A DECIMAL.
    Decimal { precision: u8, scale: u8 },
    /// A YEAR.
    Year,
    /// A DATE.
    Date,
    /// A TIME with so many digits of a second's fraction.
    Time { digits: u8 },
    /// A DATETIME with so many digits of a second's fraction.
    Datetime { digits: u8 },
    /// A TIMESTAMP with so many digits of a second's fraction.
    Timestamp { digits: u8 },
    /// A BIT in so many bytes.
    Bit { bytes: u8 },
    /// Bytes behind a length of so many bytes.
    Bytes { length_bytes: u8 },
    /// A BINARY, whose trailing zeros are not in the log.
    Binary { length_bytes: u8, length: usize },
    /// A JSON document behind a length of so many bytes.
    Json { length_bytes: u8 },
    /// An ENUM's number in so many bytes.
    Enum {
        bytes: u8,
        members: Box<[Box<[u8]>]>,
    },
    /// A SET's bits in so many bytes.
    Set {
        bytes: u8,
        members: Box<[Box<[u8]>]>,
    },
}

/// Type codes of a table map event.
///
/// Source: MySQL 9.7, `include/field_types.h`, `enum_field_types`.
mod code {
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const YEAR: u8 = 13;
    pub(super) const VARCHAR: u8 = 15;
    pub(super) const BIT: u8 = 16;
    pub(super) const TIMESTAMP2: u8 = 17;
    pub(super) const DATETIME2: u8 = 18;
    pub(super) const TIME2: u8 = 19;
    pub(super) const VECTOR: u8 = 242;
    pub(super) const JSON: u8 = 245;
    pub(super) const NEWDECIMAL: u8 = 246;
    pub(super) const ENUM: u8 = 247;
    pub(super) const SET: u8 = 248;
    pub(super) const BLOB: u8 = 252;
    pub(super) const STRING: u8 = 254;
    pub(super) const GEOMETRY: u8 = 255;
}

/// A column's type and metadata as the log has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    code: u8,
    /// The metadata, the first byte lowest.
    meta: u16,
}

impl Logged {
    /// Reads the metadata of a column of the type `code`.
    ///
    /// Source: MySQL 9.7, `libs/mysql/binlog/event/rows_event.h`, the table
    /// of types at `Table_map_event`.
    pub(crate) fn read(code: u8, metadata: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = match code {
            code::FLOAT
            | code::DOUBLE
            | code::TIMESTAMP2
            | code::DATETIME2
            | code::TIME2
            | code::JSON
            | code::VECTOR
            | code::BLOB
            | code::GEOMETRY => 1,
            code::VARCHAR
            | code::BIT
            | code::NEWDECIMAL
            | code::ENUM
            | code::SET
            | code::STRING => 2,
            code::TINY
            | code::SHORT
            | code::LONG
            | code::LONGLONG
            | code::INT24
            | code::DATE
            | code::YEAR => 0,
            other => {
                return Err(DecodeError::Invalid {
                    field: "column type",
                    value: other.into(),
                });
            }
        };
        let meta = metadata.little(bytes, "column metadata")?;
        let meta = u16::try_from(meta).unwrap_or(u16::MAX);
        Ok(Self { code, meta }.unfolded())
    }

    /// A CHAR, BINARY, ENUM or SET comes as a STRING, whose metadata holds the
    /// real type and length. Two bits of a length above 255 are folded,
    /// inverted, into the type.
    ///
    /// Source: MySQL 9.7, `sql/field.cc`, `Field_string::do_save_field_metadata`.
    const fn unfolded(self) -> Self {
        let [real, length] = self.meta.to_le_bytes();
        if self.code != code::STRING {
            return self;
        }
        let high = ((real & 0x30) ^ 0x30) >> 4;
        Self {
            code: real | 0x30,
            meta: u16::from_le_bytes([length, high]),
        }
    }

    const fn meta_bytes(self) -> [u8; 2] {
        self.meta.to_le_bytes()
    }
}

impl Kind {
    /// Brings together what the log and what the description say of a column.
    ///
    /// # Errors
    ///
    /// [`DecodeError::ColumnType`] when they don't agree: the table was
    /// changed between the one and the other.
    pub(crate) fn compile(logged: Logged, column: &Column) -> Result<Self, DecodeError> {
        let Some((code, kind)) = Self::described(logged, column) else {
            return Err(DecodeError::Unsupported {
                column: column.name.as_str().to_owned(),
                data_type: column.data_type.clone(),
            });
        };
        if code == logged.code && kind.fits(logged, column) {
            return Ok(kind);
        }
        Err(DecodeError::ColumnType {
            column: column.name.as_str().to_owned(),
            described: column.column_type.clone(),
            logged: format!("type {} with metadata {:#06x}", logged.code, logged.meta),
        })
    }

    /// The type code that a column of this description has in the log, and
    /// the layout, with lengths as the log has them.
    fn described(logged: Logged, column: &Column) -> Option<(u8, Self)> {
        let unsigned = column.column_type.contains("unsigned");
        let int = |code, bytes| (code, Self::Int { bytes, unsigned });
        let [low, high] = logged.meta_bytes();
        let length_bytes = if logged.meta > 255 { 2 } else { 1 };
        let members = || column.members.iter().map(|m| m.as_bytes().into()).collect();
        Some(match column.data_type.as_str() {
            "tinyint" => int(code::TINY, 1),
            "smallint" => int(code::SHORT, 2),
            "mediumint" => int(code::INT24, 3),
            "int" => int(code::LONG, 4),
            "bigint" => int(code::LONGLONG, 8),
            "float" => (code::FLOAT, Self::Float),
            "double" => (code::DOUBLE, Self::Double),
            "decimal" => (
                code::NEWDECIMAL,
                Self::Decimal {
                    precision: low,
                    scale: high,
                },
            ),
            "year" => (code::YEAR, Self::Year),
            "date" => (code::DATE, Self::Date),
            "time" => (code::TIME2, Self::Time { digits: low }),
            "datetime" => (code::DATETIME2, Self::Datetime { digits: low }),
            "timestamp" => (code::TIMESTAMP2, Self::Timestamp { digits: low }),
            "bit" => {
                let bytes = high + u8::from(low > 0);
                (code::BIT, Self::Bit { bytes })
            }
            "char" => (code::STRING, Self::Bytes { length_bytes }),
            "varchar" | "varbinary" => (code::VARCHAR, Self::Bytes { length_bytes }),
            "binary" => (
                code::STRING,
                Self::Binary {
                    length_bytes,
                    length: logged.meta.into(),
                },
            ),
            "tinyblob" | "blob" | "mediumblob" | "longblob" | "tinytext" | "text"
            | "mediumtext" | "longtext" => (code::BLOB, Self::Bytes { length_bytes: low }),
            "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
            | "multipolygon" | "geomcollection" | "geometrycollection" => {
                (code::GEOMETRY, Self::Bytes { length_bytes: low })
            }
            "vector" => (code::VECTOR, Self::Bytes { length_bytes: low }),
            "json" => (code::JSON, Self::Json { length_bytes: low }),
            "enum" => {
                let members = members();
                (
                    code::ENUM,
                    Self::Enum {
                        bytes: low,
                        members,
                    },
                )
            }
            "set" => {
                let members = members();
                (
                    code::SET,
                    Self::Set {
                        bytes: low,
                        members,
                    },
                )
            }
            _ => return None,
        })
    }

    /// Whether the log's lengths are those of the described type.
    fn fits(&self, logged: Logged, column: &Column) -> bool {
        let declared = numbers(&column.column_type);
        let first = declared.first().copied().unwrap_or_default();
        match self {
            Self::Decimal { precision, scale } => {
                scale <= precision
                    && *precision <= 65
                    && declared == [u64::from(*precision), u64::from(*scale)]
            }
            Self::Time { digits } | Self::Datetime { digits } | Self::Timestamp { digits } => {
                *digits <= 6 && first == u64::from(*digits)
            }
            Self::Bit { bytes } => {
                let [bits, whole] = logged.meta_bytes();
                *bytes <= 8 && first == u64::from(whole) * 8 + u64::from(bits)
            }
            Self::Binary { length, .. } => u64::try_from(*length) == Ok(first),
            Self::Bytes { length_bytes } => match blob_length_bytes(&column.data_type) {
                Some(expected) => *length_bytes == expected,
                None => true,
            },
            Self::Json { length_bytes } => *length_bytes == 4,
            Self::Enum { bytes, members } => *bytes == if members.len() < 256 { 1 } else { 2 },
            Self::Set { bytes, members } => {
                let least = members.len().div_ceil(8);
                usize::from(*bytes) == if least > 4 { 8 } else { least }
            }
            Self::Int { .. } | Self::Float | Self::Double | Self::Year | Self::Date => true,
        }
    }
}

/// The bytes of a value's length, where the type alone says so.
fn blob_length_bytes(data_type: &str) -> Option<u8> {
    match data_type {
        "tinyblob" | "tinytext" => Some(1),
        "blob" | "text" => Some(2),
        "mediumblob" | "mediumtext" => Some(3),
        "char" | "varchar" | "varbinary" => None,
        _ => Some(4),
    }
}

/// The numbers between a type's parentheses: `decimal(10,2)` has two.
fn numbers(column_type: &str) -> Vec<u64> {
    let inside = column_type
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    let inside = inside.map_or("", |(inside, _)| inside);
    inside
        .split(',')
        .filter_map(|number| number.trim().parse().ok())
        .collect()
}

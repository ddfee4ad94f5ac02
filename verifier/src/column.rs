//! What a column's type means for comparing it.

use oxferry_schema::Column;

/// Kinds of types that are compared in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// TINYINT to BIGINT.
    Integer,
    /// BIT(n).
    Bit,
    /// YEAR.
    Year,
    /// DECIMAL.
    Decimal,
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// DATE.
    Date,
    /// DATETIME and TIMESTAMP.
    DateTime,
    /// TIME.
    Time,
    /// CHAR, which never ends in spaces.
    Char,
    /// VARCHAR and the TEXT types.
    Text,
    /// BINARY(n), padded to its length.
    FixedBinary,
    /// VARBINARY, the BLOB types, GEOMETRY and VECTOR.
    Binary,
    /// ENUM and SET.
    Member,
    /// JSON.
    Json,
}

impl Kind {
    /// Reads the kind out of a column's type; `None` for one that no server
    /// of today has.
    pub(crate) fn of(column: &Column) -> Option<Self> {
        Some(match column.data_type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Self::Integer,
            "bit" => Self::Bit,
            "year" => Self::Year,
            "decimal" => Self::Decimal,
            "float" => Self::Float,
            "double" => Self::Double,
            "date" => Self::Date,
            "datetime" | "timestamp" => Self::DateTime,
            "time" => Self::Time,
            "char" => Self::Char,
            "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Self::Text,
            "binary" => Self::FixedBinary,
            "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "vector" => {
                Self::Binary
            }
            "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
            | "multipolygon" | "geometrycollection" | "geomcollection" => Self::Binary,
            "enum" | "set" => Self::Member,
            "json" => Self::Json,
            _ => return None,
        })
    }

    /// Returns whether values are exact numbers, or stand for one.
    pub(crate) const fn is_exact(self) -> bool {
        matches!(self, Self::Integer | Self::Bit | Self::Year | Self::Decimal)
    }

    /// Returns whether values are rounded to binary fractions.
    pub(crate) const fn is_approximate(self) -> bool {
        matches!(self, Self::Float | Self::Double)
    }

    /// Returns whether values are points in time, or days.
    pub(crate) const fn is_instant(self) -> bool {
        matches!(self, Self::Date | Self::DateTime)
    }

    /// Returns whether values are characters, ENUM and SET included.
    pub(crate) const fn is_text(self) -> bool {
        matches!(self, Self::Char | Self::Text | Self::Member)
    }

    /// Returns whether values are bytes without a character set.
    pub(crate) const fn is_binary(self) -> bool {
        matches!(self, Self::FixedBinary | Self::Binary)
    }
}

/// Returns the numbers in a type's parentheses: `(10, 2)` of `decimal(10,2)`.
pub(crate) fn type_numbers(column: &Column) -> Vec<u32> {
    let inside = column.column_type.split_once('(');
    let inside = inside.and_then(|(_, rest)| rest.split_once(')'));
    let Some((numbers, _)) = inside else {
        return Vec::new();
    };
    numbers
        .split(',')
        .map_while(|n| n.trim().parse().ok())
        .collect()
}

/// Returns how many digits stand behind a DECIMAL's point.
pub(crate) fn scale(column: &Column) -> u32 {
    type_numbers(column).get(1).copied().unwrap_or(0)
}

/// Returns whether values may be so long that they are hashed on their own.
///
/// `CONCAT` gives NULL when its result passes `max_allowed_packet`. Source:
/// MySQL 9.7 manual, "String Functions and Operators".
pub(crate) fn is_long(column: &Column) -> bool {
    let is_geometry = !column.data_type.ends_with("binary")
        && !column.data_type.ends_with("blob")
        && Kind::of(column) == Some(Kind::Binary);
    let is_long = ["mediumtext", "longtext", "mediumblob", "longblob", "json"];
    is_geometry || is_long.contains(&column.data_type.as_str())
}

//! Values inside JSON documents that the documents' text doesn't tell.

/// A value inside a JSON document whose SQL type its text doesn't show:
/// `CAST(text AS JSON)` would make a string or a double of it.
///
/// Source: MySQL 9.7 manual, "The JSON Data Type", and `JSON_TYPE`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a place and what stands there")]
pub struct JsonLeaf {
    /// The document's column, as a place in
    /// [`Table::columns`](crate::Table::columns).
    pub column: usize,
    /// Where the value stands in the document, as a path: `$.a[0]."b c"`.
    pub path: String,
    /// What stands there.
    pub value: JsonValue,
}

/// A value of an SQL type that JSON knows, and JSON's text doesn't.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever writes documents writes each of them"
)]
pub enum JsonValue {
    /// A DECIMAL.
    Decimal {
        /// Its text.
        text: String,
        /// How many digits its type has.
        digits: u8,
        /// How many of them stand behind the point.
        scale: u8,
    },
    /// A DATE, as the server prints it.
    Date(String),
    /// A DATETIME with six digits behind the seconds, as the server prints it.
    DateTime(String),
    /// A TIMESTAMP, likewise; in no time zone.
    Timestamp(String),
    /// A TIME, likewise.
    Time(String),
    /// Bytes of a binary type.
    Bytes {
        /// The server's number of the type, `enum_field_types`: 252 is BLOB.
        type_code: u8,
        /// The bytes.
        bytes: Box<[u8]>,
    },
}

impl JsonLeaf {
    /// Returns about how much memory the value takes, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        let heap = match &self.value {
            JsonValue::Decimal { text, .. }
            | JsonValue::Date(text)
            | JsonValue::DateTime(text)
            | JsonValue::Timestamp(text)
            | JsonValue::Time(text) => text.len(),
            JsonValue::Bytes { bytes, .. } => bytes.len(),
        };
        size_of::<Self>() + self.path.len() + heap
    }
}

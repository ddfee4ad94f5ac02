//! Places in one server's binary log.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::GtidSet;

/// A place in one server's binary log: a file, and the offset of the *next* event.
///
/// Ordered by file number, then offset, so `binlog.1000000` follows
/// `binlog.999999`. Positions of two servers, or from before and after a
/// `RESET BINARY LOGS AND GTIDS`, must not be compared.
// The order of the fields is the order of the positions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FilePosition {
    sequence: u64,
    offset_bytes: u64,
    file: Box<str>,
}

/// Why a text is not a position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a binary log position such as binlog.000007:1234")]
pub struct PositionError(pub String);

/// Where to go on reading: the file position and, where the server has GTIDs,
/// every transaction before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The place in the file.
    pub file: FilePosition,
    /// Every transaction that lies before it; `None` with `gtid_mode=OFF`.
    pub gtids: Option<GtidSet>,
}

impl FilePosition {
    /// Puts a file name and an offset in bytes together.
    ///
    /// # Errors
    ///
    /// [`PositionError`] when the file name doesn't end in `.` and a number.
    pub fn new(file: &str, offset_bytes: u64) -> Result<Self, PositionError> {
        let number = file
            .rsplit_once('.')
            .and_then(|(_, digits)| digits.parse().ok());
        let sequence = number.ok_or_else(|| PositionError(file.to_owned()))?;
        Ok(Self {
            sequence,
            offset_bytes,
            file: file.into(),
        })
    }

    /// Returns the file's name.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the offset of the next event, in bytes.
    #[must_use]
    pub const fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Goes to another offset in the same file.
    pub(crate) const fn set_offset(&mut self, offset_bytes: u64) {
        self.offset_bytes = offset_bytes;
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset_bytes)
    }
}

impl FromStr for FilePosition {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let parts = text
            .rsplit_once(':')
            .and_then(|(file, offset)| Some((file, offset.parse().ok()?)));
        let (file, offset) = parts.ok_or_else(|| PositionError(text.to_owned()))?;
        Self::new(file, offset)
    }
}

impl TryFrom<String> for FilePosition {
    type Error = PositionError;

    fn try_from(text: String) -> Result<Self, PositionError> {
        text.parse()
    }
}

impl From<FilePosition> for String {
    fn from(position: FilePosition) -> Self {
        position.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> FilePosition {
        text.parse().unwrap()
    }

    #[test]
    fn files_are_ordered_by_number_and_not_by_name() {
        assert!(at("binlog.1000000:4") > at("binlog.999999:99"));
        assert!(at("binlog.000002:4") > at("binlog.000001:4294967296"));
        assert!(at("binlog.000002:5") > at("binlog.000002:4"));
    }

    #[test]
    fn a_text_without_file_number_or_offset_is_refused() {
        for text in [
            "",
            "binlog",
            "binlog.1",
            "binlog:4",
            "binlog.x:4",
            "binlog.1:",
            "binlog.1:-4",
        ] {
            assert!(text.parse::<FilePosition>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_name_may_hold_dots_and_colons() {
        let position = at("/logs/a.b:c.000007:1234");
        assert_eq!(
            (position.file(), position.offset_bytes()),
            ("/logs/a.b:c.000007", 1234)
        );
    }

    proptest! {
        #[test]
        fn parsing_reads_what_printing_wrote(base in "[a-z.:-]{0,9}", sequence: u64, offset: u64) {
            let position = FilePosition::new(&format!("{base}.{sequence:06}"), offset).unwrap();
            prop_assert_eq!(at(&position.to_string()), position);
        }

        #[test]
        fn the_order_is_file_number_then_offset(a: (u64, u64), b: (u64, u64)) {
            let [left, right] = [a, b].map(|(file, offset)| FilePosition::new(&format!("log.{file:06}"), offset).unwrap());
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        }
    }
}

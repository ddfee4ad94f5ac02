//! Places in one server's binary log.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::GtidSet;

/// A place in one server's binary log: a file, and the offset of the *next* event.
///
/// Ordered by file number, then offset, so `binlog.1000000` follows
/// `binlog.999999`. Positions of two servers must not be compared.
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

//! Fingerprints of rows, and where they come from.

use std::{fmt, future::Future, num::NonZeroUsize};

use oxferry_schema::{Key, KeyRange, Remedy};

use crate::CodecError;

/// What one row looks like: SHA-256 over an unambiguous encoding of every
/// compared column. Equal fingerprints mean equal rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Takes the 32 bytes of the hash.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes of the hash.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    /// Writes 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a range of rows looks like, without its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a summary is these two")]
pub struct Summary {
    /// The number of rows.
    pub rows: u64,
    /// The exclusive or of the rows' fingerprints; zero where there is no row.
    ///
    /// No two rows cancel each other out: the key is part of the fingerprint.
    pub digest: [u8; 32],
}

impl Summary {
    /// Adds one row.
    pub fn add(&mut self, row: &Fingerprint) {
        self.rows += 1;
        for (sum, byte) in self.digest.iter_mut().zip(row.0) {
            *sum ^= byte;
        }
    }
}

/// A row's key with its fingerprint.
pub type KeyedFingerprint = (Key, Fingerprint);

/// One column of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a plain report")]
pub struct ColumnFingerprint {
    /// The column's name, unquoted.
    pub column: String,
    /// Its type, with the character set where it has one.
    pub column_type: String,
    /// What it holds, comparable to the other side's.
    pub value: Fingerprint,
}

/// One side of a comparison: a table's fingerprints.
///
/// # Contract
///
/// - Every answer is computed from one snapshot, taken after the call, which
///   holds every transaction that committed before the call.
/// - `page` and `summary` agree about which rows a range holds.
/// - Ranges and order are this side's own: a side that orders keys otherwise
///   than the source is asked for no summary, and for pages in its own order.
/// - `by_keys` returns each row once, under its own key, which may be another
///   one than was asked for: `'A'` for `'a'`, where the server takes them for
///   the same.
/// - Reads lock no row.
///
/// `conformance` (a feature) holds these as functions.
pub trait Fingerprints: Send + Sync {
    /// Returns the table's name, for messages.
    fn name(&self) -> String;

    /// Returns the number of rows in `range` and their digest.
    ///
    /// # Errors
    ///
    /// [`FingerprintError`] when the table can't be read.
    fn summary(
        &self,
        range: &KeyRange,
    ) -> impl Future<Output = Result<Summary, FingerprintError>> + Send;

    /// Returns the first rows of `range`, `limit` at most, in key order.
    ///
    /// # Errors
    ///
    /// [`FingerprintError`] when the table can't be read.
    fn page(
        &self,
        range: &KeyRange,
        limit: NonZeroUsize,
    ) -> impl Future<Output = Result<Vec<KeyedFingerprint>, FingerprintError>> + Send;

    /// Returns those of `keys` that have a row, in the client's order.
    ///
    /// # Errors
    ///
    /// [`FingerprintError`] when the table can't be read.
    fn by_keys(
        &self,
        keys: &[Key],
    ) -> impl Future<Output = Result<Vec<KeyedFingerprint>, FingerprintError>> + Send;

    /// Returns each compared column of one row, in the same order on both
    /// sides; where no row has exactly this key, of one that the server takes
    /// for it; nothing where there is none.
    ///
    /// # Errors
    ///
    /// [`FingerprintError`] when the table can't be read.
    fn columns(
        &self,
        key: &Key,
    ) -> impl Future<Output = Result<Vec<ColumnFingerprint>, FingerprintError>> + Send;
}

/// Why fingerprints could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FingerprintError {
    /// The server refused the statement, or went away.
    #[error("reading fingerprints of {table} failed")]
    Query {
        /// The table, unquoted.
        table: String,
        /// What the server or the connection said.
        #[source]
        source: mysql_async::Error,
    },
    /// A value of a compressed column can't be decompressed.
    #[error("the value of {column} in the row {key} of {table} can't be compared decompressed")]
    Compressed {
        /// The table, unquoted.
        table: String,
        /// The column.
        column: String,
        /// The row's key.
        key: Key,
        /// Why.
        #[source]
        source: CodecError,
    },
    /// The server sent something that is no fingerprint of a row.
    #[error("the server sent no usable {what} for a row of {table}")]
    Unreadable {
        /// The table, unquoted.
        table: String,
        /// Which part of the row.
        what: &'static str,
    },
}

impl FingerprintError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Query { source, .. } => match source {
                mysql_async::Error::Server(_) => Remedy::Retry,
                _ => Remedy::Unreachable,
            },
            Self::Compressed { .. } => Remedy::Data,
            Self::Unreadable { .. } => Remedy::Bug,
        }
    }
}

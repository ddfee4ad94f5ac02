//! Why a stream ended.

use oxferry_schema::Remedy;

/// Why the binary log can't be followed any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// A server refused or dropped the connection, and went on doing so.
    #[error("the binary log connection failed")]
    Connection(#[source] mysql_async::Error),
}

impl StreamError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Connection(_) => Remedy::Retry,
        }
    }
}

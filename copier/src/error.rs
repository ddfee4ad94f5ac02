//! Why copying, applying or building indexes failed.

use std::{fmt, time::Duration};

use mysql_async::Error as DriverError;
use oxferry_schema::{
    ConnectError, ErrorClass, Ident, Key, KeyRange, Remedy, TableName, classify, server_code,
};
use oxferry_state::TableStoreError;

/// Why a table can't be copied any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The server refused a piece of work, or went away and did not come back
    /// within the time for retries.
    #[error("{task} of table {}, attempt {attempts}", table.plain())]
    Server {
        /// What was being done.
        task: Box<Task>,
        /// The table that it was done to.
        table: TableName,
        /// How often it was tried.
        attempts: u32,
        /// What the server or the connection said last.
        source: DriverError,
    },
    /// The server refuses a row's values: they don't fit the target.
    #[error(
        "{task} of table {}: {place}the data can't be taken over as the change wants it",
        table.plain()
    )]
    Refused {
        /// What was being done.
        task: Box<Task>,
        /// The table that it was done to.
        table: TableName,
        /// The first row at fault, as far as it was found.
        place: Box<Place>,
        /// What the server said.
        source: DriverError,
    },
    /// A changed row is larger than what the server takes at once.
    #[error(
        "the row with key {key} of table {} takes {bytes} bytes, more than the {limit} that the \
         target's max_allowed_packet lets through: raise it, and resume",
        table.plain()
    )]
    RowTooLarge {
        /// The target table.
        table: TableName,
        /// The row's key.
        key: Key,
        /// What the row takes of a packet, in bytes.
        bytes: usize,
        /// The server's `max_allowed_packet`, in bytes.
        limit: usize,
    },
    /// No session could be opened, or none within the time for retries.
    #[error("{task} of table {}, attempt {attempts}", table.plain())]
    Connect {
        /// What was being done.
        task: Box<Task>,
        /// The table that it was done to.
        table: TableName,
        /// How often it was tried.
        attempts: u32,
        /// Why there is no session.
        source: Box<ConnectError>,
    },
    /// A piece of work took longer than a statement may.
    #[error("{task} of table {} took longer than {limit:?}; is the server overloaded?", table.plain())]
    Deadline {
        /// What was being done.
        task: Box<Task>,
        /// The table that it was done to.
        table: TableName,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A lost connection's session still runs on the server, so repeating its
    /// work could be overtaken by it.
    #[error(
        "{task} of table {}: the session of a lost connection did not end within {waited:.1?}",
        table.plain()
    )]
    SessionLingers {
        /// What was being done.
        task: Box<Task>,
        /// The table that it was done to.
        table: TableName,
        /// How long its end was waited for.
        waited: Duration,
    },
    /// After building the indexes the table is not what it was before.
    #[error("table {} should be {expected:?} again, but is {found:?}", table.plain())]
    NotRestored {
        /// The table.
        table: TableName,
        /// What `SHOW CREATE TABLE` printed before.
        expected: String,
        /// What it prints now.
        found: String,
    },
    /// A changed row has no usable value in a key column.
    #[error("a changed row of table {} has no value in a column of key {index}", table.plain())]
    NoKey {
        /// The source table.
        table: TableName,
        /// Its key.
        index: Ident,
    },
    /// Somebody else changed the table's definition while it was copied.
    #[error(
        "another session changed a table's definition: {statement:?}; what was copied fits it no \
         more: start anew with --fresh"
    )]
    ForeignDdl {
        /// The table, where it is known.
        table: Option<TableName>,
        /// The statement.
        statement: String,
    },
    /// The source did not show in time what its binary log holds.
    #[error("waited {waited:.1?} for the source to show what its binary log holds already")]
    BarrierTimeout {
        /// How long it was waited for.
        waited: Duration,
    },
    /// The barrier's own statement failed.
    #[error("wait for the source to show what its binary log holds already")]
    Barrier {
        /// What the server or the connection said.
        source: DriverError,
    },
    /// The row that serves as a barrier could not be committed.
    #[error("wait for the source to show what its binary log holds already")]
    Marker {
        /// What the checkpoint's table said.
        source: TableStoreError,
    },
    /// The binary log's stream ended in an error.
    #[error("read the source's binary log")]
    Stream {
        /// What the stream said.
        source: oxferry_binlog::StreamError,
    },
}

/// Which row is refused, and which of its columns, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The row's key.
    pub key: Option<Key>,
    /// The column, where the server names it.
    pub column: Option<String>,
}

/// A piece of work, as errors name it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Task {
    /// Looking for the end of the chunk that begins where the range does.
    Boundary(KeyRange),
    /// Copying the rows of a range.
    Copy(KeyRange),
    /// Copying the rows of some keys once more.
    CopyKeys {
        /// The first of the keys.
        first: Option<Key>,
        /// How many there are.
        count: usize,
    },
    /// Applying changes.
    Apply {
        /// The batch's first key.
        first: Option<Key>,
        /// Its last key.
        last: Option<Key>,
        /// How many keys it has.
        count: usize,
    },
    /// Opening the sessions.
    Connect,
    /// Taking secondary indexes away, or building them.
    Indexes(Vec<Ident>),
}

impl CopyError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            // ER_NO_SUCH_TABLE, ER_BAD_FIELD_ERROR, ER_BAD_TABLE_ERROR: somebody
            // else dropped, renamed or changed a table of the job.
            Self::Server { source, .. }
                if matches!(server_code(source), Some(1146 | 1054 | 1051)) =>
            {
                Remedy::State
            }
            Self::Server { source, .. } | Self::Barrier { source } => classify(source).remedy(),
            Self::Connect { source, .. } => source.remedy(),
            Self::Deadline { .. } | Self::SessionLingers { .. } | Self::BarrierTimeout { .. } => {
                Remedy::Retry
            }
            Self::Refused { .. } => Remedy::Data,
            Self::RowTooLarge { .. } => Remedy::Privileges,
            Self::NotRestored { .. } | Self::NoKey { .. } => Remedy::Bug,
            Self::ForeignDdl { .. } => Remedy::State,
            Self::Marker { source } => source.remedy(),
            Self::Stream { source } => source.remedy(),
        }
    }

    /// Wraps what a barrier's connection said.
    #[must_use]
    pub const fn barrier(source: DriverError) -> Self {
        Self::Barrier { source }
    }

    /// Returns whether the connection, and not the server, is the trouble.
    #[must_use]
    pub fn is_connection_lost(&self) -> bool {
        match self {
            Self::Server { source, .. }
            | Self::Barrier { source }
            | Self::Marker {
                source: TableStoreError::Statement { source, .. },
            } => classify(source) == ErrorClass::ConnectionLost,
            Self::Connect { source, .. } => source.remedy() == Remedy::Unreachable,
            Self::Deadline { .. }
            | Self::SessionLingers { .. }
            | Self::Refused { .. }
            | Self::RowTooLarge { .. }
            | Self::NotRestored { .. }
            | Self::NoKey { .. }
            | Self::ForeignDdl { .. }
            | Self::BarrierTimeout { .. }
            | Self::Marker { .. }
            | Self::Stream { .. } => false,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.key, &self.column) {
            (Some(key), Some(column)) => write!(f, "row {key}, column {column}: "),
            (Some(key), None) => write!(f, "row {key}: "),
            (None, Some(column)) => write!(f, "column {column}: "),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boundary(range) => write!(f, "find the first chunk's end in {range}"),
            Self::Copy(range) => write!(f, "copy the rows of {range}"),
            Self::CopyKeys { first, count } => {
                write!(f, "copy the rows of {count} keys again")?;
                first
                    .iter()
                    .try_for_each(|first| write!(f, ", {first} first"))
            }
            Self::Apply { first, last, count } => {
                write!(f, "apply {count} changes")?;
                if let (Some(first), Some(last)) = (first, last) {
                    write!(f, " of keys {first} to {last}")?;
                }
                Ok(())
            }
            Self::Connect => f.write_str("open sessions for the copy"),
            Self::Indexes(names) => {
                f.write_str("build or drop the indexes")?;
                names.iter().try_for_each(|name| write!(f, " {name}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn server(code: u16) -> DriverError {
        DriverError::Server(mysql_async::ServerError {
            code,
            message: "said".into(),
            state: "HY000".into(),
        })
    }

    fn failed(source: DriverError) -> CopyError {
        let name = |text: &str| Ident::new(text).unwrap();
        CopyError::Server {
            task: Box::new(Task::Copy(KeyRange::ALL)),
            table: TableName::new(name("shop"), name("orders")),
            attempts: 3,
            source,
        }
    }

    #[test]
    fn an_error_names_table_range_and_attempt() {
        expect!["copy the rows of [min, max] of table shop.orders, attempt 3"]
            .assert_eq(&failed(server(1062)).to_string());
    }

    #[test]
    fn the_servers_number_decides_the_remedy() {
        for (code, remedy) in [
            (1062, Remedy::Data),
            (1406, Remedy::Data),
            (1142, Remedy::Privileges),
            (1213, Remedy::Retry),
            (1053, Remedy::Unreachable),
            (1054, Remedy::State),
            (1146, Remedy::State),
            (1064, Remedy::Bug),
        ] {
            assert_eq!(failed(server(code)).remedy(), remedy, "{code}");
        }
    }

    #[test]
    fn a_closed_connection_is_told_apart() {
        let closed = DriverError::Driver(mysql_async::DriverError::ConnectionClosed);
        assert!(failed(closed).is_connection_lost());
        assert!(!failed(server(1062)).is_connection_lost());
    }
}

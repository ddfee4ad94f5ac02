//! Why a stream ended.

use oxferry_schema::Remedy;

use crate::{DecodeError, FilePosition, Gtid, Position};

/// Why the binary log can't be followed any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// A server refused or dropped the connection, and went on doing so.
    #[error("the binary log connection failed")]
    Connection(#[source] mysql_async::Error),
    /// A server kept a connection open, but sent nothing, not even the
    /// heartbeats that it was asked for.
    #[error("the server sent nothing, not even a heartbeat, for {seconds} s")]
    Silent {
        /// How long, in seconds.
        seconds: u64,
    },
    /// The server doesn't let this account read the binary log.
    #[error(
        "the server doesn't let this account read the binary log: it needs REPLICATION SLAVE and \
         REPLICATION CLIENT"
    )]
    Denied(#[source] mysql_async::Error),
    /// The server no longer has the part of the log that is needed.
    #[error(
        "the server has purged the binary log from {from} on, or never had it: changes are missing, so this \
         job can't go on; start it afresh, and let the server keep its log for longer"
    )]
    Purged {
        /// Where reading should have gone on.
        from: Box<FilePosition>,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// The server can't send its log from there.
    #[error("the server can't send its binary log from {from} on")]
    Refused {
        /// Where reading should have gone on.
        from: Box<FilePosition>,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// A file position is too large for the protocol.
    #[error(
        "reading can't begin at {from}: without GTIDs a server takes no offset above 4294967295; \
         turn GTIDs on, or start where a file starts"
    )]
    OffsetTooLarge {
        /// Where reading should have begun.
        from: Box<FilePosition>,
    },
    /// Behind the same address there is another server than before.
    #[error(
        "there is another server than before at this address ({before} before, {now} now), \
         and without GTIDs there is no going on with another server's log"
    )]
    ServerChanged {
        /// The UUID of the server before.
        before: String,
        /// The UUID of the server now.
        now: String,
    },
    /// Behind the same address there is another server than before, and it
    /// lacks transactions that were read before.
    #[error(
        "the server {server} that answers now has never executed {missing}, which was read before \
         from another one: what follows in its log doesn't continue what was read; let it catch \
         up, or start afresh if those transactions are lost"
    )]
    ServerBehind {
        /// The UUID of the server now.
        server: String,
        /// The GTIDs that it lacks.
        missing: String,
    },
    /// An event is damaged: what it says can't be believed.
    #[error("an event of the binary log before {at} is damaged: {reason}")]
    Damaged {
        /// About where.
        at: Box<FilePosition>,
        /// What is wrong.
        reason: String,
    },
    /// An event of a kind that this program doesn't know, and that may carry
    /// changes.
    #[error("the binary log holds an event of the unknown type {kind} before {at}")]
    UnknownEvent {
        /// Its type code.
        kind: u8,
        /// The position behind it.
        at: Box<FilePosition>,
    },
    /// The server says that changes are missing from its log.
    #[error("the server reports at {at} that changes are missing from its binary log")]
    Incident {
        /// The position behind the report.
        at: Box<FilePosition>,
    },
    /// A watched table isn't as it was described, or its rows can't be read.
    #[error("changes of {table} before {at} can't be read")]
    Decode {
        /// The table's full name, unquoted.
        table: String,
        /// The position behind the event.
        at: Box<FilePosition>,
        /// What is wrong.
        #[source]
        source: DecodeError,
    },
    /// A watched table's row was logged without all of its columns.
    #[error(
        "a change of {table} before {at} was logged with a part of its columns only; set \
         binlog_row_image=FULL and binlog_row_value_options='' in every session that writes to it, then \
         start anew with --fresh: what is missing can't be read any more"
    )]
    PartialImage {
        /// The table's full name, unquoted.
        table: String,
        /// The position behind the event.
        at: Box<FilePosition>,
    },
    /// A watched table was changed by a statement whose rows aren't logged.
    #[error(
        "{table} was changed before {at} by a statement that was logged without its rows; set \
         binlog_format=ROW in every session that writes to it, then start anew with --fresh: {statement}"
    )]
    StatementFormat {
        /// The table's full name, unquoted.
        table: String,
        /// The position behind the event.
        at: Box<FilePosition>,
        /// The statement, shortened.
        statement: String,
    },
    /// A watched table was, or may have been, changed in an XA transaction.
    #[error(
        "an XA transaction {doing} before {at}; a table whose changes are followed can't take \
         part in XA transactions"
    )]
    Xa {
        /// What it did.
        doing: String,
        /// The position behind the event.
        at: Box<FilePosition>,
    },
    /// A transaction was rolled back in the log, after its changes were
    /// handed out.
    #[error(
        "the transaction before {at} changed a followed table and was then rolled back in the \
         log; don't mix that table with non-transactional tables in one transaction"
    )]
    RolledBack {
        /// The position behind the transaction.
        at: Box<FilePosition>,
    },
    /// A row of a watched table came to the tenant whose rows alone are
    /// followed, or left it.
    #[error(
        "the row {key} of {table} went from {before} to {after}: a row may not change its tenant while          that tenant moves; start anew with --fresh when rows stay with theirs"
    )]
    TenantChanged {
        /// The table's full name, unquoted.
        table: String,
        /// The row's key; the former one where that changed too.
        key: String,
        /// The tenant before: `shop = 7`.
        before: String,
        /// The tenant after.
        after: String,
    },
    /// The stream had ended with an error before.
    #[error("the stream of changes was read on after it had ended with an error")]
    Ended,
    /// After a reconnect, another transaction stands where one was handed out
    /// in part.
    #[error(
        "after a reconnect the binary log before {at} isn't the one that was read before: \
         {expected} is expected"
    )]
    LogChanged {
        /// The position behind the event.
        at: Box<FilePosition>,
        /// The transaction that should stand there.
        expected: TransactionName,
    },
}

/// What a transaction is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a server gives a GTID or none")]
pub enum TransactionName {
    /// By its GTID.
    Gtid(Gtid),
    /// By where it starts.
    Start(FilePosition),
}

impl std::fmt::Display for TransactionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gtid(gtid) => write!(f, "transaction {gtid}"),
            Self::Start(start) => write!(f, "the transaction at {start}"),
        }
    }
}

impl StreamError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Connection(_)
            | Self::Silent { .. }
            | Self::ServerChanged { .. }
            | Self::ServerBehind { .. }
            | Self::Damaged { .. }
            | Self::Incident { .. }
            | Self::Decode { .. }
            | Self::RolledBack { .. }
            | Self::LogChanged { .. } => Remedy::Retry,
            Self::Denied(_)
            | Self::OffsetTooLarge { .. }
            | Self::PartialImage { .. }
            | Self::StatementFormat { .. }
            | Self::Xa { .. } => Remedy::Privileges,
            // What was not read is gone for good: the checkpoint is of no use.
            Self::Purged { .. } | Self::Refused { .. } | Self::TenantChanged { .. } => {
                Remedy::State
            }
            Self::UnknownEvent { .. } | Self::Ended => Remedy::Bug,
        }
    }

    /// Sorts a failed connection's error: whether to try again, or what it
    /// means for good.
    ///
    /// Source of the numbers: MySQL 9.7 manual, "Server Error Message
    /// Reference"; of the texts of 1236: `sql/rpl_binlog_sender.cc`.
    pub(crate) fn sort(source: mysql_async::Error, from: &Position) -> Failure {
        const ACCESS_DENIED: [u16; 5] = [1044, 1045, 1227, 1698, 3118];
        const FATAL_READING_LOG: u16 = 1236;
        let mysql_async::Error::Server(server) = &source else {
            return Failure::Passing(Self::Connection(source));
        };
        if ACCESS_DENIED.contains(&server.code) {
            return Failure::Lasting(Self::Denied(source));
        }
        if server.code != FATAL_READING_LOG {
            return Failure::Passing(Self::Connection(source));
        }
        let text = server.message.to_lowercase();
        let from = Box::new(from.file.clone());
        if text.contains("purged") || text.contains("could not find first log file") {
            Failure::Lasting(Self::Purged { from, source })
        } else if text.contains("same server_uuid/server_id") {
            // Somebody else has taken the number: the next try takes another.
            Failure::Passing(Self::Connection(source))
        } else {
            Failure::Lasting(Self::Refused { from, source })
        }
    }
}

/// What a failed connection means.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The next try may go better.
    Passing(StreamError),
    /// Every try would end like this.
    Lasting(StreamError),
}

//! What can go wrong while the target takes over.

use std::{fmt, time::Duration};

use oxferry_schema::{
    ErrorClass, NameError, ReadError, Remedy, TableName, classify, classify_code, server_code,
};

use crate::{Blocker, TablesSeen};

/// What an error of the caller's own looks like from here.
pub type FinishSource = Box<dyn std::error::Error + Send + Sync>;

/// Why the target did not take over.
///
/// The lock is let go, or its session is being ended, by the time one of these
/// is returned; [`CutoverError::SessionStuck`] says where that isn't certain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CutoverError {
    /// No connection to the server within the time allowed.
    #[error("connect to the server for the cutover, waited {waited:.1?}")]
    Connect {
        /// How long was waited.
        waited: Duration,
        /// Why it failed; `None` when the time ran out.
        #[source]
        source: Option<mysql_async::Error>,
    },
    /// A statement failed, or its connection broke.
    #[error("{attempted} for the cutover")]
    Statement {
        /// What was attempted.
        attempted: &'static str,
        /// What the server or the connection said.
        #[source]
        source: mysql_async::Error,
    },
    /// A statement was not answered in time.
    #[error("{attempted} for the cutover: no answer within {waited:.1?}")]
    Unanswered {
        /// What was attempted.
        attempted: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// Every statement was carried out, and not everything is where it belongs.
    #[error("{attempted}: not done yet: {}; start the job again", .left.join("; "))]
    LeftToCarry {
        /// What was attempted.
        attempted: &'static str,
        /// What is left.
        left: Vec<String>,
    },
    /// Another session holds a user-level lock that the cutover needs.
    #[error(
        "take user-level lock {name} for the cutover: another session holds it, end the one that IS_USED_LOCK tells"
    )]
    LockHeld {
        /// The lock's name.
        name: String,
    },
    /// The server told no position of its binary log.
    #[error(
        "read the binary log position under the lock: the server told {told:?}, is log_bin on?"
    )]
    NoPosition {
        /// What it told.
        told: String,
    },
    /// A table has the name that the live table is to get.
    #[error("swap {source_table}: table {old} exists already, drop or rename it, then go on", source_table = source_table.plain(), old = old.plain())]
    OldExists {
        /// The live table.
        source_table: TableName,
        /// The table in the way.
        old: TableName,
    },
    /// The live table or its shadow is not there.
    #[error("swap {source_table}: {seen}; find out who renamed or dropped it", source_table = source_table.plain())]
    Missing {
        /// The live table.
        source_table: TableName,
        /// What is there.
        seen: TablesSeen,
    },
    /// The triggers and foreign keys of a table aren't those that the plan
    /// carries over; a rename would leave them with the old table.
    #[error(
        "swap tables: {}; undo that, then go on, or start anew with --fresh", .found.join(", ")
    )]
    Attached {
        /// What came, went or changed, and on which table.
        found: Vec<String>,
    },
    /// What hangs on a table couldn't be read.
    #[error("read triggers and foreign keys for the cutover")]
    Unread {
        /// Why not.
        #[source]
        source: Box<ReadError>,
    },
    /// The server gave a name that it would not take itself.
    #[error("read triggers and foreign keys for the cutover: a name is none")]
    NoName {
        /// Why it is none.
        #[source]
        source: NameError,
    },
    /// The shadow couldn't be freed of what it had been given for the rename;
    /// nothing was renamed, and nothing may write to the shadow now.
    #[error(
        "take triggers and foreign keys off the new table again: until that is done, triggers would act on the copy, and foreign keys stand in the way of deletes; start the job again at once"
    )]
    NotDetached {
        /// Why not.
        #[source]
        source: Box<Self>,
    },
    /// The tables are swapped, and triggers or foreign keys aren't all where
    /// they belong.
    #[error(
        "the tables are swapped, but triggers or foreign keys don't have their names yet, or still hang on the old table: start the job again at once, it completes them"
    )]
    Incomplete {
        /// Why not.
        #[source]
        source: Box<Self>,
    },
    /// The lock was not granted in time.
    #[error("lock the tables: not granted within {waited:.1?}, {}", Blocking(.blockers))]
    LockTimeout {
        /// How long was waited.
        waited: Duration,
        /// Who was in the way when last looked at, as far as it is known.
        blockers: Vec<Blocker>,
    },
    /// The workers did not come to rest in time; the lock was not asked for.
    #[error("bring the workers to rest before the lock: not done within {waited:.1?}")]
    QuiesceTimeout {
        /// How long was waited.
        waited: Duration,
    },
    /// What was left took too long; writes flow again.
    #[error(
        "apply and compare the rest under the lock: not done within {waited:.1?}, the lock was let go"
    )]
    HoldExceeded {
        /// How long the lock was held.
        waited: Duration,
    },
    /// The caller's part failed.
    #[error("finish the copy for the cutover")]
    Finish {
        /// What the caller says to do.
        remedy: Remedy,
        /// What the caller says happened.
        #[source]
        source: FinishSource,
    },
    /// The caller's part let the table lock go, so nothing is proven.
    #[error(
        "rename the tables: the table lock was gone before the rename; something ran START TRANSACTION, UNLOCK TABLES or DDL under it"
    )]
    LockLost,
    /// The rename was sent, and nobody knows what became of it.
    #[error("rename the tables: the outcome is not known ({}); look which of the tables hold the rows before anything else", Seen(.seen))]
    Ambiguous {
        /// What was seen afterwards: each live table and its three names.
        /// Empty when the server couldn't be asked.
        seen: Vec<(TableName, TablesSeen)>,
        /// Why the answer was lost.
        #[source]
        source: Option<Box<Self>>,
    },
    /// The statement was sent, and nobody knows what became of it.
    #[error("change {table} at once: the outcome is not known; look at its definition before anything else", table = table.plain())]
    DdlAmbiguous {
        /// The table.
        table: TableName,
        /// Why the answer was lost.
        #[source]
        source: Box<Self>,
    },
    /// The session that may hold the lock couldn't be seen to end; nothing was
    /// renamed.
    #[error(
        "end session {id}, which may hold the table lock: not gone within {waited:.1?}; kill it on the server"
    )]
    SessionStuck {
        /// Its connection id.
        id: u32,
        /// How long was waited.
        waited: Duration,
        /// What made it necessary.
        #[source]
        cause: Box<Self>,
    },
    /// The session that an earlier run left couldn't be seen to end; this run
    /// renamed nothing.
    #[error(
        "end session {id}, which an earlier run left to swap {source_table}: not gone within {waited:.1?}; kill it on the server, then go on",
        source_table = source_table.plain()
    )]
    EarlierStuck {
        /// The first live table.
        source_table: TableName,
        /// The session's connection id.
        id: u64,
        /// How long was waited.
        waited: Duration,
    },
    /// A table has the sentinel's name and is not a sentinel.
    #[error("use {name} as the sentinel: a table of that name exists and was made by somebody else", name = name.plain())]
    ForeignSentinel {
        /// The name.
        name: TableName,
    },
    /// The sentinel stood for as long as is allowed.
    #[error("wait for table {name} to be dropped: it still exists after {waited:.1?}; the job can be called again", name = name.plain())]
    SentinelLimit {
        /// The sentinel.
        name: TableName,
        /// How long was waited.
        waited: Duration,
    },
}

impl From<ReadError> for CutoverError {
    fn from(source: ReadError) -> Self {
        Self::Unread {
            source: Box::new(source),
        }
    }
}

impl CutoverError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Connect { source, .. } => source.as_ref().map_or(Remedy::Unreachable, of_server),
            Self::Statement { source, .. } => of_server(source),
            Self::Unanswered { .. } | Self::SessionStuck { .. } => Remedy::Unreachable,
            Self::NoPosition { .. } => Remedy::Privileges,
            Self::OldExists { .. }
            | Self::Attached { .. }
            | Self::LeftToCarry { .. }
            | Self::LockHeld { .. }
            | Self::LockTimeout { .. }
            | Self::QuiesceTimeout { .. }
            | Self::HoldExceeded { .. }
            | Self::EarlierStuck { .. }
            | Self::SentinelLimit { .. } => Remedy::Retry,
            Self::Unread { source } => source.remedy(),
            Self::NotDetached { .. } | Self::Incomplete { .. } => Remedy::Retry,
            Self::Finish { remedy, .. } => *remedy,
            Self::LockLost | Self::NoName { .. } => Remedy::Bug,
            Self::Missing { .. } | Self::Ambiguous { .. } | Self::DdlAmbiguous { .. } => {
                Remedy::Ambiguous
            }
            Self::ForeignSentinel { .. } => Remedy::Usage,
        }
    }

    /// Returns whether another attempt of this run may help.
    ///
    /// Narrower than [`Remedy::Retry`]: what a person must mend first is not
    /// tried again.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::LockTimeout { .. }
            | Self::QuiesceTimeout { .. }
            | Self::HoldExceeded { .. }
            | Self::LeftToCarry { .. }
            | Self::LockHeld { .. }
            | Self::Unanswered { .. }
            | Self::Connect { .. }
            | Self::Statement { .. }
            | Self::Unread { .. }
            | Self::Finish { .. } => {
                matches!(self.remedy(), Remedy::Retry | Remedy::Unreachable)
            }
            Self::NoPosition { .. }
            | Self::OldExists { .. }
            | Self::Missing { .. }
            | Self::Attached { .. }
            | Self::NoName { .. }
            | Self::NotDetached { .. }
            | Self::Incomplete { .. }
            | Self::LockLost
            | Self::Ambiguous { .. }
            | Self::DdlAmbiguous { .. }
            | Self::SessionStuck { .. }
            | Self::EarlierStuck { .. }
            | Self::ForeignSentinel { .. }
            | Self::SentinelLimit { .. } => false,
        }
    }

    /// Returns what the server said, if it refused a statement for what it says:
    /// neither for a lock, nor a privilege, nor because it ends.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Statement {
                source: mysql_async::Error::Server(error),
                ..
            } if matches!(
                classify_code(error.code),
                ErrorClass::Fatal | ErrorClass::DataRefused
            ) =>
            {
                Some(&error.message)
            }
            _ => None,
        }
    }

    /// Wraps a statement's error.
    pub(crate) const fn statement(
        attempted: &'static str,
    ) -> impl FnOnce(mysql_async::Error) -> Self {
        move |source| Self::Statement { attempted, source }
    }
}

/// Says what to do about a statement's error.
///
/// One that nothing is known about may pass: attempts are counted, and each
/// has undone what it did.
fn of_server(error: &mysql_async::Error) -> Remedy {
    match classify(error) {
        ErrorClass::Fatal if server_code(error) != Some(ER_PARSE_ERROR) => Remedy::Retry,
        class => class.remedy(),
    }
}

struct Blocking<'a>(&'a [Blocker]);

impl fmt::Display for Blocking<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("and who holds it is not known");
        }
        f.write_str("held up by ")?;
        write_list(f, self.0.iter())
    }
}

struct Seen<'a>(&'a [(TableName, TablesSeen)]);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the server could not be asked");
        }
        let each = self.0.iter();
        write_list(
            f,
            each.map(|(name, seen)| format!("{}: {seen}", name.plain())),
        )
    }
}

fn write_list(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = impl fmt::Display>,
) -> fmt::Result {
    for (i, item) in items.enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        write!(f, "{comma}{item}")?;
    }
    Ok(())
}

const ER_PARSE_ERROR: u16 = 1064;

#[cfg(test)]
mod tests {
    use mysql_async::{Error, ServerError};

    use super::*;
    use crate::plan::tests::pair;

    fn server(code: u16) -> CutoverError {
        CutoverError::Statement {
            attempted: "rename the tables",
            source: Error::Server(ServerError {
                code,
                message: "as the server says".into(),
                state: "HY000".into(),
            }),
        }
    }

    #[test]
    fn a_lock_wait_is_tried_again_and_a_missing_privilege_is_not() {
        assert_eq!(server(1205).remedy(), Remedy::Retry);
        assert!(server(1205).is_passing());
        assert_eq!(server(1142).remedy(), Remedy::Privileges);
        assert!(!server(1142).is_passing());
    }

    #[test]
    fn an_error_nobody_knows_may_pass_and_one_in_the_statement_does_not() {
        assert!(server(9999).is_passing());
        assert_eq!(server(1064).remedy(), Remedy::Bug);
        assert_eq!(server(1095).remedy(), Remedy::Privileges);
    }

    #[test]
    fn an_unknown_outcome_is_never_tried_again() {
        let error = CutoverError::Ambiguous {
            seen: vec![(
                pair("t").source,
                TablesSeen {
                    source: false,
                    shadow: true,
                    old: true,
                },
            )],
            source: None,
        };
        assert_eq!(error.remedy(), Remedy::Ambiguous);
        assert!(!error.is_passing());
        assert!(
            error
                .to_string()
                .contains("app.t: source gone, shadow there, old there")
        );
    }

    #[test]
    fn what_a_person_must_mend_is_not_tried_again_at_once() {
        let error = CutoverError::Attached {
            found: vec!["trigger app.tr on app.t".into()],
        };
        assert_eq!(error.remedy(), Remedy::Retry);
        assert!(!error.is_passing());
    }

    #[test]
    fn an_unknown_blocker_is_said_to_be_unknown() {
        let error = CutoverError::LockTimeout {
            waited: Duration::from_secs(3),
            blockers: Vec::new(),
        };
        assert_eq!(
            error.to_string(),
            "lock the tables: not granted within 3.0s, and who holds it is not known"
        );
    }
}

//! Why the target did not take over from another server's tables.

use std::{fmt, time::Duration};

use oxferry_schema::{Remedy, ServerInfoError};

use super::{SourceSeen, SwitchStep};
use crate::{Blocker, CutoverError, FinishSource, HookError};

/// Why a switch was not made, or not completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// The switch was given up; the cause is that of the last attempt.
    #[error("switch to the target: given up at attempt {attempts}, {}; {aftermath}", .step.doing())]
    GivenUp {
        /// Attempts, this one included.
        attempts: u32,
        /// Where the last one failed.
        step: SwitchStep,
        /// What became of the source, and what could not be undone.
        aftermath: Aftermath,
        /// Why it failed.
        #[source]
        cause: Box<Self>,
    },
    /// Nobody knows whether the application was sent to the target.
    #[error(
        "switch to the target: whether it is announced is not known; {aftermath}; look where the application writes before anything else"
    )]
    Ambiguous {
        /// What became of the source.
        aftermath: Aftermath,
        /// Why it isn't known.
        #[source]
        cause: Box<Self>,
    },
    /// An earlier run died while it called the hook `switched`.
    #[error(
        "switch to the target: an earlier run ended while it called hook switched, and whether the application writes to the target is not known; look before anything else"
    )]
    AnnouncedEarlier,
    /// The plan contradicts itself.
    #[error("switch to the target: {why}")]
    Plan {
        /// How.
        why: &'static str,
    },
    /// A server, or a session on it, failed.
    #[error(transparent)]
    Server(#[from] CutoverError),
    /// A setting couldn't be read.
    #[error("look at a server before the switch")]
    Settings(#[from] ServerInfoError),
    /// A hook failed.
    #[error("switch to the target")]
    Hook(#[from] HookError),
    /// The caller's part failed.
    #[error("{attempted} for the switch")]
    Caller {
        /// What it was asked for.
        attempted: &'static str,
        /// What the caller says to do.
        remedy: Remedy,
        /// What the caller says happened.
        #[source]
        source: FinishSource,
    },
    /// The operator wants the job to end.
    #[error("switch to the target: interrupted")]
    Interrupted,
    /// Transactions would hold the lock up.
    #[error("lock the source: transactions on its tables are too old to wait for under the lock: {}", List(.sessions))]
    OldTransactions {
        /// Whose they are.
        sessions: Vec<Blocker>,
    },
    /// Nobody could write to the target.
    #[error("switch to the target: the target is read-only, turn {setting} off")]
    TargetReadOnly {
        /// The setting.
        setting: &'static str,
    },
    /// Tables of the source aren't as they should be.
    #[error("lock the source: {}; find out who renamed or dropped what", List(.found))]
    Tables {
        /// Each table that is wrong, and how.
        found: Vec<SourceSeen>,
    },
    /// Prepared XA transactions can be committed on a read-only server.
    #[error("set the source read-only: XA transactions are prepared, and could be committed all the same: {}; commit them or roll them back", List(.xids))]
    PreparedXa {
        /// As `XA COMMIT` takes them.
        xids: Vec<String>,
    },
    /// The caller's part took too long.
    #[error("{attempted} for the switch: not done within {waited:.1?}")]
    TookTooLong {
        /// What it was asked for.
        attempted: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// The source was open to writers again before the switch was made.
    #[error("keep the source locked: {why}")]
    LockLost {
        /// What was seen.
        why: String,
    },
    /// It isn't this run's any more to undo what it did.
    #[error(
        "unlock the source: it is left as it is, another run may have gone on in this one's place"
    )]
    NotOurs(#[source] FinishSource),
    /// The source's lock couldn't be undone.
    #[error("unlock the source: not done within {waited:.1?}: {by_hand}")]
    NotUndone {
        /// How long it was tried.
        waited: Duration,
        /// What to do by hand.
        by_hand: String,
        /// Why the last try failed.
        #[source]
        cause: Box<Self>,
    },
}

/// What became of the source after a failed attempt.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Aftermath {
    /// What had been done to the source.
    pub done: Vec<&'static str>,
    /// What was undone of it.
    pub undone: Vec<&'static str>,
    /// What couldn't be undone, or was not to be, and why.
    pub left: Vec<(&'static str, Option<SwitchError>)>,
}

impl fmt::Display for Aftermath {
    /// Writes `done: … ; undone: … ; not undone: … (why)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.done.is_empty() && self.left.is_empty() {
            return f.write_str("nothing was done to the source");
        }
        write!(f, "done: {}", self.done.join(", "))?;
        if !self.undone.is_empty() {
            write!(f, "; undone: {}", self.undone.join(", "))?;
        }
        for (what, why) in &self.left {
            write!(f, "; NOT undone: {what}")?;
            if let Some(why) = why {
                write!(f, " ({})", Chain(why))?;
            }
        }
        Ok(())
    }
}

impl SwitchError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::GivenUp {
                cause, aftermath, ..
            } => aftermath.remedy().unwrap_or_else(|| cause.remedy()),
            Self::Ambiguous { .. } | Self::AnnouncedEarlier => Remedy::Ambiguous,
            Self::Plan { .. } => Remedy::Usage,
            Self::Server(error) => error.remedy(),
            Self::Settings(error) => error.remedy(),
            Self::Hook(error) => error.remedy(),
            Self::Caller { remedy, .. } => *remedy,
            Self::Interrupted => Remedy::Interrupted,
            Self::TargetReadOnly { .. } => Remedy::Privileges,
            // Names that no whole rename leaves behind need a look.
            Self::Tables { found } if found.iter().any(SourceSeen::is_odd) => Remedy::Ambiguous,
            Self::NotUndone { cause, .. } => cause.remedy(),
            Self::Tables { .. }
            | Self::OldTransactions { .. }
            | Self::PreparedXa { .. }
            | Self::TookTooLong { .. }
            | Self::LockLost { .. } => Remedy::Retry,
            Self::NotOurs(_) => Remedy::Ambiguous,
        }
    }

    /// Returns whether another attempt of this run may help.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Server(error) => error.is_passing(),
            Self::Settings(_) | Self::Caller { .. } => {
                matches!(self.remedy(), Remedy::Retry | Remedy::Unreachable)
            }
            Self::OldTransactions { .. }
            | Self::PreparedXa { .. }
            | Self::TookTooLong { .. }
            | Self::LockLost { .. } => true,
            // A hook has its own number of calls.
            Self::Hook(_)
            | Self::GivenUp { .. }
            | Self::Ambiguous { .. }
            | Self::AnnouncedEarlier
            | Self::Plan { .. }
            | Self::Interrupted
            | Self::TargetReadOnly { .. }
            | Self::Tables { .. }
            | Self::NotOurs(_)
            | Self::NotUndone { .. } => false,
        }
    }
}

impl Aftermath {
    /// Says what to do where what is left on the source decides it: a rename
    /// that may or may not be undone.
    fn remedy(&self) -> Option<Remedy> {
        let unknown = |(what, why): &(&str, Option<SwitchError>)| *what == RENAMED && why.is_some();
        self.left.iter().any(unknown).then_some(Remedy::Ambiguous)
    }
}

impl SwitchStep {
    /// Says what a step does, as in `given up at attempt 2, locking the source`.
    #[must_use]
    pub const fn doing(self) -> &'static str {
        match self {
            Self::Quiesce => "bringing the copy to rest",
            Self::Check => "checking source and target",
            Self::Remember | Self::RememberAnnounced | Self::RememberUnannounced | Self::Forget => {
                "storing what a crash would leave on the source"
            }
            Self::LockHook => "calling hook lock-source",
            Self::Lock => "locking the source",
            Self::Finish => "applying and comparing the rest",
            Self::Holds | Self::Held => "seeing that the source is still locked",
            Self::Announce => "calling hook switched",
            Self::LetGo | Self::Unlock => "unlocking the source",
            Self::UnlockHook => "calling hook unlock-source",
            Self::Release => "setting the copy to work again",
            Self::Pause(_) => "waiting for the next attempt",
        }
    }
}

/// What an [`Aftermath`] calls a rename.
pub(super) const RENAMED: &str = "source tables renamed";

struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}

/// An error and its causes on one line.
pub(super) struct Chain<'a>(pub(super) &'a SwitchError);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = std::error::Error::source(self.0);
        while let Some(error) = next {
            write!(f, ": {error}")?;
            next = error.source();
        }
        Ok(())
    }
}

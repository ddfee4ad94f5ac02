//! Why a hook did not do what it is for.

use std::{io, time::Duration};

use oxferry_schema::Remedy;

use super::HookName;

/// A hook that was called as often as allowed, in vain.
#[derive(Debug, thiserror::Error)]
#[error("call hook {name} ({call}), {attempts} time(s)")]
#[non_exhaustive]
pub struct HookError {
    /// Which hook.
    pub name: HookName,
    /// What was called, without secrets.
    pub call: String,
    /// How often.
    pub attempts: u32,
    /// Whether one of the calls may have had its effect: its answer was lost, or
    /// didn't come in time.
    pub may_be_done: bool,
    /// Why the last call failed.
    #[source]
    pub source: HookFailure,
}

/// Why one call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookFailure {
    /// The option says neither a command nor an address.
    #[error("read a hook: {why}")]
    Unreadable {
        /// What is wrong.
        why: String,
    },
    /// The command can't be started.
    #[error("start the command: is it there, and may it be run?")]
    NotStarted(#[source] io::Error),
    /// The address can't be reached; the call wasn't sent.
    #[error("reach the address: {why}")]
    NotReached {
        /// What stood in the way.
        why: String,
    },
    /// It says that it is not done.
    #[error("it answered {answer}: {said:?}")]
    Refused {
        /// The exit code, or the HTTP code.
        answer: String,
        /// The end of what it said.
        said: String,
    },
    /// It did not answer in time.
    #[error("no answer within {waited:.1?}; it may be done all the same")]
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
    /// It was killed, or the connection broke.
    #[error("the answer is lost ({why}); it may be done all the same")]
    Lost {
        /// How.
        why: String,
    },
}

impl HookError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        self.source.remedy()
    }
}

impl HookFailure {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Unreadable { .. } => Remedy::Usage,
            Self::NotStarted(_) => Remedy::Privileges,
            Self::NotReached { .. }
            | Self::Refused { .. }
            | Self::TimedOut { .. }
            | Self::Lost { .. } => Remedy::Retry,
        }
    }

    /// Returns whether the call may have had its effect.
    #[must_use]
    pub const fn may_be_done(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Lost { .. })
    }

    /// Returns whether the call got as far as the command or the address.
    #[must_use]
    pub const fn was_heard(&self) -> bool {
        matches!(self, Self::Refused { .. }) || self.may_be_done()
    }
}

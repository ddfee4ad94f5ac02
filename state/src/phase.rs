//! The steps of a job's life.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A step of a job's life, in the order in which a job passes them.
///
/// Written everywhere, logs and checkpoints alike, in kebab case: `catch-up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new phase must reach every place that resumes one"
)]
pub enum Phase {
    /// Refuses early what can't succeed.
    Preflight,
    /// Tries whether the server changes the table at once.
    NativeDdl,
    /// Creates the objects that the job needs.
    Prepare,
    /// Copies rows while changes are applied.
    Copy,
    /// Applies the changes that waited for the last chunks.
    CatchUp,
    /// Builds the indexes that were left out while copying.
    Index,
    /// Refreshes the target's statistics.
    Analyze,
    /// Compares source and target.
    Verify,
    /// Waits for the sentinel to go.
    Deferred,
    /// Lets the target take over.
    Cutover,
    /// Carries changes back, so that the move can be undone.
    Reverse,
    /// Removes what the job created.
    Cleanup,
    /// Nothing is left to do.
    Done,
}

/// Why a text is not a phase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a phase such as copy or catch-up")]
pub struct UnknownPhase(pub String);

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Self; 13] = [
        Self::Preflight,
        Self::NativeDdl,
        Self::Prepare,
        Self::Copy,
        Self::CatchUp,
        Self::Index,
        Self::Analyze,
        Self::Verify,
        Self::Deferred,
        Self::Cutover,
        Self::Reverse,
        Self::Cleanup,
        Self::Done,
    ];

    /// Returns the phase's name in kebab case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Preflight => "preflight",
            Self::NativeDdl => "native-ddl",
            Self::Prepare => "prepare",
            Self::Copy => "copy",
            Self::CatchUp => "catch-up",
            Self::Index => "index",
            Self::Analyze => "analyze",
            Self::Verify => "verify",
            Self::Deferred => "deferred",
            Self::Cutover => "cutover",
            Self::Reverse => "reverse",
            Self::Cleanup => "cleanup",
            Self::Done => "done",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Phase {
    type Err = UnknownPhase;

    fn from_str(text: &str) -> Result<Self, UnknownPhase> {
        Self::ALL
            .into_iter()
            .find(|phase| phase.as_str() == text)
            .ok_or_else(|| UnknownPhase(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_spelled_the_same_in_json_and_in_logs() {
        for phase in Phase::ALL {
            assert_eq!(
                serde_json::to_string(&phase).unwrap(),
                format!("\"{phase}\"")
            );
            assert_eq!(phase.to_string().parse(), Ok(phase));
        }
        assert!("Copy".parse::<Phase>().is_err());
    }

    #[test]
    fn phases_are_ordered_as_a_job_passes_them() {
        assert!(Phase::ALL.is_sorted());
    }
}

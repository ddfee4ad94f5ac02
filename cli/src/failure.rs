//! What ends the program: an error with its remedy, and the exit code of it.

use std::{fmt, process::ExitCode};

use oxferry_schema::Remedy;

/// An error and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    remedy: Remedy,
    error: anyhow::Error,
    is_advised: bool,
    is_told: bool,
}

impl Failure {
    /// Puts an error and its remedy together.
    pub(crate) fn new(remedy: Remedy, error: impl Into<anyhow::Error>) -> Self {
        Self {
            remedy,
            error: error.into(),
            is_advised: true,
            is_told: false,
        }
    }

    /// Leaves out what an operator of a job should do next: this is none.
    pub(crate) const fn without_advice(mut self) -> Self {
        self.is_advised = false;
        self
    }

    /// Notes that the error callback was told.
    pub(crate) const fn told(mut self) -> Self {
        self.is_told = true;
        self
    }

    /// Returns whether the error callback was told.
    pub(crate) const fn is_told(&self) -> bool {
        self.is_told
    }

    /// A wrong call: what is wrong with it, and how it is right.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Remedy::Usage, anyhow::anyhow!("{message}"))
    }

    /// Says what was being attempted.
    #[must_use]
    pub(crate) fn context(self, attempted: impl fmt::Display + Send + Sync + 'static) -> Self {
        Self {
            remedy: self.remedy,
            error: self.error.context(attempted),
            is_advised: self.is_advised,
            is_told: self.is_told,
        }
    }

    /// Returns the error with its causes, on one line.
    pub(crate) fn line(&self) -> String {
        let mut line = String::new();
        for cause in self.error.chain() {
            let text = cause.to_string();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            // Some libraries repeat the cause in what they say themselves.
            if line.contains(&text) {
                continue;
            }
            let colon = if line.is_empty() { "" } else { ": " };
            line = format!("{line}{colon}{text}");
        }
        line
    }

    /// Returns whether one of the error's causes is an `E`.
    pub(crate) fn is_caused_by<E: std::error::Error + 'static>(&self) -> bool {
        self.error.chain().any(|cause| cause.is::<E>())
    }

    /// Returns what to do.
    pub(crate) const fn remedy(&self) -> Remedy {
        self.remedy
    }

    /// Logs the failure as one line, and what to do next; returns its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match advice(self.remedy).filter(|_| self.is_advised) {
            Some(advice) => tracing::error!("{}; {advice}", self.line()),
            None => tracing::error!("{}", self.line()),
        }
        ExitCode::from(exit_code(self.remedy))
    }

    /// The same, before it is known how to log.
    #[expect(clippy::print_stderr, reason = "nothing is logged yet")]
    pub(crate) fn report_early(&self) -> ExitCode {
        eprintln!("error: {}", self.line());
        ExitCode::from(exit_code(self.remedy))
    }
}

impl fmt::Display for Failure {
    /// Writes what went wrong, without its causes; [`Failure::line`] adds them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// The codes are a contract with scripts; README.md lists them.
///
/// Source of the numbers: `sysexits.h`, but for 76, and 130 as shells report
/// a program that SIGINT ended.
pub(crate) const fn exit_code(remedy: Remedy) -> u8 {
    match remedy {
        Remedy::Usage => 64,
        Remedy::Data => 65,
        Remedy::Unreachable => 69,
        Remedy::Bug => 70,
        Remedy::State => 74,
        Remedy::Retry => 75,
        Remedy::Ambiguous => 76,
        Remedy::Privileges => 77,
        Remedy::Interrupted => 130,
    }
}

/// What an operator should do next, where the error itself can't say.
pub(crate) const fn advice(remedy: Remedy) -> Option<&'static str> {
    match remedy {
        Remedy::Retry => Some("the checkpoint is kept: run the same command again to go on"),
        Remedy::Interrupted => Some("run the same command again to go on"),
        Remedy::Ambiguous => Some("look before anything else"),
        Remedy::Bug => Some("oxferry broke one of its own rules: please report this line"),
        Remedy::Data => Some(
            "the source is untouched; mend its rows and run the same command again, or start anew \
             with another change and --fresh, or remove what was built with `oxferry cleanup --execute`",
        ),
        Remedy::Usage | Remedy::Unreachable | Remedy::State | Remedy::Privileges => None,
    }
}

/// Turns errors that know their remedy into failures.
macro_rules! remedied {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.remedy(), error)
            }
        })*
    };
}
pub(crate) use remedied;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_told_already_is_not_told_again() {
        #[derive(Debug, thiserror::Error)]
        #[error("server: {0}")]
        struct Wordy(#[source] std::io::Error);
        let cause = std::io::Error::other("refused");
        let failure = Failure::new(Remedy::Retry, Wordy(cause)).context("connecting");
        assert_eq!(failure.line(), "connecting: server: refused");
    }

    #[test]
    fn an_error_is_one_line_with_its_causes() {
        let failure = Failure::usage("a\n  b").context("reading x");
        assert_eq!(failure.line(), "reading x: a b");
        assert_eq!(exit_code(failure.remedy()), 64);
    }
}

//! What is in a job's way, all of it at once.

use oxferry_schema::{Objection, Remedy};

use crate::failure::Failure;

/// One thing that is in the way, and what removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// What is wrong, with its value.
    pub(crate) what: String,
    /// What to do.
    pub(crate) fix: String,
    /// Decides the exit code.
    pub(crate) remedy: Remedy,
}

impl From<Objection> for Problem {
    /// What can't be carried over to the target's table.
    fn from(objection: Objection) -> Self {
        let (remedy, fix) = (objection.remedy(), objection.fix());
        let refused = matches!(objection, Objection::Refused { .. });
        let fix = match remedy {
            Remedy::Privileges if refused => "give the user what the server asks for",
            _ => fix,
        };
        Self {
            what: Failure::new(remedy, objection).line(),
            fix: fix.to_owned(),
            remedy,
        }
    }
}

/// Logs each problem with what removes it, and counts them in the failure.
pub(crate) fn refuse(problems: &[Problem]) -> Result<(), Failure> {
    let Some(first) = problems.first() else {
        return Ok(());
    };
    // One alone is the last line, which every error ends with.
    for problem in problems.iter().filter(|_| problems.len() > 1) {
        tracing::error!("{}: {}", problem.what, problem.fix);
    }
    let message = match problems.len() {
        1 => format!("{}: {}", first.what, first.fix),
        count => format!("{count} things are in the way, each named above"),
    };
    Err(Failure::new(remedy(problems), anyhow::anyhow!(message)))
}

/// Returns the remedy that decides the exit code: missing settings and
/// privileges come before what is wrong with the table.
fn remedy(problems: &[Problem]) -> Remedy {
    let first = problems
        .iter()
        .find(|problem| problem.remedy == Remedy::Privileges);
    first
        .or_else(|| problems.first())
        .map_or(Remedy::Usage, |problem| problem.remedy)
}

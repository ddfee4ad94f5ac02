//! How a job begins: anew, where an earlier run stopped, or not at all.

use oxferry_schema::{Remedy, ShadowNames, TableName};
use oxferry_state::{Checkpoint, JobIdentity, Phase};

use crate::failure::Failure;

/// What stands beside the source table.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The checkpoint of an earlier run.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Whether the shadow table exists.
    pub(crate) shadow: bool,
    /// Whether the checkpoint's table exists, whatever it holds.
    pub(crate) state: bool,
    /// Whether a table has the name that the old one shall get.
    pub(crate) old: bool,
    /// `@@server_uuid` of the server at hand.
    pub(crate) server_uuid: String,
    /// What `SHOW CREATE TABLE` prints of the source now.
    pub(crate) source_create: String,
}

/// How the job begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Start {
    /// From nothing; what a run before left half-built is dropped first.
    Fresh {
        /// Whether there is something to drop.
        leftovers: bool,
    },
    /// Where the checkpoint says.
    Resume(Box<Checkpoint>),
    /// The tables are swapped already; only the cleaning up is left.
    CleanUp(Box<Checkpoint>),
}

/// Decides how the job `asked` for begins, given what was `found`.
///
/// # Errors
///
/// A failure that names what is in the way and what to do; nothing has been
/// changed.
pub(crate) fn decide(
    found: Found,
    asked: &JobIdentity,
    names: &ShadowNames,
    fresh: bool,
) -> Result<Start, Failure> {
    let leftovers = found.shadow || found.state || found.checkpoint.is_some();
    match found.checkpoint {
        Some(checkpoint) if is_swapped(&checkpoint, found.shadow, found.old) => {
            if checkpoint.resumes(asked).is_err() {
                return Err(unfinished_cleanup(&checkpoint));
            }
            Ok(Start::CleanUp(Box::new(checkpoint)))
        }
        _ if found.old => Err(old_table_in_the_way(&names.old)),
        _ if fresh => Ok(Start::Fresh { leftovers }),
        Some(checkpoint) => {
            checkpoint
                .resumes(asked)
                .map_err(|m| Failure::new(m.remedy(), m))?;
            if checkpoint.phase <= Phase::Prepare {
                return Ok(Start::Fresh { leftovers });
            }
            check_resumable(
                &checkpoint,
                found.shadow,
                &found.server_uuid,
                &found.source_create,
            )?;
            Ok(Start::Resume(Box::new(checkpoint)))
        }
        None if found.shadow => Err(Failure::new(
            Remedy::State,
            anyhow::anyhow!(
                "table {} exists, but no checkpoint tells what it is: look at it, then remove it \
                 with `oxferry cleanup --execute` or start anew with --fresh",
                names.shadow.plain()
            ),
        )),
        None => Ok(Start::Fresh { leftovers }),
    }
}

/// After the rename the shadow's name is free and the old table stands; the
/// phase is noted before the rename is sent.
fn is_swapped(checkpoint: &Checkpoint, shadow: bool, old: bool) -> bool {
    match checkpoint.phase {
        Phase::Cleanup | Phase::Done => !shadow,
        Phase::Cutover => !shadow && old,
        Phase::Preflight
        | Phase::NativeDdl
        | Phase::Prepare
        | Phase::Copy
        | Phase::CatchUp
        | Phase::Index
        | Phase::Analyze
        | Phase::Verify
        | Phase::Deferred
        | Phase::Reverse => false,
    }
}

fn check_resumable(
    checkpoint: &Checkpoint,
    shadow: bool,
    server_uuid: &str,
    source_create: &str,
) -> Result<(), Failure> {
    let state = |why: String| Err(Failure::new(Remedy::State, anyhow::anyhow!(why)));
    for table in &checkpoint.tables {
        if !shadow {
            return state(format!(
                "the checkpoint tells of table {}, which is gone: start anew with --fresh",
                table.target.plain()
            ));
        }
        table
            .check_source(source_create)
            .map_err(|m| Failure::new(m.remedy(), m))?;
    }
    if checkpoint.server_uuid != server_uuid {
        return state(format!(
            "the checkpoint is of server {}, this is server {server_uuid}: its binary log positions \
             mean nothing here; connect to that server, or start anew with --fresh",
            checkpoint.server_uuid
        ));
    }
    if checkpoint.tables.is_empty() || checkpoint.position.is_none() {
        return state(
            "the checkpoint names no table or no position: start anew with --fresh".to_owned(),
        );
    }
    Ok(())
}

/// The job before this one has swapped its tables and was ended before it
/// could clean up: neither going on nor dropping anything is this job's.
fn unfinished_cleanup(checkpoint: &Checkpoint) -> Failure {
    Failure::new(
        Remedy::State,
        anyhow::anyhow!(
            "an earlier job took over with {:?} and was ended before it cleaned up: first run \
             `oxferry cleanup --execute`",
            checkpoint.job.statements.join("; ")
        ),
    )
}

fn old_table_in_the_way(old: &TableName) -> Failure {
    Failure::new(
        Remedy::Usage,
        anyhow::anyhow!(
            "table {} exists, an earlier job kept it: rename it, or drop it if nobody needs it",
            old.plain()
        ),
    )
}

#[cfg(test)]
mod tests {
    use oxferry_binlog::{FilePosition, Position};
    use oxferry_schema::Ident;
    use oxferry_state::{CopyMode, TableProgress};

    use super::*;

    const CREATE: &str = "CREATE TABLE `t` (\n  `id` int\n)";

    fn table() -> TableName {
        TableName::new(Ident::new("d").unwrap(), Ident::new("t").unwrap())
    }

    fn identity(clauses: &str) -> JobIdentity {
        JobIdentity::migrate(vec![table()], vec![format!("ALTER TABLE t {clauses}")])
    }

    fn checkpoint(phase: Phase) -> Checkpoint {
        let mut checkpoint = Checkpoint::new(identity("FORCE"), "0", "uuid-1");
        let shadow = ShadowNames::beside(&table()).shadow;
        let mut progress = TableProgress::new(table(), shadow, CopyMode::Ranged);
        progress.source_create = CREATE.to_owned();
        checkpoint.tables.push(progress);
        checkpoint.phase = phase;
        let file = FilePosition::new("binlog.000001", 4).unwrap();
        checkpoint.position = Some(Position { file, gtids: None });
        checkpoint
    }

    fn found(phase: Option<Phase>, shadow: bool, old: bool) -> Found {
        Found {
            checkpoint: phase.map(checkpoint),
            shadow,
            state: phase.is_some(),
            old,
            server_uuid: "uuid-1".to_owned(),
            source_create: CREATE.to_owned(),
        }
    }

    fn start(found: Found, clauses: &str, fresh: bool) -> Result<Start, String> {
        let names = ShadowNames::beside(&table());
        decide(found, &identity(clauses), &names, fresh).map_err(|failure| failure.line())
    }

    #[test]
    fn nothing_there_is_a_fresh_start() {
        assert_eq!(
            start(found(None, false, false), "FORCE", false),
            Ok(Start::Fresh { leftovers: false })
        );
    }

    #[test]
    fn the_same_statement_goes_on() {
        for phase in [Phase::Copy, Phase::Verify, Phase::Deferred, Phase::Cutover] {
            let start = start(found(Some(phase), true, false), "FORCE", false);
            assert!(matches!(start, Ok(Start::Resume(_))), "{phase:?}");
        }
    }

    #[test]
    fn another_statement_touches_nothing_unless_told() {
        let refused = start(
            found(Some(Phase::Copy), true, false),
            "ENGINE=InnoDB",
            false,
        );
        assert!(refused.unwrap_err().contains("--fresh"));
        let told = start(found(Some(Phase::Copy), true, false), "ENGINE=InnoDB", true);
        assert_eq!(told, Ok(Start::Fresh { leftovers: true }));
    }

    #[test]
    fn a_crash_while_preparing_starts_over() {
        let start = start(found(Some(Phase::Prepare), true, false), "FORCE", false);
        assert_eq!(start, Ok(Start::Fresh { leftovers: true }));
    }

    #[test]
    fn a_swap_that_happened_is_not_repeated() {
        for fresh in [false, true] {
            let start = start(found(Some(Phase::Cutover), false, true), "FORCE", fresh);
            assert!(matches!(start, Ok(Start::CleanUp(_))));
        }
    }

    #[test]
    fn another_jobs_cleaning_up_comes_first() {
        let refused = start(
            found(Some(Phase::Cutover), false, true),
            "ENGINE=InnoDB",
            true,
        );
        assert!(refused.unwrap_err().contains("oxferry cleanup --execute"));
    }

    #[test]
    fn a_table_nobody_vouches_for_is_left_alone() {
        assert!(
            start(found(None, true, false), "FORCE", false)
                .unwrap_err()
                .contains("cleanup")
        );
        for fresh in [false, true] {
            let refused = start(found(None, false, true), "FORCE", fresh);
            assert!(refused.unwrap_err().contains("_t_oxold exists"));
        }
    }

    #[test]
    fn a_checkpoint_of_other_facts_is_refused() {
        let mut other = found(Some(Phase::Copy), true, false);
        other.server_uuid = "uuid-2".to_owned();
        assert!(start(other, "FORCE", false).unwrap_err().contains("uuid-2"));
        let mut other = found(Some(Phase::Copy), true, false);
        other.source_create = CREATE.replace("int", "bigint");
        assert!(
            start(other, "FORCE", false)
                .unwrap_err()
                .contains("was changed")
        );
        assert!(
            start(found(Some(Phase::Copy), false, false), "FORCE", false)
                .unwrap_err()
                .contains("gone")
        );
    }
}

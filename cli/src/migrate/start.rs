//! How a job begins: anew, where an earlier run stopped, or not at all.

use oxferry_schema::{Remedy, ShadowNames, TableName};
use oxferry_state::{Checkpoint, JobIdentity, Phase};

use crate::failure::Failure;

/// What stands beside the source tables.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The checkpoint of an earlier run.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Whether the checkpoint's table exists, whatever it holds.
    pub(crate) state: bool,
    /// The tables in the job's order.
    pub(crate) tables: Vec<FoundTable>,
    /// `@@server_uuid` of the server at hand.
    pub(crate) server_uuid: String,
}

/// What stands beside one source table.
#[derive(Clone, Debug)]
pub(crate) struct FoundTable {
    /// The source table.
    pub(crate) source: TableName,
    /// The names beside it.
    pub(crate) names: ShadowNames,
    /// Whether the shadow table exists.
    pub(crate) shadow: bool,
    /// Whether a table has the name that the old one shall get.
    pub(crate) old: bool,
    /// Whether another job, whose first table it is, left its checkpoint here.
    pub(crate) foreign_state: bool,
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
pub(crate) fn decide(found: Found, asked: &JobIdentity, fresh: bool) -> Result<Start, Failure> {
    let leftovers = found.leftovers();
    if let Some(checkpoint) = &found.checkpoint {
        let tables = found.tables.iter();
        let tables: Vec<_> = tables.map(|t| (&t.source, t.shadow, t.old)).collect();
        if is_ended(checkpoint, &tables, asked)? {
            return Ok(Start::CleanUp(Box::new(checkpoint.clone())));
        }
    }
    check_old(&found.tables)?;
    if fresh {
        return Ok(Start::Fresh { leftovers });
    }
    check_foreign(&found.tables)?;
    let Some(checkpoint) = &found.checkpoint else {
        check_unknown(&found.tables)?;
        return Ok(Start::Fresh { leftovers });
    };
    checkpoint
        .resumes(asked)
        .map_err(|m| Failure::new(m.remedy(), m))?;
    if checkpoint.phase <= Phase::Prepare {
        return Ok(Start::Fresh { leftovers });
    }
    check_resumable(checkpoint, &found)?;
    Ok(Start::Resume(Box::new(checkpoint.clone())))
}

/// A source table, whether there is a new table beside it, and an old one.
pub(crate) type Beside<'a> = (&'a TableName, bool, bool);

/// Returns whether an earlier run of the job `asked` for has swapped its
/// `tables`, so that only the cleaning up is left.
///
/// # Errors
///
/// A failure if it was another job, or if only some look swapped.
pub(crate) fn is_ended(
    checkpoint: &Checkpoint,
    tables: &[Beside<'_>],
    asked: &JobIdentity,
) -> Result<bool, Failure> {
    match swapped(checkpoint, tables) {
        Swapped::All if checkpoint.resumes(asked).is_err() => Err(unfinished_cleanup(checkpoint)),
        Swapped::All => Ok(true),
        Swapped::Some => Err(swapped_in_part(tables)),
        Swapped::None => Ok(false),
    }
}

impl Found {
    /// Returns the new tables of the earlier job that aren't beside any table of
    /// this one: starting anew drops the checkpoint that tells of them.
    pub(crate) fn others(&self) -> Vec<TableName> {
        let is_here = |source: &TableName| self.tables.iter().any(|table| table.source == *source);
        let earlier = self
            .checkpoint
            .iter()
            .flat_map(|checkpoint| &checkpoint.tables);
        earlier
            .filter(|progress| !is_here(&progress.source))
            .map(|progress| progress.target.clone())
            .collect()
    }

    fn leftovers(&self) -> bool {
        self.checkpoint.is_some()
            || self.state
            || self
                .tables
                .iter()
                .any(|table| table.shadow || table.foreign_state)
    }
}

/// How many of a job's tables have been swapped.
enum Swapped {
    All,
    /// Which no rename leaves behind: it is one statement, and atomic.
    Some,
    None,
}

/// After the rename the shadows' names are free and the old tables stand; the
/// phase is noted before the rename is sent, and the next one after it.
fn swapped(checkpoint: &Checkpoint, tables: &[Beside<'_>]) -> Swapped {
    let one = |(_, shadow, old): &Beside<'_>| match checkpoint.phase {
        Phase::Cleanup | Phase::Done => !shadow,
        Phase::Cutover => !shadow && *old,
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
    };
    // A checkpoint of other tables can't be told anything about by these.
    let covers = |(source, ..): &Beside<'_>| checkpoint.job.tables.contains(source);
    let covered: Vec<bool> = tables
        .iter()
        .filter(|table| covers(table))
        .map(one)
        .collect();
    if !covered.contains(&true) {
        Swapped::None
    } else if covered.contains(&false) {
        Swapped::Some
    } else {
        Swapped::All
    }
}

fn check_resumable(checkpoint: &Checkpoint, found: &Found) -> Result<(), Failure> {
    let state = |why: String| Err(Failure::new(Remedy::State, anyhow::anyhow!(why)));
    for (progress, table) in checkpoint.tables.iter().zip(&found.tables) {
        if !table.shadow {
            return state(format!(
                "the checkpoint tells of table {}, which is gone: start anew with --fresh",
                progress.target.plain()
            ));
        }
        progress
            .check_source(&table.source_create)
            .map_err(|m| Failure::new(m.remedy(), m))?;
    }
    if checkpoint.server_uuid != found.server_uuid {
        return state(format!(
            "the checkpoint is of server {}, this is server {}: its binary log positions \
             mean nothing here; connect to that server, or start anew with --fresh",
            checkpoint.server_uuid, found.server_uuid
        ));
    }
    if checkpoint.tables.len() != found.tables.len() || checkpoint.position.is_none() {
        return state(
            "the checkpoint lacks a table or the position: start anew with --fresh".to_owned(),
        );
    }
    Ok(())
}

fn check_old(tables: &[FoundTable]) -> Result<(), Failure> {
    let old = names(tables, |table| table.old.then_some(&table.names.old));
    if old.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "table {old} exists, an earlier job kept it: rename it, or drop it if nobody needs it"
    )))
}

/// Another job's shadow is none of this one's, even if it has the same name.
fn check_foreign(tables: &[FoundTable]) -> Result<(), Failure> {
    let foreign = names(tables, |table| {
        table.foreign_state.then_some(&table.names.state)
    });
    if foreign.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Remedy::State,
        anyhow::anyhow!(
            "another job left its checkpoint in {foreign}: run that job to its end with the tables in \
             its own order, or remove what it left with `oxferry cleanup --execute`, or start anew \
             with --fresh"
        ),
    ))
}

fn check_unknown(tables: &[FoundTable]) -> Result<(), Failure> {
    let shadows = names(tables, |table| table.shadow.then_some(&table.names.shadow));
    if shadows.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Remedy::State,
        anyhow::anyhow!(
            "table {shadows} exists, but no checkpoint tells what it is (a job over several tables \
             keeps its own beside the first of them): look at it, then remove it with `oxferry \
             cleanup --execute` or start anew with --fresh"
        ),
    ))
}

fn names<'a>(
    tables: &'a [FoundTable],
    name: impl Fn(&'a FoundTable) -> Option<&'a TableName>,
) -> String {
    let names: Vec<String> = tables
        .iter()
        .filter_map(name)
        .map(TableName::plain)
        .collect();
    names.join(", ")
}

fn swapped_in_part(tables: &[Beside<'_>]) -> Failure {
    let is = |(source, shadow, old): &Beside<'_>| {
        format!("{} {}", source.plain(), as_text(*shadow, *old))
    };
    let seen: Vec<String> = tables.iter().map(is).collect();
    Failure::new(
        Remedy::Ambiguous,
        anyhow::anyhow!(
            "an earlier run of this job was ended while it swapped its tables, which happens to all or \
             none, but now some look swapped and some don't, so somebody else renamed or dropped one: {}",
            seen.join("; ")
        ),
    )
}

const fn as_text(shadow: bool, old: bool) -> &'static str {
    match (shadow, old) {
        (true, true) => "has a new and an old table beside it",
        (true, false) => "has a new table beside it",
        (false, true) => "has an old table beside it",
        (false, false) => "has neither a new nor an old table beside it",
    }
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

    fn beside(source: TableName, shadow: bool, old: bool) -> FoundTable {
        FoundTable {
            names: ShadowNames::beside(&source),
            source,
            shadow,
            old,
            foreign_state: false,
            source_create: CREATE.to_owned(),
        }
    }

    fn found(phase: Option<Phase>, shadow: bool, old: bool) -> Found {
        Found {
            checkpoint: phase.map(checkpoint),
            state: phase.is_some(),
            tables: vec![beside(table(), shadow, old)],
            server_uuid: "uuid-1".to_owned(),
        }
    }

    fn start(found: Found, clauses: &str, fresh: bool) -> Result<Start, String> {
        decide(found, &identity(clauses), fresh).map_err(|failure| failure.line())
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
        other.tables[0].source_create = CREATE.replace("int", "bigint");
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

    fn two(phase: Phase, beside_t: (bool, bool), beside_u: (bool, bool)) -> Result<Start, Failure> {
        let u = TableName::new(Ident::new("e").unwrap(), Ident::new("u").unwrap());
        let job = JobIdentity::migrate(vec![table(), u.clone()], vec!["a".into(), "b".into()]);
        let mut checkpoint = checkpoint(phase);
        checkpoint.job = job.clone();
        let shadow = ShadowNames::beside(&u).shadow;
        let mut progress = TableProgress::new(u.clone(), shadow, CopyMode::Ranged);
        progress.source_create = CREATE.to_owned();
        checkpoint.tables.push(progress);
        let found = Found {
            checkpoint: Some(checkpoint),
            state: true,
            tables: vec![
                beside(table(), beside_t.0, beside_t.1),
                beside(u, beside_u.0, beside_u.1),
            ],
            server_uuid: "uuid-1".to_owned(),
        };
        decide(found, &job, false)
    }

    #[test]
    fn several_tables_are_swapped_all_or_none() {
        let (before, after) = ((true, false), (false, true));
        assert!(matches!(
            two(Phase::Cutover, before, before),
            Ok(Start::Resume(_))
        ));
        assert!(matches!(
            two(Phase::Cutover, after, after),
            Ok(Start::CleanUp(_))
        ));
        // Cleaning up has come to the second of them.
        let dropped = (false, false);
        assert!(matches!(
            two(Phase::Cleanup, dropped, after),
            Ok(Start::CleanUp(_))
        ));
        for (t, u) in [(before, after), (after, before)] {
            let refused = two(Phase::Cutover, t, u).unwrap_err();
            assert_eq!(refused.remedy(), Remedy::Ambiguous);
            assert!(refused.line().contains("e.u has"), "{}", refused.line());
        }
        assert!(
            two(Phase::Copy, before, dropped)
                .unwrap_err()
                .line()
                .contains("e._u_oxnew, which is gone")
        );
        assert!(
            two(Phase::Copy, before, after)
                .unwrap_err()
                .line()
                .contains("_u_oxold exists")
        );
    }

    #[test]
    fn tables_that_only_the_earlier_job_had_are_named() {
        let mut found = found(Some(Phase::Copy), true, false);
        assert!(found.others().is_empty());
        let u = TableName::new(Ident::new("e").unwrap(), Ident::new("u").unwrap());
        found.tables = vec![beside(u, false, false)];
        let others: Vec<String> = found.others().iter().map(TableName::plain).collect();
        assert_eq!(others, ["d._t_oxnew"]);
    }

    #[test]
    fn another_jobs_checkpoint_beside_a_later_table_is_not_overlooked() {
        for phase in [None, Some(Phase::Copy)] {
            let mut other = found(phase, phase.is_some(), false);
            other.tables[0].foreign_state = true;
            let refused = start(other.clone(), "FORCE", false);
            assert!(refused.unwrap_err().contains("_t_oxstate"));
            let told = start(other, "FORCE", true);
            assert_eq!(told, Ok(Start::Fresh { leftovers: true }));
        }
    }
}

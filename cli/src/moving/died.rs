//! Which of the moves that died in their switch, or after it, is the one that is
//! asked for now. Knows no server.

use oxferry_cutover::{Leftover, LeftoverError};
use oxferry_schema::{Remedy, TableName, Wanted};
use oxferry_state::{Checkpoint, TargetServer};

use crate::{args::Announced, failure::Failure};

/// What is left to do about a move that died.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Left {
    /// Nothing: the source is as it was.
    Nothing,
    /// What was done to the source must be undone.
    Undo(Leftover),
    /// The switch was made, or, by the operator's word, announced: it is final.
    Final,
    /// The switch was made, and can be taken back.
    TakeBack,
    /// The operator says that it was announced; it can be taken back.
    AnnouncedTakeBack,
}

/// Decides what is left to do about a move, given what its checkpoint notes of the
/// target, and where the operator says that the applications are.
///
/// # Errors
///
/// A failure where nobody knows where the applications write.
pub(super) fn left(target: &TargetServer, said: Option<Announced>) -> Result<Left, Failure> {
    let has_way_back = target.reverse.is_some();
    if target.switched {
        return Ok(if has_way_back {
            Left::TakeBack
        } else {
            Left::Final
        });
    }
    let Some(lock) = target.source_lock.as_deref() else {
        return Ok(Left::Nothing);
    };
    let mut leftover: Leftover = lock
        .parse()
        .map_err(|error: LeftoverError| Failure::new(Remedy::State, error))?;
    match (leftover.announced, said) {
        (true, Some(Announced::Target)) if has_way_back => Ok(Left::AnnouncedTakeBack),
        (true, Some(Announced::Target)) => Ok(Left::Final),
        (true, None) => Err(Failure::new(
            Remedy::Ambiguous,
            anyhow::anyhow!(
                "an earlier run died while it sent the applications to the target: look where they \
                 write, then run the same command with --announced target or --announced source"
            ),
        )),
        (true, Some(Announced::Source)) | (false, _) => {
            leftover.announced = false;
            Ok(Left::Undo(leftover))
        }
    }
}

/// What is asked for, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) wanted: &'a Wanted,
    /// `@@server_uuid` of the source and of the target at hand.
    pub(super) servers: (&'a str, &'a str),
    /// `lower_case_table_names` of the source.
    pub(super) lower_case: u8,
    /// The tables that the source has now.
    pub(super) on_source: &'a [TableName],
}

/// Chooses among the checkpoints that were `found`; the newest one of a move,
/// since that of a way back is kept on the source, too.
///
/// # Errors
///
/// A failure where a move died that is neither the one that is asked for nor
/// without any of its tables: whoever goes on with it would do something else than
/// is asked for.
pub(super) fn choose(
    found: Vec<Checkpoint>,
    asked: Asked<'_>,
) -> Result<Option<Checkpoint>, Failure> {
    let (source, target) = asked.servers;
    let died = |checkpoint: &Checkpoint| {
        let target = checkpoint.target.as_ref();
        target.is_some_and(|t| t.switched || t.source_lock.is_some())
    };
    let mut newest: Option<Checkpoint> = None;
    for checkpoint in found {
        if !checkpoint.is_of_move_between(source, target) || !died(&checkpoint) {
            continue;
        }
        if !is_asked_for(&checkpoint, asked)? {
            continue;
        }
        let newer = newest
            .as_ref()
            .is_none_or(|known| known.sequence <= checkpoint.sequence);
        if newer {
            newest = Some(checkpoint);
        }
    }
    Ok(newest)
}

fn is_asked_for(checkpoint: &Checkpoint, asked: Asked<'_>) -> Result<bool, Failure> {
    let takes = |table: &TableName| asked.wanted.takes(table, asked.lower_case);
    let moved: Vec<&TableName> = checkpoint.tables.iter().map(|t| &t.source).collect();
    if !moved.iter().any(|table| takes(table)) {
        return Ok(false);
    }
    let same = |one: &TableName, other: &TableName| {
        let [one, other] = [one, other].map(TableName::plain);
        one == other || asked.lower_case != 0 && one.to_lowercase() == other.to_lowercase()
    };
    let more = asked.on_source.iter().chain(&asked.wanted.tables);
    let mut more = more.filter(|table| takes(table));
    let more = more.find(|table| !moved.iter().any(|known| same(known, table)));
    let less = moved.iter().find(|table| !takes(table));
    let differs = match (less, more) {
        (None, None) => return Ok(true),
        (Some(less), _) => format!("which moved {}, too", less.plain()),
        (None, Some(more)) => format!(
            "which didn't move {0} (--exclude {0} leaves it out)",
            more.plain()
        ),
    };
    Err(Failure::new(
        Remedy::Usage,
        anyhow::anyhow!(
            "an earlier move, of {}, died in its switch or after it: first run that one again, {differs}",
            checkpoint.job.name
        ),
    ))
}

#[cfg(test)]
mod tests {
    use oxferry_schema::Place;
    use oxferry_state::{CopyMode, JobIdentity, TableProgress};

    use super::*;

    fn name(text: &str) -> TableName {
        match Place::parse(text).unwrap() {
            Place::Table(name) => name,
            Place::Database(_) => panic!("{text}"),
        }
    }

    fn died(tables: &[&str], target: &str, sequence: u64) -> Checkpoint {
        let names: Vec<TableName> = tables.iter().map(|table| name(table)).collect();
        let job = JobIdentity::moving(names.clone(), Vec::new());
        let mut checkpoint = Checkpoint::new(job, "1", "s").to_server(target);
        let table =
            |name: &TableName| TableProgress::new(name.clone(), name.clone(), CopyMode::Ranged);
        checkpoint.tables = names.iter().map(table).collect();
        checkpoint.target.as_mut().unwrap().switched = true;
        checkpoint.sequence = sequence;
        checkpoint
    }

    fn choice(
        found: Vec<Checkpoint>,
        wanted: &Wanted,
        here: &[&str],
    ) -> Result<Option<u64>, String> {
        let here: Vec<TableName> = here.iter().map(|table| name(table)).collect();
        let asked = Asked {
            wanted,
            servers: ("s", "t"),
            lower_case: 0,
            on_source: &here,
        };
        let chosen = choose(found, asked).map_err(|failure| failure.line())?;
        Ok(chosen.map(|checkpoint| checkpoint.sequence))
    }

    fn tables(names: &[&str]) -> Wanted {
        Wanted {
            tables: names.iter().map(|table| name(table)).collect(),
            ..Wanted::default()
        }
    }

    #[test]
    fn a_source_is_opened_unless_the_switch_is_made_or_may_be_announced() {
        let target = |lock: Option<&str>, switched| {
            let mut target = died(&["a.t"], "t", 1).target.unwrap();
            (target.switched, target.source_lock) = (switched, lock.map(str::to_owned));
            target
        };
        let by = |lock, switched, said| left(&target(lock, switched), said);
        let renamed: Leftover = "renamed".parse().unwrap();
        let both = [Announced::Source, Announced::Target];
        assert_eq!(by(None, false, None).unwrap(), Left::Nothing);
        for said in both.map(Some).into_iter().chain([None]) {
            let undone = by(Some("renamed"), false, said).unwrap();
            assert_eq!(undone, Left::Undo(renamed));
            assert_eq!(by(Some("renamed"), true, said).unwrap(), Left::Final);
        }
        let unknown = by(Some("announced renamed"), false, None).unwrap_err();
        assert_eq!(unknown.remedy(), Remedy::Ambiguous);
        let said = |said| by(Some("announced renamed"), false, Some(said)).unwrap();
        assert_eq!(said(Announced::Source), Left::Undo(renamed));
        assert_eq!(said(Announced::Target), Left::Final);
    }

    #[test]
    fn the_newest_checkpoint_of_the_same_move_is_chosen() {
        let found = || {
            vec![
                died(&["a.t"], "t", 7),
                died(&["a.t"], "t", 9),
                died(&["b.t"], "t", 11),
            ]
        };
        assert_eq!(choice(found(), &tables(&["a.t"]), &["b.t"]), Ok(Some(9)));
        assert_eq!(choice(found(), &tables(&["c.t"]), &["c.t"]), Ok(None));
    }

    #[test]
    fn a_move_to_another_server_or_one_whose_tables_are_excluded_is_left_alone() {
        let all = Wanted {
            exclude: vec![Place::Database(name("a.t").schema)],
            ..Wanted::default()
        };
        assert_eq!(
            choice(vec![died(&["a.t"], "t", 1)], &all, &["b.t"]),
            Ok(None)
        );
        let elsewhere = vec![died(&["a.t"], "x", 1)];
        assert_eq!(choice(elsewhere, &Wanted::default(), &["b.t"]), Ok(None));
    }

    #[test]
    fn a_move_that_takes_more_or_less_than_the_one_that_died_is_refused() {
        let more = choice(vec![died(&["a.t"], "t", 1)], &Wanted::default(), &["b.u"]);
        assert!(more.unwrap_err().contains("which didn't move b.u"));
        let more = choice(
            vec![died(&["a.t"], "t", 1)],
            &tables(&["a.t", "b.gone"]),
            &[],
        );
        assert!(more.unwrap_err().contains("which didn't move b.gone"));
        let less = choice(vec![died(&["a.t", "a.u"], "t", 1)], &tables(&["a.t"]), &[]);
        assert!(less.unwrap_err().contains("which moved a.u, too"));
    }
}

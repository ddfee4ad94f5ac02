//! How a move begins: anew, where an earlier run stopped, or not at all.

use oxferry_schema::{Remedy, TableName};
use oxferry_state::{Checkpoint, JobIdentity, Phase};

use crate::failure::Failure;

/// What stands on the target.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The checkpoint of an earlier run.
    pub(super) checkpoint: Option<Checkpoint>,
    /// Whether the checkpoint's table exists, whatever it holds.
    pub(super) state: bool,
    /// The target tables that exist.
    pub(super) targets: Vec<TableName>,
    /// `@@server_uuid` of the source and of the target at hand.
    pub(super) servers: (String, String),
}

/// How the move begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Start {
    /// From nothing; these tables of an earlier run are dropped first.
    Fresh {
        /// What an earlier run has made.
        leftovers: Vec<TableName>,
        /// Whether its checkpoint is forgotten.
        forgets: bool,
    },
    /// Where the checkpoint says.
    Resume(Box<Checkpoint>),
    /// The target has taken over already; only the cleaning up is left.
    CleanUp(Box<Checkpoint>),
}

/// Decides how the move `asked` for begins, given what was `found`.
///
/// # Errors
///
/// A failure that names what is in the way and what to do; nothing has been
/// changed.
pub(super) fn decide(found: Found, asked: &JobIdentity, fresh: bool) -> Result<Start, Failure> {
    let Some(checkpoint) = found.checkpoint else {
        // Its table alone tells of nothing: whatever else stands there is refused.
        return Ok(Start::Fresh {
            leftovers: Vec::new(),
            forgets: found.state,
        });
    };
    let here = check_servers(&checkpoint, &found.servers);
    let switched = checkpoint.target.as_ref().is_some_and(|t| t.switched);
    if switched {
        here?;
        let same = checkpoint.resumes(asked);
        same.map_err(|m| Failure::new(m.remedy(), m).context("an earlier move isn't cleaned up"))?;
        return Ok(Start::CleanUp(Box::new(checkpoint)));
    }
    if fresh {
        let locked = checkpoint
            .target
            .as_ref()
            .and_then(|t| t.source_lock.as_ref());
        if let Some(lock) = locked {
            return Err(state(&format!(
                "an earlier run may have left the source shut ({lock}): run the same command without \
                 --fresh, which undoes that first"
            )));
        }
    } else {
        checkpoint
            .resumes(asked)
            .map_err(|m| Failure::new(m.remedy(), m))?;
    }
    if fresh {
        // What was made on another server tells nothing of the tables here.
        let made = here.map(|()| made_by(&checkpoint, &found.targets));
        return Ok(Start::Fresh {
            leftovers: made.unwrap_or_default(),
            forgets: true,
        });
    }
    here?;
    if checkpoint.phase <= Phase::Prepare {
        return Ok(Start::Fresh {
            leftovers: made_by(&checkpoint, &found.targets),
            forgets: true,
        });
    }
    check_targets(&checkpoint, &found.targets)?;
    Ok(Start::Resume(Box::new(checkpoint)))
}

/// Returns the tables that the earlier run has made and that are there.
fn made_by(checkpoint: &Checkpoint, targets: &[TableName]) -> Vec<TableName> {
    let made = checkpoint.target.iter().flat_map(|target| &target.made);
    made.filter(|table| targets.contains(table))
        .cloned()
        .collect()
}

fn check_servers(
    checkpoint: &Checkpoint,
    (source, target): &(String, String),
) -> Result<(), Failure> {
    let held = checkpoint.target.as_ref().map(|t| &t.server_uuid);
    let pairs = [
        ("source", Some(&checkpoint.server_uuid), source),
        ("target", held, target),
    ];
    for (which, held, now) in pairs {
        let held = held.map(String::as_str).unwrap_or_default();
        if held != now {
            return Err(state(&format!(
                "the checkpoint's {which} is server {held}, this is server {now}: connect to that \
                 one, or start anew with --fresh"
            )));
        }
    }
    Ok(())
}

fn check_targets(checkpoint: &Checkpoint, targets: &[TableName]) -> Result<(), Failure> {
    let gone = checkpoint
        .tables
        .iter()
        .find(|t| !targets.contains(&t.target));
    if let Some(table) = gone {
        return Err(state(&format!(
            "the checkpoint tells of table {} on the target, which is gone: start anew with --fresh",
            table.target.plain()
        )));
    }
    if checkpoint.position.is_none() || checkpoint.tables.is_empty() {
        return Err(state(
            "the checkpoint lacks the tables or the position: start anew with --fresh",
        ));
    }
    Ok(())
}

fn state(why: &str) -> Failure {
    Failure::new(Remedy::State, anyhow::anyhow!("{why}"))
}

#[cfg(test)]
mod tests {
    use oxferry_schema::Ident;
    use oxferry_state::{CopyMode, TableProgress};

    use super::*;

    fn table(name: &str) -> TableName {
        TableName::new(Ident::new("d").unwrap(), Ident::new(name).unwrap())
    }

    fn job(to: &str) -> JobIdentity {
        JobIdentity::moving(vec![table("t")], vec![format!("d.t to {to}")])
    }

    fn found(phase: Phase, change: impl FnOnce(&mut Checkpoint)) -> Found {
        let mut checkpoint = Checkpoint::new(job("d.t"), "1", "s").to_server("t");
        checkpoint.phase = phase;
        checkpoint.position = Some(oxferry_binlog::Position {
            file: "binlog.000001:4".parse().unwrap(),
            gtids: None,
        });
        let progress = TableProgress::new(table("t"), table("t"), CopyMode::Ranged);
        checkpoint.tables = vec![progress];
        change(&mut checkpoint);
        Found {
            checkpoint: Some(checkpoint),
            state: true,
            targets: vec![table("t")],
            servers: ("s".to_owned(), "t".to_owned()),
        }
    }

    fn start(found: Found, to: &str, fresh: bool) -> Result<Start, String> {
        decide(found, &job(to), fresh).map_err(|failure| failure.line())
    }

    fn made(checkpoint: &mut Checkpoint) {
        checkpoint.target.as_mut().unwrap().made = vec![table("t"), table("gone")];
    }

    #[test]
    fn without_a_checkpoint_a_move_begins_anew() {
        let nothing = Found {
            checkpoint: None,
            state: false,
            ..found(Phase::Copy, |_| ())
        };
        let anew = |forgets| {
            let leftovers = Vec::new();
            Ok(Start::Fresh { leftovers, forgets })
        };
        assert_eq!(start(nothing.clone(), "d.t", false), anew(false));
        let bare = Found {
            state: true,
            ..nothing
        };
        assert_eq!(start(bare, "d.t", false), anew(true));
    }

    #[test]
    fn an_interrupted_move_goes_on_or_is_begun_anew() {
        let begun = found(Phase::Copy, made);
        assert!(matches!(
            start(begun.clone(), "d.t", false),
            Ok(Start::Resume(_))
        ));
        let anew = Start::Fresh {
            leftovers: vec![table("t")],
            forgets: true,
        };
        assert_eq!(start(begun.clone(), "d.t", true), Ok(anew.clone()));
        assert!(start(begun, "d.u", false).unwrap_err().contains("d.u"));
        assert_eq!(start(found(Phase::Prepare, made), "d.t", false), Ok(anew));
    }

    #[test]
    fn tables_that_the_job_did_not_make_are_never_dropped() {
        let anew = start(found(Phase::Copy, |_| ()), "d.t", true);
        assert_eq!(
            anew,
            Ok(Start::Fresh {
                leftovers: Vec::new(),
                forgets: true
            })
        );
    }

    #[test]
    fn tables_of_another_server_are_never_dropped() {
        let elsewhere = |phase| {
            let mut found = found(phase, made);
            found.servers.1 = "x".to_owned();
            found
        };
        let leftovers = Vec::new();
        assert_eq!(
            start(elsewhere(Phase::Copy), "d.t", true),
            Ok(Start::Fresh {
                leftovers,
                forgets: true
            })
        );
        let unasked = start(elsewhere(Phase::Prepare), "d.t", false);
        assert!(unasked.unwrap_err().contains("target is server t"));
        let mut switched = elsewhere(Phase::Cutover);
        let checkpoint = switched.checkpoint.as_mut().unwrap();
        checkpoint.target.as_mut().unwrap().switched = true;
        let refused = start(switched, "d.t", false).unwrap_err();
        assert!(refused.contains("target is server t"), "{refused}");
    }

    #[test]
    fn other_servers_and_missing_tables_are_named() {
        let mut other = found(Phase::Copy, |_| ());
        other.servers.1 = "x".to_owned();
        assert!(
            start(other, "d.t", false)
                .unwrap_err()
                .contains("target is server t")
        );
        let mut gone = found(Phase::Copy, |_| ());
        gone.targets.clear();
        assert!(
            start(gone, "d.t", false)
                .unwrap_err()
                .contains("d.t on the target")
        );
    }

    #[test]
    fn a_source_that_may_be_shut_is_not_forgotten() {
        let shut = found(Phase::Cutover, |checkpoint| {
            checkpoint.target.as_mut().unwrap().source_lock = Some("renamed".to_owned());
        });
        assert!(
            start(shut.clone(), "d.t", true)
                .unwrap_err()
                .contains("renamed")
        );
        assert!(matches!(start(shut, "d.t", false), Ok(Start::Resume(_))));
    }

    #[test]
    fn a_switched_move_is_only_cleaned_up() {
        let switched = found(Phase::Cutover, |checkpoint| {
            checkpoint.target.as_mut().unwrap().switched = true;
        });
        for fresh in [false, true] {
            let start = start(switched.clone(), "d.t", fresh);
            assert!(matches!(start, Ok(Start::CleanUp(_))));
        }
        assert!(start(switched, "d.u", false).is_err());
    }
}

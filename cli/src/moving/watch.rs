//! Writes of others to the target: looked for in its binary log, from the
//! moment at which the tables were made until the switch.

use std::time::{Duration, Instant};

use mysql_async::Conn;
use oxferry_binlog::{FilePosition, ForeignWrites, Position, Seen, StreamConfig, StreamError};
use oxferry_schema::{Remedy, Table, TableName};
use tokio::sync::watch;

use super::{job::Move, others::Others};
use crate::{
    args::OnOff,
    failure::Failure,
    job::{Script, Site},
};

/// How often it is noted up to where the log was looked through.
const NOTE_EVERY: Duration = Duration::from_secs(5);

/// How long the rest of the log may take at the switch.
const REST_MAX: Duration = Duration::from_secs(30);

/// How far the binary log of the side that is written to has been looked through.
#[derive(Debug)]
pub(super) struct Guard {
    state: watch::Sender<State>,
    /// Says what it means that somebody else wrote.
    blame: fn(&str) -> Failure,
}

#[derive(Clone, Debug)]
enum State {
    /// Nobody looks.
    Off,
    /// All before this is the job's own.
    Looked(FilePosition),
    /// Somebody else wrote.
    Foreign(String),
    /// The target takes over at this place: others may write; what they did, should
    /// it not take over after all.
    Over(FilePosition, Option<String>),
}

impl Guard {
    /// Begins with nothing looked at.
    pub(super) fn new() -> Self {
        Self {
            state: watch::Sender::new(State::Off),
            blame: foreign,
        }
    }

    /// The same for the source, while a move can be taken back.
    pub(super) fn on_source() -> Self {
        Self {
            blame: straggler,
            ..Self::new()
        }
    }

    /// Waits until everything that the log of `site` holds has been looked at,
    /// where somebody looks at all, and ends the looking. Returns the log's end.
    ///
    /// # Errors
    ///
    /// A failure that names what somebody else wrote.
    pub(super) async fn finish(&self, site: &Site, conn: &mut Conn) -> Result<Position, Failure> {
        let looked = match &*self.state.borrow() {
            State::Looked(seen) => Some(seen.clone()),
            State::Off | State::Foreign(_) | State::Over(..) => None,
        };
        let end = site.position_after(conn, looked.as_ref()).await?;
        self.finish_at(&end.file).await?;
        Ok(end)
    }

    async fn finish_at(&self, end: &FilePosition) -> Result<(), Failure> {
        let mut state = self.state.subscribe();
        let enough = state.wait_for(|state| match state {
            State::Looked(seen) => seen >= end,
            State::Off | State::Foreign(_) | State::Over(..) => true,
        });
        let found = match tokio::time::timeout(REST_MAX, enough).await {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) | Err(_) => {
                let why = anyhow::anyhow!(
                    "the binary log that writes of others would be in could not be looked through within {} s",
                    REST_MAX.as_secs()
                );
                return Err(Failure::new(Remedy::Retry, why));
            }
        };
        match found {
            State::Foreign(what) => Err((self.blame)(&what)),
            State::Off | State::Over(..) => Ok(()),
            State::Looked(seen) => {
                self.state.send_replace(State::Over(seen, None));
                Ok(())
            }
        }
    }

    /// Looks on, after an attempt that failed.
    pub(super) fn resume(&self) {
        self.state.send_modify(|state| {
            if let State::Over(seen, missed) = state {
                *state = match missed.take() {
                    Some(what) => State::Foreign(what),
                    None => State::Looked(seen.clone()),
                };
            }
        });
    }

    /// Notes what was looked at, unless the target has taken over.
    fn looked(&self, end: &FilePosition) {
        self.state.send_modify(|state| match state {
            State::Off | State::Looked(_) => *state = State::Looked(end.clone()),
            State::Over(seen, _) => seen.clone_from(end),
            State::Foreign(_) => {}
        });
    }

    /// Returns whether it counts what somebody else writes.
    fn found(&self, what: &str) -> bool {
        self.state.send_if_modified(|state| {
            if let State::Over(_, missed) = state {
                missed.get_or_insert_with(|| what.to_owned());
                return false;
            }
            *state = State::Foreign(what.to_owned());
            true
        })
    }
}

/// Looks through the target's binary log; ends with an error only.
pub(super) async fn run(script: &Script<'_, Move>) -> Failure {
    let job = script.kind;
    let start = match position(script).await {
        Ok(Some(start)) => start,
        Ok(None) => return std::future::pending().await,
        Err(failure) => return failure,
    };
    let prepared = script.prepared.tables.iter();
    let tables: Vec<Table> = prepared.map(|table| table.target.clone()).collect();
    let others = match Others::new(job, script.prepared) {
        Ok(others) => others,
        Err(failure) => return failure,
    };
    let lookout = Lookout {
        guard: &job.guard,
        site: &job.core.target,
        mark: &job.core.state,
        tables,
        others,
    };
    let note = async |seen| {
        let note = |target: &mut oxferry_state::TargetServer| target.position = Some(seen);
        script.saver.save_target(note).await
    };
    look(lookout, start, note).await
}

/// Returns from where on the log is looked through, if it is.
async fn position(script: &Script<'_, Move>) -> Result<Option<Position>, Failure> {
    let job = script.kind;
    if job.args.detect_foreign_writes == OnOff::Off {
        return Ok(None);
    }
    if !job.core.target.info.log_bin {
        tracing::warn!(
            "the target has no binary log: writes of others to its tables are found by comparing only"
        );
        return Ok(None);
    }
    if let Some(noted) = script.saver.target_position().await {
        return Ok(Some(noted));
    }
    let mut conn = job.core.target.connect("watch").await?;
    Ok(Some(job.core.target.position(&mut conn).await?))
}

/// What is looked through.
pub(super) struct Lookout<'a> {
    /// What is told of it.
    pub(super) guard: &'a Guard,
    /// The server.
    pub(super) site: &'a Site,
    /// The table whose rows begin the job's own transactions.
    pub(super) mark: &'a TableName,
    /// The tables that nobody else may write to.
    pub(super) tables: Vec<Table>,
    /// Whose rows others may write, where the tables hold several tenants'.
    pub(super) others: Option<Others>,
}

/// Looks through a binary log from `start` on, and has it noted now and then up to
/// where; ends with an error only.
pub(super) async fn look(
    lookout: Lookout<'_>,
    start: Position,
    note: impl AsyncFn(Position) -> Result<(), Failure>,
) -> Failure {
    match looked(lookout, start, note).await {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

async fn looked(
    lookout: Lookout<'_>,
    start: Position,
    note: impl AsyncFn(Position) -> Result<(), Failure>,
) -> Result<std::convert::Infallible, Failure> {
    let Lookout {
        guard,
        site,
        mark,
        tables,
        mut others,
    } = lookout;
    let config = StreamConfig::new(site.opts("watch"));
    guard.looked(&start.file);
    let mut log = ForeignWrites::open(config, start, mark.clone(), tables).await?;
    let mut noted = Instant::now();
    let mut reached = None;
    loop {
        let due = others.as_ref().and_then(Others::due);
        let write = match next(&mut log, due).await? {
            Some(Seen::Foreign(write)) => match &mut others {
                Some(others) => others.sort(*write).await?,
                None => Some(*write),
            },
            Some(Seen::Progress { end }) => {
                reached = Some(end);
                None
            }
            None => match &mut others {
                Some(others) => others.look_up().await?,
                None => None,
            },
        };
        if let Some(what) = write.map(|write| write.to_string())
            && guard.found(&what)
        {
            return Err((guard.blame)(&what));
        }
        // What waits to be looked up may be in front of the place.
        let is_settled = others.as_ref().is_none_or(|others| others.due().is_none());
        let Some(end) = reached.take_if(|_| is_settled) else {
            continue;
        };
        guard.looked(&end);
        if noted.elapsed() >= NOTE_EVERY {
            noted = Instant::now();
            note(log.boundary().clone()).await?;
        }
    }
}

/// Waits for the next step, until `due`.
async fn next(log: &mut ForeignWrites, due: Option<Instant>) -> Result<Option<Seen>, StreamError> {
    let Some(due) = due else {
        return log.next().await.map(Some);
    };
    if Instant::now() >= due {
        return Ok(None);
    }
    match tokio::time::timeout_at(due.into(), log.next()).await {
        Ok(seen) => seen.map(Some),
        Err(_) => Ok(None),
    }
}

fn foreign(what: &str) -> Failure {
    Failure::new(
        Remedy::State,
        anyhow::anyhow!(
            "somebody else writes to the target: {what}; find out who, and start anew with --fresh, or \
             allow it with --detect-foreign-writes off"
        ),
    )
}

fn straggler(what: &str) -> Failure {
    Failure::new(
        Remedy::State,
        anyhow::anyhow!(
            "somebody still writes to the source: {what}; find out who, the target lacks it"
        ),
    )
}

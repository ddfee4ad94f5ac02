//! Looking, while a move runs, whether its source still follows the primary.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use mysql_async::Conn;
use oxferry_schema::Remedy;
use tokio::time::timeout;

use super::{Pair, read_only};
use crate::{
    failure::Failure,
    job::Script,
    moving::{job::Move, replication::channels},
};

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long a look may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How often what is wrong is said again.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// How long replication may rest, or a server be out of reach, before the move
/// ends, with its checkpoint kept.
const STOPPED_MAX: Duration = Duration::from_secs(1800);

/// What a look has shown.
enum Seen {
    /// All is as it should be.
    Fine,
    /// It may mend itself, or somebody is at it.
    Passing(String),
    /// The move can't go on.
    Over(Failure),
}

/// Ends when the move can't go on; else never.
pub(in crate::moving) async fn run(script: &Script<'_, Move>) -> Failure {
    let Some(pair) = script.kind.pair() else {
        return std::future::pending().await;
    };
    let mut watch = Watch {
        pair,
        script,
        sessions: None,
        since: None,
        logged: None,
    };
    loop {
        if let Err(failure) = watch.look().await {
            return failure;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

struct Watch<'a> {
    pair: Pair<'a>,
    script: &'a Script<'a, Move>,
    /// On the source and on the primary.
    sessions: Option<(Conn, Conn)>,
    /// Since when something is wrong.
    since: Option<Instant>,
    logged: Option<Instant>,
}

impl Watch<'_> {
    async fn look(&mut self) -> Result<(), Failure> {
        let seen = match self.see().await {
            Ok(seen) => seen,
            // They are opened anew at the next look.
            Err(failure) if is_passing(failure.remedy()) => Seen::Passing(failure.line()),
            Err(failure) => return Err(failure),
        };
        let what = match seen {
            Seen::Passing(what) => what,
            Seen::Over(failure) => return Err(failure),
            Seen::Fine => {
                if self.since.take().is_some() {
                    self.logged = None;
                    tracing::info!("the source follows its primary again");
                }
                return Ok(());
            }
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            self.logged = Some(Instant::now());
            tracing::warn!(
                for_s = since.elapsed().as_secs(),
                "the source, a replica, gets no changes: {what}"
            );
        }
        if since.elapsed() < STOPPED_MAX {
            return Ok(());
        }
        Err(Failure::new(
            Remedy::Retry,
            anyhow::anyhow!(
                "the source, a replica, has got no changes for {} s: {what}",
                since.elapsed().as_secs()
            ),
        ))
    }

    async fn see(&mut self) -> Result<Seen, Failure> {
        let (mut source, mut primary) = match self.sessions.take() {
            Some(sessions) => sessions,
            None => (
                self.pair.source.connect("replica").await?,
                self.pair.primary.connect("primary").await?,
            ),
        };
        match timeout(ANSWER_MAX, self.see_on(&mut source, &mut primary)).await {
            Ok(seen) => {
                let seen = seen?;
                self.sessions = Some((source, primary));
                Ok(seen)
            }
            Err(_) => Ok(Seen::Passing(format!(
                "no answer for {} s",
                ANSWER_MAX.as_secs()
            ))),
        }
    }

    async fn see_on(&self, source: &mut Conn, primary: &mut Conn) -> Result<Seen, Failure> {
        let channels = channels(source, &self.pair.source.info).await?;
        let Some(channel) = self.pair.channel(&channels) else {
            let error = anyhow::anyhow!("{}", self.pair.elsewhere());
            return Ok(Seen::Over(Failure::new(Remedy::State, error)));
        };
        if let Some(stopped) = channel.stopped() {
            return Ok(Seen::Passing(stopped));
        }
        // At the switch it is the move itself that shuts it.
        let shut = self.script.in_cutover.load(Ordering::Relaxed);
        if !shut && read_only(primary).await? {
            let error = anyhow::anyhow!("{}", super::SHUT);
            return Ok(Seen::Over(Failure::new(Remedy::Retry, error)));
        }
        Ok(Seen::Fine)
    }
}

const fn is_passing(remedy: Remedy) -> bool {
    matches!(remedy, Remedy::Retry | Remedy::Unreachable)
}

//! The shell around the gates: it measures, they decide.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use mysql_async::Opts;
use oxferry_schema::{Remedy, TableName};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    ByHand, FlagFile, Heartbeats, LagGate, LoadGate, MonitorConfig, Pacer, ProbeError, Reason,
    Throttle, Verdict,
    link::{Link, now},
    pacer::Measured,
    replicas::{Replicas, feed},
    verdict::Seconds,
    worst,
};

/// Measures at an interval and publishes the verdict; [`Pacer`]s tell it.
///
/// Where there are replicas it commits a heartbeat per interval to the table
/// that [`oxferry_state::TableStore::create`] makes, and reads it on them: the
/// lag is the age of the oldest beat that a replica doesn't show, by this
/// program's clock alone. That sees what `Seconds_Behind_Source` doesn't:
/// fractions of a second, and a receiver that is stuck or stopped. It needs no
/// privilege on a replica but `SELECT` on that table.
#[derive(Debug)]
pub struct Monitor {
    config: MonitorConfig,
    source: Source,
    heartbeat_table: TableName,
    beats: Heartbeats,
    replicas: Replicas,
    lag: LagGate,
    load: Option<LoadGate>,
    flag: Option<FlagFile>,
    publish: watch::Sender<Measured>,
    discovered_at: Option<Instant>,
    /// Why the last heartbeat, or the last look at the load, failed.
    beat_error: Option<ProbeError>,
    load_error: Option<ProbeError>,
    /// What a person sets while it runs.
    hand: ByHand,
}

struct Source {
    opts: Opts,
    // One each, so that a slow commit doesn't hold up the other.
    beat: Link,
    status: Link,
}

/// Why measuring ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// A replica gave no sample for too long.
    #[error(
        "measuring the lag of replica {replica} failed for {}; bring it back, or leave it out",
        Seconds(*.silent_for)
    )]
    ReplicaSilent {
        /// The replica, as `host:port`.
        replica: String,
        /// For how long.
        silent_for: Duration,
        /// What went wrong last.
        source: Option<Box<ProbeError>>,
    },
    /// The source's load could not be measured for too long.
    #[error("measuring the source's load failed for {}", Seconds(*.silent_for))]
    LoadSilent {
        /// For how long.
        silent_for: Duration,
        /// What went wrong last.
        source: Option<Box<ProbeError>>,
    },
}

impl MonitorError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::ReplicaSilent { .. } | Self::LoadSilent { .. } => Remedy::Unreachable,
        }
    }
}

impl Monitor {
    /// Prepares to watch what `config` says about the server at `source`.
    ///
    /// Nothing is connected to yet. `heartbeat_table` must exist on the source
    /// when [`Monitor::run`] begins, unless no replica is watched. Until the
    /// first round has ended the [`Pacer`] says [`Reason::Starting`].
    #[must_use]
    pub fn new(
        source: Opts,
        heartbeat_table: TableName,
        config: MonitorConfig,
        hand: &ByHand,
    ) -> (Self, Pacer) {
        let now = now();
        let (publish, measured) = watch::channel(Measured {
            verdict: Verdict::Hold {
                reason: Reason::Starting,
                recheck_at: now + config.interval,
            },
            lag: None,
        });
        let replicas = Replicas::new(&config.replicas, config.query_deadline);
        let monitor = Self {
            source: Source {
                beat: Link::new(&source, config.query_deadline),
                status: Link::new(&source, config.query_deadline),
                opts: source,
            },
            heartbeat_table,
            beats: Heartbeats::new(),
            replicas,
            lag: LagGate::new(config.lag),
            load: config
                .threads_running_max
                .map(|max| LoadGate::new(max, now)),
            flag: config.flag_file.clone().map(FlagFile::new),
            publish,
            discovered_at: None,
            beat_error: None,
            load_error: None,
            hand: hand.clone(),
            config,
        };
        (monitor, Pacer::new(measured, hand.clone()))
    }

    /// Measures and publishes until `cancel` is ready. Spawns nothing: the
    /// caller polls.
    ///
    /// # Cancel safety
    ///
    /// May be dropped instead; nothing is left behind but the heartbeat's row.
    ///
    /// # Errors
    ///
    /// [`MonitorError`] when something that must be measured could not be for
    /// a long while. Until then work is held up instead.
    pub async fn run(mut self, cancel: impl Future<Output = ()>) -> Result<(), MonitorError> {
        tokio::select! {
            biased;
            () = cancel => Ok(()),
            error = self.run_until_error() => Err(error),
        }
    }

    /// As [`Monitor::run`], without an end but an error. After one it may be
    /// called again: what couldn't be measured is given its time anew, and the
    /// same [`Pacer`]s tell the verdict.
    pub async fn run_until_error(&mut self) -> MonitorError {
        self.watch().await
    }

    async fn watch(&mut self) -> MonitorError {
        let start = now();
        self.lag.watch_anew(start);
        for replica in self.replicas.names() {
            self.lag.watch(replica, start);
        }
        self.load = self
            .config
            .threads_running_max
            .map(|max| LoadGate::new(max, start));
        let mut ticks = interval(self.config.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.set_limits();
            self.discover().await;
            self.measure().await;
            self.publish(now());
            if let Err(error) = self.check(now()) {
                return error;
            }
        }
    }

    /// Takes over what a person has set anew.
    fn set_limits(&mut self) {
        let limits = self.hand.limits();
        if let Some(lag_max) = limits.lag_max {
            self.lag.set_lag_max(lag_max);
        }
        if let Some(max) = limits.threads_running_max {
            let load = self.load.get_or_insert_with(|| LoadGate::new(max, now()));
            load.set_threads_running_max(max);
        }
    }

    async fn discover(&mut self) {
        let due = self.discovered_at.is_none_or(|at| {
            now().saturating_duration_since(at) >= MonitorConfig::DISCOVERY_INTERVAL
        });
        if !self.config.discover || !due {
            return;
        }
        let first = self.discovered_at.replace(now()).is_none();
        let Source { opts, status, .. } = &mut self.source;
        if let Err(error) = self.replicas.discover(status, opts, &mut self.lag).await {
            let error = &error as &dyn std::error::Error;
            if first {
                tracing::warn!(error, "can't find replicas, give --replica");
            } else {
                tracing::debug!(error, "can't find replicas");
            }
        }
    }

    async fn measure(&mut self) {
        let Source { beat, status, .. } = &mut self.source;
        let sent_at = now();
        let table = &self.heartbeat_table;
        let watches_replicas = !self.replicas.is_empty();
        let beat = async {
            if !watches_replicas {
                return None;
            }
            Some(beat.beat(table).await)
        };
        let threads_running = async {
            self.load.as_ref()?;
            Some(status.threads_running().await)
        };
        let exists = flag_exists(self.flag.as_ref(), self.config.query_deadline);
        let (beat, samples, threads_running, exists) =
            tokio::join!(beat, self.replicas.sample(table), threads_running, exists);

        match beat {
            Some(Ok(number)) => {
                self.beat_error = None;
                self.beats.handle_beat(number, sent_at);
                feed(&mut self.lag, &self.beats, &samples);
            }
            // Without new beats a replica that shows the last one proves nothing.
            Some(Err(error)) => self.beat_error = Some(error),
            None => {}
        }
        match (threads_running, &mut self.load) {
            (Some(Ok(count)), Some(load)) => load.handle_sample(now(), count),
            (Some(Err(error)), _) => self.load_error = Some(error),
            _ => {}
        }
        if let Some(flag) = &mut self.flag {
            flag.handle_sample(exists);
        }
    }

    fn publish(&self, now: Instant) {
        let verdict = self.verdict(now);
        let held_before = self.publish.borrow().verdict.reason().cloned();
        match (held_before, verdict.reason()) {
            (None, Some(reason)) => tracing::debug!(%reason, "work is held up"),
            (Some(reason), None) => tracing::debug!(no_more = %reason, "work goes on"),
            _ => {}
        }
        let lag = self.lag.lag();
        self.publish.send_replace(Measured { verdict, lag });
    }

    fn verdict(&self, now: Instant) -> Verdict {
        let load = self.load.as_ref().map(|gate| gate.poll(now));
        let flag = self.flag.as_ref().map(|flag| flag.poll(now));
        worst([Some(self.lag.poll(now)), load, flag].into_iter().flatten())
    }

    fn check(&mut self, now: Instant) -> Result<(), MonitorError> {
        if let Some((replica, silent_for)) = self.lag.failed(now) {
            let source = self.replicas.take_error(replica);
            return Err(MonitorError::ReplicaSilent {
                replica: replica.to_owned(),
                silent_for,
                source: source.or_else(|| self.beat_error.take()).map(Box::new),
            });
        }
        if let Some(silent_for) = self.load.as_ref().and_then(|gate| gate.failed(now)) {
            return Err(MonitorError::LoadSilent {
                silent_for,
                source: self.load_error.take().map(Box::new),
            });
        }
        Ok(())
    }
}

impl std::fmt::Debug for Source {
    /// Leaves the options out: they hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Source").field(&self.beat).finish()
    }
}

/// Returns whether the flag file exists, `None` where that can't be found out.
async fn flag_exists(flag: Option<&FlagFile>, deadline: Duration) -> Option<bool> {
    let path = flag?.path();
    timeout(deadline, tokio::fs::try_exists(path))
        .await
        .ok()?
        .ok()
}

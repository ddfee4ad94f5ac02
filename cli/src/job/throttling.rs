//! Holding the copy up while replicas lag, the server is busy, or a file says so.

use std::time::{Duration, Instant};

use oxferry_copier::pipeline::Handle;
use oxferry_throttle::{ByHand, Monitor, MonitorConfig, MonitorError, Pacer, Verdict};

use super::{Job, rest::AtRest};
use crate::{
    failure::{Failure, remedied},
    source,
};

remedied!(MonitorError);

/// A job's throttle: measures, and holds the copy up.
#[derive(Debug)]
pub(crate) struct Throttling {
    monitor: tokio::sync::Mutex<Monitor>,
    pacer: Pacer,
}

impl Throttling {
    /// Prepares to measure what the options say.
    pub(crate) fn new(job: &Job, hand: &ByHand) -> Result<Self, Failure> {
        let args = &job.settings.throttle;
        let mut config = MonitorConfig::default();
        config.lag.lag_max = args.max_lag;
        config.threads_running_max = args.max_threads_running;
        config.flag_file.clone_from(&args.throttle_file);
        config.replicas = args
            .replica
            .iter()
            .map(|url| Ok(source::replica_url(url, &job.settings.server)?.opts("lag")))
            .collect::<Result<_, Failure>>()?;
        // A source that is a replica itself must keep up, too.
        if job.primary.is_some() {
            config.replicas.push(job.source.opts("lag"));
        }
        let opts = job.written().opts("throttle");
        let (monitor, pacer) = Monitor::new(opts, job.marks.clone(), config, hand);
        Ok(Self {
            monitor: tokio::sync::Mutex::new(monitor),
            pacer,
        })
    }

    /// Returns what tells whether work may go on.
    pub(crate) fn pacer(&self) -> Pacer {
        self.pacer.clone()
    }

    /// Returns why work is held up, if it is.
    pub(crate) fn reason(&self) -> Option<String> {
        match self.pacer.verdict(Instant::now()) {
            Verdict::Proceed => None,
            Verdict::Hold { reason, .. } => Some(reason.to_string()),
        }
    }

    /// Returns the worst lag seen last.
    pub(crate) fn lag(&self) -> Option<Duration> {
        self.pacer.lag()
    }

    /// Measures, and tells the copy; ends only with an error.
    ///
    /// While the source is at rest, what can't be measured holds nobody up: a
    /// heartbeat could not even be written. When it is written to again, after
    /// an attempt that failed, measuring begins anew.
    pub(crate) async fn run(&self, handle: &Handle, at_rest: &AtRest) -> Failure {
        loop {
            let failure = self.measure(handle).await;
            if !at_rest.is_set() {
                return failure;
            }
            tracing::debug!("the throttle rests: {}", failure.line());
            at_rest.becomes(false).await;
        }
    }

    async fn measure(&self, handle: &Handle) -> Failure {
        let mut monitor = self.monitor.lock().await;
        tokio::select! {
            error = monitor.run_until_error() => error.into(),
            never = self.tell(handle) => match never {},
        }
    }

    /// New chunks start only while work may go on; changes are applied all the
    /// same, since a job that falls behind has to catch up later.
    async fn tell(&self, handle: &Handle) -> std::convert::Infallible {
        let mut pacer = self.pacer();
        let mut held = false;
        while let Ok(verdict) = pacer.next_round().await {
            let hold = match &verdict {
                Verdict::Proceed => None,
                Verdict::Hold { reason, .. } => Some(reason),
            };
            if hold.is_some() != held {
                held = hold.is_some();
                match hold {
                    Some(reason) => tracing::info!(throttled = %reason, "copying waits"),
                    None => tracing::info!(throttled = "no", "copying goes on"),
                }
            }
            if handle.set_copying(!held).await.is_err() {
                break;
            }
        }
        // Whoever ended has its own error to tell.
        std::future::pending().await
    }
}

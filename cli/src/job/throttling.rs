//! Holding the copy up while replicas lag, the server is busy, or a file says so.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use oxferry_copier::pipeline::Handle;
use oxferry_schema::Remedy;
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
    monitor: Mutex<Option<Monitor>>,
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
        let opts = job.source.opts("throttle");
        let (monitor, pacer) = Monitor::new(opts, job.marks.clone(), config, hand);
        Ok(Self {
            monitor: Mutex::new(Some(monitor)),
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
    /// heartbeat could not even be written.
    pub(crate) async fn run(&self, handle: &Handle, at_rest: &AtRest) -> Failure {
        let failure = self.measure(handle).await;
        if at_rest.is_set() {
            tracing::debug!("the throttle ended: {}", failure.line());
            at_rest.becomes(false).await;
        }
        failure
    }

    async fn measure(&self, handle: &Handle) -> Failure {
        let monitor = self.monitor.lock().ok().and_then(|mut slot| slot.take());
        let Some(monitor) = monitor else {
            return Failure::new(Remedy::Bug, anyhow::anyhow!("the throttle runs already"));
        };
        tokio::select! {
            ended = monitor.run(std::future::pending()) => match ended {
                Err(error) => error.into(),
                Ok(()) => Failure::new(Remedy::Bug, anyhow::anyhow!("the throttle ended by itself")),
            },
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

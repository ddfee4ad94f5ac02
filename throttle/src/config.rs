//! What a monitor watches.

use std::{path::PathBuf, time::Duration};

use mysql_async::Opts;

use crate::LagLimits;

/// What a [`Monitor`](crate::Monitor) watches, and how often.
#[derive(Clone)]
#[non_exhaustive]
pub struct MonitorConfig {
    /// How often everything is measured. Too short: work for the servers; too
    /// long: lag is noticed late.
    pub interval: Duration,
    /// How long one answer may take, and so how long one round may.
    pub query_deadline: Duration,
    /// How far replicas may be behind.
    pub lag: LagLimits,
    /// Replicas that must be watched: one that can't be reached holds work up,
    /// and fails the job at last.
    pub replicas: Vec<Opts>,
    /// Whether the replicas that the source lists are watched as well, those
    /// that can be reached with the source's credentials.
    pub discover: bool,
    /// How many threads may run on the source, `None` for any number.
    pub threads_running_max: Option<u64>,
    /// The file whose existence holds work up.
    pub flag_file: Option<PathBuf>,
}

impl MonitorConfig {
    /// How often the source is asked anew for its replicas.
    pub const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
}

impl Default for MonitorConfig {
    /// Twice a second, 2 s for an answer, replicas found by themselves.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(500),
            query_deadline: Duration::from_secs(2),
            lag: LagLimits::default(),
            replicas: Vec::new(),
            discover: true,
            threads_running_max: None,
            flag_file: None,
        }
    }
}

impl std::fmt::Debug for MonitorConfig {
    /// Leaves the replicas' options out: they hold passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MonitorConfig")
            .field("interval", &self.interval)
            .field("query_deadline", &self.query_deadline)
            .field("lag", &self.lag)
            .field("replicas", &self.replicas.len())
            .field("discover", &self.discover)
            .field("threads_running_max", &self.threads_running_max)
            .field("flag_file", &self.flag_file)
            .finish()
    }
}

//! Slowing down for the source's own work.

use std::time::{Duration, Instant};

use crate::{Reason, Throttle, Verdict};

/// Decides, from samples of `Threads_running`, whether work may go on.
///
/// Closes above the limit, and opens again only an eighth below it, so that it
/// doesn't flutter. The job's own statements count as well, as they do in the
/// server's status.
#[derive(Clone, Debug)]
pub struct LoadGate {
    threads_running_max: u64,
    heard_at: Instant,
    threads_running: Option<u64>,
    closed: bool,
}

impl LoadGate {
    /// How old a sample may be before it counts for nothing.
    pub const STALE_AFTER: Duration = Duration::from_secs(10);
    /// How long there may be no sample before the job fails.
    pub const FAIL_AFTER: Duration = Duration::from_mins(10);
    /// How soon to ask again after a hold.
    pub const RECHECK_AFTER: Duration = Duration::from_millis(250);

    /// Lets `threads_running_max` threads run; closed until the first sample.
    #[must_use]
    pub const fn new(threads_running_max: u64, now: Instant) -> Self {
        Self {
            threads_running_max,
            heard_at: now,
            threads_running: None,
            closed: true,
        }
    }

    /// Lets another number of threads run.
    pub const fn set_threads_running_max(&mut self, threads_running_max: u64) {
        self.threads_running_max = threads_running_max;
    }

    /// Records that `threads_running` were seen at `now`.
    pub fn handle_sample(&mut self, now: Instant, threads_running: u64) {
        let first = self.threads_running.is_none();
        self.heard_at = now;
        self.threads_running = Some(threads_running);
        self.closed = threads_running > self.limit(self.closed && !first);
    }

    /// Returns for how long there was no sample, if it was too long.
    #[must_use]
    pub fn failed(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.heard_at)).filter(|s| *s >= Self::FAIL_AFTER)
    }

    /// Returns how many threads may run for the gate to be open.
    const fn limit(&self, closed: bool) -> u64 {
        if closed {
            self.threads_running_max - self.threads_running_max / 8
        } else {
            self.threads_running_max
        }
    }
}

impl Throttle for LoadGate {
    fn poll(&self, now: Instant) -> Verdict {
        let silent_for = now.saturating_duration_since(self.heard_at);
        let reason = match self.threads_running {
            Some(threads_running) if silent_for < Self::STALE_AFTER => {
                if !self.closed {
                    return Verdict::Proceed;
                }
                Reason::Load {
                    threads_running,
                    threads_running_max: self.limit(true),
                }
            }
            _ => Reason::LoadUnknown { silent_for },
        };
        Verdict::Hold {
            reason,
            recheck_at: now + Self::RECHECK_AFTER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_at_the_limit_is_borne() {
        let now = Instant::now();
        let mut gate = LoadGate::new(16, now);
        gate.handle_sample(now, 16);
        assert_eq!(gate.poll(now), Verdict::Proceed);
    }

    #[test]
    fn a_closed_gate_opens_an_eighth_below_its_limit() {
        let now = Instant::now();
        let mut gate = LoadGate::new(16, now);
        for (threads_running, open) in [(17, false), (15, false), (14, true), (16, true)] {
            gate.handle_sample(now, threads_running);
            assert_eq!(
                gate.poll(now) == Verdict::Proceed,
                open,
                "{threads_running}"
            );
        }
    }

    #[test]
    fn the_reason_names_what_the_gate_waits_for() {
        let now = Instant::now();
        let mut gate = LoadGate::new(16, now);
        gate.handle_sample(now, 40);
        assert_eq!(
            gate.poll(now).reason().unwrap().to_string(),
            "40 threads running, at most 14"
        );
    }

    #[test]
    fn a_limit_of_one_can_be_met_again() {
        let now = Instant::now();
        let mut gate = LoadGate::new(1, now);
        gate.handle_sample(now, 2);
        gate.handle_sample(now, 1);
        assert_eq!(gate.poll(now), Verdict::Proceed);
    }

    #[test]
    fn missing_and_old_samples_close_the_gate_and_at_last_fail() {
        let now = Instant::now();
        let mut gate = LoadGate::new(16, now);
        assert!(gate.poll(now).reason().is_some());
        gate.handle_sample(now, 1);
        let later = now + LoadGate::STALE_AFTER;
        assert!(matches!(
            gate.poll(later).reason(),
            Some(Reason::LoadUnknown { .. })
        ));
        assert_eq!(gate.failed(later), None);
        assert!(gate.failed(now + LoadGate::FAIL_AFTER).is_some());
    }
}

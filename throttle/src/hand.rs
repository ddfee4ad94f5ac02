//! Slowing down because somebody says so.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::{Reason, Throttle, Verdict};

/// A switch by which a person pauses and resumes work, and sets the monitor's
/// limits anew while it runs.
///
/// Clones are the same switch.
#[derive(Clone, Debug)]
pub struct ByHand(Arc<Hand>);

#[derive(Debug)]
struct Hand {
    paused: watch::Sender<bool>,
    limits: Mutex<Limits>,
}

/// Limits that were set anew.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) lag_max: Option<Duration>,
    pub(crate) threads_running_max: Option<u64>,
}

impl ByHand {
    /// How soon to ask again after a hold.
    pub const RECHECK_AFTER: Duration = Duration::from_millis(250);

    /// Begins with work going on.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Hand {
            paused: watch::Sender::new(false),
            limits: Mutex::default(),
        }))
    }

    /// Lets nothing new begin.
    pub fn pause(&self) {
        self.0.paused.send_replace(true);
    }

    /// Lets work go on.
    pub fn resume(&self) {
        self.0.paused.send_replace(false);
    }

    /// Returns whether work is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        *self.0.paused.borrow()
    }

    /// Sets how far replicas may be behind, from the next round on.
    pub fn set_lag_max(&self, lag_max: Duration) {
        self.change(|limits| limits.lag_max = Some(lag_max));
    }

    /// Sets how many threads may run on the source, from the next round on, also
    /// where there was no limit before.
    pub fn set_threads_running_max(&self, threads_running_max: u64) {
        self.change(|limits| limits.threads_running_max = Some(threads_running_max));
    }

    /// Returns the limits that were set anew.
    pub(crate) fn limits(&self) -> Limits {
        let limits = self.0.limits.lock();
        *limits.unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Limits)) {
        let limits = self.0.limits.lock();
        change(&mut limits.unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns what tells of every switch.
    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.0.paused.subscribe()
    }
}

impl Default for ByHand {
    fn default() -> Self {
        Self::new()
    }
}

impl Throttle for ByHand {
    fn poll(&self, now: Instant) -> Verdict {
        if !self.is_paused() {
            return Verdict::Proceed;
        }
        Verdict::Hold {
            reason: Reason::Paused,
            recheck_at: now + Self::RECHECK_AFTER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_the_same_switch() {
        let now = Instant::now();
        let hand = ByHand::new();
        let other = hand.clone();
        other.pause();
        assert_eq!(hand.poll(now).reason(), Some(&Reason::Paused));
        other.resume();
        assert_eq!(hand.poll(now), Verdict::Proceed);
    }
}

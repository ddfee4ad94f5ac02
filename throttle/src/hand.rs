//! Slowing down because somebody says so.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::{Reason, Throttle, Verdict};

/// A switch by which a person pauses and resumes work.
///
/// Clones are the same switch.
#[derive(Clone, Debug)]
pub struct ByHand(Arc<watch::Sender<bool>>);

impl ByHand {
    /// How soon to ask again after a hold.
    pub const RECHECK_AFTER: Duration = Duration::from_millis(250);

    /// Begins with work going on.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets nothing new begin.
    pub fn pause(&self) {
        self.0.send_replace(true);
    }

    /// Lets work go on.
    pub fn resume(&self) {
        self.0.send_replace(false);
    }

    /// Returns whether work is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns what tells of every switch.
    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
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

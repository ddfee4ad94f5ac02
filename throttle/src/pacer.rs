//! The verdict as workers see it.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::{ByHand, Throttle, Verdict, worst};

/// Tells workers whether they may go on. Clones tell the same.
#[derive(Clone, Debug)]
pub struct Pacer {
    measured: watch::Receiver<Measured>,
    hand: ByHand,
}

/// What a round of measuring came to.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) verdict: Verdict,
    pub(crate) lag: Option<Duration>,
}

/// Nobody measures any more: the monitor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("waiting for the throttle failed: its monitor has ended")]
pub struct MonitorEnded;

impl Pacer {
    pub(crate) const fn new(measured: watch::Receiver<Measured>, hand: ByHand) -> Self {
        Self { measured, hand }
    }

    /// Returns the verdict as last measured, and what a person decided.
    pub fn verdict(&self, now: Instant) -> Verdict {
        let measured = self.measured.borrow().verdict.clone();
        worst([measured, self.hand.poll(now)])
    }

    /// Returns the worst lag seen last, `None` where none was seen yet.
    #[must_use]
    pub fn lag(&self) -> Option<Duration> {
        self.measured.borrow().lag
    }

    /// Waits for the next round of measuring and returns its verdict.
    ///
    /// # Cancel safety
    ///
    /// A call may be dropped; the round is returned by the next one.
    ///
    /// # Errors
    ///
    /// [`MonitorEnded`] when nobody measures any more.
    pub async fn next_round(&mut self) -> Result<Verdict, MonitorEnded> {
        self.measured.changed().await.map_err(|_| MonitorEnded)?;
        Ok(self.measured.borrow_and_update().verdict.clone())
    }

    /// Waits until work may go on; returns at once if it may.
    ///
    /// The wait has no end of its own: it ends when the reason does, which
    /// [`Pacer::verdict`] tells meanwhile, or with the monitor.
    ///
    /// # Cancel safety
    ///
    /// A call may be dropped; nothing is left behind.
    ///
    /// # Errors
    ///
    /// [`MonitorEnded`] when nobody measures any more.
    pub async fn wait_until_proceed(&mut self) -> Result<(), MonitorEnded> {
        let mut switched = self.hand.subscribe();
        loop {
            if self.measured.has_changed().is_err() {
                return Err(MonitorEnded);
            }
            let open = self.measured.borrow_and_update().verdict == Verdict::Proceed;
            let paused = *switched.borrow_and_update();
            if open && !paused {
                return Ok(());
            }
            tokio::select! {
                measured = self.measured.changed() => measured.map_err(|_| MonitorEnded)?,
                // The switch lives as long as `self.hand`.
                _ = switched.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, task::Poll};

    use futures::poll;

    use super::*;
    use crate::Reason;

    fn hold() -> Measured {
        measured(Verdict::Hold {
            reason: Reason::Starting,
            recheck_at: Instant::now(),
        })
    }

    fn measured(verdict: Verdict) -> Measured {
        Measured { verdict, lag: None }
    }

    #[tokio::test]
    async fn a_worker_waits_until_the_verdict_changes() {
        let (publish, receiver) = watch::channel(hold());
        let mut pacer = Pacer::new(receiver, ByHand::new());
        let mut waiting = pin!(pacer.wait_until_proceed());
        assert_eq!(poll!(&mut waiting), Poll::Pending);
        publish.send_replace(hold());
        assert_eq!(poll!(&mut waiting), Poll::Pending);
        publish.send_replace(measured(Verdict::Proceed));
        assert_eq!(poll!(&mut waiting), Poll::Ready(Ok(())));
    }

    #[tokio::test]
    async fn a_pause_holds_at_once_and_a_resume_lets_go() {
        let (_publish, receiver) = watch::channel(measured(Verdict::Proceed));
        let hand = ByHand::new();
        let mut pacer = Pacer::new(receiver, hand.clone());
        hand.pause();
        assert_eq!(
            pacer.verdict(Instant::now()).reason(),
            Some(&Reason::Paused)
        );
        let mut waiting = pin!(pacer.wait_until_proceed());
        assert_eq!(poll!(&mut waiting), Poll::Pending);
        hand.resume();
        assert_eq!(poll!(&mut waiting), Poll::Ready(Ok(())));
    }

    #[tokio::test]
    async fn nobody_waits_for_a_monitor_that_has_ended() {
        let (publish, receiver) = watch::channel(hold());
        let mut pacer = Pacer::new(receiver, ByHand::new());
        drop(publish);
        assert_eq!(pacer.wait_until_proceed().await, Err(MonitorEnded));
    }
}

//! What a switch took.

use std::time::Duration;

use tokio::time::Instant;

use super::SwitchError;

/// What a switch took, and what it left.
#[derive(Debug)]
#[non_exhaustive]
pub struct SwitchReport {
    /// Attempts, the successful one included.
    pub attempts: u32,
    /// How long the server's lock was waited for in the successful attempt.
    pub lock_wait: Duration,
    /// The longest that writes were shut out in any attempt: from the hook
    /// `lock-source`, or the request for the lock, until the source was let go.
    pub blocked_longest: Duration,
    /// The same of all attempts together.
    pub blocked_total: Duration,
    /// Whether the source was read-only before; it is as it was then.
    pub was_read_only: bool,
    /// What remains on the source, for the operator: `source set read-only`.
    pub remains: Option<&'static str>,
    /// What went wrong after the switch was made: the source isn't let go, or
    /// hook `unlock-source` failed. The target has taken over all the same; a
    /// caller should say so, and end with [`SwitchError::remedy`].
    pub afterwards: Vec<SwitchError>,
}

/// Adds up how long writers were shut out.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    since: Option<Instant>,
    pub(super) longest: Duration,
    pub(super) total: Duration,
}

impl Blocked {
    /// Writers are shut out from now on, if they aren't already.
    pub(super) fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Writers may write again, somewhere.
    pub(super) fn end(&mut self) {
        let Some(since) = self.since.take() else {
            return;
        };
        let blocked = since.elapsed();
        self.longest = self.longest.max(blocked);
        self.total = self.total.saturating_add(blocked);
    }
}

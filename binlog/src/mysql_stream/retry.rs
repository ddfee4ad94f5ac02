//! When a broken connection is tried anew.

use std::time::{Duration, Instant};

/// When a broken connection is tried anew. Holds no clock.
#[derive(Debug, Default)]
pub(super) struct Retry {
    failing_since: Option<Instant>,
    failures: u32,
}

impl Retry {
    const DELAY_MIN: Duration = Duration::from_millis(100);
    const DELAY_MAX: Duration = Duration::from_secs(10);

    /// Says that something new was handed out.
    pub(super) const fn handle_progress(&mut self) {
        self.failing_since = None;
        self.failures = 0;
    }

    /// Says that a try failed; returns how long to wait before the next one,
    /// or `None` when nothing new was handed out for `budget`.
    ///
    /// `jitter`, between 0 and 1, keeps many readers of one server apart.
    pub(super) fn handle_failure(
        &mut self,
        now: Instant,
        budget: Duration,
        jitter: f64,
    ) -> Option<Duration> {
        let since = *self.failing_since.get_or_insert(now);
        let left = budget.checked_sub(now.duration_since(since))?;
        let doubled = Self::DELAY_MIN.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let delay = doubled
            .min(Self::DELAY_MAX)
            .mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
        (!left.is_zero()).then(|| delay.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_a_limit() {
        let (mut retry, now) = (Retry::default(), Instant::now());
        let mut fail = || retry.handle_failure(now, Duration::from_secs(60), 1.0);
        assert_eq!(fail(), Some(Duration::from_millis(100)));
        assert_eq!(fail(), Some(Duration::from_millis(200)));
        assert_eq!(
            (0..30).filter_map(|_| fail()).max(),
            Some(Duration::from_secs(10))
        );
    }

    #[test]
    fn it_gives_up_when_nothing_moves_for_the_whole_budget() {
        let (mut retry, now) = (Retry::default(), Instant::now());
        let budget = Duration::from_secs(60);
        assert!(retry.handle_failure(now, budget, 0.0).is_some());
        assert!(
            retry
                .handle_failure(now + budget / 2, budget, 0.0)
                .is_some()
        );
        assert_eq!(retry.handle_failure(now + budget, budget, 0.0), None);
        retry.handle_progress();
        assert!(retry.handle_failure(now + budget, budget, 0.0).is_some());
    }

    #[test]
    fn the_last_delay_ends_with_the_budget() {
        let (mut retry, now) = (Retry::default(), Instant::now());
        let budget = Duration::from_millis(70);
        assert_eq!(retry.handle_failure(now, budget, 1.0), Some(budget));
    }
}

//! How long to wait before another try.

use std::time::{Duration, Instant};

/// Waits that double from one try to the next, with jitter, until a budget of
/// time is used up.
///
/// Holds no clock: the caller says what time it is, and does the waiting.
///
/// ```
/// # use std::time::{Duration, Instant};
/// # use oxferry_schema::Backoff;
/// let start = Instant::now();
/// let mut backoff = Backoff::new(start, Duration::from_secs(10), 7);
/// let wait = backoff.next(start).expect("the budget is untouched");
/// assert!(wait <= Backoff::WAIT_FIRST);
/// assert_eq!(backoff.next(start + Duration::from_secs(10)), None);
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    deadline: Instant,
    ceiling: Duration,
    jitter: fastrand::Rng,
}

impl Backoff {
    /// The longest first wait: a deadlock's winner is usually done by then.
    pub const WAIT_FIRST: Duration = Duration::from_millis(20);

    /// The longest wait of all: a server that comes back is noticed soon.
    pub const WAIT_MAX: Duration = Duration::from_secs(2);

    /// Begins at `now`; tries end once `budget` has passed. Equal seeds wait
    /// equally long, so give each worker its own.
    #[must_use]
    pub fn new(now: Instant, budget: Duration, seed: u64) -> Self {
        Self {
            deadline: now + budget,
            ceiling: Self::WAIT_FIRST,
            jitter: fastrand::Rng::with_seed(seed),
        }
    }

    /// Returns how long to wait at `now` before the next try, `None` when the
    /// budget is used up.
    ///
    /// A wait lies between half and all of what doubling allows, and never
    /// reaches beyond the budget.
    pub fn next(&mut self, now: Instant) -> Option<Duration> {
        let left = self.deadline.checked_duration_since(now)?;
        if left.is_zero() {
            return None;
        }
        let share = 0.5 + self.jitter.f64() / 2.0;
        let wait = self.ceiling.mul_f64(share);
        self.ceiling = (self.ceiling * 2).min(Self::WAIT_MAX);
        Some(wait.min(left))
    }

    /// Begins anew after a success: full budget, short waits.
    pub fn reset(&mut self, now: Instant, budget: Duration) {
        self.deadline = now + budget;
        self.ceiling = Self::WAIT_FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn waits_grow_to_their_limit_and_end_with_the_budget() {
        let start = start();
        let budget = Duration::from_secs(60);
        let mut backoff = Backoff::new(start, budget, 1);
        let mut now = start;
        let mut waits = Vec::new();
        while let Some(wait) = backoff.next(now) {
            now += wait;
            waits.push(wait);
        }
        assert_eq!(now, start + budget);
        assert!(waits[0] <= Backoff::WAIT_FIRST && waits[0] >= Backoff::WAIT_FIRST / 2);
        assert!(waits.iter().all(|wait| *wait <= Backoff::WAIT_MAX));
        assert!(waits.len() < 80, "{} tries in a minute", waits.len());
    }

    #[test]
    fn two_seeds_do_not_wait_alike() {
        let start = start();
        let mut one = Backoff::new(start, Duration::from_secs(9), 1);
        let mut two = Backoff::new(start, Duration::from_secs(9), 2);
        assert_ne!(one.next(start), two.next(start));
    }

    #[test]
    fn a_success_restores_the_budget() {
        let start = start();
        let mut backoff = Backoff::new(start, Duration::from_secs(1), 1);
        let late = start + Duration::from_secs(2);
        assert_eq!(backoff.next(late), None);
        backoff.reset(late, Duration::from_secs(1));
        assert!(
            backoff
                .next(late)
                .is_some_and(|wait| wait <= Backoff::WAIT_FIRST)
        );
    }
}

//! When to try again.

use std::{num::NonZeroU32, time::Duration};

/// Counts attempts and says how long to pause after a failed one.
///
/// The pause doubles from 1 s up to 30 s. A quarter of it is random, so that
/// two jobs don't stay in step.
#[derive(Clone, Debug)]
pub struct Backoff {
    attempts_max: u32,
    failed: u32,
}

impl Backoff {
    /// Allows `attempts_max` attempts.
    #[must_use]
    pub const fn new(attempts_max: NonZeroU32) -> Self {
        Self {
            attempts_max: attempts_max.get(),
            failed: 0,
        }
    }

    /// Records a failed attempt; returns the pause before the next one, or
    /// `None` when there is none left.
    ///
    /// `random` lies in `0.0 ..= 1.0`; values outside are clamped.
    pub fn handle_failure(&mut self, random: f64) -> Option<Duration> {
        self.failed = self.failed.saturating_add(1);
        if self.failed >= self.attempts_max {
            return None;
        }
        let doublings = self.failed.saturating_sub(1).min(5);
        let full = PAUSE_FIRST
            .saturating_mul(1 << doublings)
            .min(PAUSE_LONGEST);
        Some(full.mul_f64(0.75 + 0.25 * random.clamp(0.0, 1.0)))
    }

    /// Returns how many attempts have failed.
    #[must_use]
    pub const fn failed(&self) -> u32 {
        self.failed
    }
}

const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(attempts: u32, random: f64) -> Vec<Duration> {
        let mut backoff = Backoff::new(NonZeroU32::new(attempts).unwrap());
        std::iter::from_fn(|| backoff.handle_failure(random)).collect()
    }

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let seconds: Vec<_> = pauses(8, 1.0).iter().map(Duration::as_secs).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_pause_is_never_shortened_by_more_than_a_quarter() {
        assert_eq!(pauses(2, 0.0), [Duration::from_millis(750)]);
        assert_eq!(pauses(2, -5.0), pauses(2, 0.0));
    }

    #[test]
    fn one_attempt_is_never_repeated() {
        assert_eq!(pauses(1, 0.5), []);
    }
}

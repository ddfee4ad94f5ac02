//! How far a replica is behind, told from heartbeats.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The heartbeats sent so far, by which a replica's lag is told.
///
/// Each beat is a number written to the source, higher than the one before.
/// A replica that shows beat `n` has applied everything up to it; how long ago
/// `n + 1` was sent is how far it is behind. All times are of one clock, so
/// servers' clocks don't matter.
#[derive(Clone, Debug, Default)]
pub struct Heartbeats(VecDeque<(u64, Instant)>);

impl Heartbeats {
    /// How many beats are remembered: more than eight minutes of them at two a
    /// second. A replica that is farther behind than the oldest of them is at
    /// least as far behind as it is old.
    pub const KEPT_MAX: usize = 1_000;

    /// Begins without a beat.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that beat `number` was sent at `sent_at`. A number that is not
    /// above the last one tells nothing and is left out.
    pub fn handle_beat(&mut self, number: u64, sent_at: Instant) {
        if self.0.back().is_some_and(|(last, _)| *last >= number) {
            return;
        }
        if self.0.len() == Self::KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((number, sent_at));
    }

    /// Returns how far a replica is behind that shows beat `seen` at `now`,
    /// or none at all; `None` where no beat was sent yet.
    #[must_use]
    pub fn lag(&self, seen: Option<u64>, now: Instant) -> Option<Duration> {
        let (newest, _) = self.0.back()?;
        let seen = seen.unwrap_or(0);
        if seen >= *newest {
            return Some(Duration::ZERO);
        }
        let unseen = self.0.partition_point(|(number, _)| *number <= seen);
        let (_, sent_at) = self.0.get(unseen)?;
        Some(now.saturating_duration_since(*sent_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(500);

    fn beats(count: u32) -> (Heartbeats, Instant) {
        let start = Instant::now();
        let mut beats = Heartbeats::new();
        for i in 0..count {
            beats.handle_beat(u64::from(i) + 100, start + BEAT * i);
        }
        (beats, start)
    }

    #[test]
    fn a_replica_that_shows_the_newest_beat_is_not_behind() {
        let (beats, start) = beats(4);
        let now = start + BEAT * 4;
        assert_eq!(beats.lag(Some(103), now), Some(Duration::ZERO));
        assert_eq!(beats.lag(Some(999), now), Some(Duration::ZERO));
    }

    #[test]
    fn lag_is_the_age_of_the_first_beat_not_seen() {
        let (beats, start) = beats(4);
        assert_eq!(beats.lag(Some(100), start + BEAT * 4), Some(BEAT * 3));
    }

    #[test]
    fn a_replica_without_any_beat_is_behind_since_the_first() {
        let (beats, start) = beats(4);
        assert_eq!(beats.lag(None, start + BEAT * 4), Some(BEAT * 4));
        assert_eq!(beats.lag(Some(7), start + BEAT * 4), Some(BEAT * 4));
    }

    #[test]
    fn without_a_beat_nothing_is_known() {
        assert_eq!(Heartbeats::new().lag(Some(7), Instant::now()), None);
    }

    #[test]
    fn memory_is_bounded_and_a_far_replica_is_at_least_far_behind() {
        let (beats, start) = beats(3_000);
        assert_eq!(beats.0.len(), Heartbeats::KEPT_MAX);
        let lag = beats.lag(Some(100), start + BEAT * 3_000);
        assert_eq!(lag, Some(BEAT * 1_000));
    }
}

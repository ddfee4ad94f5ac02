//! The wait for an operator's word.

use std::time::Duration;

/// Decides how long a postponed cutover goes on waiting.
///
/// Holds no clock and no connection: the caller says when it looked, and what
/// it saw.
///
/// Not knowing whether the sentinel stands is not the same as it being gone:
/// the wait goes on, for a minute at most.
#[derive(Clone, Debug)]
pub struct SentinelWait {
    limit: Duration,
    unknown_since: Option<Duration>,
}

/// What was seen of the sentinel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a look ends in one of these")]
pub enum SentinelSeen {
    /// It stands.
    Standing,
    /// It has been dropped.
    Gone,
    /// The server didn't answer.
    Unknown,
}

/// What to do after a look at the sentinel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every caller acts on all of them")]
pub enum SentinelStep {
    /// The cutover may go on.
    GoOn,
    /// Look again after this time.
    LookAgain(Duration),
    /// The limit has passed: end, with the checkpoint kept.
    LimitReached,
    /// The server has not answered for too long.
    Unreachable,
}

impl SentinelWait {
    /// How long a cutover is postponed unless told otherwise.
    pub const LIMIT_DEFAULT: Duration = Duration::from_secs(48 * 60 * 60);

    /// Waits for `limit` at most.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self {
            limit,
            unknown_since: None,
        }
    }

    /// Takes what was seen when `waited` had passed since the wait began.
    ///
    /// A sentinel that is gone counts even at the limit.
    pub fn handle_seen(&mut self, waited: Duration, seen: SentinelSeen) -> SentinelStep {
        match seen {
            SentinelSeen::Gone => return SentinelStep::GoOn,
            SentinelSeen::Standing => self.unknown_since = None,
            SentinelSeen::Unknown => {
                let since = *self.unknown_since.get_or_insert(waited);
                if waited.saturating_sub(since) >= UNKNOWN_MAX {
                    return SentinelStep::Unreachable;
                }
            }
        }
        match self.limit.checked_sub(waited) {
            None | Some(Duration::ZERO) => SentinelStep::LimitReached,
            Some(left) => SentinelStep::LookAgain(left.min(LOOK_EVERY)),
        }
    }
}

/// Twice as often as promised: at least once a second.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A restart of the server takes no longer.
const UNKNOWN_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_standing_sentinel_is_looked_at_twice_a_second() {
        let mut wait = SentinelWait::new(10 * SECOND);
        assert_eq!(
            wait.handle_seen(SECOND, SentinelSeen::Standing),
            SentinelStep::LookAgain(SECOND / 2)
        );
    }

    #[test]
    fn the_last_look_is_at_the_limit() {
        let mut wait = SentinelWait::new(SECOND);
        let near = SECOND - Duration::from_millis(1);
        assert_eq!(
            wait.handle_seen(near, SentinelSeen::Standing),
            SentinelStep::LookAgain(Duration::from_millis(1))
        );
        assert_eq!(
            wait.handle_seen(SECOND, SentinelSeen::Standing),
            SentinelStep::LimitReached
        );
    }

    #[test]
    fn a_sentinel_dropped_at_the_last_moment_counts() {
        let mut wait = SentinelWait::new(SECOND);
        assert_eq!(
            wait.handle_seen(9 * SECOND, SentinelSeen::Gone),
            SentinelStep::GoOn
        );
    }

    #[test]
    fn a_silent_server_never_lets_the_cutover_go_on() {
        let mut wait = SentinelWait::new(SentinelWait::LIMIT_DEFAULT);
        for seconds in 0..60 {
            let step = wait.handle_seen(seconds * SECOND, SentinelSeen::Unknown);
            assert_eq!(step, SentinelStep::LookAgain(SECOND / 2));
        }
        assert_eq!(
            wait.handle_seen(60 * SECOND, SentinelSeen::Unknown),
            SentinelStep::Unreachable
        );
    }

    #[test]
    fn an_answer_forgives_the_silence_before_it() {
        let mut wait = SentinelWait::new(SentinelWait::LIMIT_DEFAULT);
        for (seconds, seen) in [
            (0, SentinelSeen::Unknown),
            (59, SentinelSeen::Standing),
            (100, SentinelSeen::Unknown),
            (159, SentinelSeen::Unknown),
        ] {
            let step = wait.handle_seen(seconds * SECOND, seen);
            assert_eq!(step, SentinelStep::LookAgain(SECOND / 2));
        }
    }
}

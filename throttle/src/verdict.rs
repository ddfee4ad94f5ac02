//! Whether work may go on, and why not.

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Whether work may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a verdict that nobody looks at slows nothing down"]
#[expect(clippy::exhaustive_enums, reason = "work goes on or it does not")]
pub enum Verdict {
    /// Go on.
    Proceed,
    /// Begin nothing new.
    Hold {
        /// What work waits for.
        reason: Reason,
        /// When to ask again.
        recheck_at: Instant,
    },
}

/// What work waits for. `Display` writes it for a status line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing was measured yet.
    Starting,
    /// Somebody paused the job.
    Paused,
    /// The flag file exists.
    FlagFile {
        /// Its path.
        path: PathBuf,
    },
    /// Whether the flag file exists can't be found out.
    FlagFileUnknown {
        /// Its path.
        path: PathBuf,
    },
    /// A replica's lag is not known.
    LagUnknown {
        /// The replica, as `host:port`.
        replica: String,
        /// For how long.
        silent_for: Duration,
    },
    /// A replica is too far behind.
    Lag {
        /// The replica, as `host:port`.
        replica: String,
        /// How far it is behind.
        lag: Duration,
        /// How far it may be.
        lag_max: Duration,
    },
    /// The source's load is not known.
    LoadUnknown {
        /// For how long.
        silent_for: Duration,
    },
    /// Too many statements run on the source.
    Load {
        /// `Threads_running` as last seen.
        threads_running: u64,
        /// How many there may be before work goes on.
        threads_running_max: u64,
    },
}

/// Something that slows work down.
///
/// # Contract
///
/// - `poll` decides from what it was told before and from `now`: it never
///   blocks, reads no clock, and asked twice answers the same.
/// - A [`Verdict::Hold`] asks to be polled again later than `now`.
/// - What isn't known is not taken for good: a throttle that lacks a sample,
///   or has only an old one, holds.
pub trait Throttle {
    /// Says whether work may go on at `now`.
    fn poll(&self, now: Instant) -> Verdict;
}

/// Several throttles in one: the worst verdict counts.
#[derive(Default)]
pub struct All(Vec<Box<dyn Throttle + Send + Sync>>);

impl All {
    /// Begins without any: work may go on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one more.
    #[must_use]
    pub fn with(mut self, throttle: impl Throttle + Send + Sync + 'static) -> Self {
        self.0.push(Box::new(throttle));
        self
    }
}

impl Throttle for All {
    fn poll(&self, now: Instant) -> Verdict {
        worst(self.0.iter().map(|throttle| throttle.poll(now)))
    }
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("All").field(&self.0.len()).finish()
    }
}

impl Verdict {
    /// Returns what work waits for, `None` where it may go on.
    #[must_use]
    pub const fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Proceed => None,
            Self::Hold { reason, .. } => Some(reason),
        }
    }

    /// Returns the worse of two verdicts; of two equally bad ones the one that
    /// lasts longer.
    pub fn worse(self, other: Self) -> Self {
        match (&self, &other) {
            (_, Self::Proceed) => self,
            (Self::Proceed, _) => other,
            (
                Self::Hold { reason, recheck_at },
                Self::Hold {
                    reason: other_reason,
                    recheck_at: other_recheck_at,
                },
            ) => {
                let one = (reason.rank(), recheck_at);
                if one >= (other_reason.rank(), other_recheck_at) {
                    self
                } else {
                    other
                }
            }
        }
    }
}

/// Returns the worst of some verdicts, [`Verdict::Proceed`] of none.
pub fn worst(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    verdicts.into_iter().fold(Verdict::Proceed, Verdict::worse)
}

impl Reason {
    /// Orders reasons by what an operator must know first: what a person
    /// decided, then what can't be measured, then what is too much.
    const fn rank(&self) -> u8 {
        match self {
            Self::Starting => 0,
            Self::Load { .. } => 1,
            Self::Lag { .. } => 2,
            Self::LoadUnknown { .. } => 3,
            Self::LagUnknown { .. } => 4,
            Self::FlagFileUnknown { .. } => 5,
            Self::FlagFile { .. } => 6,
            Self::Paused => 7,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("nothing measured yet"),
            Self::Paused => f.write_str("paused by hand"),
            Self::FlagFile { path } => write!(f, "flag file {} exists", path.display()),
            Self::FlagFileUnknown { path } => {
                write!(f, "can't look for flag file {}", path.display())
            }
            Self::LagUnknown {
                replica,
                silent_for,
            } => write!(
                f,
                "lag of replica {replica} not known for {}",
                Seconds(*silent_for)
            ),
            Self::Lag {
                replica,
                lag,
                lag_max,
            } => write!(
                f,
                "lag {} of replica {replica}, at most {}",
                Seconds(*lag),
                Seconds(*lag_max)
            ),
            Self::LoadUnknown { silent_for } => {
                write!(f, "threads running not known for {}", Seconds(*silent_for))
            }
            Self::Load {
                threads_running,
                threads_running_max,
            } => write!(
                f,
                "{threads_running} threads running, at most {threads_running_max}"
            ),
        }
    }
}

/// Writes `3.2 s`.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    struct Fixed(Verdict);

    impl Throttle for Fixed {
        fn poll(&self, _now: Instant) -> Verdict {
            self.0.clone()
        }
    }

    fn lag() -> Reason {
        Reason::Lag {
            replica: "db2:3306".into(),
            lag: Duration::from_millis(3_210),
            lag_max: Duration::from_millis(1_500),
        }
    }

    #[test]
    fn a_reason_names_figures_and_units() {
        expect!["lag 3.2 s of replica db2:3306, at most 1.5 s"].assert_eq(&lag().to_string());
        let load = Reason::Load {
            threads_running: 31,
            threads_running_max: 20,
        };
        expect!["31 threads running, at most 20"].assert_eq(&load.to_string());
        let unknown = Reason::LagUnknown {
            replica: "db2:3306".into(),
            silent_for: Duration::from_secs(12),
        };
        expect!["lag of replica db2:3306 not known for 12.0 s"].assert_eq(&unknown.to_string());
    }

    #[test]
    fn the_worst_verdict_counts_with_its_reason() {
        let now = Instant::now();
        let hold = |reason| Verdict::Hold {
            reason,
            recheck_at: now + Duration::from_secs(1),
        };
        let all = All::new()
            .with(Fixed(Verdict::Proceed))
            .with(Fixed(hold(Reason::Paused)))
            .with(Fixed(hold(lag())));
        assert_eq!(all.poll(now).reason(), Some(&Reason::Paused));
    }

    #[test]
    fn nothing_to_watch_lets_work_go_on() {
        assert_eq!(All::new().poll(Instant::now()), Verdict::Proceed);
    }

    #[test]
    fn of_two_equally_bad_verdicts_the_longer_one_counts() {
        let now = Instant::now();
        let hold = |seconds| Verdict::Hold {
            reason: lag(),
            recheck_at: now + Duration::from_secs(seconds),
        };
        assert_eq!(worst([hold(2), hold(5), hold(3)]), hold(5));
    }
}

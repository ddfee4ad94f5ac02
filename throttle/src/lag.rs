//! Slowing down for replicas.

use std::time::{Duration, Instant};

use crate::{Reason, Throttle, Verdict};

/// How far replicas may be behind, and how long not knowing is borne.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LagLimits {
    /// How far the worst replica may be behind. Too low: the job stops for
    /// every hiccup; too high: readers of the replicas see old rows.
    pub lag_max: Duration,
    /// How old a sample may be before it counts for nothing.
    pub stale_after: Duration,
    /// How long a replica may be without any sample before the job fails.
    pub fail_after: Duration,
    /// How soon to ask again after a hold.
    pub recheck_after: Duration,
}

/// Decides, from lag samples alone, whether work may go on.
///
/// Watches any number of replicas; the worst counts. Holds no clock and no
/// connection: the caller brings both.
#[derive(Clone, Debug)]
pub struct LagGate {
    limits: LagLimits,
    replicas: Vec<Watched>,
}

#[derive(Clone, Debug)]
struct Watched {
    replica: String,
    /// The last good sample, or else when watching began.
    heard_at: Instant,
    /// `None` before the first sample.
    lag: Option<Duration>,
}

impl LagGate {
    /// Begins without a replica: work may go on.
    #[must_use]
    pub const fn new(limits: LagLimits) -> Self {
        Self {
            limits,
            replicas: Vec::new(),
        }
    }

    /// Watches `replica` from `now` on; the gate is closed until its first
    /// sample. Does nothing if it is watched already.
    pub fn watch(&mut self, replica: &str, now: Instant) {
        if !self.replicas.iter().any(|held| held.replica == replica) {
            self.replicas.push(Watched {
                replica: replica.to_owned(),
                heard_at: now,
                lag: None,
            });
        }
    }

    /// Forgets all samples: every replica is watched from `now` on.
    pub fn watch_anew(&mut self, now: Instant) {
        for held in &mut self.replicas {
            held.heard_at = now;
            held.lag = None;
        }
    }

    /// Stops watching `replica`.
    pub fn forget(&mut self, replica: &str) {
        self.replicas.retain(|held| held.replica != replica);
    }

    /// Records that `replica`, which is watched, was seen `lag` behind at `now`.
    pub fn handle_sample(&mut self, replica: &str, now: Instant, lag: Duration) {
        for held in &mut self.replicas {
            if held.replica == replica {
                held.heard_at = now;
                held.lag = Some(lag);
            }
        }
    }

    /// Changes how far replicas may be behind.
    pub const fn set_lag_max(&mut self, lag_max: Duration) {
        self.limits.lag_max = lag_max;
    }

    /// Returns the replica that has given no sample for too long, if there is
    /// one, and for how long.
    #[must_use]
    pub fn failed(&self, now: Instant) -> Option<(&str, Duration)> {
        self.replicas
            .iter()
            .map(|held| (held.replica.as_str(), held.silence(now)))
            .find(|(_, silent_for)| *silent_for >= self.limits.fail_after)
    }

    /// Returns the worst lag seen, `None` where nothing is watched or seen.
    #[must_use]
    pub fn lag(&self) -> Option<Duration> {
        self.replicas.iter().filter_map(|held| held.lag).max()
    }

    fn reason(&self, held: &Watched, now: Instant) -> Option<Reason> {
        let silent_for = held.silence(now);
        match held.lag {
            Some(lag) if silent_for < self.limits.stale_after => {
                (lag > self.limits.lag_max).then(|| Reason::Lag {
                    replica: held.replica.clone(),
                    lag,
                    lag_max: self.limits.lag_max,
                })
            }
            _ => Some(Reason::LagUnknown {
                replica: held.replica.clone(),
                silent_for,
            }),
        }
    }
}

impl Watched {
    fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.heard_at)
    }
}

impl Throttle for LagGate {
    fn poll(&self, now: Instant) -> Verdict {
        let reasons = self.replicas.iter().filter_map(|r| self.reason(r, now));
        // A replica that isn't heard counts more than one that is behind.
        let worst = reasons.max_by_key(|reason| match reason {
            Reason::Lag { lag, .. } => (false, *lag),
            Reason::LagUnknown { silent_for, .. } => (true, *silent_for),
            _ => (false, Duration::ZERO),
        });
        worst.map_or(Verdict::Proceed, |reason| Verdict::Hold {
            reason,
            recheck_at: now + self.limits.recheck_after,
        })
    }
}

impl LagLimits {
    /// Lets replicas be `lag_max` behind, and takes the default for the rest.
    #[must_use]
    pub fn new(lag_max: Duration) -> Self {
        Self {
            lag_max,
            ..Self::default()
        }
    }
}

impl Default for LagLimits {
    /// 1.5 s of lag, as long as readers barely notice; samples count for 10 s,
    /// several times the interval and a query's deadline; 10 min of silence
    /// is no restart any more.
    fn default() -> Self {
        Self {
            lag_max: Duration::from_millis(1_500),
            stale_after: Duration::from_secs(10),
            fail_after: Duration::from_mins(10),
            recheck_after: Duration::from_millis(250),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn gate(replicas: &[&str]) -> (LagGate, Instant) {
        let start = Instant::now();
        let mut gate = LagGate::new(LagLimits::new(seconds(1)));
        for replica in replicas {
            gate.watch(replica, start);
        }
        (gate, start)
    }

    #[test]
    fn no_replica_lets_work_go_on() {
        let (gate, start) = gate(&[]);
        assert_eq!(gate.poll(start), Verdict::Proceed);
        assert_eq!(gate.failed(start + seconds(100_000)), None);
    }

    #[test]
    fn a_missing_sample_closes_the_gate() {
        let (gate, start) = gate(&["a:1"]);
        assert_eq!(
            gate.poll(start + seconds(2)),
            Verdict::Hold {
                reason: Reason::LagUnknown {
                    replica: "a:1".into(),
                    silent_for: seconds(2)
                },
                recheck_at: start + seconds(2) + Duration::from_millis(250)
            }
        );
    }

    #[test]
    fn lag_at_the_limit_is_borne_and_above_it_is_not() {
        let (mut gate, start) = gate(&["a:1"]);
        gate.handle_sample("a:1", start, seconds(1));
        assert_eq!(gate.poll(start), Verdict::Proceed);
        gate.handle_sample("a:1", start, Duration::from_millis(1_001));
        assert!(matches!(
            gate.poll(start).reason(),
            Some(Reason::Lag { .. })
        ));
        gate.set_lag_max(seconds(2));
        assert_eq!(gate.poll(start), Verdict::Proceed);
    }

    #[test]
    fn a_stale_sample_closes_the_gate() {
        let (mut gate, start) = gate(&["a:1"]);
        gate.handle_sample("a:1", start, Duration::ZERO);
        assert_eq!(gate.poll(start + seconds(9)), Verdict::Proceed);
        assert!(matches!(
            gate.poll(start + seconds(10)).reason(),
            Some(Reason::LagUnknown { .. })
        ));
    }

    #[test]
    fn the_worst_replica_counts() {
        let (mut gate, start) = gate(&["a:1", "b:2", "c:3"]);
        for (replica, lag) in [("a:1", 2), ("b:2", 9), ("c:3", 0)] {
            gate.handle_sample(replica, start, seconds(lag));
        }
        assert_eq!(
            gate.poll(start).reason(),
            Some(&Reason::Lag {
                replica: "b:2".into(),
                lag: seconds(9),
                lag_max: seconds(1)
            })
        );
        assert_eq!(gate.lag(), Some(seconds(9)));
    }

    #[test]
    fn a_replica_not_heard_counts_more_than_one_behind() {
        let (mut gate, start) = gate(&["a:1", "b:2"]);
        gate.handle_sample("a:1", start, seconds(900));
        assert!(matches!(
            gate.poll(start).reason(),
            Some(Reason::LagUnknown { replica, .. }) if replica == "b:2"
        ));
    }

    #[test]
    fn only_a_long_silence_is_a_failure() {
        let (mut gate, start) = gate(&["a:1"]);
        assert_eq!(gate.failed(start + seconds(599)), None);
        gate.handle_sample("a:1", start + seconds(599), seconds(3));
        assert_eq!(gate.failed(start + seconds(1_198)), None);
        assert_eq!(
            gate.failed(start + seconds(1_199)),
            Some(("a:1", seconds(600)))
        );
    }

    #[test]
    fn watching_anew_gives_a_silent_replica_its_time_again() {
        let (mut gate, start) = gate(&["a:1"]);
        gate.handle_sample("a:1", start, seconds(0));
        let later = start + seconds(600);
        assert!(gate.failed(later).is_some());
        gate.watch_anew(later);
        assert_eq!(gate.failed(later + seconds(599)), None);
        assert!(gate.poll(later).reason().is_some());
    }

    #[test]
    fn a_forgotten_replica_holds_nothing_up() {
        let (mut gate, start) = gate(&["a:1"]);
        gate.forget("a:1");
        assert_eq!(gate.poll(start), Verdict::Proceed);
    }

    #[test]
    fn watching_again_keeps_what_is_known() {
        let (mut gate, start) = gate(&["a:1"]);
        gate.handle_sample("a:1", start, Duration::ZERO);
        gate.watch("a:1", start + seconds(1));
        assert_eq!(gate.poll(start + seconds(1)), Verdict::Proceed);
    }
}

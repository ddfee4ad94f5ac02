//! The contract of [`Throttle`], in executable form.

use std::time::{Duration, Instant};

use crate::{Throttle, Verdict};

/// Checks a throttle at `now` and for an hour after it.
///
/// # Panics
///
/// When the throttle breaks the contract.
pub fn all(throttle: &impl Throttle, now: Instant) {
    for seconds in [0, 1, 60, 3_600] {
        let then = now + Duration::from_secs(seconds);
        let verdict = throttle.poll(then);
        assert_eq!(throttle.poll(then), verdict, "asked twice");
        if let Verdict::Hold { reason, recheck_at } = verdict {
            assert!(recheck_at > then, "a hold must ask to be polled later");
            assert!(!reason.to_string().is_empty(), "a hold has a reason");
        }
    }
}

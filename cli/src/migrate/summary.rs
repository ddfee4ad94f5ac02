//! What a job says at its end.

use std::time::Duration;

use oxferry_copier::pipeline::Status;
use oxferry_cutover::SwapReport;

use super::{comparison::Comparison, job::Job, progress::Progress};

/// Logs what was done, and how long writes were blocked.
pub(crate) async fn log(
    job: &Job,
    copied: &Status,
    comparison: &Comparison,
    swap: &SwapReport,
    progress: &Progress,
) {
    let (differences, repaired) = comparison.found();
    for (phase, took) in progress.times() {
        tracing::info!(time = %phase.as_str(), took_ms = milliseconds(took), "phase");
    }
    tracing::info!(
        table = %job.source.name.plain(),
        rows_copied = copied.rows_copied,
        changes_applied = copied.changes_applied,
        rows_compared = comparison.rows_compared_in_all().await,
        differences,
        repaired,
        attempts = swap.attempts,
        lock_wait_ms = milliseconds(swap.lock_wait),
        writes_blocked_ms = milliseconds(swap.blocked_longest),
        "summary"
    );
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

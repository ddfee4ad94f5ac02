//! What a job says at its end.

use std::time::Duration;

use oxferry_copier::pipeline::{self, Status};
use oxferry_schema::TableName;

use super::{Job, TakenOver, comparison::Comparison, progress::Progress};

/// Logs what was done, and how long writes were blocked.
pub(crate) async fn log(
    job: &Job,
    (copied, by_table): (&Status, Option<&pipeline::Progress>),
    comparison: &Comparison,
    taken: &TakenOver,
    progress: &Progress,
) {
    let (differences, repaired) = comparison.found();
    for (phase, took) in progress.times() {
        tracing::info!(during = %phase.as_str(), took_ms = milliseconds(took), "time taken");
    }
    if let Some(by_table) = by_table.filter(|_| job.tables.len() > 1) {
        for (table, copied) in job.tables.iter().zip(&by_table.tables) {
            tracing::info!(
                table = %table.source.name.plain(),
                rows_copied = copied.rows_copied,
                changes_applied = copied.changes_applied,
                "taken over"
            );
        }
    }
    tracing::info!(
        table = %names(&job.sources()),
        rows_copied = copied.rows_copied,
        changes_applied = copied.changes_applied,
        rows_compared = comparison.rows_compared_in_all().await,
        differences,
        repaired,
        attempts = taken.attempts,
        lock_wait_ms = milliseconds(taken.lock_wait),
        writes_blocked_ms = milliseconds(taken.blocked),
        "summary"
    );
}

/// The tables' names, the first ones of many.
fn names(tables: &[TableName]) -> String {
    let shown: Vec<String> = tables
        .iter()
        .take(NAMES_MAX)
        .map(TableName::plain)
        .collect();
    let more = match tables.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// Tables that the summary names at most.
const NAMES_MAX: usize = 10;

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

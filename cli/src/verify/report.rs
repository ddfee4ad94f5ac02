//! What a comparison found, for people and for programs.

use oxferry_schema::Remedy;
use serde::Serialize;

use super::{
    Notes,
    notes::{Fate, Kind, LISTED_MAX, Listed, TableNotes},
};
use crate::{args::LogFormat, failure::Failure};

/// A line of the report, as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    table: &'a str,
    #[serde(flatten)]
    row: &'a Listed,
}

/// Prints the rows that differ on stdout.
///
/// # Errors
///
/// A failure that says how many rows differ, if any.
pub(crate) fn show(notes: &Notes, format: LogFormat) -> Result<(), Failure> {
    let rows = notes.tables().iter().flat_map(|table| {
        let rows = table.tally.listed.iter();
        rows.map(move |row| (table, row))
    });
    for (table, row) in rows.take(LISTED_MAX) {
        print(&match format {
            LogFormat::Text => text(table, row),
            LogFormat::Json => json(table, row)?,
        });
    }
    outcome(notes.tables())
}

fn outcome(tables: &[TableNotes]) -> Result<(), Failure> {
    let sum = |of: fn(&TableNotes) -> u64| tables.iter().map(of).sum::<u64>();
    let rows = sum(|table| table.rows);
    let different = sum(|table| table.tally.different);
    let changing = sum(|table| table.tally.changing);
    let repaired = sum(|table| table.tally.repaired);
    tracing::info!(
        tables = tables.len(),
        rows,
        different,
        changing,
        repaired,
        "verified"
    );
    let counts: Vec<String> = tables.iter().filter_map(count).collect();
    let counts = counts.join(", ");
    if different > 0 {
        let error = anyhow::anyhow!(
            "{different} rows differ, {changing} more were being changed ({counts}); the first {LISTED_MAX} \
             are listed on stdout"
        );
        return Err(Failure::new(Remedy::Data, error).without_advice());
    }
    if changing > 0 {
        let error = anyhow::anyhow!(
            "{changing} rows were changed whenever they were looked at ({counts}), all others are equal: call \
             again when less is written, or with a longer --recheck-for"
        );
        return Err(Failure::new(Remedy::Retry, error).without_advice());
    }
    Ok(())
}

fn count(table: &TableNotes) -> Option<String> {
    let tally = &table.tally;
    let all = tally.different + tally.changing;
    (all > 0).then(|| format!("{}: {all} of {}", table.source, table.rows))
}

fn text(table: &TableNotes, row: &Listed) -> String {
    let kind = match row.kind {
        Kind::MissingOnTarget => "missing on the target",
        Kind::OnlyOnTarget => "only on the target",
        Kind::Different => "different",
    };
    let fate = match row.fate {
        Fate::Different => "is",
        Fate::Changing => "was changing all the time and is",
        Fate::Repaired => "is repaired and was",
    };
    let side = |row: &Option<String>| row.clone().unwrap_or_else(|| "no row".to_owned());
    format!(
        "{}: key {} {fate} {kind}: source {}, target {}",
        table.source,
        row.key,
        side(&row.source),
        side(&row.target)
    )
}

fn json(table: &TableNotes, row: &Listed) -> Result<String, Failure> {
    let line = Line {
        table: &table.source,
        row,
    };
    serde_json::to_string(&line).map_err(|error| Failure::new(Remedy::Bug, error))
}

#[expect(clippy::print_stdout, reason = "the report is what the command is for")]
fn print(line: &str) {
    println!("{line}");
}

//! What of a change depends on a session's time zone.
//!
//! A TIMESTAMP is a moment, a DATETIME what a clock shows: one becomes the other
//! by the zone of a session, and the sessions of a job are in UTC.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{Altered, Column, Remedy, Table};

use crate::failure::Failure;

/// Checks that nothing of the change depends on the time zone, or that the
/// server's is UTC.
///
/// # Errors
///
/// A failure that names the first thing that does.
pub(super) async fn check(
    source: &Table,
    altered: &Altered,
    conn: &mut Conn,
) -> Result<(), Failure> {
    let problem = crossing(source, altered)
        .or_else(|| computed(&altered.table))
        .or_else(|| added(altered));
    let Some(problem) = problem else {
        return Ok(());
    };
    let query = "SELECT IF(@@GLOBAL.time_zone = 'SYSTEM', @@system_time_zone, @@GLOBAL.time_zone)";
    let zone: Option<String> = conn.query_first(query).await.map_err(|error| {
        Failure::new(Remedy::Retry, error).context("reading the server's time zone")
    })?;
    let zone = zone.unwrap_or_default();
    if matches!(zone.as_str(), "UTC" | "+00:00" | "Etc/UTC") {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{problem}, which depends on the time zone ({zone}), and where clocks are turned back makes \
         one value of two: it is done only on servers in UTC; add a plain column, fill it by UPDATEs \
         in your own time zone, then drop the old one"
    )))
}

fn is_moment(column: &Column) -> bool {
    column.data_type == "timestamp"
}

/// A column that becomes a moment, or is one no more.
fn crossing(source: &Table, altered: &Altered) -> Option<String> {
    altered.mapping.pairs.iter().find_map(|pair| {
        let from = source.columns.get(pair.source)?;
        let to = altered.table.columns.get(pair.target)?;
        (is_moment(from) != is_moment(to)).then(|| {
            let (name, before, after) = (from.name.as_str(), &from.column_type, &to.column_type);
            format!("column {name} changes from {before} to {after}")
        })
    })
}

/// A generated column or an index that the server computes of a moment.
fn computed(table: &Table) -> Option<String> {
    let moments = table.columns.iter().filter(|column| is_moment(column));
    let moments: Vec<String> = moments.map(|column| column.name.to_string()).collect();
    let line = lines(table).find(|line| {
        let expression = expression(line).unwrap_or_default();
        moments.iter().any(|name| expression.contains(name))
    })?;
    Some(format!(
        "the server computes a value of a TIMESTAMP in {line:?}"
    ))
}

/// A new column that gives the rows that are there a clock's time of now.
fn added(altered: &Altered) -> Option<String> {
    altered.mapping.added.iter().find_map(|at| {
        let column = altered.table.columns.get(*at)?;
        let is_clock = ["datetime", "date", "time", "year"].contains(&column.data_type.as_str());
        let begin = format!("{} ", column.name);
        let line = lines(&altered.table).find(|line| line.starts_with(&begin))?;
        let is_now = line.contains("DEFAULT CURRENT_TIMESTAMP") || line.contains("DEFAULT (");
        let name = column.name.as_str();
        (is_clock && is_now)
            .then(|| format!("the new column {name} begins with the time that its default says"))
    })
}

/// The definition's lines: the server writes one for each column and index.
fn lines(table: &Table) -> impl Iterator<Item = &str> {
    table.create_statement.lines().map(str::trim)
}

/// What is computed in the line of a generated column, or of an index that has
/// an expression for a part.
fn expression(line: &str) -> Option<&str> {
    if let Some((_, expression)) = line.split_once(" GENERATED ALWAYS AS ") {
        return Some(expression);
    }
    let (_, parts) = line.split_once("KEY ")?;
    let begin = parts.find("((").into_iter().chain(parts.find(",(")).min()?;
    parts.get(begin..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_columns_and_indexes_are_found() {
        for (line, expected) in [
            (
                "`h` int GENERATED ALWAYS AS (hour(`ts`)) STORED,",
                Some("(hour(`ts`)) STORED,"),
            ),
            ("KEY `i` ((hour(`ts`))),", Some("((hour(`ts`))),")),
            (
                "UNIQUE KEY `i` (`a`(3),(hour(`ts`))),",
                Some(",(hour(`ts`))),"),
            ),
            ("`ts` timestamp NOT NULL,", None),
            ("KEY `i` (`ts`),", None),
        ] {
            assert_eq!(expression(line), expected, "{line}");
        }
    }
}

//! Rows that a new unique index can't hold together, found before the copy.

use std::time::Duration;

use mysql_async::{Conn, Row, Value, prelude::Queryable};
use oxferry_schema::{Altered, Remedy};
use oxferry_verifier::DuplicateQuery;

use super::{
    job::{JobTable, Migration},
    shape,
};
use crate::failure::Failure;

/// How long one look may take; a table that takes longer is told by the index
/// build, after the copy.
const LOOK_MAX: Duration = Duration::from_secs(600);

/// `ER_QUERY_TIMEOUT`.
const TIMEOUT: u16 = 3024;

/// Looks, on the source, for rows that the unique indexes which the change adds
/// or makes stricter can't hold together.
///
/// # Errors
///
/// A failure that shows values and keys, and the query that finds them all.
pub(super) async fn refuse(
    job: &Migration,
    conn: &mut Conn,
    altered: &[Altered],
) -> Result<(), Failure> {
    for (table, altered) in job.tables.iter().zip(altered) {
        for query in queries(table, altered) {
            look(table, &query, conn).await?;
        }
    }
    Ok(())
}

/// The queries for one table; an index that no query can tell of has none.
fn queries(table: &JobTable, altered: &Altered) -> Vec<DuplicateQuery> {
    let new = shape::new_uniques(table, &altered.mapping, &altered.table);
    let pairs = shape::pairs(table, &altered.mapping, &altered.table);
    let indexes = altered.table.indexes.iter();
    let indexes = indexes.filter(|index| new.contains(&index.name));
    let key = (&table.key, table.source.columns.as_slice());
    indexes
        .filter_map(|index| DuplicateQuery::new(index, &pairs, &table.source.name, key))
        .collect()
}

async fn look(table: &JobTable, query: &DuplicateQuery, conn: &mut Conn) -> Result<(), Failure> {
    let name = table.source.name.plain();
    let limit = LOOK_MAX.as_millis();
    let hint = format!("SELECT /*+ MAX_EXECUTION_TIME({limit}) */ ");
    let sql = query.sql().replacen("SELECT ", &hint, 1);
    let found: Vec<Row> = match conn.query(sql).await {
        Ok(rows) => rows,
        Err(mysql_async::Error::Server(error)) if error.code == TIMEOUT => {
            tracing::warn!(
                table = %name, index = query.index().as_str(), limit_s = LOOK_MAX.as_secs(),
                "looking for duplicates took too long: they are found when the index is built"
            );
            return Ok(());
        }
        Err(error) => {
            return Err(Failure::new(Remedy::Retry, error)
                .context(format!("looking for duplicates in {name}")));
        }
    };
    if found.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = found
        .into_iter()
        .map(|row| group(row.unwrap(), query.parts()))
        .collect();
    Err(Failure::new(
        Remedy::Data,
        anyhow::anyhow!(
            "the unique index {} can't be built on the rows of {name}: {}; mend them, they are found \
             by: {}",
            query.index().as_str(),
            groups.join("; "),
            query.sql()
        ),
    ))
}

/// Writes `duplicate ('a') in 2 rows, those with the keys 1 and 7`.
fn group(mut values: Vec<Value>, parts: usize) -> String {
    let rest = values.split_off(parts.min(values.len()));
    let values: Vec<String> = values.iter().map(quoted).collect();
    let rest: Vec<String> = rest.iter().map(plain).collect();
    let [count, first, last] = rest.as_slice() else {
        return format!("duplicate ({})", values.join(", "));
    };
    let such = if count == "2" {
        "those"
    } else {
        "such as those"
    };
    format!(
        "duplicate ({}) in {count} rows, {such} with the keys {first} and {last}",
        values.join(", ")
    )
}

fn quoted(value: &Value) -> String {
    let text = plain(value);
    let is_number = text.parse::<f64>().is_ok();
    if is_number || text.starts_with("0x") {
        text
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

fn plain(value: &Value) -> String {
    let Value::Bytes(bytes) = value else {
        return value.as_sql(false);
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("0x{digits}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_shows_its_value_and_the_keys_of_two_rows() {
        let values = ["it's", "2", "1", "7"].map(Value::from);
        assert_eq!(
            group(values.into(), 1),
            "duplicate ('it''s') in 2 rows, those with the keys 1 and 7"
        );
        let values = [
            Value::from("5"),
            Value::Bytes(vec![0, 255]),
            Value::from("3"),
            Value::from("1, 2"),
            Value::from("1, 9"),
        ];
        assert_eq!(
            group(values.into(), 2),
            "duplicate (5, 0x00FF) in 3 rows, such as those with the keys 1, 2 and 1, 9"
        );
    }
}

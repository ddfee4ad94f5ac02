//! Comparing two tables of one server, row by row and byte by byte.
//!
//! Written against the server's own operators and independent of the code
//! that it is there to check.

use std::fmt;

use mysql_async::{Conn, Row, prelude::Queryable};

use crate::tables::quote;

/// How many differing rows are named.
const NAMED_MAX: usize = 10;

/// One row that isn't the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The key, as the server prints it; several columns joined by commas.
    pub key: String,
    /// What is wrong with the row.
    pub kind: Kind,
}

/// What differs in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The row is on the left side alone.
    OnlyLeft,
    /// The row is on the right side alone.
    OnlyRight,
    /// These columns have other values.
    Columns(String),
}

/// Two tables that aren't equal.
#[derive(Debug, thiserror::Error)]
pub struct Differences {
    /// The rows of the left table.
    pub rows_left: u64,
    /// The rows of the right table.
    pub rows_right: u64,
    /// The first differing rows of each kind, at most ten of each.
    pub first: Vec<Difference>,
}

impl fmt::Display for Differences {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} rows left, {} right;",
            self.rows_left, self.rows_right
        )?;
        for difference in &self.first {
            match &difference.kind {
                Kind::OnlyLeft => write!(out, " [{}] is left only;", difference.key)?,
                Kind::OnlyRight => write!(out, " [{}] is right only;", difference.key)?,
                Kind::Columns(names) => write!(out, " [{}] differs in {names};", difference.key)?,
            }
        }
        Ok(())
    }
}

/// Why a comparison didn't end in "equal".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The tables differ.
    #[error("the tables differ: {0}")]
    Differ(#[from] Differences),
    /// The server refused.
    #[error("comparing the tables failed: {0}")]
    Sql(#[from] mysql_async::Error),
}

/// A comparison of two tables, to be run.
#[derive(Debug, Clone)]
#[must_use]
pub struct Comparison {
    left: String,
    right: String,
    key: Vec<String>,
    columns: Vec<String>,
    except: Option<String>,
}

/// Compares two tables in the columns `key` and `columns`.
///
/// The names of the tables are quoted already, those of the columns not. Both
/// tables must stand still. NULL differs from everything but NULL; strings
/// are equal when their bytes are, so both sides need the same character set.
///
/// # Errors
///
/// [`CompareError::Differ`] names the first rows that differ.
pub async fn compare_tables(
    conn: &mut Conn,
    left: &str,
    right: &str,
    key: &[&str],
    columns: &[&str],
) -> Result<u64, CompareError> {
    Comparison::new(left, right, key, columns).run(conn).await
}

impl Comparison {
    /// Of two quoted tables, in unquoted columns.
    pub fn new(left: &str, right: &str, key: &[&str], columns: &[&str]) -> Self {
        let quoted = |names: &[&str]| names.iter().map(|name| quote(name)).collect();
        Self {
            left: left.to_owned(),
            right: right.to_owned(),
            key: quoted(key),
            columns: quoted(columns),
            except: None,
        }
    }

    /// Leaves out the keys that stand in this quoted table, which has the same key columns.
    pub fn except_keys_in(mut self, table: &str) -> Self {
        self.except = Some(table.to_owned());
        self
    }

    /// Compares, and returns how many rows of the left table were compared.
    ///
    /// # Errors
    ///
    /// [`CompareError::Differ`] names the first rows that differ.
    pub async fn run(&self, conn: &mut Conn) -> Result<u64, CompareError> {
        let rows_left = self.count(conn, &self.left).await?;
        let rows_right = self.count(conn, &self.right).await?;
        let mut first = Vec::new();
        for row in conn.query::<Row, _>(self.differing_sql()).await? {
            let (key, names): (String, Option<String>) = mysql_async::from_row(row);
            let kind = names.map_or(Kind::OnlyLeft, Kind::Columns);
            first.push(Difference { key, kind });
        }
        for key in conn.query::<String, _>(self.right_only_sql()).await? {
            first.push(Difference {
                key,
                kind: Kind::OnlyRight,
            });
        }
        if first.is_empty() && rows_left == rows_right {
            return Ok(rows_left);
        }
        Err(Differences {
            rows_left,
            rows_right,
            first,
        }
        .into())
    }

    async fn count(&self, conn: &mut Conn, table: &str) -> Result<u64, mysql_async::Error> {
        let sql = format!(
            "SELECT COUNT(*) FROM {table} AS l WHERE {}",
            self.counted("l")
        );
        Ok(conn.query_first(sql).await?.unwrap_or_default())
    }

    /// Rows of the left side that are missing on the right or differ there.
    fn differing_sql(&self) -> String {
        let all = || self.key.iter().chain(&self.columns);
        let equal = |name: &String| {
            // `<=>` alone takes 'a' and 'A', 0.0 and -0.0, 'x' and 'x ' for the same.
            let bytes = format!("CAST(l.{name} AS BINARY) <=> CAST(r.{name} AS BINARY)");
            format!("(l.{name} <=> r.{name} AND {bytes})")
        };
        let same: Vec<String> = all().map(equal).collect();
        let named =
            |name: &String| format!("IF({}, NULL, '{}')", equal(name), name.replace('\'', "''"));
        let names: Vec<String> = all().map(named).collect();
        format!(
            "SELECT {key}, IF({missing}, NULL, CONCAT_WS(',', {names})) \
             FROM {left} AS l LEFT JOIN {right} AS r ON {on} \
             WHERE {counted} AND ({missing} OR NOT ({same})) LIMIT {NAMED_MAX}",
            key = self.key_text("l"),
            missing = self.missing("r"),
            names = names.join(", "),
            left = self.left,
            right = self.right,
            on = self.on("l", "r"),
            counted = self.counted("l"),
            same = same.join(" AND "),
        )
    }

    fn right_only_sql(&self) -> String {
        format!(
            "SELECT {key} FROM {right} AS r LEFT JOIN {left} AS l ON {on} \
             WHERE {counted} AND {missing} LIMIT {NAMED_MAX}",
            key = self.key_text("r"),
            right = self.right,
            left = self.left,
            on = self.on("l", "r"),
            counted = self.counted("r"),
            missing = self.missing("l"),
        )
    }

    fn on(&self, one: &str, two: &str) -> String {
        let pair = |name: &String| format!("{one}.{name} = {two}.{name}");
        self.key.iter().map(pair).collect::<Vec<_>>().join(" AND ")
    }

    /// Whether the outer join found no row: a key column is never NULL in a row.
    fn missing(&self, side: &str) -> String {
        let null = |name: &String| format!("{side}.{name} IS NULL");
        self.key.iter().map(null).collect::<Vec<_>>().join(" AND ")
    }

    fn counted(&self, side: &str) -> String {
        self.except.as_ref().map_or_else(
            || "TRUE".to_owned(),
            |table| {
                let on = self.on(side, "x");
                format!("NOT EXISTS (SELECT 1 FROM {table} AS x WHERE {on})")
            },
        )
    }

    fn key_text(&self, side: &str) -> String {
        let part = |name: &String| format!("{side}.{name}");
        let parts: Vec<String> = self.key.iter().map(part).collect();
        format!("CAST(CONCAT_WS(',', {}) AS CHAR)", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_keys_and_columns() {
        let first = vec![
            Difference {
                key: "1".to_owned(),
                kind: Kind::OnlyLeft,
            },
            Difference {
                key: "2,a".to_owned(),
                kind: Kind::Columns("`c`".to_owned()),
            },
        ];
        let shown = Differences {
            rows_left: 2,
            rows_right: 1,
            first,
        }
        .to_string();
        assert_eq!(
            shown,
            "2 rows left, 1 right; [1] is left only; [2,a] differs in `c`;"
        );
    }

    #[test]
    fn every_key_column_takes_part_in_the_join() {
        let comparison = Comparison::new("`l`", "`r`", &["a", "b"], &["c"]);
        assert_eq!(comparison.on("l", "r"), "l.`a` = r.`a` AND l.`b` = r.`b`");
        assert!(comparison.differing_sql().contains("CAST(l.`c` AS BINARY)"));
    }
}

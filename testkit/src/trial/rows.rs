//! Every row and column of a table as text that hides nothing.

use std::fmt::Write;

use mysql_async::{Conn, Row, Value, prelude::Queryable};

use super::TrialError;
use crate::tables::quote;

/// Differing rows that are shown.
const SHOWN_MAX: usize = 6;
/// Characters of a value that are shown.
const VALUE_MAX: usize = 120;

/// A value: hexadecimal or exact text, or NULL.
type Cell = Option<Vec<u8>>;

/// The rows of one table, sorted, duplicates included.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    columns: Vec<String>,
    /// Which columns the table's key has; all when it has none.
    key: Vec<usize>,
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    /// Reads a whole table; `database` and `table` aren't quoted.
    pub(super) async fn read(
        conn: &mut Conn,
        database: &str,
        table: &str,
    ) -> Result<Self, TrialError> {
        let query = "SELECT column_name, data_type, column_key FROM information_schema.columns \
                     WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position";
        let columns: Vec<(String, String, String)> = conn
            .exec(query, (database, table))
            .await
            .map_err(TrialError::sql(query))?;
        let faithful: Vec<String> = columns
            .iter()
            .map(|(name, kind, _)| faithful(&quote(name), kind))
            .collect();
        let query = format!(
            "SELECT {} FROM {}.{}",
            faithful.join(", "),
            quote(database),
            quote(table)
        );
        let found: Vec<Row> = conn.query(&*query).await.map_err(TrialError::sql(&query))?;
        let mut rows: Vec<Vec<Cell>> = found.into_iter().map(cells).collect();
        rows.sort_unstable();
        let key = columns.iter().enumerate();
        let key: Vec<usize> = key
            .filter(|(_, (_, _, key))| key == "PRI")
            .map(|(at, _)| at)
            .collect();
        let key = if key.is_empty() {
            (0..columns.len()).collect()
        } else {
            key
        };
        let columns = columns.into_iter().map(|(name, ..)| name).collect();
        Ok(Self { columns, key, rows })
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// What is different in these rows, with keys and both values; nothing if
    /// nothing is. `mine` and `other` say whose rows they are.
    pub(super) fn differences(&self, other: &Self, (mine, others): (&str, &str)) -> Option<String> {
        if self.columns != other.columns {
            return Some(format!(
                "columns: {mine} {:?}, {others} {:?}",
                self.columns, other.columns
            ));
        }
        if self.rows == other.rows {
            return None;
        }
        let only = minus(&self.rows, &other.rows);
        let missing = minus(&other.rows, &self.rows);
        let mut text = format!(
            "{} rows {mine}, {} {others}; {} differ or are only {mine}, {} only {others}",
            self.len(),
            other.len(),
            only.len(),
            missing.len()
        );
        for row in only.iter().take(SHOWN_MAX) {
            let twin = missing
                .iter()
                .find(|twin| self.key_of(twin) == self.key_of(row));
            match twin {
                Some(twin) => self.show_columns(&mut text, row, twin, (mine, others)),
                None => self.show_row(&mut text, row, mine),
            }
        }
        let unpaired = |row: &&&Vec<Cell>| {
            !only
                .iter()
                .any(|twin| self.key_of(twin) == self.key_of(row))
        };
        for row in missing.iter().filter(unpaired).take(SHOWN_MAX) {
            self.show_row(&mut text, row, others);
        }
        Some(text)
    }

    fn key_of<'a>(&self, row: &'a [Cell]) -> Vec<Option<&'a Cell>> {
        self.key.iter().map(|at| row.get(*at)).collect()
    }

    fn key_text(&self, row: &[Cell]) -> String {
        let shown = self
            .key_of(row)
            .into_iter()
            .map(|cell| cell.map_or_else(String::new, show));
        shown.collect::<Vec<_>>().join(", ")
    }

    fn show_row(&self, text: &mut String, row: &[Cell], whose: &str) {
        let values = self.columns.iter().zip(row);
        let values: Vec<String> = values
            .map(|(name, cell)| format!("{name}={}", show(cell)))
            .collect();
        // Writing to a String doesn't fail.
        let _ = write!(
            text,
            "\n  [{}] is only {whose}: {}",
            self.key_text(row),
            values.join(" ")
        );
    }

    fn show_columns(
        &self,
        text: &mut String,
        row: &[Cell],
        twin: &[Cell],
        (mine, others): (&str, &str),
    ) {
        let _ = write!(text, "\n  [{}] differs:", self.key_text(row));
        for ((name, cell), other) in self.columns.iter().zip(row).zip(twin) {
            if cell != other {
                let _ = write!(
                    text,
                    " {name}: {mine} {}, {others} {};",
                    show(cell),
                    show(other)
                );
            }
        }
    }
}

fn cells(row: Row) -> Vec<Cell> {
    let cell = |value| match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(bytes),
        other => Some(other.as_sql(true).into_bytes()),
    };
    row.unwrap().into_iter().map(cell).collect()
}

fn show(cell: &Cell) -> String {
    let Some(bytes) = cell else {
        return "NULL".to_owned();
    };
    let text = String::from_utf8_lossy(bytes);
    let mut shown: String = text.chars().take(VALUE_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// The sorted rows of `left` that aren't in the sorted `right`, counted.
fn minus<'a>(left: &'a [Vec<Cell>], right: &[Vec<Cell>]) -> Vec<&'a Vec<Cell>> {
    let mut rest = right.iter().peekable();
    let mut only = Vec::new();
    for row in left {
        while rest.next_if(|other| *other < row).is_some() {}
        if rest.next_if(|other| *other == row).is_none() {
            only.push(row);
        }
    }
    only
}

/// An expression that is equal only where the stored values are.
///
/// Of values longer than a kilobyte the length and a hash stand for the rest.
/// FLOAT is printed with six digits only unless it is cast; JSON is printed
/// alike for values of several types, which its storage tells apart.
fn faithful(column: &str, data_type: &str) -> String {
    match data_type {
        "float" => format!("CAST(CAST({column} AS DOUBLE) AS CHAR)"),
        "bit" => format!("CAST({column} + 0 AS CHAR)"),
        "enum" | "set" => format!("CONCAT(HEX({column}), '/', {column} + 0)"),
        "json" => format!(
            "CONCAT(IF(LENGTH(CAST({column} AS CHAR)) < 1024, CAST({column} AS CHAR), \
             SHA2(CAST({column} AS CHAR), 256)), \
             '/', JSON_TYPE({column}), '/', JSON_STORAGE_SIZE(JSON_ARRAY({column})))"
        ),
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "binary"
        | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "vector" | "geometry"
        | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" | "geomcollection" | "geometrycollection" => format!(
            "IF(LENGTH({column}) < 1024, HEX({column}), \
             CONCAT(LENGTH({column}), '/', SHA2({column}, 256)))"
        ),
        _ => format!("CAST({column} AS CHAR)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[[Option<&str>; 2]]) -> Rows {
        let cell = |text: &Option<&str>| text.map(|text| text.as_bytes().to_vec());
        let mut rows: Vec<Vec<Cell>> = rows
            .iter()
            .map(|row| row.iter().map(cell).collect())
            .collect();
        rows.sort_unstable();
        Rows {
            columns: vec!["id".to_owned(), "v".to_owned()],
            key: vec![0],
            rows,
        }
    }

    #[test]
    fn equal_rows_have_no_differences() {
        let one = rows(&[[Some("1"), None], [Some("2"), Some("x")]]);
        let two = rows(&[[Some("2"), Some("x")], [Some("1"), None]]);
        assert_eq!(one.differences(&two, ("new", "old")), None);
    }

    #[test]
    fn differences_name_key_column_and_both_values() {
        let one = rows(&[[Some("1"), None], [Some("2"), Some("x")]]);
        let two = rows(&[[Some("1"), Some("NULL")], [Some("3"), Some("y")]]);
        let text = one.differences(&two, ("new", "old")).unwrap();
        assert!(
            text.contains("[1] differs: v: new NULL, old NULL;"),
            "{text}"
        );
        assert!(text.contains("[2] is only new"), "{text}");
        assert!(text.contains("[3] is only old"), "{text}");
    }

    #[test]
    fn a_row_that_is_there_twice_differs_from_one() {
        let one = rows(&[[Some("1"), None], [Some("1"), None]]);
        let two = rows(&[[Some("1"), None]]);
        assert!(one.differences(&two, ("new", "old")).is_some());
    }
}

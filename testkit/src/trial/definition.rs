//! Definitions of tables and triggers, to be compared.

use mysql_async::{Conn, Row, prelude::Queryable};

use super::TrialError;
use crate::tables::quote;

/// A table's `SHOW CREATE TABLE`, its next automatic value apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    /// As the server prints it.
    pub(super) sql: String,
    /// Without the next automatic value.
    bare: String,
    auto_increment: u64,
}

impl Definition {
    /// Asks the server; `database` and `table` aren't quoted.
    pub(super) async fn read(
        conn: &mut Conn,
        database: &str,
        table: &str,
    ) -> Result<Self, TrialError> {
        let query = format!("SHOW CREATE TABLE {}.{}", quote(database), quote(table));
        let row: Option<Row> = conn
            .query_first(&*query)
            .await
            .map_err(TrialError::sql(&query))?;
        let sql: Option<String> = row.and_then(|row| row.get(1));
        sql.map(Self::new)
            .ok_or_else(|| TrialError::Setup(format!("{query} returned nothing")))
    }

    fn new(sql: String) -> Self {
        let (bare, auto_increment) = split(&sql);
        Self {
            sql,
            bare,
            auto_increment,
        }
    }

    /// The same table in another database.
    pub(super) fn with_database(&self, from: &str, to: &str) -> Self {
        Self::new(self.sql.replace(&quote(from), &quote(to)))
    }

    /// What is wrong with this definition, if `right` is right.
    ///
    /// A next automatic value may be higher than need be, never lower.
    pub(super) fn complaint(&self, right: &Self) -> Option<String> {
        if self.bare != right.bare {
            return Some(format!(
                "the definition is\n{}\nand should be\n{}",
                self.sql, right.sql
            ));
        }
        (self.auto_increment < right.auto_increment).then(|| {
            format!(
                "the next automatic value is {}, and should be {} or more",
                self.auto_increment, right.auto_increment
            )
        })
    }

    /// Whether it is the same table; the next automatic value may have grown.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.bare == other.bare
    }
}

/// The definition without ` AUTO_INCREMENT=7` in its last lines, and that number.
fn split(sql: &str) -> (String, u64) {
    let options = sql.rfind("\n) ENGINE=").unwrap_or(sql.len());
    let (columns, options) = sql.split_at(options);
    let Some((before, rest)) = options.split_once(" AUTO_INCREMENT=") else {
        return (sql.to_owned(), 0);
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    (
        format!("{columns}{before}{after}"),
        digits.parse().unwrap_or_default(),
    )
}

/// The triggers of a database: everything that makes one what it is, in order.
pub(super) async fn triggers(conn: &mut Conn, database: &str) -> Result<Vec<String>, TrialError> {
    let query = "SELECT CONCAT_WS(' | ', event_object_table, action_timing, event_manipulation, \
                 action_order, trigger_name, definer, sql_mode, character_set_client, \
                 collation_connection, database_collation, action_statement) \
                 FROM information_schema.triggers WHERE trigger_schema = ? \
                 ORDER BY event_object_table, action_timing, event_manipulation, action_order";
    conn.exec(query, (database,))
        .await
        .map_err(TrialError::sql(query))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(next: u64) -> Definition {
        let sql = format!(
            "CREATE TABLE `t` (\n  `id` int COMMENT ' AUTO_INCREMENT=3'\n) ENGINE=InnoDB \
             AUTO_INCREMENT={next} DEFAULT CHARSET=utf8mb4"
        );
        Definition::new(sql)
    }

    #[test]
    fn only_the_options_next_automatic_value_is_taken_out() {
        let one = definition(12);
        assert_eq!(one.auto_increment, 12);
        assert!(one.bare.contains("' AUTO_INCREMENT=3'"));
        assert!(one.bare.ends_with("ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"));
    }

    #[test]
    fn a_next_automatic_value_may_be_higher_but_not_lower() {
        assert_eq!(definition(12).complaint(&definition(11)), None);
        assert!(definition(10).complaint(&definition(11)).is_some());
    }
}

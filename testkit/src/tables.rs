//! The tables that tests write to, and a fast way to fill them.

use mysql_async::{Conn, Value, prelude::Queryable};

/// How many rows one loading statement makes.
const ROWS_PER_STATEMENT: u64 = 50_000;

/// What a value column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A number below this bound; many rows may share it.
    Number(u32),
    /// Hexadecimal text of this many characters, at most 128.
    Text(usize),
    /// A number that no other row has: the table's secondary unique key.
    Unique,
}

/// A table with one integer key, as the writers know it.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// The database; quoted wherever it is used.
    pub database: String,
    /// The table's name.
    pub name: String,
    /// The integer primary key column.
    pub key: &'static str,
    /// The other columns and what they hold.
    pub columns: Vec<(&'static str, Content)>,
    /// How many rows the loader makes, with keys from 1.
    pub rows: u64,
}

impl TableSpec {
    /// sysbench's table: `id`, `k` with an index, `c` and `pad`.
    #[must_use]
    pub fn sysbench(database: &str, name: &str, rows: u64) -> Self {
        let bound = u32::try_from(rows.max(1)).unwrap_or(u32::MAX);
        let columns = vec![
            ("k", Content::Number(bound)),
            ("c", Content::Text(119)),
            ("pad", Content::Text(59)),
        ];
        Self::new(database, name, columns, rows)
    }

    /// A table with a secondary unique key `u` and a text `v`.
    #[must_use]
    pub fn with_unique(database: &str, name: &str, rows: u64) -> Self {
        Self::new(
            database,
            name,
            vec![("u", Content::Unique), ("v", Content::Text(40))],
            rows,
        )
    }

    fn new(database: &str, name: &str, columns: Vec<(&'static str, Content)>, rows: u64) -> Self {
        Self {
            database: database.to_owned(),
            name: name.to_owned(),
            key: "id",
            columns,
            rows,
        }
    }

    /// The same columns under another table name.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self.clone()
        }
    }

    /// The quoted name, for SQL.
    #[must_use]
    pub fn quoted(&self) -> String {
        format!("{}.{}", quote(&self.database), quote(&self.name))
    }

    /// The names of all columns, the key first.
    #[must_use]
    pub fn column_names(&self) -> Vec<&'static str> {
        [self.key]
            .into_iter()
            .chain(self.columns.iter().map(|(name, _)| *name))
            .collect()
    }

    /// The secondary unique column, when there is one.
    #[must_use]
    pub fn unique_column(&self) -> Option<&'static str> {
        self.columns
            .iter()
            .find(|(_, content)| *content == Content::Unique)
            .map(|(name, _)| *name)
    }

    /// The table's `CREATE TABLE`.
    #[must_use]
    pub fn create_sql(&self) -> String {
        let mut lines = vec![format!("`{}` INT NOT NULL AUTO_INCREMENT", self.key)];
        let mut keys = vec![format!("PRIMARY KEY (`{}`)", self.key)];
        for (name, content) in &self.columns {
            match content {
                Content::Number(_) => {
                    lines.push(format!("`{name}` INT NOT NULL DEFAULT 0"));
                    keys.push(format!("KEY `{name}_1` (`{name}`)"));
                }
                Content::Text(length) => {
                    lines.push(format!("`{name}` CHAR({}) NOT NULL DEFAULT ''", length + 1));
                }
                Content::Unique => {
                    lines.push(format!("`{name}` BIGINT NOT NULL"));
                    keys.push(format!("UNIQUE KEY `{name}_u` (`{name}`)"));
                }
            }
        }
        lines.extend(keys);
        format!(
            "CREATE TABLE {} ({}) ENGINE=InnoDB",
            self.quoted(),
            lines.join(", ")
        )
    }

    /// Makes the database and the table, and fills it with [`TableSpec::rows`] rows.
    ///
    /// Every row differs, and the same seed makes the same rows. A million
    /// sysbench rows take about fifteen seconds on two cores.
    ///
    /// # Errors
    ///
    /// What the server said.
    pub async fn create(&self, conn: &mut Conn, seed: u64) -> Result<(), mysql_async::Error> {
        let database = format!("CREATE DATABASE IF NOT EXISTS {}", quote(&self.database));
        conn.query_drop(database).await?;
        conn.query_drop(self.create_sql()).await?;
        let depth = format!(
            "SET SESSION cte_max_recursion_depth = {}",
            ROWS_PER_STATEMENT + 1
        );
        conn.query_drop(depth).await?;
        let mut first = 1;
        while first <= self.rows {
            let last = self.rows.min(first + ROWS_PER_STATEMENT - 1);
            conn.query_drop(self.load_sql(first, last, seed)).await?;
            first = last + 1;
        }
        Ok(())
    }

    /// One statement that makes the rows `first` to `last`.
    fn load_sql(&self, first: u64, last: u64, seed: u64) -> String {
        let expression = |(index, (_, content)): (usize, &(&str, Content))| match content {
            Content::Number(bound) => {
                format!("CRC32(CONCAT({seed}, '-', n, '-{index}')) % {bound}")
            }
            Content::Text(length) if *length <= 64 => {
                format!("LEFT(SHA2(CONCAT({seed}, '-', n, '-{index}'), 256), {length})")
            }
            Content::Text(length) => {
                format!("LEFT(SHA2(CONCAT({seed}, '-', n, '-{index}'), 512), {length})")
            }
            Content::Unique => "n".to_owned(),
        };
        let values: Vec<String> = self.columns.iter().enumerate().map(expression).collect();
        let names: Vec<String> = self.column_names().into_iter().map(quote).collect();
        format!(
            "INSERT INTO {table} ({names}) WITH RECURSIVE seq (n) AS \
             (SELECT {first} UNION ALL SELECT n + 1 FROM seq WHERE n < {last}) \
             SELECT n, {values} FROM seq",
            table = self.quoted(),
            names = names.join(", "),
            values = values.join(", "),
        )
    }

    /// New random values for all columns but the key.
    pub(crate) fn random_values(&self, rng: &mut fastrand::Rng) -> Vec<Value> {
        self.columns
            .iter()
            .map(|(_, content)| random_value(*content, rng))
            .collect()
    }
}

fn random_value(content: Content, rng: &mut fastrand::Rng) -> Value {
    match content {
        Content::Number(bound) => Value::from(rng.u32(0..bound.max(1))),
        Content::Text(length) => {
            let text: String = (0..length).map(|_| rng.alphanumeric()).collect();
            Value::from(text)
        }
        // Far above what the loader gives; two equal ones are as good as impossible.
        Content::Unique => Value::from(rng.i64(1 << 32..1 << 62)),
    }
}

/// A name in backticks.
pub(crate) fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sysbench_table_is_sysbenchs() {
        let sql = TableSpec::sysbench("d", "sbtest1", 10).create_sql();
        assert_eq!(
            sql,
            "CREATE TABLE `d`.`sbtest1` (`id` INT NOT NULL AUTO_INCREMENT, \
             `k` INT NOT NULL DEFAULT 0, `c` CHAR(120) NOT NULL DEFAULT '', \
             `pad` CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (`id`), KEY `k_1` (`k`)) \
             ENGINE=InnoDB"
        );
    }

    #[test]
    fn a_backtick_in_a_name_is_doubled() {
        assert_eq!(TableSpec::sysbench("d", "a`b", 1).quoted(), "`d`.`a``b`");
    }

    #[test]
    fn the_same_seed_makes_the_same_values() {
        let table = TableSpec::with_unique("d", "t", 1);
        let values = |seed| table.random_values(&mut fastrand::Rng::with_seed(seed));
        assert_eq!(values(7), values(7));
        assert_ne!(values(7), values(8));
    }
}

//! Tables: columns, a key, indexes, rows.

use fastrand::Rng;

use super::{
    kind::{Kind, one_of},
    value,
};

/// Rows that are there before the change.
const ROWS: usize = 300;
/// Rows of one statement.
const ROWS_PER_STATEMENT: usize = 30;
/// Zero dates and key 0 are values like others.
pub(super) const MODE: &str = "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', SESSION time_zone = '+00:00'";

/// A column.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) nullable: bool,
    /// What it is generated from, with `STORED` or `VIRTUAL`.
    pub(super) generated: Option<String>,
    pub(super) auto_increment: bool,
}

/// A table.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    /// The names of the key's columns.
    pub(super) key: Vec<String>,
    /// The key is a PRIMARY KEY, not only a unique one.
    pub(super) primary: bool,
    /// Other indexes: name, columns, whether they are unique.
    pub(super) indexes: Vec<(String, Vec<String>, bool)>,
    /// Literals of keys that rows had, in the order of the key's columns.
    pub(super) known: Vec<Vec<String>>,
}

impl Column {
    pub(super) fn plain(name: &str, kind: Kind, nullable: bool) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            nullable,
            generated: None,
            auto_increment: false,
        }
    }

    /// The definition behind the name.
    pub(super) fn sql(&self) -> String {
        let mut sql = self.kind.sql();
        if let Some(generated) = &self.generated {
            sql.push_str(&format!(" AS {generated}"));
            return sql;
        }
        sql.push_str(if self.nullable { " NULL" } else { " NOT NULL" });
        if self.auto_increment {
            sql.push_str(" AUTO_INCREMENT");
        }
        sql
    }

    /// Whether writers give it values.
    pub(super) const fn is_written(&self) -> bool {
        self.generated.is_none()
    }

    pub(super) fn value(&self, rng: &mut Rng) -> String {
        if self.nullable && rng.u32(0..5) == 0 {
            return "NULL".to_owned();
        }
        value::draw(&self.kind, rng)
    }
}

/// Draws a table; its rows are drawn by [`Table::rows`].
pub(super) fn draw(rng: &mut Rng) -> Table {
    let mut columns = Vec::new();
    let parts = one_of(rng, &[1, 1, 1, 2, 2, 3]).unwrap_or(1);
    for at in 0..parts {
        let mut kind = Kind::draw_for_key(rng);
        // One part at least has enough values for all rows.
        while at == 0 && !kind.is_wide() {
            kind = Kind::draw_for_key(rng);
        }
        columns.push(Column::plain(&format!("k{at}"), kind, false));
    }
    let key: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let primary = rng.u32(0..6) > 0;
    if let ([first], true) = (&mut *columns, rng.u32(0..3) == 0) {
        first.auto_increment = matches!(first.kind, Kind::Int { bytes: 4.., .. });
    }
    for at in 0..rng.usize(3..8) {
        let column = Column::plain(&format!("c{at}"), Kind::draw(rng), rng.u32(0..3) > 0);
        columns.insert(rng.usize(0..=columns.len()), column);
    }
    columns.push(Column::plain(
        "n",
        Kind::Int {
            bytes: 4,
            unsigned: false,
        },
        true,
    ));
    if rng.u32(0..3) == 0 {
        let stored = if rng.bool() { "STORED" } else { "VIRTUAL" };
        let mut column = Column::plain(
            "g",
            Kind::Int {
                bytes: 8,
                unsigned: false,
            },
            true,
        );
        column.generated = Some(format!("(n * 2 + 1) {stored}"));
        columns.push(column);
    }
    let mut table = Table {
        columns,
        key,
        primary,
        indexes: Vec::new(),
        known: Vec::new(),
    };
    table.draw_indexes(rng);
    table.draw_known(rng);
    table
}

impl Table {
    fn draw_indexes(&mut self, rng: &mut Rng) {
        let fit = |column: &&Column| column.kind.is_indexable();
        let names: Vec<String> = self
            .columns
            .iter()
            .filter(fit)
            .map(|c| c.name.clone())
            .collect();
        for at in 0..rng.usize(0..4) {
            let mut columns: Vec<String> = Vec::new();
            for _ in 0..rng.usize(1..3) {
                columns.extend(one_of(rng, &names).filter(|name| !columns.contains(name)));
            }
            let unique = rng.u32(0..3) == 0;
            self.indexes.push((format!("i{at}"), columns, unique));
        }
    }

    /// Keys that rows shall have, and that writers come back to.
    fn draw_known(&mut self, rng: &mut Rng) {
        for _ in 0..ROWS {
            let key = self
                .key_columns()
                .map(|column| value::draw(&column.kind, rng))
                .collect();
            self.known.push(key);
        }
    }

    /// The key's columns, in its order.
    pub(super) fn key_columns(&self) -> impl Iterator<Item = &Column> {
        let column = |name: &String| self.columns.iter().find(|column| column.name == *name);
        self.key.iter().filter_map(column)
    }

    /// The columns that writers give values, without the key's.
    pub(super) fn value_columns(&self) -> Vec<&Column> {
        let fit = |column: &&Column| column.is_written() && !self.key.contains(&column.name);
        self.columns.iter().filter(fit).collect()
    }

    /// A row with this key, as `(…)`, in the order of [`Table::written_names`].
    pub(super) fn row(&self, key: &[String], rng: &mut Rng) -> String {
        let mut values = key.to_vec();
        values.extend(
            self.value_columns()
                .into_iter()
                .map(|column| column.value(rng)),
        );
        format!("({})", values.join(", "))
    }

    /// The written columns: the key's, then the others.
    pub(super) fn written_names(&self) -> String {
        let mut names = self.key.clone();
        names.extend(
            self.value_columns()
                .into_iter()
                .map(|column| column.name.clone()),
        );
        names.join(", ")
    }

    /// The statements that make the table.
    pub(super) fn create(&self) -> Vec<String> {
        let mut parts: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("{} {}", column.name, column.sql()))
            .collect();
        let key = self.key.join(", ");
        parts.push(if self.primary {
            format!("PRIMARY KEY ({key})")
        } else {
            format!("UNIQUE KEY the_key ({key})")
        });
        for (name, columns, unique) in &self.indexes {
            let word = if *unique { "UNIQUE KEY" } else { "KEY" };
            parts.push(format!("{word} {name} ({})", columns.join(", ")));
        }
        vec![
            MODE.to_owned(),
            format!("CREATE TABLE t ({})", parts.join(", ")),
        ]
    }

    /// The statements that fill it. A row replaces others that have a unique value of its.
    pub(super) fn rows(&self, rng: &mut Rng) -> Vec<String> {
        let names = self.written_names();
        let statement = |keys: &[Vec<String>]| {
            let rows: Vec<String> = keys.iter().map(|key| self.row(key, rng)).collect();
            format!("REPLACE INTO t ({names}) VALUES {}", rows.join(", "))
        };
        self.known
            .chunks(ROWS_PER_STATEMENT)
            .map(statement)
            .collect()
    }
}

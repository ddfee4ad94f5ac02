//! Secondary indexes that are built after the rows are copied.

use std::time::Duration;

use mysql_async::{Conn, Error as DriverError, Row, prelude::Queryable};
use oxferry_schema::{Ident, OWN_DDL_COMMENT, Table, TableName, server_code};

use crate::{
    Connections, CopyError, WorkLimits,
    connections::{Named, Session, Unit},
    error::Task,
    plan::finding_index,
};

/// The secondary indexes of a target that are taken away before its rows are
/// copied and built in one pass afterwards.
///
/// That is faster by far than keeping them up row by row, and a table without
/// secondary unique indexes may be copied in *ranged* mode. A unique index may
/// be built only at a consistent point; see ARCHITECTURE.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredIndexes {
    table: TableName,
    /// What `SHOW CREATE TABLE` printed while the indexes were there.
    original: String,
    indexes: Vec<Deferred>,
}

/// One index to build later.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Deferred {
    name: Ident,
    unique: bool,
    /// Its line of `SHOW CREATE TABLE`, without comma.
    definition: String,
}

/// What the server may use to build indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain settings with a default")]
pub struct BuildSettings {
    /// Threads that read and that sort; a server without the setting has one.
    pub threads: u32,
    /// Memory to sort in, for all threads together, in bytes.
    pub buffer_bytes: u64,
}

impl Default for BuildSettings {
    /// Four threads, as MySQL's own defaults, and 64 MiB instead of its 1 MiB.
    fn default() -> Self {
        Self {
            threads: 4,
            buffer_bytes: 64 << 20,
        }
    }
}

impl DeferredIndexes {
    /// Decides which indexes of `table` are built later.
    ///
    /// `key` are the columns that hold the source's key; the index over
    /// them stays, and the primary key, FULLTEXT and SPATIAL indexes, the index that
    /// an `AUTO_INCREMENT` column needs, and those that a foreign key needs.
    #[must_use]
    pub fn plan(table: &Table, key: &[Ident]) -> Self {
        let needed = needed(table, key);
        let indexes = table
            .create_statement
            .lines()
            .filter_map(Deferred::parse)
            .filter(|index| !needed.contains(&&index.name))
            .collect();
        Self {
            table: table.name.clone(),
            original: table.create_statement.clone(),
            indexes,
        }
    }

    /// Leaves all indexes of `table` where they are.
    #[must_use]
    pub fn none(table: &Table) -> Self {
        Self {
            table: table.name.clone(),
            original: table.create_statement.clone(),
            indexes: Vec::new(),
        }
    }

    /// Returns whether nothing is to be built later.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Returns the indexes' names.
    pub fn names(&self) -> impl Iterator<Item = &Ident> {
        self.indexes.iter().map(|index| &index.name)
    }

    /// Returns the names of the unique ones.
    pub fn unique_names(&self) -> impl Iterator<Item = &Ident> {
        let unique = self.indexes.iter().filter(|index| index.unique);
        unique.map(|index| &index.name)
    }

    /// Takes the indexes away that are still there, in one statement.
    ///
    /// # Errors
    ///
    /// [`CopyError`] when the server refuses.
    pub async fn drop_all(&self, connections: &Connections) -> Result<(), CopyError> {
        let unit = Change {
            plan: self,
            step: Step::Drop,
        };
        connections.run(&unit).await
    }

    /// Builds the indexes that are missing, in one statement, and makes sure
    /// that the table is then what it was before they were taken away.
    ///
    /// # Errors
    ///
    /// [`CopyError`] when the server refuses; its remedy is
    /// [`Remedy::Data`](oxferry_schema::Remedy::Data) when two rows have the
    /// same value in a unique index, which the server's message names.
    pub async fn build(
        &self,
        connections: &Connections,
        settings: BuildSettings,
    ) -> Result<(), CopyError> {
        let unit = Change {
            plan: self,
            step: Step::Build(settings),
        };
        connections.run(&unit).await?;
        let look = Look(&self.table);
        self.verify_restored(&connections.run(&look).await?)
    }

    /// Makes sure that `found`, what `SHOW CREATE TABLE` prints now, says the
    /// same as before the indexes were taken away.
    ///
    /// The next automatic value may differ, and the order of the indexes, where
    /// one that stayed stood behind one that was built later.
    ///
    /// # Errors
    ///
    /// [`CopyError::NotRestored`] when it doesn't.
    pub fn verify_restored(&self, found: &str) -> Result<(), CopyError> {
        if normalized(found) == normalized(&self.original) {
            return Ok(());
        }
        Err(CopyError::NotRestored {
            table: self.table.clone(),
            expected: self.original.clone(),
            found: found.to_owned(),
        })
    }

    /// Writes the statement that does `step`, given what the table is now;
    /// `None` when nothing is left to do.
    fn sql(&self, step: Step, now: &str) -> Option<String> {
        let present: Vec<Ident> = now
            .lines()
            .filter_map(Deferred::parse)
            .map(|i| i.name)
            .collect();
        let clauses: Vec<String> = match step {
            Step::Drop => {
                let left = self.names().filter(|name| present.contains(name));
                left.map(|name| format!("DROP INDEX {name}")).collect()
            }
            Step::Build(_) => {
                let missing = self.indexes.iter().filter(|i| !present.contains(&i.name));
                missing.map(|i| format!("ADD {}", i.definition)).collect()
            }
        };
        let clauses = (!clauses.is_empty()).then(|| clauses.join(", "))?;
        // The comment tells the job's own statements from others' in the target's
        // binary log.
        Some(format!(
            "ALTER TABLE {OWN_DDL_COMMENT} {} {clauses}",
            self.table
        ))
    }
}

impl Deferred {
    /// Reads a line such as ``  UNIQUE KEY `u` (`a`,`b`),``; others are `None`.
    ///
    /// A line of `SHOW CREATE TABLE` is one column, index or constraint: the
    /// server writes a line break inside a comment or a default as `\n`.
    fn parse(line: &str) -> Option<Self> {
        let definition = line.trim().trim_end_matches(',');
        let (unique, quoted) = match definition.strip_prefix("UNIQUE KEY ") {
            Some(rest) => (true, rest),
            None => (false, definition.strip_prefix("KEY ")?),
        };
        let (name, _) = unquote(quoted)?;
        Some(Self {
            name: Ident::new(name).ok()?,
            unique,
            definition: definition.to_owned(),
        })
    }
}

/// What a [`Change`] does.
#[derive(Clone, Copy)]
enum Step {
    Drop,
    Build(BuildSettings),
}

/// One `ALTER TABLE`; it looks first what is left to do, so it may be repeated.
struct Change<'a> {
    plan: &'a DeferredIndexes,
    step: Step,
}

impl Named for Change<'_> {
    fn task(&self) -> Task {
        Task::Indexes(self.plan.names().cloned().collect())
    }

    fn table(&self) -> &TableName {
        &self.plan.table
    }
}

impl Unit for Change<'_> {
    type Output = ();

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<(), DriverError> {
        let conn = &mut session.conn;
        let now = create_statement(conn, &self.plan.table).await?;
        let Some(sql) = self.plan.sql(self.step, &now) else {
            return Ok(());
        };
        if let Step::Build(settings) = self.step {
            prepare(conn, settings).await?;
        }
        // Nobody else uses the table yet, so any way that the server has is
        // good; this one is the fastest.
        let fast = format!("{sql}, ALGORITHM=INPLACE, LOCK=NONE");
        match conn.query_drop(fast).await {
            Err(error) if server_code(&error).is_some_and(|c| NOT_IN_PLACE.contains(&c)) => {
                conn.query_drop(sql).await
            }
            done => done,
        }
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.index
    }
}

/// Reads what the table is now.
struct Look<'a>(&'a TableName);

impl Named for Look<'_> {
    fn task(&self) -> Task {
        Task::Indexes(Vec::new())
    }

    fn table(&self) -> &TableName {
        self.0
    }
}

impl Unit for Look<'_> {
    type Output = String;

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<String, DriverError> {
        create_statement(&mut session.conn, self.0).await
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

async fn create_statement(conn: &mut Conn, table: &TableName) -> Result<String, DriverError> {
    let row: Option<Row> = conn
        .query_first(format!("SHOW CREATE TABLE {table}"))
        .await?;
    let text = row.and_then(|row| row.get_opt::<String, _>(1)?.ok());
    text.ok_or_else(|| DriverError::Other("SHOW CREATE TABLE printed no text".into()))
}

/// Gives the session what it may use. Servers before 8.0.27, and MariaDB, lack
/// some of the settings and build more slowly.
async fn prepare(conn: &mut Conn, settings: BuildSettings) -> Result<(), DriverError> {
    let BuildSettings {
        threads,
        buffer_bytes,
    } = settings;
    for (name, value) in [
        ("innodb_parallel_read_threads", u64::from(threads)),
        ("innodb_ddl_threads", u64::from(threads)),
        ("innodb_ddl_buffer_size", buffer_bytes),
    ] {
        match conn
            .query_drop(format!("SET SESSION {name} = {value}"))
            .await
        {
            Err(error) if server_code(&error).is_some_and(|c| NO_SETTING.contains(&c)) => {
                tracing::debug!(setting = name, "the server builds indexes without it");
            }
            done => done?,
        }
    }
    Ok(())
}

/// Returns the names of the indexes that must be there while rows are written.
fn needed<'a>(table: &'a Table, key: &[Ident]) -> Vec<&'a Ident> {
    let mut needed: Vec<&Ident> = table
        .indexes
        .iter()
        .filter(|index| index.name.as_str() == "PRIMARY")
        .chain(finding_index(table, key))
        .map(|index| &index.name)
        .collect();
    let automatic = table.columns.iter().find(|column| column.auto_increment);
    if let Some(column) = automatic {
        let mut leading = table.indexes.iter().filter(|index| {
            let first = index.parts.first().and_then(|part| part.column.as_ref());
            first == Some(&column.name)
        });
        let served = leading.clone().any(|index| needed.contains(&&index.name));
        if !served {
            needed.extend(leading.next().map(|index| &index.name));
        }
    }
    for columns in table.create_statement.lines().filter_map(foreign_key) {
        let serves = table.indexes.iter().filter(|index| {
            let parts = index.parts.iter().map(|part| part.column.as_ref());
            index.parts.len() >= columns.len()
                && parts
                    .zip(&columns)
                    .all(|(part, column)| part.is_some_and(|p| p.as_str() == column))
        });
        needed.extend(serves.map(|index| &index.name));
    }
    needed
}

/// Reads the columns out of ``CONSTRAINT `c` FOREIGN KEY (`a`, `b`) REFERENCES …``.
fn foreign_key(line: &str) -> Option<Vec<String>> {
    let rest = line.trim().strip_prefix("CONSTRAINT ")?;
    let (_, rest) = unquote(rest)?;
    let mut rest = rest.strip_prefix(" FOREIGN KEY (")?;
    let mut columns = Vec::new();
    while let Some((column, after)) = unquote(rest) {
        columns.push(column);
        rest = after.strip_prefix(", ").unwrap_or(after);
    }
    Some(columns)
}

/// Reads a quoted name off the front of `text`; returns it bare, and the rest.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('`')?;
    let mut name = String::new();
    loop {
        let (part, after) = rest.split_once('`')?;
        name.push_str(part);
        match after.strip_prefix('`') {
            Some(more) => {
                name.push('`');
                rest = more;
            }
            None => return Some((name, after)),
        }
    }
}

/// Brings a `CREATE TABLE` statement into the form that two of them are
/// compared in: index lines sorted, commas at line ends and the next automatic
/// value left out.
fn normalized(statement: &str) -> Vec<String> {
    let line = |line: &str| {
        let line = line.trim_end_matches(',');
        let options = line.starts_with(") ENGINE=");
        match line.split_once(" AUTO_INCREMENT=") {
            Some((before, after)) if options && !before.contains(" COMMENT='") => {
                format!(
                    "{before}{}",
                    after.trim_start_matches(|c: char| c.is_ascii_digit())
                )
            }
            _ => line.to_owned(),
        }
    };
    let (mut indexes, mut lines): (Vec<String>, Vec<String>) = statement
        .lines()
        .map(line)
        .partition(|line| Deferred::parse(line).is_some());
    indexes.sort();
    lines.append(&mut indexes);
    lines
}

/// `ER_ALTER_OPERATION_NOT_SUPPORTED` and its form with a reason.
/// Source: MySQL 9.7 "Server Error Message Reference".
const NOT_IN_PLACE: [u16; 2] = [1845, 1846];

/// `ER_UNKNOWN_SYSTEM_VARIABLE`, `ER_GLOBAL_VARIABLE`.
/// Source: MySQL 9.7 "Server Error Message Reference".
const NO_SETTING: [u16; 2] = [1193, 1229];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{column, ident, index, table};

    const CREATE: &str = "CREATE TABLE `n` (\n  \
        `id` int NOT NULL AUTO_INCREMENT,\n  \
        `a` int DEFAULT NULL COMMENT 'KEY `x` (`a`)',\n  \
        PRIMARY KEY (`id`),\n  \
        UNIQUE KEY `u` (`a`),\n  \
        KEY `b``c` (`a`,`id`) /*!80000 INVISIBLE */,\n  \
        FULLTEXT KEY `f` (`a`)\n\
        ) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4";

    fn shadow() -> Table {
        let mut table = table(
            "n",
            [column("id", "int"), column("a", "int")],
            [
                index("PRIMARY", true, &["id"]),
                index("u", true, &["a"]),
                index("b`c", false, &["a", "id"]),
            ],
        );
        table.columns[0].auto_increment = true;
        table.create_statement = CREATE.to_owned();
        table
    }

    fn names(plan: &DeferredIndexes) -> Vec<&str> {
        plan.names().map(Ident::as_str).collect()
    }

    #[test]
    fn plain_secondary_indexes_are_built_later() {
        let plan = DeferredIndexes::plan(&shadow(), &[ident("id")]);
        assert_eq!(names(&plan), ["u", "b`c"]);
        assert_eq!(plan.unique_names().collect::<Vec<_>>(), [&ident("u")]);
        assert_eq!(
            plan.sql(Step::Drop, CREATE).unwrap(),
            "ALTER TABLE /* oxferry */ `d`.`n` DROP INDEX `u`, DROP INDEX `b``c`"
        );
        assert_eq!(
            plan.sql(Step::Build(BuildSettings::default()), CREATE),
            None
        );
        assert_eq!(
            plan.sql(Step::Build(BuildSettings::default()), "").unwrap(),
            "ALTER TABLE /* oxferry */ `d`.`n` ADD UNIQUE KEY `u` (`a`), \
             ADD KEY `b``c` (`a`,`id`) /*!80000 INVISIBLE */"
        );
    }

    #[test]
    fn the_index_of_the_sources_key_stays() {
        let plan = DeferredIndexes::plan(&shadow(), &[ident("a")]);
        assert_eq!(names(&plan), ["b`c"]);
    }

    #[test]
    fn the_only_index_of_an_automatic_column_stays() {
        let mut shadow = shadow();
        shadow.columns[0].auto_increment = false;
        shadow.columns[1].auto_increment = true;
        let plan = DeferredIndexes::plan(&shadow, &[ident("id")]);
        assert_eq!(names(&plan), ["b`c"]);
    }

    #[test]
    fn indexes_that_a_foreign_key_needs_stay() {
        let mut shadow = shadow();
        shadow.create_statement = CREATE.replace(
            "\n)",
            ",\n  CONSTRAINT `fk` FOREIGN KEY (`a`, `id`) REFERENCES `p` (`x`, `y`)\n)",
        );
        let plan = DeferredIndexes::plan(&shadow, &[ident("id")]);
        assert_eq!(names(&plan), ["u"]);
    }

    #[test]
    fn only_the_automatic_value_and_the_order_of_indexes_may_differ() {
        let plan = DeferredIndexes::plan(&shadow(), &[ident("id")]);
        let later = CREATE.replace("AUTO_INCREMENT=7 ", "");
        plan.verify_restored(&later).unwrap();
        let lost = CREATE.replace("UNIQUE KEY `u`", "KEY `u`");
        assert!(matches!(
            plan.verify_restored(&lost),
            Err(CopyError::NotRestored { .. })
        ));
    }
}

//! Several tables in two databases, and writers whose transactions span them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_testkit::{
    compare::Comparison,
    server::{Schema, Server, ServerOptions, shared},
    tables::TableSpec,
    tool::Oxferry,
    wait::eventually,
    writer::{WriterOptions, WriterReport, Writers},
};
use tokio::task::JoinHandle;

use crate::world::{LIMIT, options};

/// The first key of the rows that [`Spanning`] writes, beyond those of others.
const SPANNING: u64 = 5_000_000;

/// Tables `t` and `e` of one database, and `u` of another.
pub(crate) struct Several {
    pub(crate) here: Schema,
    pub(crate) there: Schema,
    pub(crate) tables: Vec<TableSpec>,
}

impl Several {
    /// Makes `t` with so many rows, `u`, which has a unique key, with a third
    /// of them, and `e` without any.
    pub(crate) async fn new(rows: u64) -> Self {
        Self::on(options(), rows).await
    }

    /// The same, on a server with these settings.
    pub(crate) async fn on(options: ServerOptions, rows: u64) -> Self {
        let server: Arc<Server> = shared(options).await.unwrap();
        let here = Schema::on(Arc::clone(&server)).await.unwrap();
        let there = Schema::on(server).await.unwrap();
        let tables = vec![
            TableSpec::sysbench(here.name(), "t", rows),
            TableSpec::with_unique(there.name(), "u", rows / 3),
            TableSpec::sysbench(here.name(), "e", 0),
        ];
        let mut conn = here.conn().await.unwrap();
        for (table, seed) in tables.iter().zip(1..) {
            table.create(&mut conn, seed).await.unwrap();
        }
        Self {
            here,
            there,
            tables,
        }
    }

    pub(crate) async fn conn(&self) -> Conn {
        self.here.conn().await.unwrap()
    }

    /// `ALTER TABLE` statements that add a column `extra` to each table.
    pub(crate) fn statements(&self) -> Vec<String> {
        let alter = |table: &TableSpec| {
            let table = table.quoted();
            format!("ALTER TABLE {table} ADD COLUMN extra INT NOT NULL DEFAULT 7")
        };
        self.tables.iter().map(alter).collect()
    }

    /// `oxferry migrate` of these statements, by copies in any case, in chunks as
    /// small as they get.
    pub(crate) fn migrate(&self, statements: &[String]) -> Oxferry {
        let words = [
            "--chunk-time",
            "20ms",
            "--chunk-bytes",
            "64K",
            "--native-ddl",
            "off",
        ];
        let migrate = self.oxferry(&["migrate"], statements);
        words.into_iter().fold(migrate, Oxferry::arg)
    }

    /// `oxferry COMMAND --source URL --statement …`.
    pub(crate) fn oxferry(&self, command: &[&str], statements: &[String]) -> Oxferry {
        let program = env!("CARGO_BIN_EXE_oxferry");
        let url = self.here.url();
        let words = command.iter().copied().chain(["--source", &url]);
        let call = Oxferry::new(words).program(program);
        statements.iter().fold(call, |call, statement| {
            call.arg("--statement").arg(statement)
        })
    }

    /// The tables of both databases, apart from the three themselves.
    pub(crate) async fn tables_beside(&self) -> Vec<String> {
        let mut beside = Vec::new();
        for schema in [&self.here, &self.there] {
            let mut conn = schema.conn().await.unwrap();
            beside.extend(conn.query::<String, _>("SHOW TABLES").await.unwrap());
        }
        beside.retain(|table| !["t", "u", "e"].contains(&table.as_str()));
        beside.sort();
        beside
    }

    /// What `SHOW CREATE TABLE` prints of each table, but for the counter.
    pub(crate) async fn definitions(&self) -> Vec<String> {
        let mut conn = self.conn().await;
        let mut all = Vec::new();
        for table in &self.tables {
            let show = format!("SHOW CREATE TABLE {}", table.quoted());
            let row: Option<(String, String)> = conn.query_first(show).await.unwrap();
            let lines = row.unwrap().1;
            let lines = lines.lines().filter(|line| !line.starts_with(')'));
            all.push(lines.collect::<Vec<_>>().join("\n"));
        }
        all
    }

    /// Writers on each table alone, and one whose transactions span all.
    pub(crate) async fn writers(&self, seed: u64) -> AllWriters {
        let url = self.here.server().url();
        let mut alone = Vec::new();
        for (table, seed) in self.tables.iter().zip(seed..) {
            let writers = Writers::start(&url, table, WriterOptions::new(2, seed));
            alone.push(writers.await.unwrap());
        }
        let spanning = Spanning::start(self.conn().await, &self.tables);
        let all = AllWriters { alone, spanning };
        all.wait_for_commits(5).await;
        all
    }

    /// Checks that no write was lost: every key that a writer touched is as it
    /// was committed last, every other one is as in the old table, and every
    /// transaction over all tables is in all of them.
    pub(crate) async fn check_against_old(&self, reports: &AllReports) {
        for (table, report) in self.tables.iter().zip(&reports.alone) {
            assert_eq!(report.errors, 0, "{:?}", report.last_error);
            let mut conn = self.conn().await;
            let journal = &report.journal;
            journal.check(&mut conn, table).await.unwrap();
            let stored = journal.store_keys(&mut conn, "touched", table.key);
            stored.await.unwrap();
            let old = table.named(&format!("_{}_oxold", table.name)).quoted();
            let new = table.quoted();
            let others = format!("INSERT INTO touched SELECT id FROM {new} WHERE id >= {SPANNING}");
            conn.query_drop(others).await.unwrap();
            let names = table.column_names();
            let untouched = Comparison::new(&old, &new, &[table.key], &names);
            let untouched = untouched.except_keys_in("`touched`");
            untouched.run(&mut conn).await.unwrap();
            let count = format!("SELECT COUNT(*) FROM {new} WHERE id > {SPANNING}");
            let count: Option<u64> = conn.query_first(count).await.unwrap();
            assert_eq!(count, Some(reports.spanning), "{new}");
            let filled = format!("SELECT COUNT(*), COALESCE(SUM(extra = 7), 0) FROM {new}");
            let filled: Option<(u64, u64)> = conn.query_first(filled).await.unwrap();
            let (rows, filled) = filled.unwrap();
            assert_eq!(rows, filled, "{new}");
        }
    }
}

/// All that write, until they are stopped.
pub(crate) struct AllWriters {
    alone: Vec<Writers>,
    spanning: Spanning,
}

/// What they did.
pub(crate) struct AllReports {
    alone: Vec<WriterReport>,
    /// Transactions over all tables, each of which left a row in every one.
    pub(crate) spanning: u64,
}

impl AllWriters {
    /// Waits until each of them has committed so many transactions more.
    pub(crate) async fn wait_for_commits(&self, more: u64) {
        for writers in &self.alone {
            writers.wait_for_commits(more, LIMIT).await.unwrap();
        }
        let wanted = self.spanning.committed() + more;
        let enough = async || (self.spanning.committed() >= wanted).then_some(());
        eventually(LIMIT, "transactions over all tables", enough)
            .await
            .unwrap();
    }

    pub(crate) async fn stop(self) -> AllReports {
        let mut alone = Vec::new();
        for writers in self.alone {
            alone.push(writers.stop().await);
        }
        let spanning = self.spanning.stop().await;
        AllReports { alone, spanning }
    }
}

/// One writer; each of its transactions adds a row to every table.
struct Spanning {
    task: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
}

impl Spanning {
    fn start(mut conn: Conn, tables: &[TableSpec]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let committed = Arc::new(AtomicU64::new(0));
        let tables = tables.to_vec();
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&committed));
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                let id = SPANNING + 1 + count.load(Ordering::Relaxed);
                match transaction(&mut conn, &tables, id).await {
                    Ok(()) => drop(count.fetch_add(1, Ordering::Relaxed)),
                    Err(mysql_async::Error::Server(error)) if RETRIED.contains(&error.code) => {
                        conn.query_drop("ROLLBACK").await.unwrap();
                    }
                    other => other.unwrap(),
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        Self {
            task,
            stop,
            committed,
        }
    }

    fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        self.committed.load(Ordering::Relaxed)
    }
}

async fn transaction(
    conn: &mut Conn,
    tables: &[TableSpec],
    id: u64,
) -> Result<(), mysql_async::Error> {
    conn.query_drop("BEGIN").await?;
    for table in tables {
        let (name, columns) = (table.quoted(), table.column_names());
        let column = columns.get(1).unwrap();
        let insert = format!("INSERT INTO {name} (id, {column}) VALUES ({id}, {id})");
        conn.query_drop(insert).await?;
    }
    for table in tables {
        let (name, columns) = (table.quoted(), table.column_names());
        let column = columns.get(2).unwrap();
        let update = format!("UPDATE {name} SET {column} = 'twice' WHERE id IN ({id}, {id} - 10)");
        conn.query_drop(update).await?;
    }
    conn.query_drop("COMMIT").await
}

/// Deadlock, lock wait, table swapped under the snapshot or between two
/// statements.
const RETRIED: [u16; 4] = [1213, 1205, 1412, 1146];

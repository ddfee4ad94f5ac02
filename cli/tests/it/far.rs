//! A table on one server, writers on it, and another server that it moves to.

use std::sync::Arc;

use mysql_async::{Conn, Row, prelude::Queryable};
use oxferry_testkit::{
    server::{Schema, Server, ServerOptions, shared},
    tables::TableSpec,
    tool::Oxferry,
    writer::{WriterOptions, WriterReport, Writers},
};

use crate::world::{LIMIT, options};

/// A database with one table `t` on the source, to be moved to a database of
/// the same name on the target.
pub(crate) struct Far {
    pub(crate) source: Schema,
    pub(crate) target: Arc<Server>,
    pub(crate) table: TableSpec,
}

impl Far {
    /// Two servers with the usual settings, shared by the tests.
    pub(crate) async fn new(make: fn(&str, &str, u64) -> TableSpec, rows: u64) -> Self {
        Self::on((options(), target_options()), make, rows).await
    }

    /// Two servers with these settings.
    pub(crate) async fn on(
        (source, target): (ServerOptions, ServerOptions),
        make: fn(&str, &str, u64) -> TableSpec,
        rows: u64,
    ) -> Self {
        let source = Schema::on(shared(source).await.unwrap()).await.unwrap();
        let table = make(source.name(), "t", rows);
        let mut conn = source.conn().await.unwrap();
        table.create(&mut conn, 11).await.unwrap();
        Self {
            source,
            target: shared(target).await.unwrap(),
            table,
        }
    }

    /// `oxferry move` of the database, in chunks as small as they get; the
    /// source's tables are renamed at the switch.
    pub(crate) fn moves(&self) -> Oxferry {
        self.oxferry("move")
            .arg("--lock-source")
            .arg("rename")
            .arg("--chunk-time")
            .arg("20ms")
            .arg("--chunk-bytes")
            .arg("64K")
    }

    /// `oxferry COMMAND --source URL --target URL --database NAME`.
    pub(crate) fn oxferry(&self, command: &str) -> Oxferry {
        self.call(&[command], &[])
    }

    /// The same, of a command of several words, with options.
    pub(crate) fn call(&self, words: &[&str], options: &[&str]) -> Oxferry {
        let (source, target) = (self.source.server().url(), self.target.url());
        let servers = ["--source", &source, "--target", &target];
        let database = ["--database", self.source.name()];
        let arguments = [words, &servers, &database, options].concat();
        Oxferry::new(arguments).program(env!("CARGO_BIN_EXE_oxferry"))
    }

    pub(crate) async fn writers(&self, count: u32, seed: u64) -> Writers {
        let url = self.source.server().url();
        let options = WriterOptions::new(count, seed);
        let writers = Writers::start(&url, &self.table, options).await.unwrap();
        writers.wait_for_commits(20, LIMIT).await.unwrap();
        writers
    }

    /// A session on the target, in the database that was moved.
    pub(crate) async fn target_conn(&self) -> Conn {
        self.target.conn_to(self.source.name()).await.unwrap()
    }

    /// Checks that no committed write is missing on the target, and that it
    /// holds what the source's renamed table holds.
    pub(crate) async fn check(&self, report: &WriterReport) {
        let mut target = self.target_conn().await;
        report
            .journal
            .check(&mut target, &self.table)
            .await
            .unwrap();
        self.check_rows("_t_oxold", "t").await;
    }

    /// Checks that a table of the source and one of the target hold the same.
    pub(crate) async fn check_rows(&self, on_source: &str, on_target: &str) -> usize {
        self.check_rows_in(self.source.name(), on_source, on_target)
            .await
    }

    /// The same in another database.
    pub(crate) async fn check_rows_in(
        &self,
        database: &str,
        on_source: &str,
        on_target: &str,
    ) -> usize {
        let mut source = self.source.server().conn_to(database).await.unwrap();
        let mut target = self.target.conn_to(database).await.unwrap();
        let here = rows(&mut source, on_source).await;
        let there = rows(&mut target, on_target).await;
        assert_eq!(
            here.len(),
            there.len(),
            "rows of {on_source} and {on_target}"
        );
        let differs = here.iter().zip(&there).find(|(here, there)| here != there);
        assert_eq!(differs, None, "rows of {on_source} and {on_target}");
        here.len()
    }

    /// Returns whether the move has made its switch and cleaned up.
    pub(crate) async fn is_done(&self) -> bool {
        let (here, there) = self.tables().await;
        here == ["_t_oxold"] && there == ["t"]
    }

    /// The tables of the database on the source and on the target.
    pub(crate) async fn tables(&self) -> (Vec<String>, Vec<String>) {
        let mut source = self.source.conn().await.unwrap();
        let here = source.query("SHOW TABLES").await.unwrap();
        let there = format!("SHOW TABLES FROM `{}`", self.source.name());
        let there = self.target.conn().await.unwrap().query(there).await;
        // Early on there is no such database yet.
        (here, there.unwrap_or_default())
    }
}

/// Runs statements one after the other; a test can't go on without one.
pub(crate) async fn run(conn: &mut Conn, statements: &[impl AsRef<str>]) {
    for statement in statements {
        let statement = statement.as_ref();
        let done = conn.query_drop(statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// The target, too, rotates its binary log all the time.
pub(crate) fn target_options() -> ServerOptions {
    ServerOptions::new().max_binlog_size(8192)
}

/// Every row of a table as text, in the order of its first column.
pub(crate) async fn rows(conn: &mut Conn, table: &str) -> Vec<String> {
    let rows: Vec<Row> = conn
        .query(format!("SELECT * FROM `{table}` ORDER BY 1"))
        .await
        .unwrap();
    rows.into_iter()
        .map(|row| format!("{:?}", row.unwrap()))
        .collect()
}

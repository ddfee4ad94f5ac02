//! A table on a server, writers on it, and the program at work on both.

use std::{sync::Arc, time::Duration};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_testkit::{
    compare::{Comparison, compare_tables},
    server::{Schema, Server, ServerOptions, shared},
    tables::TableSpec,
    tool::{Finished, Oxferry, Running},
    writer::{WriterOptions, WriterReport, Writers},
};

/// How long anything may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// A database of its own with one table `t`.
pub(crate) struct World {
    pub(crate) schema: Schema,
    pub(crate) table: TableSpec,
}

impl World {
    /// A server with the usual settings, shared by the tests.
    pub(crate) async fn new(make: fn(&str, &str, u64) -> TableSpec, rows: u64) -> Self {
        Self::on(options(), make, rows).await
    }

    /// A server with these settings, shared by the tests that want the same.
    pub(crate) async fn on(
        options: ServerOptions,
        make: fn(&str, &str, u64) -> TableSpec,
        rows: u64,
    ) -> Self {
        let server: Arc<Server> = shared(options).await.unwrap();
        let schema = Schema::on(server).await.unwrap();
        let table = make(schema.name(), "t", rows);
        let mut conn = schema.conn().await.unwrap();
        table.create(&mut conn, 11).await.unwrap();
        Self { schema, table }
    }

    pub(crate) async fn conn(&self) -> Conn {
        self.schema.conn().await.unwrap()
    }

    /// `oxferry migrate` of the table with `clauses`, by a copy in any case, in
    /// chunks as small as they get.
    pub(crate) fn migrate(&self, clauses: &str) -> Oxferry {
        self.oxferry("migrate")
            .arg("--table")
            .arg("t")
            .arg("--alter")
            .arg(clauses)
            .arg("--native-ddl")
            .arg("off")
            .arg("--chunk-time")
            .arg("20ms")
            .arg("--chunk-bytes")
            .arg("64K")
    }

    /// `oxferry COMMAND --source URL`.
    pub(crate) fn oxferry(&self, command: &str) -> Oxferry {
        let program = env!("CARGO_BIN_EXE_oxferry");
        Oxferry::new([command, "--source", &self.schema.url()]).program(program)
    }

    pub(crate) async fn writers(&self, count: u32, seed: u64) -> Writers {
        let url = self.schema.server().url();
        let options = WriterOptions::new(count, seed);
        let writers = Writers::start(&url, &self.table, options).await.unwrap();
        writers.wait_for_commits(20, LIMIT).await.unwrap();
        writers
    }

    /// The tables of the database, apart from `t` itself.
    pub(crate) async fn tables_beside(&self) -> Vec<String> {
        let mut tables: Vec<String> = self.conn().await.query("SHOW TABLES").await.unwrap();
        tables.retain(|table| table != "t");
        tables
    }

    /// Checks that no write was lost: every key that a writer touched is as it
    /// was committed last, and every other one is as in the old table.
    pub(crate) async fn check_against_old(&self, report: &WriterReport) {
        assert_eq!(report.errors, 0, "{:?}", report.last_error);
        let mut conn = self.conn().await;
        report.journal.check(&mut conn, &self.table).await.unwrap();
        report
            .journal
            .store_keys(&mut conn, "touched", self.table.key)
            .await
            .unwrap();
        let (old, new) = (self.table.named("_t_oxold").quoted(), self.table.quoted());
        let names = self.table.column_names();
        let untouched = Comparison::new(&old, &new, &[self.table.key], &names);
        untouched
            .except_keys_in("`touched`")
            .run(&mut conn)
            .await
            .unwrap();
    }

    /// Checks that old and new table hold the same rows: nobody wrote meanwhile.
    pub(crate) async fn check_same_as_old(&self) -> u64 {
        let (old, new) = (self.table.named("_t_oxold").quoted(), self.table.quoted());
        let mut conn = self.conn().await;
        let names = self.table.column_names();
        compare_tables(&mut conn, &old, &new, &[self.table.key], &names)
            .await
            .unwrap()
    }
}

/// Starts a job that waits for its sentinel to be dropped, once it does.
pub(crate) async fn postponed(migrate: Oxferry) -> Running {
    let mut running = migrate.arg("--defer-cutover").spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    running
}

/// Rotates the binary log all the time.
pub(crate) fn options() -> ServerOptions {
    ServerOptions::new().max_binlog_size(4096)
}

/// What a job may take of memory, in bytes, whatever the table's size.
const MEMORY_MAX: u64 = 200 << 20;

/// Checks an exit code, and shows the log if it is another one; checks the
/// memory that was taken.
#[track_caller]
pub(crate) fn check_code(finished: &Finished, code: i32) {
    assert_eq!(finished.code, Some(code), "{}", finished.text());
    let memory = finished.memory_peak;
    assert!(memory < MEMORY_MAX, "it took {memory} bytes of memory");
}

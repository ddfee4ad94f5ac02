//! A source and a target on two servers, table `t` on both.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use oxferry_copier::{
    Connections, CopyPlan, Load, TransferSettings, TransferSink, WorkLimits, engine::Mode,
};
use oxferry_schema::Ident;
use oxferry_testkit::server::{Schema, ServerOptions, shared};

use crate::bed::Bed;

/// The ways to write that a test goes through.
pub(crate) const LOADS: [Load; 2] = [Load::LocalInfile, Load::Statements];

pub(crate) struct Pair {
    pub(crate) source: Bed,
    pub(crate) target: Bed,
}

impl Pair {
    /// Makes a database on each server and runs `statements` in both.
    pub(crate) async fn new(statements: &[&str]) -> Self {
        let server = shared(ServerOptions::new().arg("--local-infile=ON")).await;
        let schema = Schema::on(server.unwrap()).await.unwrap();
        Self {
            source: Bed::new(statements).await,
            target: Bed::on(schema, statements).await,
        }
    }

    pub(crate) async fn plan(&mut self, mode: Mode) -> CopyPlan {
        let source = self.source.table("t").await;
        let target = self.target.table("t").await;
        let key = source.row_key().unwrap();
        let columns: Vec<(usize, Ident)> = source
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.generated.is_none())
            .map(|(ordinal, column)| (ordinal, column.name.clone()))
            .collect();
        CopyPlan::new(source, key, &target, columns, mode).unwrap()
    }

    pub(crate) async fn sink(&mut self, mode: Mode, load: Load) -> TransferSink {
        let plan = self.plan(mode).await;
        let mark = None;
        self.sink_with(plan, TransferSettings { load, mark }).await
    }

    pub(crate) async fn sink_with(
        &self,
        plan: CopyPlan,
        settings: TransferSettings,
    ) -> TransferSink {
        let (source, target) = self.connections(WorkLimits::default()).await;
        TransferSink::new(source, target, plan, settings)
    }

    pub(crate) async fn connections(
        &self,
        limits: WorkLimits,
    ) -> (Arc<Connections>, Arc<Connections>) {
        let open = async |bed: &Bed| {
            let name = bed.name("t");
            Connections::open(bed.url.clone(), &name, 4, limits)
                .await
                .unwrap()
        };
        (open(&self.source).await, open(&self.target).await)
    }

    /// Asserts that `select` finds the same on both servers.
    pub(crate) async fn assert_equal(&mut self, select: &str, what: &str) {
        let found = self.target.texts(select).await;
        assert_eq!(found, self.source.texts(select).await, "{what}");
    }

    /// Empties the target's table.
    pub(crate) async fn empty(&mut self) {
        self.target.run("DELETE FROM t").await;
    }

    /// Returns how often the target ran `LOAD DATA` in this database.
    pub(crate) async fn loads(&mut self) -> u64 {
        let count = "SELECT COALESCE(SUM(count_star), 0) \
                     FROM performance_schema.events_statements_summary_by_digest \
                     WHERE digest_text LIKE CONCAT('LOAD DATA%`', DATABASE(), '`%')";
        self.target.conn.query_first(count).await.unwrap().unwrap()
    }
}

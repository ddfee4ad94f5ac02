//! A primary, its replica, and a server that tables of the replica move to.

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    server::Server,
    tables::TableSpec,
    tool::Oxferry,
    writer::{WriterOptions, Writers},
};

use crate::{
    far::{Far, target_options},
    world::{LIMIT, options},
};

/// A primary with writers, its replica, and the target.
pub(crate) struct Trio {
    pub(crate) far: Far,
    pub(crate) replica: Server,
}

impl Trio {
    /// `name` sets the primary apart from that of other tests.
    pub(crate) async fn new(name: &str, rows: u64) -> Self {
        let primary = options().arg(format!("--report-host={name}"));
        let far = Far::on((primary, target_options()), TableSpec::sysbench, rows).await;
        let replica = options().read_only(true);
        let replica = Server::start(replica).await.unwrap();
        let primary = far.source.server();
        replica.replicate_from(primary).await.unwrap();
        replica.wait_for_source(primary, LIMIT).await.unwrap();
        Self { far, replica }
    }

    /// `oxferry move` off the replica.
    pub(crate) fn moves(&self, lock: &str) -> Oxferry {
        self.from(&self.far.source.server().url(), lock)
    }

    pub(crate) fn from(&self, primary: &str, lock: &str) -> Oxferry {
        let (source, target) = (self.replica.url(), self.far.target.url());
        let database = self.far.source.name();
        let tool = Oxferry::new(["move", "--source", &source, "--target", &target]);
        let tool = tool.program(env!("CARGO_BIN_EXE_oxferry"));
        let tool = tool.arg("--source-primary").arg(primary);
        let tool = tool
            .arg("--database")
            .arg(database)
            .arg("--lock-source")
            .arg(lock);
        let tool = tool.arg("--chunk-time").arg("20ms");
        tool.arg("--chunk-bytes").arg("64K")
    }

    /// Writers on the primary, slow enough for any replica.
    pub(crate) async fn writers(&self, seed: u64) -> Writers {
        let url = self.far.source.server().url();
        let options = WriterOptions::new(3, seed).rate(40);
        let table = &self.far.table;
        let writers = Writers::start(&url, table, options).await.unwrap();
        writers.wait_for_commits(20, LIMIT).await.unwrap();
        writers
    }

    pub(crate) async fn on_replica(&self, statements: &[&str]) {
        self.replica.execute(statements).await.unwrap();
    }

    pub(crate) async fn on_primary(&self, statement: &str) {
        let mut conn = self.far.source.conn().await.unwrap();
        conn.query_drop(statement).await.unwrap();
    }
}

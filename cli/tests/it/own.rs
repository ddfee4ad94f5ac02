//! Two servers that belong to one test, which may stop them, and a table that moves.

use oxferry_testkit::{
    server::{Server, ServerOptions},
    tables::TableSpec,
    tool::Oxferry,
    writer::{WriterOptions, Writers},
};

use crate::{
    far::{rows, target_options},
    world::{LIMIT, options},
};

/// Two servers of the test's own, the first with table `t` in database `d`.
pub(crate) struct Own {
    pub(crate) source: Server,
    pub(crate) target: Server,
    table: TableSpec,
}

impl Own {
    pub(crate) async fn new(rows: u64) -> Self {
        Self::on((options(), target_options()), rows).await
    }

    /// The same, with these settings.
    pub(crate) async fn on((source, target): (ServerOptions, ServerOptions), rows: u64) -> Self {
        let table = TableSpec::sysbench("d", "t", rows);
        let source = Server::start(source).await.unwrap();
        let mut conn = source.conn().await.unwrap();
        table.create(&mut conn, 11).await.unwrap();
        Self {
            source,
            target: Server::start(target).await.unwrap(),
            table,
        }
    }

    /// `oxferry move` from and to these ports, in small chunks.
    pub(crate) fn moves(&self, (from, to): (u16, u16)) -> Oxferry {
        let url = |port: u16| format!("mysql://root@127.0.0.1:{port}");
        let (source, target) = (url(from), url(to));
        let words = [
            "move",
            "--source",
            &source,
            "--target",
            &target,
            "--database",
            "d",
            "--lock-source",
            "rename",
            "--chunk-time",
            "20ms",
            "--chunk-bytes",
            "64K",
        ];
        Oxferry::new(words).program(env!("CARGO_BIN_EXE_oxferry"))
    }

    pub(crate) fn ports(&self) -> (u16, u16) {
        (self.source.port(), self.target.port())
    }

    pub(crate) async fn writers(&self) -> Writers {
        let options = WriterOptions::new(2, 53);
        let url = self.source.url();
        let writers = Writers::start(&url, &self.table, options).await.unwrap();
        writers.wait_for_commits(20, LIMIT).await.unwrap();
        writers
    }

    pub(crate) async fn check(&self) {
        let mut source = self.source.conn_to("d").await.unwrap();
        let mut target = self.target.conn_to("d").await.unwrap();
        let (here, there) = (
            rows(&mut source, "_t_oxold").await,
            rows(&mut target, "t").await,
        );
        assert_eq!(here.len(), there.len());
        let differs = here.iter().zip(&there).find(|(here, there)| here != there);
        assert_eq!(differs, None);
    }

    pub(crate) async fn check_with(&self, writers: Writers) {
        let report = writers.stop().await;
        assert_eq!(report.errors, 0, "{:?}", report.last_error);
        let mut target = self.target.conn().await.unwrap();
        report
            .journal
            .check(&mut target, &self.table)
            .await
            .unwrap();
        self.check().await;
    }
}

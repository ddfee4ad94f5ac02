//! A move that can be taken back, with writers on either side.

use std::path::PathBuf;

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    server::Server,
    tables::TableSpec,
    tool::{Oxferry, Running},
    writer::{WriterOptions, Writers},
};

use crate::{
    far::Far,
    world::{LIMIT, check_code},
};

/// A move that can be taken back, and the way to tell it to.
pub(crate) struct Way {
    pub(crate) far: Far,
    folder: tempfile::TempDir,
    /// How the writers log in.
    pub(crate) user: &'static str,
    pub(crate) lock: &'static str,
}

impl Way {
    pub(crate) async fn new(rows: u64) -> Self {
        Self::of(Far::new(TableSpec::sysbench, rows).await)
    }

    pub(crate) fn of(far: Far) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            far,
            folder,
            user: "root",
            lock: "rename",
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("job")
    }

    /// The move, without a way back.
    pub(crate) fn plain(&self) -> Oxferry {
        let moves = self.far.oxferry("move").arg("--lock-source").arg(self.lock);
        let moves = moves.arg("--chunk-time").arg("20ms");
        moves.arg("--chunk-bytes").arg("64K")
    }

    pub(crate) fn moves(&self) -> Oxferry {
        let moves = self.plain().arg("--reverse-for").arg("1h");
        moves.arg("--control").arg(self.socket())
    }

    pub(crate) async fn writers(&self, server: &Server, seed: u64) -> Writers {
        let url = server.url_for(self.user, "", "");
        let options = WriterOptions::new(3, seed);
        let writers = Writers::start(&url, &self.far.table, options).await;
        let writers = writers.unwrap();
        writers.wait_for_commits(20, LIMIT).await.unwrap();
        writers
    }

    pub(crate) async fn writers_here(&self, seed: u64) -> Writers {
        self.writers(self.far.source.server(), seed).await
    }

    pub(crate) async fn writers_there(&self, seed: u64) -> Writers {
        self.writers(&self.far.target, seed).await
    }

    pub(crate) async fn ctl(&self, words: &[&str]) -> (Option<i32>, String) {
        let socket = self.socket();
        let words = [&["ctl", "--socket", socket.to_str().unwrap()], words].concat();
        let ctl = Oxferry::new(words).program(env!("CARGO_BIN_EXE_oxferry"));
        let finished = ctl.run(LIMIT).await.unwrap();
        (finished.code, finished.text())
    }

    pub(crate) async fn there(&self, statement: &str) {
        let mut target = self.far.target_conn().await;
        target.query_drop(statement).await.unwrap();
    }

    pub(crate) async fn here(&self, statement: &str) {
        let mut source = self.far.source.conn().await.unwrap();
        source.query_drop(statement).await.unwrap();
    }

    /// Moves the table under writers, until it could be taken back; nobody
    /// writes any more then, and all that was written is on the target.
    pub(crate) async fn moved(&self) -> Running {
        let writers = self.writers_here(41).await;
        let mut running = self.moves().spawn().unwrap();
        running
            .wait_line("both sides were compared", LIMIT)
            .await
            .unwrap();
        let report = writers.stop().await;
        let mut target = self.far.target_conn().await;
        let checked = report.journal.check(&mut target, &self.far.table).await;
        checked.unwrap();
        running
    }

    /// Checks that the source has all that the target's writers have committed,
    /// and that it is written to again.
    pub(crate) async fn check_back(&self, there: Writers, old_there: &str) {
        let report = there.stop().await;
        let mut source = self.far.source.conn().await.unwrap();
        let checked = report.journal.check(&mut source, &self.far.table).await;
        checked.unwrap();
        self.far.check_rows("t", old_there).await;
        let (here, there) = self.far.tables().await;
        assert_eq!(here, ["t"]);
        assert_eq!(there, [old_there]);
        let again = self.writers_here(53).await.stop().await;
        let checked = again.journal.check(&mut source, &self.far.table).await;
        checked.unwrap();
    }

    /// Goes there and back, under writers all the time.
    pub(crate) async fn there_and_back(&self, old_there: &str) {
        let running = self.moved().await;
        let there = self.writers_there(43).await;
        there.wait_for_commits(200, LIMIT).await.unwrap();
        let (code, text) = self.ctl(&["status"]).await;
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("\"phase\": \"reverse\""), "{text}");
        assert!(text.contains("\"reverse_left_ms\": 35"), "{text}");
        let (code, text) = self.ctl(&["cutover"]).await;
        assert_eq!(code, Some(64), "{text}");
        let (code, text) = self.ctl(&["cutover", "--reverse"]).await;
        assert_eq!(code, Some(0), "{text}");
        check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
        self.check_back(there, old_there).await;
    }
}

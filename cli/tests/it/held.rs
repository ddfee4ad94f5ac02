//! Moves that are held at a chosen place: by a file, by locks of somebody
//! else's session, or by a hook that the test answers when it likes.

use std::{fs::File, path::PathBuf};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_testkit::{
    tool::{Oxferry, Running},
    wait::eventually,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    far::{Far, run},
    world::LIMIT,
};

/// While it is closed no chunk begins; changes are applied all the same.
pub(crate) struct Gate {
    file: PathBuf,
    _folder: TempDir,
}

impl Gate {
    pub(crate) fn closed() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("closed");
        File::create(&file).unwrap();
        Self {
            file,
            _folder: folder,
        }
    }

    /// The move, held by this gate.
    pub(crate) fn hold(&self, moves: Oxferry) -> Oxferry {
        moves.arg("--throttle-file").arg(&self.file)
    }

    pub(crate) fn open(&self) {
        std::fs::remove_file(&self.file).unwrap();
    }
}

/// A session on the target, with a transaction that it never commits.
pub(crate) struct Blocker {
    conn: Conn,
    look: Conn,
}

impl Blocker {
    /// Takes locks by `statements`.
    pub(crate) async fn new(far: &Far, statements: &[&str]) -> Self {
        let mut blocker = Self {
            conn: far.target_conn().await,
            look: far.target_conn().await,
        };
        blocker.conn.query_drop("BEGIN").await.unwrap();
        for statement in statements {
            blocker.run(statement).await;
        }
        blocker
    }

    pub(crate) async fn run(&mut self, statement: &str) {
        let done = self.conn.query_drop(statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// Returns when somebody waits for one of its locks.
    ///
    /// A row's lock may be filed under the session that waits for it, a table's
    /// never is. `INNODB_TRX` isn't asked: it isn't read anew while anybody reads
    /// it ten times a second (MySQL 9.0 manual, 17.15.2.3).
    pub(crate) async fn wait_until_met(&mut self) {
        let query = format!(
            "SELECT COUNT(*) FROM performance_schema.data_lock_waits \
             WHERE BLOCKING_ENGINE_TRANSACTION_ID IN (\
             SELECT l.ENGINE_TRANSACTION_ID FROM performance_schema.data_locks l \
             JOIN performance_schema.threads t ON t.THREAD_ID = l.THREAD_ID \
             WHERE l.LOCK_TYPE = 'TABLE' AND t.PROCESSLIST_ID = {})",
            self.conn.id()
        );
        let look = &mut self.look;
        eventually(LIMIT, "somebody to wait for the lock", async || {
            let count: Option<u64> = look.query_first(&query).await.unwrap();
            (count > Some(0)).then_some(())
        })
        .await
        .unwrap();
    }

    pub(crate) async fn let_go(mut self) {
        self.run("ROLLBACK").await;
    }
}

/// An address that a hook calls; the test answers.
pub(crate) struct Called {
    listener: TcpListener,
}

impl Called {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://{}/", self.listener.local_addr().unwrap())
    }

    /// Waits for a call.
    pub(crate) async fn next(&self) -> Call {
        let called = tokio::time::timeout(LIMIT, self.listener.accept()).await;
        let (mut wire, _) = called.unwrap().unwrap();
        let mut head = vec![0; 65536];
        // The hooks have no payload: what comes first is all that matters.
        assert!(wire.read(&mut head).await.unwrap() > 0);
        Call { wire }
    }
}

/// A hook's call that waits for its answer.
pub(crate) struct Call {
    wire: TcpStream,
}

impl Call {
    pub(crate) async fn answer(mut self) {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        self.wire.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// What the source's table has, for [`stopped_in_its_switch`].
pub(crate) const TRIGGER: [&str; 1] =
    ["CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SET NEW.c = UPPER(NEW.c)"];

/// Runs a move with a manual cutover until it has shut its source, and can't make
/// its trigger on the target, where a session that is returned too reads.
pub(crate) async fn stopped_in_its_switch(
    moves: Oxferry,
    connect: impl AsyncFn() -> Conn,
) -> (Running, Conn) {
    let mut running = moves.spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    let (mut reader, mut target) = (connect().await, connect().await);
    run(&mut reader, &["BEGIN", "SELECT 1 FROM t LIMIT 1"]).await;
    run(&mut target, &["DROP TABLE _t_oxsentinel"]).await;
    let waits = "SELECT COUNT(*) > 0 FROM performance_schema.metadata_locks \
                 WHERE OBJECT_SCHEMA = DATABASE() AND OBJECT_NAME = 't' \
                 AND LOCK_STATUS = 'PENDING'";
    wait_for_one(&mut target, waits).await;
    (running, reader)
}

/// Returns when the server's `query` says 1.
pub(crate) async fn wait_for_one(conn: &mut Conn, query: &str) {
    eventually(LIMIT, query, async || {
        let found: Option<u64> = conn.query_first(query).await.unwrap();
        (found == Some(1)).then_some(())
    })
    .await
    .unwrap();
}

//! When a new snapshot sees what the binary log has shown.

use std::{sync::Arc, time::Duration};

use mysql_async::{Conn, Opts, Row, prelude::Queryable};
use oxferry_binlog::{FilePosition, Position};
use oxferry_copier::{
    CopyError,
    pipeline::{Barrier, ServerBarrier},
};
use oxferry_schema::{Remedy, TableName};
use oxferry_state::TableStore;
use oxferry_testkit::{
    server::{Server, ServerOptions, shared},
    wait::eventually,
};

use crate::bed::ident;

const LIMIT: Duration = Duration::from_secs(30);

/// A server, and a database on it with an empty table `t` and a marker table.
struct Scene {
    db: &'static str,
    server: Arc<Server>,
    conn: Conn,
    gtid: bool,
}

impl Scene {
    /// The tables are made without waiting for a replica: in no log.
    async fn new(server: Arc<Server>, db: &'static str, gtid: bool) -> Self {
        let mut conn = server.conn().await.unwrap();
        for statement in [
            "SET SESSION sql_log_bin = OFF",
            &format!("CREATE DATABASE {db}"),
            &format!("USE {db}"),
            "CREATE TABLE t (id INT PRIMARY KEY)",
            "CREATE TABLE marker (job VARCHAR(255) PRIMARY KEY, \
             sequence BIGINT UNSIGNED NOT NULL, payload LONGTEXT NOT NULL)",
        ] {
            conn.query_drop(statement).await.unwrap();
        }
        Self {
            db,
            server,
            conn,
            gtid,
        }
    }

    /// On the server that all tests share.
    async fn shared(db: &'static str, gtid: bool) -> Self {
        let server = shared(ServerOptions::new().gtid(gtid)).await.unwrap();
        Self::new(server, db, gtid).await
    }

    fn name(&self, table: &str) -> TableName {
        TableName::new(ident(self.db), ident(table))
    }

    fn opts(&self) -> Opts {
        Opts::from_url(&self.server.url_for("root", "", self.db)).unwrap()
    }

    fn barrier(&self, wait_max: Duration) -> ServerBarrier {
        ServerBarrier::new(self.opts(), self.name("marker"), wait_max)
    }

    /// How far the log can be read.
    async fn log_end(&mut self) -> FilePosition {
        let row: Option<Row> = self
            .conn
            .query_first("SHOW BINARY LOG STATUS")
            .await
            .unwrap();
        let row = row.unwrap();
        FilePosition::new(&row.get::<String, _>(0).unwrap(), row.get(1).unwrap()).unwrap()
    }

    /// What a reader of the log has dispatched once it has read all behind `from`.
    async fn read_log(&mut self, from: &FilePosition) -> Position {
        let sql = format!(
            "SHOW BINLOG EVENTS IN '{}' FROM {}",
            from.file(),
            from.offset_bytes()
        );
        let events: Vec<Row> = self.conn.query(sql).await.unwrap();
        let infos = events
            .iter()
            .map(|row| row.get::<String, _>("Info").unwrap());
        let ids: Vec<String> = infos
            .filter_map(|info| {
                Some(
                    info.split_once("GTID_NEXT= '")?
                        .1
                        .trim_end_matches('\'')
                        .to_owned(),
                )
            })
            .collect();
        let end = events.last().unwrap().get("End_log_pos").unwrap();
        Position {
            file: FilePosition::new(from.file(), end).unwrap(),
            gtids: self.gtid.then(|| ids.join(",").parse().unwrap()),
        }
    }

    async fn rows(&mut self) -> u64 {
        let sql = "SELECT COUNT(*) FROM t";
        self.conn.query_first(sql).await.unwrap().unwrap()
    }

    /// Returns once a session runs a statement that names this.
    async fn running(&mut self, word: &str) -> u64 {
        let sql = "SELECT id FROM performance_schema.processlist \
                   WHERE info LIKE CONCAT('%', ?, '%') AND id <> CONNECTION_ID()";
        let conn = &mut self.conn;
        let found = eventually(LIMIT, word, async || {
            conn.exec_first(sql, (word,)).await.unwrap()
        });
        found.await.unwrap()
    }
}

async fn waits_for_the_commit(gtid: bool) {
    let options = ServerOptions::new().semi_sync(Duration::from_secs(600));
    let server = Arc::new(Server::start(options.gtid(gtid)).await.unwrap());
    let mut scene = Scene::new(server, "waits", gtid).await;
    let waiting = scene.server.keep_semi_sync_waiting().await.unwrap();
    let before = scene.log_end().await;
    let mut writer = scene.server.conn().await.unwrap();
    let insert =
        tokio::spawn(async move { writer.query_drop("INSERT INTO waits.t VALUES (1)").await });
    eventually(LIMIT, "the row in the log", async || {
        (scene.log_end().await > before).then_some(())
    })
    .await
    .unwrap();

    let through = scene.read_log(&before).await;
    assert_eq!(scene.rows().await, 0, "the log is ahead of the table");
    let barrier = scene.barrier(Duration::from_secs(60));
    let passing = tokio::spawn(async move { barrier.pass(&through).await });
    scene
        .running(if gtid { "WAIT_FOR_EXECUTED" } else { "marker" })
        .await;
    for _ in 0..100 {
        let passed = passing.is_finished();
        let visible = scene.rows().await;
        assert_eq!((passed, visible), (false, 0));
    }

    let off = ["SET GLOBAL rpl_semi_sync_source_enabled = OFF"];
    drop(waiting);
    scene.server.execute(&off).await.unwrap();
    let passed = tokio::time::timeout(LIMIT, passing).await;
    passed.unwrap().unwrap().unwrap();
    assert_eq!(scene.rows().await, 1, "the barrier is passed");
    tokio::time::timeout(LIMIT, insert)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_barrier_waits_for_a_commit_that_the_log_already_shows() {
    waits_for_the_commit(true).await;
    waits_for_the_commit(false).await;
}

#[tokio::test]
async fn a_barrier_that_is_not_passed_in_time_says_so() {
    let mut scene = Scene::shared("late", true).await;
    let barrier = scene.barrier(Duration::from_secs(1));
    let never = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1";
    let through = Position {
        file: scene.log_end().await,
        gtids: Some(never.parse().unwrap()),
    };
    let error = barrier.pass(&through).await.unwrap_err();
    assert!(matches!(error, CopyError::BarrierTimeout { .. }), "{error}");
    assert_eq!(error.remedy(), Remedy::Retry);
}

#[tokio::test]
async fn a_barrier_outlives_its_idle_connection() {
    for gtid in [true, false] {
        let mut scene = Scene::shared("idle", gtid).await;
        let start = scene.log_end().await;
        scene
            .conn
            .query_drop("SET SESSION sql_log_bin = ON")
            .await
            .unwrap();
        scene
            .conn
            .query_drop("CREATE TABLE more (id INT)")
            .await
            .unwrap();
        let through = scene.read_log(&start).await;
        let barrier = scene.barrier(LIMIT);
        barrier.pass(&through).await.unwrap();
        // The server answers a moment before it calls the session idle.
        let idle = format!(
            "SELECT id FROM performance_schema.processlist \
             WHERE command = 'Sleep' AND db = 'idle' AND id NOT IN (CONNECTION_ID(), {})",
            scene.conn.id()
        );
        let observer = tokio::sync::Mutex::new(Conn::new(scene.opts()).await.unwrap());
        let id = eventually(LIMIT, "the barrier's session at rest", async || {
            let mut conn = observer.lock().await;
            conn.query_first::<u64, _>(idle.as_str()).await.unwrap()
        })
        .await
        .unwrap();
        scene.conn.query_drop(format!("KILL {id}")).await.unwrap();
        barrier.pass(&through).await.unwrap();
    }
}

#[tokio::test]
async fn a_marker_that_is_not_there_is_an_error() {
    let mut scene = Scene::shared("missing", false).await;
    let barrier = ServerBarrier::new(scene.opts(), scene.name("nowhere"), LIMIT);
    let through = Position {
        file: scene.log_end().await,
        gtids: None,
    };
    let error = barrier.pass(&through).await.unwrap_err();
    assert!(matches!(error, CopyError::Marker { .. }), "{error}");
}

/// The marker table of the product has the columns of the test's.
#[tokio::test]
async fn a_barrier_takes_the_checkpoints_table_for_its_marker() {
    let mut scene = Scene::shared("kept", false).await;
    let table = scene.name("checkpoints");
    TableStore::new(scene.opts(), table.clone(), "d.t", LIMIT)
        .create()
        .await
        .unwrap();
    let barrier = ServerBarrier::new(scene.opts(), table, LIMIT);
    let through = Position {
        file: scene.log_end().await,
        gtids: None,
    };
    barrier.pass(&through).await.unwrap();
    assert!(
        scene.log_end().await > through.file,
        "the marker is in the log"
    );
}

//! Copying between two servers, of which one fails.

use std::sync::Arc;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_copier::{CopyError, Load, RowSink, TransferSettings, WorkLimits, engine::Mode};
use oxferry_schema::{KeyRange, Remedy, connect};
use oxferry_testkit::server::{Schema, Server, ServerOptions};

use crate::{
    bed::{Bed, key},
    faults::running,
    pair::{LOADS, Pair},
};

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)";
const ROWS: &str = "SELECT CONCAT_WS(' ', id, LENGTH(v), digest) FROM \
     (SELECT id, v, SHA2(v, 256) AS digest FROM t) all_rows ORDER BY id";

/// Fills the source with more than what is on the way at once.
async fn fill(pair: &mut Pair) {
    pair.source
        .run("INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) \
              SELECT i, REPEAT(CHAR(65 + i % 26), 30000) FROM n")
        .await;
}

/// Holds the lock of a row that isn't there yet.
async fn locker(bed: &Bed, id: u32) -> Conn {
    let mut conn = connect(&bed.url, "tests").await.unwrap();
    conn.query_drop("START TRANSACTION").await.unwrap();
    let insert = format!("INSERT INTO t VALUES ({id}, '')");
    conn.query_drop(insert).await.unwrap();
    conn
}

const fn begins(load: Load) -> &'static str {
    match load {
        Load::LocalInfile => "LOAD DATA",
        // Not the one that holds the lock.
        Load::Statements => "INSERT INTO `",
    }
}

#[tokio::test]
async fn a_target_session_that_is_killed_is_replaced() {
    let mut pair = Pair::new(&[TABLE]).await;
    fill(&mut pair).await;
    for load in LOADS {
        pair.empty().await;
        let sink = Arc::new(pair.sink(Mode::Ranged, load).await);
        let mut holder = locker(&pair.target, 700).await;
        let work = Arc::clone(&sink);
        let copying = tokio::spawn(async move { work.copy(&KeyRange::ALL, false).await });
        let id = running(&mut pair.target, begins(load)).await;
        pair.target.run(&format!("KILL CONNECTION {id}")).await;
        holder.query_drop("ROLLBACK").await.unwrap();
        assert_eq!(copying.await.unwrap().unwrap().rows, 900);
        pair.assert_equal(ROWS, "copied").await;
    }
}

#[tokio::test]
async fn a_source_session_that_is_killed_is_replaced() {
    let mut pair = Pair::new(&[TABLE]).await;
    fill(&mut pair).await;
    for load in LOADS {
        pair.empty().await;
        let sink = Arc::new(pair.sink(Mode::Ranged, load).await);
        // The first row waits, and with it, after some rows, the reader.
        let mut holder = locker(&pair.target, 1).await;
        let work = Arc::clone(&sink);
        let copying = tokio::spawn(async move { work.copy(&KeyRange::ALL, false).await });
        running(&mut pair.target, begins(load)).await;
        let id = running(&mut pair.source, "SELECT `id`").await;
        pair.source.run(&format!("KILL CONNECTION {id}")).await;
        holder.query_drop("ROLLBACK").await.unwrap();
        assert_eq!(copying.await.unwrap().unwrap().rows, 900);
        pair.assert_equal(ROWS, "copied").await;
    }
}

#[tokio::test]
async fn a_copy_that_takes_too_long_is_ended_on_both_servers() {
    let mut pair = Pair::new(&[TABLE]).await;
    fill(&mut pair).await;
    let plan = pair.plan(Mode::Ranged).await;
    let limits = WorkLimits {
        statement: std::time::Duration::from_millis(300),
        ..WorkLimits::default()
    };
    let (source, target) = pair.connections(limits).await;
    for load in LOADS {
        let _holder = locker(&pair.target, 1).await;
        let (source, target) = (Arc::clone(&source), Arc::clone(&target));
        let mark = None;
        let settings = TransferSettings { load, mark };
        let sink = oxferry_copier::TransferSink::new(source, target, plan.clone(), settings);
        let error = sink.copy(&KeyRange::ALL, false).await.unwrap_err();
        assert!(matches!(error, CopyError::Deadline { .. }), "{error}");
        assert_eq!(error.remedy(), Remedy::Retry);
        let left = "SELECT COUNT(*) FROM performance_schema.processlist \
                    WHERE db = DATABASE() AND (info LIKE 'LOAD%' OR info LIKE 'INSERT%' \
                    OR info LIKE 'SELECT `id`%')";
        assert_eq!(pair.target.texts(left).await, ["0"]);
        assert_eq!(pair.source.texts(left).await, ["0"]);
    }
}

#[tokio::test]
async fn a_row_that_is_larger_than_a_packet_is_loaded_or_named() {
    let options = ServerOptions::new()
        .arg("--local-infile=ON")
        .arg("--max-allowed-packet=1M");
    let server = Arc::new(Server::start(options).await.unwrap());
    let mut pair = Pair::new(&[TABLE]).await;
    pair.target = Bed::on(Schema::on(server).await.unwrap(), &[TABLE]).await;
    pair.source
        .run("INSERT INTO t VALUES (1, 'a'), (7, REPEAT('ü', 1500000)), (8, 'b')")
        .await;
    let sink = pair.sink(Mode::Ranged, Load::Statements).await;
    let error = sink.copy(&KeyRange::ALL, false).await.unwrap_err();
    let CopyError::RowTooLarge { key: named, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(named, key(&[7]));
    assert_eq!(pair.target.texts("SELECT COUNT(*) FROM t").await, ["0"]);
    let sink = pair.sink(Mode::Ranged, Load::LocalInfile).await;
    assert_eq!(sink.copy(&KeyRange::ALL, false).await.unwrap().rows, 3);
    pair.assert_equal(
        "SELECT CONCAT_WS(' ', id, CRC32(v), LENGTH(v)) FROM t",
        "loaded",
    )
    .await;
}

//! Deadlocks, lock waits, lost connections, work left behind.

use std::{sync::Arc, time::Duration};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_copier::{
    Connections, CopyError, CopyPlan, RowSink, SelectSink, WorkLimits, engine::Mode,
};
use oxferry_schema::{KeyRange, Remedy, ServerUrl, Table, TableName, Value, connect};
use oxferry_testkit::server::{Server, ServerOptions};

use crate::bed::{Bed, batch, ident, upsert};

const TABLES: [&str; 3] = [
    "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE n LIKE t",
    "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
];

/// Holds a row lock on the target in a transaction of its own.
async fn locker(bed: &Bed) -> Conn {
    let mut conn = connect(&bed.url, "tests").await.unwrap();
    conn.query_drop("START TRANSACTION").await.unwrap();
    conn.query_drop("INSERT INTO n VALUES (2, 0)")
        .await
        .unwrap();
    conn
}

/// Returns once a statement that begins so runs, or waits, in another session.
pub(crate) async fn running(bed: &mut Bed, statement: &str) -> u64 {
    let sql = "SELECT id FROM performance_schema.processlist \
               WHERE info LIKE CONCAT(?, '%') AND db = DATABASE() AND id <> CONNECTION_ID()";
    for _ in 0..3_000 {
        let id: Option<u64> = bed.conn.exec_first(sql, (statement,)).await.unwrap();
        if let Some(id) = id {
            return id;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no other session runs {statement}");
}

#[tokio::test]
async fn a_lock_wait_timeout_is_repeated_until_the_lock_is_free() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = Arc::new(bed.sink(Mode::Ranged).await);
    let mut holder = locker(&bed).await;
    let work = Arc::clone(&sink);
    let applying = tokio::spawn(async move {
        let changes = [1, 2].map(|id| upsert(id, [Value::Int(id * 7)]));
        work.apply(&batch(changes)).await
    });
    running(&mut bed, "REPLACE INTO").await;
    holder.query_drop("COMMIT").await.unwrap();
    applying.await.unwrap().unwrap();
    assert_eq!(
        bed.texts("SELECT CONCAT_WS(' ', id, v) FROM n ORDER BY id")
            .await,
        ["1 7", "2 14"]
    );
}

#[tokio::test]
async fn a_session_killed_at_work_is_replaced_and_the_range_emptied() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = Arc::new(bed.sink(Mode::Ranged).await);
    let mut holder = locker(&bed).await;
    let work = Arc::clone(&sink);
    let copying = tokio::spawn(async move { work.copy(&KeyRange::ALL, true).await });
    let id = running(&mut bed, "DELETE FROM").await;
    bed.run(&format!("KILL CONNECTION {id}")).await;
    holder.query_drop("ROLLBACK").await.unwrap();
    copying.await.unwrap().unwrap();
    bed.assert_equal().await;
}

#[tokio::test]
async fn work_that_takes_too_long_is_ended_on_the_server() {
    let mut bed = Bed::new(&TABLES).await;
    let limits = WorkLimits {
        statement: Duration::from_millis(300),
        ..WorkLimits::default()
    };
    let plan = bed.plan(Mode::Ranged).await;
    let sink = SelectSink::new(bed.connections_with(limits).await, plan);
    let _holder = locker(&bed).await;
    let error = sink.copy(&KeyRange::ALL, false).await.unwrap_err();
    assert!(matches!(error, CopyError::Deadline { .. }), "{error}");
    assert_eq!(error.remedy(), Remedy::Retry);
    let left = "SELECT COUNT(*) FROM performance_schema.processlist \
                WHERE info LIKE 'INSERT INTO%' AND db = DATABASE()";
    assert_eq!(bed.texts(left).await, ["0"]);
}

#[tokio::test]
async fn a_new_run_ends_what_an_earlier_one_left_behind() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = Arc::new(bed.sink(Mode::Ranged).await);
    let mut holder = locker(&bed).await;
    let work = Arc::clone(&sink);
    let copying = tokio::spawn(async move { work.copy(&KeyRange::ALL, false).await });
    let id = running(&mut bed, "INSERT INTO").await;
    // As after a kill -9, the statement goes on by itself.
    copying.abort();
    let next = bed.sink(Mode::Ranged).await;
    let left = format!("SELECT COUNT(*) FROM performance_schema.processlist WHERE id = {id}");
    assert_eq!(bed.texts(&left).await, ["0"]);
    holder.query_drop("ROLLBACK").await.unwrap();
    next.copy(&KeyRange::ALL, true).await.unwrap();
    bed.assert_equal().await;
}

#[tokio::test]
async fn workers_that_deadlock_all_come_through() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = bed.sink(Mode::Ranged).await;
    let ids: Vec<i64> = (1..200).collect();
    let forth = batch(
        ids.iter()
            .map(|id| upsert(*id, [Value::Int(1)]))
            .collect::<Vec<_>>(),
    );
    let back = batch(
        ids.iter()
            .rev()
            .map(|id| upsert(*id, [Value::Int(1)]))
            .collect::<Vec<_>>(),
    );
    for _ in 0..10 {
        let (a, b, c, d) = tokio::join!(
            sink.apply(&forth),
            sink.apply(&back),
            sink.apply(&forth),
            sink.apply(&back)
        );
        for done in [a, b, c, d] {
            done.unwrap();
        }
    }
    assert_eq!(
        bed.texts("SELECT COUNT(*) FROM n WHERE v = 1").await,
        ["199"]
    );
}

#[tokio::test]
async fn a_servers_restart_is_survived() {
    let mut server = Server::start(ServerOptions::default()).await.unwrap();
    server.execute(&["CREATE DATABASE d"]).await.unwrap();
    let url = ServerUrl::parse(&server.url_for("root", "", "d"), None).unwrap();
    let mut conn = connect(&url, "tests").await.unwrap();
    for statement in TABLES {
        conn.query_drop(statement).await.unwrap();
    }
    let name = |table| TableName::new(ident("d"), ident(table));
    let source = Table::read(&mut conn, &name("t")).await.unwrap().unwrap();
    let target = Table::read(&mut conn, &name("n")).await.unwrap().unwrap();
    let key = source.row_key().unwrap();
    let columns = vec![(0, ident("id")), (1, ident("v"))];
    let plan = CopyPlan::new(source, key, &target, columns, Mode::Ranged).unwrap();
    let limits = WorkLimits::default();
    let connections = Connections::open(url.clone(), &name("n"), 2, limits)
        .await
        .unwrap();
    let sink = SelectSink::new(connections, plan);
    sink.apply(&batch([upsert(9, [Value::Int(9)])]))
        .await
        .unwrap();
    server.restart().await.unwrap();
    // The idle session is gone; the work is repeated in a new one.
    assert_eq!(sink.copy(&KeyRange::ALL, true).await.unwrap().rows, 3);
    let mut conn = connect(&url, "tests").await.unwrap();
    let ids: Vec<i64> = conn.query("SELECT id FROM n").await.unwrap();
    assert_eq!(ids, [1, 2, 3]);
}

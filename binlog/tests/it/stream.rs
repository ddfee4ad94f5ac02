//! Order, completeness, reconnects and positions.

use mysql_async::{Conn, Value, prelude::Queryable};
use oxferry_binlog::{ChangeStream, MysqlStream, RowChange, StreamEvent};
use oxferry_testkit::server::{Server, ServerOptions};

use crate::follow::{drain, follow, next, run, server};

const MANY: usize = 40_000;

fn inserted(changes: &[RowChange]) -> Vec<usize> {
    let ids = changes
        .iter()
        .filter_map(|change| match change.after.as_ref()?.values() {
            [Value::Int(id), ..] => usize::try_from(*id).ok(),
            _ => None,
        });
    ids.collect()
}

async fn dump_threads(conn: &mut Conn) -> Vec<u64> {
    conn.query("SELECT id FROM performance_schema.processlist WHERE command LIKE 'Binlog Dump%'")
        .await
        .unwrap()
}

async fn big_transaction(server: &Server) -> (MysqlStream, Conn) {
    let mut conn = server.conn().await.unwrap();
    run(
        &mut conn,
        &["CREATE TABLE shop.big (id INT PRIMARY KEY, pad VARCHAR(600))"],
    )
    .await;
    let stream = follow(server, "big").await;
    let insert = format!(
        "INSERT INTO shop.big WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
         WHERE i < {MANY}) SELECT i, REPEAT('x', 600) FROM n"
    );
    run(
        &mut conn,
        &["SET cte_max_recursion_depth = 100000", &insert],
    )
    .await;
    (stream, conn)
}

async fn check_broken_in_mid_transaction(gtid: bool) {
    let server = server(ServerOptions::new().gtid(gtid)).await;
    let (mut stream, mut conn) = big_transaction(&server).await;
    let mut changes = Vec::new();
    while changes.len() < MANY / 20 {
        if let StreamEvent::Rows { changes: more, .. } = next(&mut stream).await.unwrap() {
            changes.extend(more);
        }
    }
    let before = dump_threads(&mut conn).await;
    for id in &before {
        run(&mut conn, &[&format!("KILL {id}")]).await;
    }
    changes.extend(drain(&mut stream, &mut conn).await);
    assert_eq!(inserted(&changes), (1..=MANY).collect::<Vec<_>>());
    let after = dump_threads(&mut conn).await;
    assert!(after.iter().all(|id| !before.contains(id)));
}

#[tokio::test]
async fn a_transaction_cut_in_the_middle_comes_once_and_whole_by_gtid() {
    check_broken_in_mid_transaction(true).await;
}

#[tokio::test]
async fn a_transaction_cut_in_the_middle_comes_once_and_whole_by_position() {
    check_broken_in_mid_transaction(false).await;
}

async fn check_rotation(gtid: bool) {
    let server = server(ServerOptions::new().gtid(gtid).max_binlog_size(4096)).await;
    let mut conn = server.conn().await.unwrap();
    run(
        &mut conn,
        &[
            "CREATE TABLE shop.t (id INT PRIMARY KEY)",
            "CREATE TABLE shop.u (id INT PRIMARY KEY)",
        ],
    )
    .await;
    let mut stream = follow(&server, "t").await;
    for id in 0..200 {
        let both = [
            format!("INSERT INTO shop.t VALUES ({id})"),
            format!("INSERT INTO shop.u VALUES ({id})"),
        ];
        run(&mut conn, &[&both[0], &both[1]]).await;
    }
    let changes = drain(&mut stream, &mut conn).await;
    assert_eq!(inserted(&changes), (0..200).collect::<Vec<_>>());
    // The end is now right behind the head of a file without transactions.
    run(&mut conn, &["FLUSH BINARY LOGS"]).await;
    assert!(drain(&mut stream, &mut conn).await.is_empty());
}

#[tokio::test]
async fn rotating_files_lose_nothing_by_gtid() {
    check_rotation(true).await;
}

#[tokio::test]
async fn rotating_files_lose_nothing_by_position() {
    check_rotation(false).await;
}

#[tokio::test]
async fn calls_that_are_dropped_lose_nothing() {
    let server = server(ServerOptions::new()).await;
    let (mut stream, _conn) = big_transaction(&server).await;
    let mut changes = Vec::new();
    while changes.len() < MANY {
        tokio::select! {
            biased;
            event = stream.next() => if let StreamEvent::Rows { changes: more, .. } = event.unwrap() {
                changes.extend(more);
            },
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(inserted(&changes), (1..=MANY).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_tagged_gtid_is_handed_out_and_resumed_from() {
    let server = server(ServerOptions::new().gtid(true)).await;
    let mut conn = server.conn().await.unwrap();
    run(
        &mut conn,
        &[
            "CREATE TABLE shop.t (id INT PRIMARY KEY)",
            "SET gtid_next = 'AUTOMATIC:job'",
        ],
    )
    .await;
    run(&mut conn, &["INSERT INTO shop.t VALUES (1)"]).await;
    let mut stream = follow(&server, "t").await;
    run(&mut conn, &["INSERT INTO shop.t VALUES (2)"]).await;
    loop {
        if let StreamEvent::Commit { gtid, .. } = next(&mut stream).await.unwrap() {
            assert_eq!(gtid.unwrap().tag(), Some("job"));
            break;
        }
    }
    let gtids = stream.boundary().gtids.clone().unwrap();
    assert!(gtids.to_string().ends_with(":job:1-2"));
}

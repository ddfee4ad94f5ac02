//! The store in a table, on real servers.

use std::time::Duration;

use mysql_async::{Opts, prelude::Queryable};
use oxferry_schema::{Ident, Remedy, TableName};
use oxferry_state::{
    Advanced, CheckpointStore, TableStore, TableStoreError, beat, conformance, last_beat,
    touch_barrier,
};
use oxferry_testkit::server::{Schema, Server, ServerOptions};

const DEADLINE: Duration = Duration::from_secs(20);

fn table(schema: &str) -> TableName {
    TableName::new(
        Ident::new(schema).unwrap(),
        Ident::new("_t_oxstate").unwrap(),
    )
}

fn store(server: &Server, schema: &str) -> TableStore {
    let opts = Opts::from_url(&server.url()).unwrap();
    TableStore::new(opts, table(schema), "shop.orders", DEADLINE)
}

async fn fresh() -> (Schema, TableStore) {
    let schema = Server::fresh_schema().await.unwrap();
    let store = store(schema.server(), schema.name());
    (schema, store)
}

async fn count(schema: &Schema, sql: &str) -> u64 {
    let mut conn = schema.conn().await.unwrap();
    conn.query_first(sql).await.unwrap().unwrap()
}

#[tokio::test]
async fn the_table_store_keeps_the_contract() {
    let (_schema, store) = fresh().await;
    conformance::all(&store).await;
}

#[tokio::test]
async fn looking_for_a_checkpoint_creates_nothing() {
    let (schema, store) = fresh().await;
    assert_eq!(store.load().await.unwrap(), None);
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()";
    assert_eq!(count(&schema, tables).await, 0);
}

#[tokio::test]
async fn a_database_that_is_missing_holds_no_checkpoint() {
    let schema = Server::fresh_schema().await.unwrap();
    let store = store(schema.server(), "no_such_database");
    assert_eq!(store.load().await.unwrap(), None);
    assert!(store.advance(&conformance::sample(1)).await.is_err());
}

#[tokio::test]
async fn a_second_store_goes_on_where_the_first_one_stopped() {
    let (schema, first) = fresh().await;
    let second = store(schema.server(), schema.name());
    assert_eq!(
        first.advance(&conformance::sample(5)).await.unwrap(),
        Advanced::Durable
    );
    assert_eq!(second.load().await.unwrap(), Some(conformance::sample(5)));
    assert_eq!(
        second.advance(&conformance::sample(6)).await.unwrap(),
        Advanced::Durable
    );
    assert_eq!(
        first.advance(&conformance::sample(5)).await.unwrap(),
        Advanced::Stale { held: 6 }
    );
}

#[tokio::test]
async fn jobs_in_one_table_do_not_see_each_other() {
    let (schema, one) = fresh().await;
    let opts = Opts::from_url(&schema.server().url()).unwrap();
    let other = TableStore::new(opts, table(schema.name()), "shop.items", DEADLINE);
    let _durable = one.advance(&conformance::sample(5)).await.unwrap();
    assert_eq!(other.load().await.unwrap(), None);
    other.clear().await.unwrap();
    assert_eq!(one.load().await.unwrap(), Some(conformance::sample(5)));
    one.drop_table().await.unwrap();
    assert_eq!(one.load().await.unwrap(), None);
}

#[tokio::test]
async fn a_killed_connection_and_a_dropped_table_are_mended() {
    let server = Server::start(ServerOptions::new()).await.unwrap();
    server.execute(&["CREATE DATABASE d"]).await.unwrap();
    let store = store(&server, "d");
    let _durable = store.advance(&conformance::sample(1)).await.unwrap();
    let mut conn = server.conn().await.unwrap();
    let others: Vec<u64> = conn
        .query(
            "SELECT id FROM information_schema.processlist \
             WHERE id <> CONNECTION_ID() AND user = 'root'",
        )
        .await
        .unwrap();
    assert!(!others.is_empty());
    for id in others {
        // The helper's own connection may be gone already.
        let _gone = conn.query_drop(format!("KILL {id}")).await;
    }
    let advanced = store.advance(&conformance::sample(2)).await.unwrap();
    assert_eq!(advanced, Advanced::Durable);

    store.drop_table().await.unwrap();
    let advanced = store.advance(&conformance::sample(3)).await.unwrap();
    assert_eq!(advanced, Advanced::Durable);
    assert_eq!(store.load().await.unwrap(), Some(conformance::sample(3)));
}

#[tokio::test]
async fn a_checkpoint_of_a_newer_version_is_refused_and_kept() {
    let (schema, store) = fresh().await;
    let _durable = store.advance(&conformance::sample(1)).await.unwrap();
    let mut conn = schema.conn().await.unwrap();
    conn.query_drop(r#"UPDATE _t_oxstate SET payload = '{"format": 99}'"#)
        .await
        .unwrap();
    let error = store.load().await.unwrap_err();
    assert!(matches!(error, TableStoreError::Format { .. }));
    assert_eq!(error.remedy(), Remedy::State);
}

#[tokio::test]
async fn a_locked_row_ends_in_an_error_in_time() {
    let (schema, _) = fresh().await;
    let opts = Opts::from_url(&schema.server().url()).unwrap();
    let hasty = TableStore::new(
        opts,
        table(schema.name()),
        "shop.orders",
        Duration::from_secs(1),
    );
    let _durable = hasty.advance(&conformance::sample(1)).await.unwrap();
    let mut holder = schema.conn().await.unwrap();
    holder.query_drop("START TRANSACTION").await.unwrap();
    holder
        .query_drop("UPDATE _t_oxstate SET payload = payload, sequence = 0")
        .await
        .unwrap();
    let error = hasty.advance(&conformance::sample(2)).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Retry, "{error}");
    holder.query_drop("ROLLBACK").await.unwrap();
    let advanced = hasty.advance(&conformance::sample(2)).await.unwrap();
    assert_eq!(advanced, Advanced::Durable);
}

#[tokio::test]
async fn a_read_only_server_can_be_looked_at_but_not_saved_to() {
    let mut server = Server::start(ServerOptions::new()).await.unwrap();
    server.execute(&["CREATE DATABASE d"]).await.unwrap();
    let store = store(&server, "d");
    server
        .execute(&["SET GLOBAL super_read_only = ON"])
        .await
        .unwrap();
    assert_eq!(store.load().await.unwrap(), None);
    let error = store.advance(&conformance::sample(1)).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::State);

    server.kill();
    let error = store.load().await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Unreachable, "{error}");
}

#[tokio::test]
async fn every_barrier_and_every_heartbeat_writes_to_the_binary_log() {
    let server = Server::start(ServerOptions::new().gtid(false))
        .await
        .unwrap();
    server.execute(&["CREATE DATABASE d"]).await.unwrap();
    store(&server, "d").create().await.unwrap();
    let table = table("d");
    let mut conn = server.conn().await.unwrap();
    // Commits even in a session that doesn't do so by itself.
    conn.query_drop("SET autocommit = 0").await.unwrap();
    let mut last = position(&server).await;
    for number in 1..=3 {
        touch_barrier(&mut conn, &table, DEADLINE).await.unwrap();
        let after_barrier = position(&server).await;
        assert_eq!(beat(&mut conn, &table, DEADLINE).await.unwrap(), number);
        let after_beat = position(&server).await;
        assert!(last < after_barrier && after_barrier < after_beat);
        last = after_beat;
    }
    assert_eq!(
        last_beat(&mut conn, &table, DEADLINE).await.unwrap(),
        Some(3)
    );
}

#[tokio::test]
async fn a_barrier_without_its_table_is_an_error() {
    let schema = Server::fresh_schema().await.unwrap();
    let mut conn = schema.conn().await.unwrap();
    let table = table(schema.name());
    assert!(touch_barrier(&mut conn, &table, DEADLINE).await.is_err());
    assert_eq!(last_beat(&mut conn, &table, DEADLINE).await.unwrap(), None);
}

/// Returns where the server's binary log ends. One small file: no rotation.
async fn position(server: &Server) -> u64 {
    let mut conn = server.conn().await.unwrap();
    let row: mysql_async::Row = conn
        .query_first("SHOW BINARY LOG STATUS")
        .await
        .unwrap()
        .unwrap();
    row.get("Position").unwrap()
}

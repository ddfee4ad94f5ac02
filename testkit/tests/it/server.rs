use std::time::Duration;

use mysql_async::prelude::Queryable;
use oxferry_testkit::server::{Schema, Server, ServerOptions, shared};

#[tokio::test]
async fn a_server_starts_answers_and_takes_its_folder_along() {
    let server = Server::start(ServerOptions::new()).await.unwrap();
    let mut conn = server.conn().await.unwrap();
    let (gtid, image): (String, String) = conn
        .query_first("SELECT @@gtid_mode, @@binlog_row_image")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&*gtid, &*image), ("ON", "FULL"));
    let data = server.data_dir();
    assert!(data.exists());
    drop(server);
    assert!(!data.exists());
}

#[tokio::test]
async fn what_was_committed_survives_kill_9_and_a_restart() {
    let mut server = Server::start(ServerOptions::new().gtid(false))
        .await
        .unwrap();
    let port = server.port();
    let make = ["CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)"];
    server.execute(&make).await.unwrap();
    server
        .execute(&["INSERT INTO d.t VALUES (1)"])
        .await
        .unwrap();
    server.kill();
    assert!(!server.is_running());
    server.start_again().await.unwrap();
    server
        .execute(&["INSERT INTO d.t VALUES (2)"])
        .await
        .unwrap();
    server.restart().await.unwrap();
    assert_eq!(server.port(), port);
    let mut conn = server.conn_to("d").await.unwrap();
    let rows: Vec<u32> = conn.query("SELECT id FROM t ORDER BY id").await.unwrap();
    assert_eq!(rows, [1, 2]);
}

#[tokio::test]
async fn two_servers_differ_in_port_and_uuid() {
    let (one, two) = tokio::join!(
        Server::start(ServerOptions::new()),
        Server::start(ServerOptions::new().max_binlog_size(4096)),
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_ne!(one.port(), two.port());
    let mut uuids = Vec::new();
    for server in [&one, &two] {
        let mut conn = server.conn().await.unwrap();
        let uuid: Option<String> = conn.query_first("SELECT @@server_uuid").await.unwrap();
        uuids.push(uuid.unwrap());
    }
    assert_ne!(uuids[0], uuids[1]);
}

#[tokio::test]
async fn semi_sync_shows_a_transaction_in_the_binlog_that_nobody_can_see() {
    let options = ServerOptions::new().semi_sync(Duration::from_secs(600));
    let server = Server::start(options).await.unwrap();
    // The tables are made without waiting: with the log of this session off.
    let make = [
        "SET SESSION sql_log_bin = OFF",
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
    ];
    server.execute(&make).await.unwrap();
    let mut watcher = server.conn_to("d").await.unwrap();
    let position = "SHOW BINARY LOG STATUS";
    let before: mysql_async::Row = watcher.query_first(position).await.unwrap().unwrap();
    let mut writer = server.conn_to("d").await.unwrap();
    let write = tokio::spawn(async move { writer.query_drop("INSERT INTO t VALUES (1)").await });
    let advanced = async {
        loop {
            let now: mysql_async::Row = watcher.query_first(position).await.unwrap().unwrap();
            if now.get::<u64, _>(1) > before.get::<u64, _>(1) {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), advanced)
        .await
        .unwrap();
    let count = "SELECT COUNT(*) FROM t";
    assert_eq!(watcher.query_first::<u32, _>(count).await.unwrap(), Some(0));
    server
        .execute(&["SET GLOBAL rpl_semi_sync_source_enabled = OFF"])
        .await
        .unwrap();
    tokio::time::timeout(Duration::from_secs(30), write)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(watcher.query_first::<u32, _>(count).await.unwrap(), Some(1));
}

#[tokio::test]
async fn a_shared_server_gives_every_test_a_schema_of_its_own() {
    let one = Server::fresh_schema().await.unwrap();
    let two = Schema::on(shared(ServerOptions::new()).await.unwrap())
        .await
        .unwrap();
    assert_eq!(one.server().port(), two.server().port());
    assert_ne!(one.name(), two.name());
    let mut conn = two.conn().await.unwrap();
    let chosen: Option<String> = conn.query_first("SELECT DATABASE()").await.unwrap();
    assert_eq!(chosen.as_deref(), Some(two.name()));
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let error = Server::start(ServerOptions::new().arg("--no-such-option=1"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no-such-option"), "{error}");
}

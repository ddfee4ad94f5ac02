//! What a stream refuses to follow, and what it lets pass.

use oxferry_binlog::{StreamError, StreamEvent};
use oxferry_testkit::server::{Server, ServerOptions};

use crate::follow::{drain, failure, follow, next, run, server};

async fn shop() -> Server {
    let server = server(ServerOptions::new()).await;
    let tables = [
        "CREATE TABLE shop.t (id INT PRIMARY KEY, a INT, j JSON)",
        "CREATE TABLE shop.u (id INT PRIMARY KEY, a INT, j JSON)",
    ];
    server.execute(&tables).await.unwrap();
    server
}

#[tokio::test]
async fn a_partial_image_of_a_watched_table_ends_the_stream() {
    let server = shop().await;
    let mut conn = server.conn().await.unwrap();
    for setting in [
        "SET binlog_row_image = MINIMAL",
        "SET binlog_row_value_options = PARTIAL_JSON",
    ] {
        run(
            &mut conn,
            &["REPLACE INTO shop.t VALUES (1, 1, '{\"k\": 1, \"l\": 2}')"],
        )
        .await;
        run(
            &mut conn,
            &["REPLACE INTO shop.u VALUES (1, 1, '{\"k\": 1, \"l\": 2}')"],
        )
        .await;
        let mut stream = follow(&server, "t").await;
        run(
            &mut conn,
            &[
                setting,
                "UPDATE shop.u SET a = 5, j = JSON_SET(j, '$.k', 3)",
            ],
        )
        .await;
        assert!(drain(&mut stream, &mut conn).await.is_empty());
        run(
            &mut conn,
            &["UPDATE shop.t SET a = 5, j = JSON_SET(j, '$.k', 3)"],
        )
        .await;
        let error = failure(&mut stream).await;
        assert!(
            matches!(error, StreamError::PartialImage { .. }),
            "{error:?}"
        );
        assert!(matches!(next(&mut stream).await, Err(StreamError::Ended)));
        run(
            &mut conn,
            &["SET binlog_row_image = FULL, binlog_row_value_options = ''"],
        )
        .await;
    }
}

#[tokio::test]
async fn a_statement_without_rows_ends_the_stream() {
    let server = shop().await;
    let mut conn = server.conn().await.unwrap();
    let mut stream = follow(&server, "t").await;
    run(
        &mut conn,
        &[
            "SET binlog_format = STATEMENT",
            "INSERT INTO shop.u (id) VALUES (1)",
        ],
    )
    .await;
    assert!(drain(&mut stream, &mut conn).await.is_empty());
    run(&mut conn, &["INSERT INTO shop.t (id) VALUES (1)"]).await;
    let error = failure(&mut stream).await;
    assert!(
        matches!(error, StreamError::StatementFormat { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn structure_changes_of_the_watched_table_are_handed_out_and_others_pass() {
    let server = shop().await;
    let mut conn = server.conn().await.unwrap();
    let mut stream = follow(&server, "t").await;
    run(
        &mut conn,
        &[
            "USE shop",
            "CREATE TABLE _t_oxnew LIKE t",
            "CREATE INDEX i ON u (a)",
        ],
    )
    .await;
    run(
        &mut conn,
        &["CREATE TABLE v AS SELECT * FROM t", "TRUNCATE u"],
    )
    .await;
    for statement in [
        "ALTER TABLE t COMMENT 'x'",
        "TRUNCATE t",
        "RENAME TABLE t TO w",
    ] {
        run(&mut conn, &[statement]).await;
        let seen = loop {
            if let StreamEvent::Ddl { statement, .. } = next(&mut stream).await.unwrap() {
                break statement;
            }
        };
        assert_eq!(seen, statement);
    }
}

#[tokio::test]
async fn a_column_added_behind_the_streams_back_is_noticed() {
    let server = shop().await;
    let mut conn = server.conn().await.unwrap();
    let mut stream = follow(&server, "t").await;
    run(
        &mut conn,
        &[
            "ALTER TABLE shop.t MODIFY a BIGINT",
            "INSERT INTO shop.t (id) VALUES (1)",
        ],
    )
    .await;
    let error = failure(&mut stream).await;
    let StreamError::Decode { source, .. } = error else {
        unreachable!("{error:?}");
    };
    assert!(
        source.to_string().starts_with("column a is \"int\""),
        "{source}"
    );
}

#[tokio::test]
async fn xa_transactions_pass_unless_they_touch_a_watched_table() {
    let server = shop().await;
    let mut conn = server.conn().await.unwrap();
    let mut stream = follow(&server, "t").await;
    let touch = |table| format!("INSERT INTO shop.{table} (id) VALUES (1)");
    run(
        &mut conn,
        &[
            "XA START 'a'",
            &touch("u"),
            "XA END 'a'",
            "XA PREPARE 'a'",
            "XA COMMIT 'a'",
        ],
    )
    .await;
    assert!(drain(&mut stream, &mut conn).await.is_empty());
    run(
        &mut conn,
        &[
            "XA START 'b'",
            &touch("t"),
            "XA END 'b'",
            "XA PREPARE 'b'",
            "XA COMMIT 'b'",
        ],
    )
    .await;
    let error = failure(&mut stream).await;
    assert!(matches!(error, StreamError::Xa { .. }), "{error:?}");
}

#[tokio::test]
async fn a_transaction_prepared_before_the_stream_began_ends_it_when_it_is_committed() {
    let server = shop().await;
    let mut conn = server.conn().await.unwrap();
    let insert = "INSERT INTO shop.t (id) VALUES (1)";
    let prepare = ["XA START 'a'", insert, "XA END 'a'", "XA PREPARE 'a'"];
    run(&mut conn, &prepare).await;
    let mut other = server.conn().await.unwrap();
    let xids = oxferry_schema::prepared_xa(&mut other).await.unwrap();
    assert_eq!(xids, ["X'61',X'',1"]);
    let mut stream = follow(&server, "u").await;
    run(&mut conn, &[&format!("XA COMMIT {}", xids[0])]).await;
    let error = failure(&mut stream).await;
    assert!(matches!(error, StreamError::Xa { .. }), "{error:?}");
}

#[tokio::test]
async fn a_purged_log_is_named_as_such() {
    let server = shop().await;
    let mut conn = server.conn().await.unwrap();
    let from = crate::follow::position(&mut conn).await;
    run(
        &mut conn,
        &["INSERT INTO shop.t (id) VALUES (1)", "FLUSH BINARY LOGS"],
    )
    .await;
    run(
        &mut conn,
        &["PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY"],
    )
    .await;
    let opts = mysql_async::Opts::from_url(&server.url()).unwrap();
    let config = oxferry_binlog::StreamConfig::new(opts);
    let opened = oxferry_binlog::MysqlStream::open(config, from, Vec::new()).await;
    let error = match opened {
        Ok(mut stream) => failure(&mut stream).await,
        Err(error) => error,
    };
    assert!(matches!(error, StreamError::Purged { .. }), "{error:?}");
}

//! Changes by others, told from the job's own.

use std::time::Duration;

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_binlog::{
    ForeignKind, ForeignWrite, ForeignWrites, Position, Seen, StreamConfig, StreamError,
};
use oxferry_schema::{Ident, Table, TableName};
use oxferry_testkit::server::{Server, ServerOptions};

use crate::follow::{config, position, run, server};

const LIMIT: Duration = Duration::from_secs(120);
const MARK: &str = "INSERT INTO shop._t_oxstate (job, sequence, payload) VALUES ('(mark 1)', 1, '') \
                    ON DUPLICATE KEY UPDATE sequence = sequence + 1";

async fn shop(options: ServerOptions) -> (Server, Conn) {
    let server = server(options).await;
    let mut conn = server.conn().await.unwrap();
    run(
        &mut conn,
        &[
            "USE shop",
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(200))",
            "CREATE TABLE u (id INT PRIMARY KEY, t_id INT)",
            "CREATE TABLE other (id INT PRIMARY KEY)",
            "CREATE TABLE _t_oxstate (job VARCHAR(64) PRIMARY KEY, sequence BIGINT, payload TEXT)",
        ],
    )
    .await;
    (server, conn)
}

async fn both() -> (Server, Conn) {
    shop(ServerOptions::new().gtid(true).max_binlog_size(4096)).await
}

async fn watch(server: &Server, config: StreamConfig, from: Position) -> ForeignWrites {
    let mut conn = server.conn().await.unwrap();
    let mut tables = Vec::new();
    for name in ["t", "u"] {
        let table = Table::read(&mut conn, &name_of(name)).await.unwrap();
        tables.push(table.unwrap());
    }
    let opened = ForeignWrites::open(config, from, name_of("_t_oxstate"), tables).await;
    opened.unwrap()
}

fn name_of(table: &str) -> TableName {
    TableName::new(Ident::new("shop").unwrap(), Ident::new(table).unwrap())
}

async fn watch_now(server: &Server, conn: &mut Conn) -> ForeignWrites {
    watch(server, config(server), position(conn).await).await
}

/// Everything by others up to the end of the server's log.
async fn drain(watch: &mut ForeignWrites, conn: &mut Conn) -> Vec<ForeignWrite> {
    let target = position(conn).await.file;
    let mut found = Vec::new();
    loop {
        let seen = tokio::time::timeout(LIMIT, watch.next()).await.unwrap();
        match seen.unwrap() {
            Seen::Foreign(write) => found.push(*write),
            Seen::Progress { end } if end >= target => return found,
            Seen::Progress { .. } => {}
        }
    }
}

async fn marked(conn: &mut Conn, statements: &[&str]) {
    run(conn, &["BEGIN", MARK]).await;
    run(conn, statements).await;
    run(conn, &["COMMIT"]).await;
}

fn lines(found: &[ForeignWrite]) -> Vec<String> {
    let short = |write: &ForeignWrite| {
        let line = write.to_string();
        line.split(", before").next().unwrap_or_default().to_owned()
    };
    found.iter().map(short).collect()
}

async fn check_interleaved(options: ServerOptions, setting: &str) {
    let (server, mut conn) = shop(options).await;
    run(&mut conn, &[setting]).await;
    let mut other = server.conn().await.unwrap();
    run(&mut other, &[setting]).await;
    let mut watch = watch_now(&server, &mut conn).await;
    let mut expected = Vec::new();
    for id in 0..100 {
        let own = format!(
            "REPLACE INTO t VALUES ({id}, 1, 'x'), ({}, 2, 'y')",
            id + 1000
        );
        let both = format!("REPLACE INTO u VALUES ({id}, 1)");
        marked(&mut conn, &[&own, &both]).await;
        run(
            &mut other,
            &[&format!("INSERT INTO shop.other VALUES ({id})")],
        )
        .await;
        if id % 10 == 3 {
            run(
                &mut other,
                &[&format!("UPDATE shop.t SET a = 7 WHERE id = {id}")],
            )
            .await;
            expected.push(format!("1 row was updated in shop.t, key {id}"));
        }
        if id % 20 == 7 {
            run(
                &mut other,
                &[
                    "BEGIN",
                    &format!("INSERT INTO shop.other VALUES ({})", id + 1000),
                    &format!("DELETE FROM shop.t WHERE id IN ({id}, {})", id + 1000),
                    &format!("UPDATE shop.u SET id = -1 - id WHERE id = {id}"),
                    "COMMIT",
                ],
            )
            .await;
            expected.push(format!("2 rows were deleted in shop.t, first key {id}"));
            expected.push(format!("1 row was updated in shop.u, key {id}"));
        }
    }
    let found = drain(&mut watch, &mut conn).await;
    assert_eq!(lines(&found), expected);
    let update = &found[0];
    assert_eq!(
        (update.table, update.kind.clone()),
        (0, ForeignKind::Update)
    );
    assert_eq!(update.changes.len(), 1);
    assert_eq!(watch.boundary().gtids.is_some(), update.gtid.is_some());
}

#[tokio::test]
async fn only_what_others_do_is_reported_in_files_of_4_kib() {
    let options = ServerOptions::new().gtid(true).max_binlog_size(4096);
    check_interleaved(options, "DO 0").await;
}

#[tokio::test]
async fn only_what_others_do_is_reported_without_gtids_and_checksums() {
    let options = ServerOptions::new().arg("--binlog-checksum=NONE");
    check_interleaved(options.max_binlog_size(4096), "DO 0").await;
}

#[tokio::test]
async fn only_what_others_do_is_reported_out_of_compressed_transactions() {
    let setting = "SET binlog_transaction_compression = ON";
    check_interleaved(ServerOptions::new().gtid(true), setting).await;
}

#[tokio::test]
async fn a_mark_that_comes_late_or_was_rolled_back_marks_nothing() {
    let (server, mut conn) = both().await;
    let mut watch = watch_now(&server, &mut conn).await;
    run(
        &mut conn,
        &["BEGIN", "INSERT INTO t VALUES (1, 1, '')", MARK, "COMMIT"],
    )
    .await;
    run(
        &mut conn,
        &[
            "BEGIN",
            "SAVEPOINT s",
            MARK,
            "ROLLBACK TO s",
            "INSERT INTO t VALUES (2, 1, '')",
            "COMMIT",
        ],
    )
    .await;
    let found = drain(&mut watch, &mut conn).await;
    assert_eq!(
        lines(&found),
        [
            "1 row was inserted in shop.t, key 1",
            "1 row was inserted in shop.t, key 2"
        ]
    );
}

#[tokio::test]
async fn savepoints_inside_an_own_transaction_leave_it_the_jobs() {
    let (server, mut conn) = both().await;
    let mut watch = watch_now(&server, &mut conn).await;
    let statements = [
        "SAVEPOINT s",
        "INSERT INTO t VALUES (1, 1, '')",
        "ROLLBACK TO s",
        "INSERT INTO t VALUES (2, 1, '')",
        "RELEASE SAVEPOINT s",
    ];
    marked(&mut conn, &statements).await;
    assert!(drain(&mut watch, &mut conn).await.is_empty());
}

#[tokio::test]
async fn a_change_of_structure_is_reported_unless_it_carries_the_jobs_comment() {
    let (server, mut conn) = both().await;
    let mut watch = watch_now(&server, &mut conn).await;
    let own = [
        "ALTER TABLE /* oxferry */ t ADD INDEX (a)",
        "CREATE INDEX /* oxferry */ i ON u (t_id)",
        "ALTER TABLE /* oxferry */ u ADD FOREIGN KEY (t_id) REFERENCES t (id)",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 5",
        "CREATE TABLE elsewhere (id INT PRIMARY KEY)",
        "ALTER TABLE _t_oxstate COMMENT 'changed'",
    ];
    run(&mut conn, &own).await;
    assert!(drain(&mut watch, &mut conn).await.is_empty());
    let foreign = [
        "ALTER TABLE t COMMENT '/* oxferry */'",
        "ALTER TABLE `t` /* oxferry */ ADD INDEX (b)",
        "TRUNCATE TABLE u",
        "RENAME TABLE u TO v, v TO u",
        "DROP TABLE u",
    ];
    for statement in foreign {
        run(&mut conn, &[statement]).await;
        let found = drain(&mut watch, &mut conn).await;
        let [
            ForeignWrite {
                kind: ForeignKind::Ddl(sql),
                ..
            },
        ] = &found[..]
        else {
            unreachable!("{statement}: {found:?}");
        };
        assert_eq!(
            sql.to_ascii_lowercase()[..6],
            statement.to_ascii_lowercase()[..6]
        );
    }
}

#[tokio::test]
async fn rows_that_can_not_be_read_are_reported_and_the_watch_goes_on() {
    let (server, mut conn) = both().await;
    marked(&mut conn, &["INSERT INTO t VALUES (1, 1, ''), (2, 1, '')"]).await;
    let mut watch = watch_now(&server, &mut conn).await;
    let mut other = server.conn().await.unwrap();
    run(
        &mut other,
        &[
            "SET binlog_row_image = MINIMAL",
            "UPDATE shop.t SET a = 2 WHERE id = 1",
        ],
    )
    .await;
    run(
        &mut other,
        &[
            "SET binlog_format = STATEMENT",
            "DELETE FROM shop.t WHERE id = 1",
        ],
    )
    .await;
    run(
        &mut other,
        &[
            "SET binlog_format = ROW, binlog_row_image = FULL",
            "DELETE FROM shop.t WHERE id = 2",
        ],
    )
    .await;
    let found = drain(&mut watch, &mut conn).await;
    let kinds: Vec<ForeignKind> = found.into_iter().map(|write| write.kind).collect();
    let [
        ForeignKind::Unread(_),
        ForeignKind::Statement(sql),
        ForeignKind::Delete,
    ] = &kinds[..]
    else {
        unreachable!("{kinds:?}");
    };
    assert_eq!(sql, "DELETE FROM shop.t WHERE id = 1");
}

#[tokio::test]
async fn a_change_in_an_xa_transaction_is_reported() {
    let (server, mut conn) = both().await;
    let mut watch = watch_now(&server, &mut conn).await;
    let insert = "INSERT INTO shop.t VALUES (1, 1, '')";
    let statements = [
        "XA START 'a'",
        insert,
        "XA END 'a'",
        "XA PREPARE 'a'",
        "XA COMMIT 'a'",
    ];
    run(&mut conn, &statements).await;
    let found = drain(&mut watch, &mut conn).await;
    assert_eq!(lines(&found), ["1 row was inserted in shop.t, key 1"]);
}

/// What is reported when a parent goes whose child is in a watched table.
async fn cascade(options: ServerOptions) -> Vec<String> {
    let (server, mut conn) = shop(options).await;
    let statements = [
        "INSERT INTO other VALUES (1)",
        "ALTER TABLE u ADD FOREIGN KEY (t_id) REFERENCES other (id) ON DELETE CASCADE",
        "INSERT INTO u VALUES (5, 1)",
    ];
    run(&mut conn, &statements).await;
    let mut watch = watch_now(&server, &mut conn).await;
    run(&mut conn, &["DELETE FROM other"]).await;
    let left: Option<u64> = conn.query_first("SELECT COUNT(*) FROM u").await.unwrap();
    assert_eq!(left, Some(0));
    lines(&drain(&mut watch, &mut conn).await)
}

#[tokio::test]
async fn what_a_foreign_key_does_to_children_is_reported_where_the_server_logs_it() {
    let found = cascade(ServerOptions::new()).await;
    assert_eq!(found, ["1 row was deleted in shop.u, key 5"]);
    let native = ServerOptions::new().arg("--innodb-native-foreign-keys=ON");
    assert!(cascade(native).await.is_empty());
}

#[tokio::test]
async fn what_others_did_before_the_watch_began_is_reported_from_its_position_on() {
    let (mut server, mut conn) = both().await;
    let from = position(&mut conn).await;
    marked(&mut conn, &["INSERT INTO t VALUES (1, 1, '')"]).await;
    run(&mut conn, &["UPDATE t SET b = 'changed' WHERE id = 1"]).await;
    drop(conn);
    server.restart().await.unwrap();
    let mut conn = server.conn().await.unwrap();
    let mut watch = watch(&server, config(&server), from).await;
    let found = drain(&mut watch, &mut conn).await;
    assert_eq!(lines(&found), ["1 row was updated in shop.t, key 1"]);
}

#[tokio::test]
async fn a_broken_connection_hides_nothing_and_reports_nothing_twice() {
    let (server, mut conn) = both().await;
    let mut watch = watch_now(&server, &mut conn).await;
    for id in 0..20 {
        marked(&mut conn, &[&format!("INSERT INTO t VALUES ({id}, 1, '')")]).await;
        run(&mut conn, &[&format!("UPDATE t SET a = 2 WHERE id = {id}")]).await;
        if id % 5 == 4 {
            let readers: Vec<u64> = conn
                .query("SELECT id FROM performance_schema.processlist WHERE command LIKE 'Binlog Dump%'")
                .await
                .unwrap();
            for reader in readers {
                // One may have ended by itself.
                let _ = conn.query_drop(format!("KILL {reader}")).await;
            }
        }
    }
    let found = drain(&mut watch, &mut conn).await;
    let expected: Vec<String> = (0..20)
        .map(|id| format!("1 row was updated in shop.t, key {id}"))
        .collect();
    assert_eq!(lines(&found), expected);
}

#[tokio::test]
async fn a_position_that_was_purged_is_named_as_such() {
    let (server, mut conn) = both().await;
    let from = position(&mut conn).await;
    run(
        &mut conn,
        &[
            "INSERT INTO t VALUES (1, 1, '')",
            "FLUSH BINARY LOGS",
            "PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY",
        ],
    )
    .await;
    let opts = Opts::from_url(&server.url()).unwrap();
    let opened = ForeignWrites::open(
        StreamConfig::new(opts),
        from,
        name_of("_t_oxstate"),
        Vec::new(),
    );
    let error = match opened.await {
        Ok(mut watch) => loop {
            if let Err(error) = watch.next().await {
                break error;
            }
        },
        Err(error) => error,
    };
    assert!(matches!(error, StreamError::Purged { .. }), "{error:?}");
}

/// On a quiet machine 2 million rows of 190 bytes pass in 0.3 seconds; here it
/// is shown that nothing grows with what was passed over.
#[tokio::test]
async fn many_marked_rows_pass_and_what_follows_them_is_seen() {
    let (server, mut conn) = shop(ServerOptions::new().gtid(true)).await;
    let mut watch = watch_now(&server, &mut conn).await;
    run(&mut conn, &["SET cte_max_recursion_depth = 100000"]).await;
    for part in 0..20 {
        let rows = format!(
            "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE \
             i < 10000) SELECT i + {part} * 10000, i, REPEAT('x', 180) FROM n"
        );
        marked(&mut conn, &[&rows]).await;
    }
    run(&mut conn, &["UPDATE t SET a = -1 WHERE id = 199999"]).await;
    let found = drain(&mut watch, &mut conn).await;
    assert_eq!(lines(&found), ["1 row was updated in shop.t, key 199999"]);
}

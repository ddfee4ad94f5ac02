//! What somebody else does to the table while a job runs.

use mysql_async::prelude::Queryable;
use oxferry_testkit::{server::ServerOptions, tables::TableSpec};

use crate::world::{LIMIT, World, check_code, options, postponed};

/// What lets a job take over that waits for it.
const GO_ON: &str = "DROP TABLE _t_oxsentinel";

/// The table with columns that partial images leave out or cut.
async fn world_on(options: ServerOptions) -> World {
    let world = World::on(options, TableSpec::sysbench, 1_000).await;
    for statement in [
        "ALTER TABLE t ADD COLUMN doc JSON, ADD COLUMN note TEXT",
        "UPDATE t SET doc = JSON_OBJECT('name', REPEAT('x', 200), 'n', id), note = 'a note'",
    ] {
        world.conn().await.query_drop(statement).await.unwrap();
    }
    world
}

async fn world() -> World {
    world_on(options()).await
}

/// Runs `statements` in one session while a job waits for its cutover.
async fn disturbed(world: &World, statements: &[&str]) -> (Option<i32>, String) {
    let running = postponed(world.migrate("ENGINE=InnoDB")).await;
    let mut conn = world.conn().await;
    for statement in statements {
        let done = conn.query_drop(*statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let finished = running.wait_exit(LIMIT).await.unwrap();
    (finished.code, finished.text())
}

/// Checks that a job ends with `code` and says `fact`, before it took over.
async fn stops(statements: &[&str], code: i32, fact: &str) {
    stops_on(&world().await, statements, code, fact).await;
}

async fn stops_on(world: &World, statements: &[&str], code: i32, fact: &str) {
    let (found, text) = disturbed(world, statements).await;
    assert_eq!(found, Some(code), "{text}");
    assert!(text.contains(fact), "{fact:?} is not in:\n{text}");
    assert!(!text.contains("phase=done"), "{text}");
    let beside = world.tables_beside().await;
    assert!(!beside.contains(&"_t_oxold".to_owned()), "{beside:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_table_stops_the_job() {
    stops(&["TRUNCATE TABLE t"], 74, "TRUNCATE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_table_stops_the_job() {
    stops(&["RENAME TABLE t TO elsewhere"], 74, "RENAME TABLE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_dropped_among_others_stops_the_job() {
    let statements = ["CREATE TABLE a (id INT)", "DROP TABLE a, t"];
    stops(&statements, 74, "DROP TABLE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_comes_up_stops_the_job() {
    let create = "CREATE TRIGGER late BEFORE INSERT ON t FOR EACH ROW SET NEW.k = 1";
    stops(&[create], 75, "late").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_key_on_the_table_stops_the_job() {
    let statements = [
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "INSERT INTO p SELECT DISTINCT k FROM t",
        "ALTER TABLE t ADD CONSTRAINT late FOREIGN KEY (k) REFERENCES p (id)",
    ];
    stops(&statements, 74, "late").await;
}

/// No statement names the table itself as the one that changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_key_that_points_at_the_table_stops_the_job() {
    let world = world().await;
    let child = "CREATE TABLE c (t_id INT, CONSTRAINT late FOREIGN KEY (t_id) REFERENCES t (id))";
    let (code, text) = disturbed(&world, &[child, GO_ON]).await;
    assert_ne!(code, Some(0), "{text}");
    assert!(text.contains("late"), "{text}");
    let mut conn = world.conn().await;
    let parent: Option<String> = conn
        .query_first(
            "SELECT referenced_table_name FROM information_schema.referential_constraints \
             WHERE constraint_schema = DATABASE() AND constraint_name = 'late'",
        )
        .await
        .unwrap();
    assert_eq!(parent.as_deref(), Some("t"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_minimal_images_stops_the_job() {
    let statements = [
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE t SET k = k + 1 WHERE id = 7",
    ];
    stops(&statements, 77, "binlog_row_image").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_leaves_out_blobs_stops_the_job() {
    let statements = [
        "SET SESSION binlog_row_image = NOBLOB",
        "UPDATE t SET k = k + 1 WHERE id = 7",
    ];
    stops(&statements, 77, "binlog_row_image").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_logs_statements_stops_the_job() {
    let statements = [
        "SET SESSION binlog_format = STATEMENT",
        "UPDATE t SET k = k + 1 WHERE id = 7",
    ];
    // A table of this name in any database could be meant: jobs of other tests
    // on the same server would stop as well.
    let world = world_on(options().arg("--max-binlog-cache-size=64M")).await;
    stops_on(&world, &statements, 77, "binlog_format").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_partial_json_stops_the_job() {
    let statements = [
        "SET SESSION binlog_row_value_options = PARTIAL_JSON",
        "UPDATE t SET doc = JSON_SET(doc, '$.n', 5) WHERE id = 7",
    ];
    stops(&statements, 77, "binlog_row_value_options").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_xa_transaction_on_the_table_stops_the_job() {
    let statements = [
        "XA START 'late'",
        "UPDATE t SET k = k + 1 WHERE id = 7",
        "XA END 'late'",
        "XA PREPARE 'late'",
        "XA COMMIT 'late'",
    ];
    stops(&statements, 77, "XA").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_transactions_and_changes_of_other_tables_are_no_disturbance() {
    let world = world().await;
    let running = postponed(world.migrate("ENGINE=InnoDB").arg("--keep-old-table")).await;
    let mut conn = world.conn().await;
    for statement in [
        "SET SESSION binlog_transaction_compression = ON",
        "UPDATE t SET k = k + 1000, doc = JSON_SET(doc, '$.n', 1.0) WHERE id % 3 = 0",
        "DELETE FROM t WHERE id = 8",
        "CREATE TABLE other LIKE t",
        "INSERT INTO other SELECT * FROM t LIMIT 10",
        "ALTER TABLE other ADD COLUMN more INT",
        "CREATE TRIGGER elsewhere BEFORE INSERT ON other FOR EACH ROW SET NEW.k = 1",
        "DROP TRIGGER elsewhere",
        "TRUNCATE TABLE other",
        "DROP TABLE other",
        GO_ON,
    ] {
        let done = conn.query_drop(statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    assert_eq!(world.check_same_as_old().await, 999);
    let read = "SELECT CAST(doc->'$.n' AS CHAR) FROM t WHERE id = 9";
    let n: Option<String> = conn.query_first(read).await.unwrap();
    assert_eq!(n.as_deref(), Some("1.0"));
}

//! Postponing the cutover, and taking over under writers and lock holders.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use oxferry_testkit::tables::TableSpec;

use crate::world::{LIMIT, World, check_code};

const CLAUSES: &str = "ADD COLUMN extra INT NOT NULL DEFAULT 7";

#[tokio::test(flavor = "multi_thread")]
async fn a_postponed_cutover_goes_on_applying_until_the_sentinel_is_dropped() {
    let world = World::new(TableSpec::sysbench, 5_000).await;
    let migrate = world
        .migrate(CLAUSES)
        .arg("--keep-old-table")
        .arg("--defer-cutover");
    let mut running = migrate.spawn().unwrap();
    let shown = running.wait_line("DROP TABLE", LIMIT).await.unwrap();
    assert!(shown.text.contains("_t_oxsentinel"), "{}", shown.text);
    let mut conn = world.conn().await;
    conn.query_drop("UPDATE t SET k = 12345 WHERE id = 77")
        .await
        .unwrap();
    oxferry_testkit::wait::eventually(LIMIT, "the change on the new table", async || {
        let mut conn = world.conn().await;
        let k: Option<u64> = conn
            .query_first("SELECT k FROM _t_oxnew WHERE id = 77")
            .await
            .unwrap();
        (k == Some(12345)).then_some(())
    })
    .await
    .unwrap();
    conn.query_drop("DROP TABLE _t_oxsentinel").await.unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    world.check_same_as_old().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_table_that_somebody_changes_outside_the_log_does_not_take_over() {
    let world = World::new(TableSpec::sysbench, 500).await;
    let migrate = world.migrate(CLAUSES).arg("--defer-cutover");
    let mut running = migrate.spawn().unwrap();
    running.wait_line("DROP TABLE", LIMIT).await.unwrap();
    let mut conn = world.conn().await;
    for statement in [
        "SET SESSION sql_log_bin = 0",
        "ALTER TABLE _t_oxnew DROP INDEX k_1",
        "DROP TABLE _t_oxsentinel",
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 74);
    let text = finished.text();
    assert!(text.contains("KEY `k_1` (`k`) is gone"), "{text}");
    let tables: Vec<String> = conn.query("SHOW TABLES").await.unwrap();
    assert!(tables.contains(&"_t_oxnew".to_owned()), "{tables:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_a_postponed_cutover_leaves_a_checkpoint_that_resumes() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let migrate = || {
        world
            .migrate(CLAUSES)
            .arg("--keep-old-table")
            .arg("--defer-cutover")
    };
    let limited = migrate()
        .arg("--defer-cutover-limit")
        .arg("1s")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&limited, 75);
    let mut resumed = migrate().spawn().unwrap();
    resumed.wait_phase("deferred", LIMIT).await.unwrap();
    world
        .conn()
        .await
        .query_drop("DROP TABLE _t_oxsentinel")
        .await
        .unwrap();
    check_code(&resumed.wait_exit(LIMIT).await.unwrap(), 0);
    world.check_same_as_old().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_holder_delays_the_cutover_and_is_named() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let mut holder = world.conn().await;
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT * FROM t LIMIT 1").await.unwrap();
    let migrate = world
        .migrate(CLAUSES)
        .arg("--keep-old-table")
        .arg("--lock-wait")
        .arg("1s");
    let mut running = migrate.spawn().unwrap();
    let named = format!("{}", holder.id());
    running.wait_line(&named, LIMIT).await.unwrap();
    // Between two attempts others can write.
    let writers = world.writers(2, 31).await;
    let report = writers.stop().await;
    assert_eq!(report.errors, 0, "{:?}", report.last_error);
    holder.query_drop("COMMIT").await.unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    world.check_against_old(&report).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_holder_is_ended_when_asked_for() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let mut holder = world.conn().await;
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT * FROM t LIMIT 1").await.unwrap();
    let migrate = world
        .migrate(CLAUSES)
        .arg("--kill-blockers-after")
        .arg("500ms");
    check_code(&migrate.run(Duration::from_secs(120)).await.unwrap(), 0);
    assert!(holder.query_drop("SELECT 1").await.is_err());
}

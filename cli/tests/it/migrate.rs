//! A live table gets a new schema.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use oxferry_testkit::{server::ServerOptions, tables::TableSpec};

use crate::world::{LIMIT, World, check_code, options};

const CLAUSES: &str = "ADD COLUMN extra INT NOT NULL DEFAULT 7, ADD INDEX extra_k (extra)";

async fn migrates_under_writers(options: ServerOptions, make: fn(&str, &str, u64) -> TableSpec) {
    let world = World::on(options, make, 20_000).await;
    let writers = world.writers(4, 3).await;
    let finished = world
        .migrate(CLAUSES)
        .arg("--keep-old-table")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 0);
    writers.wait_for_commits(20, LIMIT).await.unwrap();
    world.check_against_old(&writers.stop().await).await;
    assert_eq!(world.tables_beside().await, ["_t_oxold"]);
    let extra: Option<(u64, u64)> = world
        .conn()
        .await
        .query_first("SELECT COUNT(*), SUM(extra = 7) FROM t")
        .await
        .unwrap();
    let (rows, filled) = extra.unwrap();
    assert_eq!(rows, filled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_migrated_under_writers_with_gtids() {
    migrates_under_writers(options(), TableSpec::sysbench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_migrated_under_writers_without_gtids() {
    migrates_under_writers(options().gtid(false), TableSpec::sysbench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unique_values_that_travel_between_rows_arrive() {
    migrates_under_writers(options(), TableSpec::with_unique).await;
    migrates_under_writers(options().gtid(false), TableSpec::with_unique).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_wait_for_a_replica_are_not_missed() {
    let semi_sync = ServerOptions::new().semi_sync(Duration::from_millis(300));
    let world = World::on(semi_sync, TableSpec::sysbench, 5_000).await;
    let guard = world
        .schema
        .server()
        .keep_semi_sync_waiting()
        .await
        .unwrap();
    let writers = world.writers(2, 5).await;
    let finished = world
        .migrate(CLAUSES)
        .arg("--keep-old-table")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 0);
    drop(guard);
    world.check_against_old(&writers.stop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_whose_unique_key_must_stay_is_copied_in_order() {
    let world = World::new(TableSpec::with_unique, 5_000).await;
    let change = "ALTER TABLE t MODIFY id INT NOT NULL, MODIFY u BIGINT NOT NULL AUTO_INCREMENT";
    check_changed_first(&world, change).await;
}

/// Changes the table, and checks that it migrates under writers.
async fn check_changed_first(world: &World, change: &str) {
    world.conn().await.query_drop(change).await.unwrap();
    let writers = world.writers(4, 9).await;
    let finished = world
        .migrate("ADD COLUMN extra INT")
        .arg("--keep-old-table")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 0);
    world.check_against_old(&writers.stop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renamed_and_reordered_columns_keep_their_values() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let clauses =
        "RENAME COLUMN c TO d, CHANGE pad c CHAR(60) NOT NULL FIRST, MODIFY k BIGINT NOT NULL";
    let finished = world
        .migrate(clauses)
        .arg("--keep-old-table")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 0);
    let same: Option<u64> = world
        .conn()
        .await
        .query_first("SELECT COUNT(*) FROM t JOIN _t_oxold o USING (id) WHERE t.d = o.c AND t.c = o.pad AND t.k = o.k")
        .await
        .unwrap();
    assert_eq!(same, Some(2_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_table_and_distant_negative_and_zero_keys_are_copied() {
    let world = World::new(TableSpec::sysbench, 0).await;
    check_code(&world.migrate("ENGINE=InnoDB").run(LIMIT).await.unwrap(), 0);
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
    let mut conn = world.conn().await;
    conn.query_drop("ALTER TABLE t MODIFY id BIGINT NOT NULL")
        .await
        .unwrap();
    conn.query_drop("INSERT INTO t (id, k) VALUES (-5, 1), (0, 2), (1, 3), (8589934592, 4)")
        .await
        .unwrap();
    let finished = world
        .migrate("ENGINE=InnoDB")
        .arg("--keep-old-table")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 0);
    assert_eq!(world.check_same_as_old().await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn composite_keys_are_copied_under_changes_of_every_part() {
    let world = World::new(TableSpec::sysbench, 3_000).await;
    let change = "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (k, id), ADD UNIQUE KEY (id)";
    check_changed_first(&world, change).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_automatic_value_survives_deleted_rows() {
    let world = World::new(TableSpec::sysbench, 1_000).await;
    let mut conn = world.conn().await;
    conn.query_drop("ALTER TABLE t AUTO_INCREMENT = 5000")
        .await
        .unwrap();
    check_code(&world.migrate("ENGINE=InnoDB").run(LIMIT).await.unwrap(), 0);
    conn.query_drop("INSERT INTO t (k) VALUES (1)")
        .await
        .unwrap();
    let id: Option<u64> = conn.query_first("SELECT MAX(id) FROM t").await.unwrap();
    assert_eq!(id, Some(5000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_what_would_happen_and_leaves_nothing() {
    let world = World::new(TableSpec::sysbench, 100).await;
    let url = world.schema.url();
    let words = [
        "plan",
        "migrate",
        "--source",
        &url,
        "--table",
        "t",
        "--alter",
        "RENAME COLUMN c TO d, DROP COLUMN pad",
        "--native-ddl",
        "off",
    ];
    let plan = oxferry_testkit::tool::Oxferry::new(words).program(env!("CARGO_BIN_EXE_oxferry"));
    let finished = plan.run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    for fact in ["c to d", "pad", "_t_oxnew", "k_1"] {
        assert!(
            finished.text().contains(fact),
            "{fact}: {}",
            finished.text()
        );
    }
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
}

//! Live tables move to another server.

use mysql_async::prelude::Queryable;
use oxferry_testkit::{server::ServerOptions, tables::TableSpec};

use crate::{
    far::{Far, target_options},
    world::{LIMIT, check_code, options},
};

async fn moves_under_writers(source: ServerOptions, make: fn(&str, &str, u64) -> TableSpec) {
    let far = Far::on((source, target_options()), make, 20_000).await;
    let writers = far.writers(4, 3).await;
    let finished = far.moves().run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    far.check(&writers.stop().await).await;
    let (here, there) = far.tables().await;
    assert_eq!(here, ["_t_oxold"]);
    assert_eq!(there, ["t"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_moves_under_writers_with_gtids() {
    moves_under_writers(options(), TableSpec::sysbench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_moves_under_writers_without_gtids() {
    moves_under_writers(options().gtid(false), TableSpec::sysbench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unique_values_that_travel_between_rows_arrive_on_the_target() {
    moves_under_writers(options(), TableSpec::with_unique).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_table_that_fills_while_it_moves_arrives() {
    let far = Far::new(TableSpec::sysbench, 0).await;
    let mut running = far.moves().arg("--cutover").arg("manual").spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    let insert = "INSERT INTO t (k, c, pad) VALUES (1, 'a', 'b'), (2, 'c', 'd')";
    let mut source = far.source.conn().await.unwrap();
    source.query_drop(insert).await.unwrap();
    let drop = "DROP TABLE _t_oxsentinel";
    far.target_conn().await.query_drop(drop).await.unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    assert_eq!(far.check_rows("_t_oxold", "t").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_would_lose_writes_are_refused_before_anything_happens() {
    let far = Far::new(TableSpec::sysbench, 10).await;
    let cases: [(&[&str], &str); 3] = [
        (&[], "--lock-source"),
        (&["--lock-source", "lock-tables"], "--hook-switched"),
        (&["--lock-source", "hook"], "lock-source"),
    ];
    for (options, fact) in cases {
        for command in ["move", "plan"] {
            let words: &[&str] = if command == "plan" {
                &["plan", "move"]
            } else {
                &["move"]
            };
            let finished = far.call(words, options).run(LIMIT).await.unwrap();
            check_code(&finished, 64);
            assert!(finished.text().contains(fact), "{}", finished.text());
        }
    }
    assert_eq!(far.tables().await, (vec!["t".to_owned()], Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_after_the_switch_is_the_jobs_exit_code() {
    let far = Far::new(TableSpec::sysbench, 100).await;
    let moves = far.moves().arg("--hook-unlock-source").arg("false");
    let finished = moves
        .arg("--hook-attempts")
        .arg("1")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 75);
    let text = finished.text();
    assert!(text.contains("the target has taken over"), "{text}");
    assert!(text.contains("hook unlock-source"), "{text}");
    assert!(!text.contains("run the same command again"), "{text}");
    assert!(far.is_done().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_stand_on_the_target_are_not_taken_for_differences() {
    let far = Far::new(TableSpec::sysbench, 10).await;
    let database = far.source.name();
    let mut target = far.target.conn().await.unwrap();
    let create = format!("CREATE DATABASE `{database}`");
    target.query_drop(create).await.unwrap();
    let there = far.table.create_sql();
    target.query_drop(there).await.unwrap();
    let insert = format!("INSERT INTO `{database}`.t (id, k, c, pad) VALUES (77, 1, 'a', 'b')");
    target.query_drop(insert).await.unwrap();
    for (option, fact) in [("refuse", "t"), ("empty", "t"), ("matching", "--tenant")] {
        let finished = far.moves().arg("--target-tables").arg(option);
        let finished = finished.run(LIMIT).await.unwrap();
        check_code(&finished, 64);
        assert!(finished.text().contains(fact), "{}", finished.text());
    }
    let delete = format!("DELETE FROM `{database}`.t");
    target.query_drop(delete).await.unwrap();
    let finished = far.moves().arg("--target-tables").arg("matching");
    check_code(&finished.run(LIMIT).await.unwrap(), 0);
    assert_eq!(far.check_rows("_t_oxold", "t").await, 10);
}

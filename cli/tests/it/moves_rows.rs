//! Rows that change at the very moments at which a move could miss them.

use oxferry_testkit::{tables::TableSpec, tool::Running};

use crate::{
    far::{Far, run},
    held::{Blocker, Called, Gate, wait_for_one},
    world::{LIMIT, check_code},
};

/// A move whose copy hasn't begun, but whose stream has.
async fn begun(far: &Far, gate: &Gate) -> Running {
    let mut running = gate.hold(far.moves()).spawn().unwrap();
    running.wait_phase("copy", LIMIT).await.unwrap();
    running
}

async fn ends_well(far: &Far, running: Running) -> usize {
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    far.check_rows("_t_oxold", "t").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_changes_between_its_reading_and_its_writing_arrives_as_it_is_last() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let gate = Gate::closed();
    let running = begun(&far, &gate).await;
    // The chunk that writes row 1 has read it, and waits here.
    let mut blocker = Blocker::new(&far, &["INSERT INTO t (id) VALUES (1)"]).await;
    gate.open();
    blocker.wait_until_met().await;
    let mut source = far.source.conn().await.unwrap();
    let changes = [
        "UPDATE t SET c = 'changed meanwhile' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "UPDATE t SET id = 9001 WHERE id = 3",
        "INSERT INTO t (id, c) VALUES (-1, 'below')",
    ];
    run(&mut source, &changes).await;
    blocker.let_go().await;
    assert_eq!(ends_well(&far, running).await, 500);
    let changed = "SELECT COUNT(*) FROM t WHERE id = 1 AND c = 'changed meanwhile'";
    wait_for_one(&mut far.target_conn().await, changed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_change_after_the_stream_began_and_before_their_copy_arrive() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let gate = Gate::closed();
    let running = begun(&far, &gate).await;
    let mut source = far.source.conn().await.unwrap();
    let changes = [
        "UPDATE t SET c = 'before its copy' WHERE id <= 20",
        "DELETE FROM t WHERE id = 30",
        "INSERT INTO t (id, c) VALUES (0, 'zero'), (-7, 'below'), (7000, 'above')",
        "UPDATE t SET id = -id WHERE id = 40",
    ];
    run(
        &mut source,
        &["SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"],
    )
    .await;
    run(&mut source, &changes).await;
    gate.open();
    assert_eq!(ends_well(&far, running).await, 502);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_change_after_their_copy_arrive() {
    let far = Far::new(TableSpec::with_unique, 500).await;
    let mut running = far.moves().arg("--cutover").arg("manual").spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    let mut source = far.source.conn().await.unwrap();
    let changes = [
        "UPDATE t SET v = 'after its copy' WHERE id <= 20",
        "DELETE FROM t WHERE id > 490",
        "UPDATE t SET u = -u WHERE id IN (1, 2)",
        "UPDATE t SET id = 9000 WHERE id = 5",
        "UPDATE t SET id = 5 WHERE id = 9000",
    ];
    run(&mut source, &changes).await;
    run(&mut far.target_conn().await, &["DROP TABLE _t_oxsentinel"]).await;
    assert_eq!(ends_well(&far, running).await, 490);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_highest_row_may_be_deleted_while_rows_are_copied() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let gate = Gate::closed();
    let running = begun(&far, &gate).await;
    let mut blocker = Blocker::new(&far, &["INSERT INTO t (id) VALUES (1)"]).await;
    gate.open();
    blocker.wait_until_met().await;
    let mut source = far.source.conn().await.unwrap();
    run(&mut source, &["DELETE FROM t WHERE id >= 499"]).await;
    blocker.let_go().await;
    assert_eq!(ends_well(&far, running).await, 498);
    // Its number isn't given again, as it wouldn't be on the source.
    let insert = ["INSERT INTO t (c) VALUES ('next')"];
    let mut target = far.target_conn().await;
    run(&mut target, &insert).await;
    wait_for_one(&mut target, "SELECT MAX(id) = 501 FROM t").await;
}

/// A move that is told of the switch by hooks, with its source at rest.
async fn at_the_switch(far: &Far, meanwhile: &[&str]) -> Running {
    let (lock, switched) = (Called::new().await, Called::new().await);
    let moves = far.oxferry("move").arg("--lock-source").arg("hook");
    let moves = moves.arg("--hook-lock-source").arg(lock.address());
    let moves = moves.arg("--hook-switched").arg(switched.address());
    let moves = moves.arg("--hook-unlock-source").arg("true");
    let running = moves.spawn().unwrap();
    let call = lock.next().await;
    run(&mut far.source.conn().await.unwrap(), meanwhile).await;
    call.answer().await;
    switched.next().await.answer().await;
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_stops_at_a_position_in_a_new_file() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let meanwhile = [
        "UPDATE t SET c = 'the last change' WHERE id = 77",
        "FLUSH BINARY LOGS",
        "FLUSH BINARY LOGS",
    ];
    let running = at_the_switch(&far, &meanwhile).await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    far.check_rows("t", "t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_stops_where_the_binary_log_is_idle() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let running = at_the_switch(&far, &[]).await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    far.check_rows("t", "t").await;
}

/// Sessions whose locks a transaction meets one after the other, each with
/// so much work done that the server ends the other one at a deadlock.
async fn blockers(far: &Far, name: &str, lock: impl Fn(u32) -> String) -> Vec<Blocker> {
    let scratch = format!("scratch_{name}");
    let rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) \
                SELECT i FROM n";
    let mut conn = far.target_conn().await;
    let database = [&*format!("CREATE DATABASE {scratch}")];
    run(&mut conn, &database).await;
    let mut blockers = Vec::new();
    for number in 1..=7 {
        let create = format!("CREATE TABLE {scratch}.w{number} (i INT PRIMARY KEY)");
        run(&mut conn, &[&create]).await;
        let work = format!("INSERT INTO {scratch}.w{number} {rows}");
        blockers.push(Blocker::new(far, &[&work, &lock(number * 3)]).await);
    }
    blockers
}

/// Has whoever holds row 1 and waits for one of `blockers` lose against it, and
/// the next time against the next one.
async fn deadlock_with_all(blockers: Vec<Blocker>) {
    for mut blocker in blockers {
        blocker.wait_until_met().await;
        blocker.run("SELECT * FROM t WHERE id = 1 FOR UPDATE").await;
        blocker.let_go().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_loses_seven_deadlocks_is_copied_all_the_same() {
    let far = Far::new(TableSpec::sysbench, 100).await;
    let gate = Gate::closed();
    let running = begun(&far, &gate).await;
    let insert = |id| format!("INSERT INTO t (id) VALUES ({id})");
    let blockers = blockers(&far, far.source.name(), insert).await;
    gate.open();
    deadlock_with_all(blockers).await;
    assert_eq!(ends_well(&far, running).await, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_lose_seven_deadlocks_are_applied_all_the_same() {
    let far = Far::new(TableSpec::sysbench, 100).await;
    let mut running = far.moves().arg("--cutover").arg("manual").spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    let lock = |id| format!("SELECT * FROM t WHERE id = {id} FOR UPDATE");
    let blockers = blockers(&far, far.source.name(), lock).await;
    let mut source = far.source.conn().await.unwrap();
    run(&mut source, &["UPDATE t SET c = 'all' WHERE id <= 50"]).await;
    deadlock_with_all(blockers).await;
    run(&mut far.target_conn().await, &["DROP TABLE _t_oxsentinel"]).await;
    assert_eq!(ends_well(&far, running).await, 100);
}

//! Tables move off a replica, while the applications write to its primary.

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    tool::{Oxferry, Signal},
    wait::eventually,
};

use crate::{
    callbacks::{noting, told},
    trio::Trio,
    world::{LIMIT, check_code},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_table_moves_off_a_replica_under_writers_on_the_primary() {
    let trio = Trio::new("renames", 10_000).await;
    let writers = trio.writers(51).await;
    let finished = trio.moves("rename").run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    trio.far.check(&writers.stop().await).await;
    let (here, there) = trio.far.tables().await;
    assert_eq!(
        (here, there),
        (vec!["_t_oxold".to_owned()], vec!["t".to_owned()])
    );
    // Nothing was written on the replica itself.
    trio.replica
        .wait_for_source(trio.far.source.server(), LIMIT)
        .await
        .unwrap();
    let mut replica = trio.replica.conn().await.unwrap();
    let own = "SELECT @@GLOBAL.gtid_executed LIKE CONCAT('%', @@GLOBAL.server_uuid, '%')";
    let own: Option<bool> = replica.query_first(own).await.unwrap();
    assert_eq!(own, Some(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_made_read_only_is_followed_to_its_last_write() {
    let trio = Trio::new("reads", 5_000).await;
    let writers = trio.writers(52).await;
    let finished = trio.moves("read-only").run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    let report = writers.stop().await;
    let mut target = trio.far.target_conn().await;
    report
        .journal
        .check(&mut target, &trio.far.table)
        .await
        .unwrap();
    trio.far.check_rows("t", "t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_waits_for_a_replica_that_is_behind() {
    let trio = Trio::new("late", 1_000).await;
    let tool = trio.moves("rename").arg("--cutover").arg("manual");
    let mut running = tool.arg("--locked-max").arg("120s").spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    let late = "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 4";
    trio.on_replica(&["STOP REPLICA SQL_THREAD", late, "START REPLICA SQL_THREAD"])
        .await;
    trio.on_primary("INSERT INTO t (k, c, pad) VALUES (7, 'late', 'late')")
        .await;
    let drop = "DROP TABLE _t_oxsentinel";
    trio.far.target_conn().await.query_drop(drop).await.unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    assert_eq!(trio.far.check_rows("_t_oxold", "t").await, 1_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn replication_that_stops_in_mid_run_is_named_and_goes_on() {
    let trio = Trio::new("stops", 1_000).await;
    let tool = trio.moves("rename").arg("--cutover").arg("manual");
    let mut running = tool.spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    trio.on_replica(&["STOP REPLICA SQL_THREAD"]).await;
    trio.on_primary("DELETE FROM t WHERE id = 3").await;
    let line = running
        .wait_line("its applier doesn't run", LIMIT)
        .await
        .unwrap();
    assert!(line.text.contains("WARN"), "{}", line.text);
    // An attempt at the switch doesn't shut the primary meanwhile.
    let drop = "DROP TABLE _t_oxsentinel";
    trio.far.target_conn().await.query_drop(drop).await.unwrap();
    running
        .wait_line("replication on the source has stopped", LIMIT)
        .await
        .unwrap();
    trio.on_replica(&["START REPLICA SQL_THREAD"]).await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    assert_eq!(trio.far.check_rows("_t_oxold", "t").await, 999);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_its_primary_or_with_a_wrong_one_is_refused() {
    let trio = Trio::new("wrong", 10).await;
    let target = trio.far.target.url();
    let wrong = trio.from(&target, "rename").run(LIMIT).await.unwrap();
    check_code(&wrong, 64);
    let text = wrong.text();
    assert!(
        text.contains("doesn't replicate from the --source-primary"),
        "{text}"
    );
    let alone = Oxferry::new(["move", "--source", &trio.replica.url(), "--target", &target]);
    let alone = alone.program(env!("CARGO_BIN_EXE_oxferry"));
    let alone = alone.arg("--database").arg(trio.far.source.name());
    let alone = alone
        .arg("--lock-source")
        .arg("rename")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&alone, 64);
    assert!(
        alone.text().contains("--source-primary"),
        "{}",
        alone.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_turns_read_only_ends_the_move_until_it_is_writable() {
    let trio = Trio::new("shut", 1_000).await;
    let manual = || trio.moves("rename").arg("--cutover").arg("manual");
    let mut running = manual().spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    trio.on_primary("SET GLOBAL read_only = ON").await;
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 75);
    assert!(
        finished.text().contains("the primary is read-only"),
        "{}",
        finished.text()
    );
    trio.on_primary("SET GLOBAL read_only = OFF").await;
    let mut running = manual().spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    // Somebody writes to the replica, past its primary.
    let database = trio.far.source.name();
    trio.on_replica(&[&format!("DELETE FROM {database}.t WHERE id = 9")])
        .await;
    let drop = "DROP TABLE _t_oxsentinel";
    trio.far.target_conn().await.query_drop(drop).await.unwrap();
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 74);
    assert!(
        finished
            .text()
            .contains("somebody wrote to the source itself"),
        "{}",
        finished.text()
    );
    let (here, _) = trio.far.tables().await;
    assert!(here.contains(&"t".to_owned()), "{here:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_waits_for_the_worst_replica_and_for_one_that_nobody_hears_of() {
    let trio = Trio::new("throttles", 1_000).await;
    trio.on_replica(&["STOP REPLICA SQL_THREAD"]).await;
    let folder = tempfile::tempdir().unwrap();
    let progress = folder.path().join("progress");
    let moves = || {
        let tool = trio.far.moves().arg("--max-lag").arg("1s");
        let tool = tool.arg("--replica").arg(trio.replica.url());
        let tool = tool.arg("--progress-callback").arg(noting(&progress));
        let tool = tool.arg("--progress-every").arg("100ms");
        tool.arg("--cutover").arg("manual")
    };
    let waits_for = async |name: &str| {
        eventually(LIMIT, format!("a move that waits for {name}"), async || {
            let call = told(&progress).pop()?;
            let throttled = call["throttled"].as_str()?.contains(name);
            throttled.then_some(call)
        })
        .await
        .unwrap()
    };
    // One that was never heard of counts more than one that is behind.
    let deaf = moves().arg("--replica").arg("mysql://root@127.0.0.1:1");
    let running = deaf.spawn().unwrap();
    assert_eq!(waits_for("127.0.0.1:1 ").await["rows_copied"], 0);
    running.signal(Signal::SIGTERM).unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 130);
    let mut running = moves().spawn().unwrap();
    waits_for(&format!("127.0.0.1:{}", trio.replica.port())).await;
    trio.on_replica(&["START REPLICA SQL_THREAD"]).await;
    let drop = "DROP TABLE IF EXISTS _t_oxsentinel";
    running.wait_phase("deferred", LIMIT).await.unwrap();
    trio.far.target_conn().await.query_drop(drop).await.unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    trio.far.check_rows("_t_oxold", "t").await;
}

//! A monitor on real servers.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use oxferry_schema::Remedy;
use oxferry_testkit::{
    server::{Server, ServerOptions},
    wait::eventually,
};
use oxferry_throttle::{MonitorConfig, MonitorError, Reason};

use crate::pair::{PATIENCE, Pair, Running, opts};

fn quick() -> MonitorConfig {
    let mut config = MonitorConfig::default();
    config.interval = Duration::from_millis(100);
    config.lag.stale_after = Duration::from_secs(3);
    config
}

fn is_lag(reason: &Reason) -> bool {
    matches!(reason, Reason::Lag { .. })
}

#[tokio::test]
async fn a_stopped_applier_closes_the_gate_and_a_started_one_opens_it() {
    let pair = Pair::start().await;
    let mut config = quick();
    config.replicas = vec![opts(&pair.replica)];
    config.discover = false;
    let mut running = Running::start(&pair.source, config).await;
    running.open("before").await;

    pair.replica
        .execute(&["STOP REPLICA SQL_THREAD"])
        .await
        .unwrap();
    running.held("stopped applier", is_lag).await;
    pair.replica
        .execute(&["START REPLICA SQL_THREAD"])
        .await
        .unwrap();
    running.open("started applier").await;

    // `Seconds_Behind_Source` doesn't see this one.
    pair.replica
        .execute(&["STOP REPLICA IO_THREAD"])
        .await
        .unwrap();
    running.held("stopped receiver", is_lag).await;
    pair.replica
        .execute(&["START REPLICA IO_THREAD"])
        .await
        .unwrap();
    running.open("started receiver").await;
    running.stop().await;
}

#[tokio::test]
async fn a_delayed_replica_closes_the_gate() {
    let pair = Pair::start().await;
    let mut config = quick();
    config.replicas = vec![opts(&pair.replica)];
    config.discover = false;
    let delay = |seconds| format!("CHANGE REPLICATION SOURCE TO SOURCE_DELAY={seconds}");
    let mut running = Running::start(&pair.source, config).await;
    for (seconds, closed) in [(5, true), (0, false)] {
        let statements = [
            "STOP REPLICA SQL_THREAD",
            &delay(seconds),
            "START REPLICA SQL_THREAD",
        ];
        pair.replica.execute(&statements).await.unwrap();
        if closed {
            running.held("delayed", is_lag).await;
        } else {
            running.open("in time again").await;
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn a_replica_is_found_by_itself() {
    let pair = Pair::start().await;
    let listed = async {
        let mut conn = pair.source.conn().await.unwrap();
        loop {
            let rows: Vec<mysql_async::Row> = conn.query("SHOW REPLICAS").await.unwrap();
            if !rows.is_empty() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, listed).await.unwrap();
    let mut running = Running::start(&pair.source, quick()).await;
    running.open("found").await;
    pair.replica
        .execute(&["STOP REPLICA SQL_THREAD"])
        .await
        .unwrap();
    let name = pair.replica_name();
    running
        .held(
            "found replica behind",
            |reason| matches!(reason, Reason::Lag { replica, .. } if *replica == name),
        )
        .await;
    running.stop().await;
}

#[tokio::test]
async fn a_given_replica_that_is_gone_holds_and_then_fails() {
    let mut pair = Pair::start().await;
    let mut config = quick();
    config.replicas = vec![opts(&pair.replica)];
    config.discover = false;
    config.lag.stale_after = Duration::from_millis(500);
    config.lag.fail_after = Duration::from_secs(4);
    let mut running = Running::start(&pair.source, config).await;
    running.open("before").await;
    pair.replica.kill();
    let name = pair.replica_name();
    running
        .held(
            "gone",
            |reason| matches!(reason, Reason::LagUnknown { replica, .. } if *replica == name),
        )
        .await;
    let error = running.task.await.unwrap().unwrap_err();
    assert_eq!(error.remedy(), Remedy::Unreachable);
    let MonitorError::ReplicaSilent {
        replica,
        source: Some(cause),
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(replica, name);
    assert!(cause.to_string().contains(&name), "{cause}");
}

#[tokio::test]
async fn without_replicas_nothing_is_written_and_work_goes_on() {
    let source = Server::start(ServerOptions::new()).await.unwrap();
    source.execute(&["CREATE DATABASE job"]).await.unwrap();
    let mut running = Running::start(&source, quick()).await;
    running.open("alone").await;
    running.stop().await;
    let mut conn = source.conn().await.unwrap();
    let rows: Option<u64> = conn
        .query_first("SELECT COUNT(*) FROM job._t_oxstate")
        .await
        .unwrap();
    assert_eq!(rows, Some(0));
}

#[tokio::test]
async fn busy_threads_and_a_flag_file_hold_work_up() {
    let source = Server::start(ServerOptions::new()).await.unwrap();
    source.execute(&["CREATE DATABASE job"]).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow");
    std::fs::write(&path, "").unwrap();
    let mut config = quick();
    config.threads_running_max = Some(4);
    config.flag_file = Some(path.clone());
    let mut running = Running::start(&source, config).await;
    running
        .held("flag file", |reason| {
            matches!(reason, Reason::FlagFile { .. })
        })
        .await;
    std::fs::remove_file(&path).unwrap();
    running.open("no flag file").await;

    let mut busy = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let conn = source.conn().await.unwrap();
        busy.spawn(async move {
            let mut conn = conn;
            // Ended by the server when the connection is killed below.
            let _killed = conn.query_drop("SELECT SLEEP(60)").await;
        });
    }
    running
        .held("busy", |reason| matches!(reason, Reason::Load { .. }))
        .await;
    let ids = eventually(PATIENCE, "six busy sessions", async || {
        let mut conn = source.conn().await.unwrap();
        let ids: Vec<u64> = conn
            .query("SELECT id FROM information_schema.processlist WHERE info = 'SELECT SLEEP(60)'")
            .await
            .unwrap();
        (ids.len() == 6).then_some(ids)
    })
    .await
    .unwrap();
    for id in ids {
        source.execute(&[&format!("KILL {id}")]).await.unwrap();
    }
    busy.join_all().await;
    running.open("idle again").await;
    running.stop().await;
}

#[tokio::test]
async fn limits_that_are_set_while_it_runs_hold_and_let_go() {
    let pair = Pair::start().await;
    let mut config = quick();
    config.replicas = vec![opts(&pair.replica)];
    config.discover = false;
    let mut running = Running::start(&pair.source, config).await;
    running.open("before").await;
    running.hand.set_threads_running_max(0);
    let is_load = |reason: &Reason| matches!(reason, Reason::Load { .. });
    running.held("no thread may run", is_load).await;
    running.hand.set_threads_running_max(10_000);
    running.open("many threads may run").await;
    running.hand.set_lag_max(Duration::ZERO);
    running.held("no lag is allowed", is_lag).await;
    running.hand.set_lag_max(PATIENCE);
    running.open("lag is allowed").await;
    running.stop().await;
}

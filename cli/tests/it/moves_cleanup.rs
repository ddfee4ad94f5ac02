//! What is cleaned up after moves that ended early, and what isn't.

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    tables::TableSpec,
    tool::{Finished, Oxferry, Running, Signal},
};

use crate::{
    far::Far,
    held::Called,
    world::{LIMIT, check_code},
};

async fn cleanup(far: &Far, more: &[&str]) -> Finished {
    let (source, target) = (far.source.server().url(), far.target.url());
    let job = format!("{}.t", far.source.name());
    let words = [
        "cleanup", "--source", &source, "--target", &target, "--job", &job,
    ];
    let call = Oxferry::new(words.iter().chain(more));
    let call = call.program(env!("CARGO_BIN_EXE_oxferry"));
    let finished = call.run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    finished
}

/// A move that waits for its sentinel to be dropped.
async fn postponed(moves: Oxferry) -> Running {
    let mut running = moves.arg("--cutover").arg("manual").spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    running
}

async fn killed(running: Running) {
    running.signal(Signal::SIGKILL).unwrap();
    assert_eq!(running.wait_exit(LIMIT).await.unwrap().code, None);
}

const NONE: [&str; 0] = [];

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_move_is_listed_and_removed_from_both_servers() {
    let far = Far::on(
        (
            crate::world::options().gtid(false),
            crate::far::target_options().gtid(false),
        ),
        TableSpec::sysbench,
        500,
    )
    .await;
    killed(postponed(far.moves()).await).await;
    let before = far.tables().await;
    assert_eq!(before.0, ["_t_oxstate", "t"]);
    assert_eq!(before.1, ["_t_oxsentinel", "_t_oxstate", "t"]);
    let listed = cleanup(&far, &[]).await.text();
    for table in ["_t_oxsentinel", "_t_oxstate", "t"] {
        let line = format!("server=\"target\" table={}.{table}", far.source.name());
        assert!(listed.contains(&line), "{line}: {listed}");
    }
    assert_eq!(far.tables().await, before);
    cleanup(&far, &["--execute"]).await;
    let (here, there) = far.tables().await;
    assert_eq!(
        (here, there.as_slice()),
        (vec!["t".to_owned()], &[] as &[String])
    );
    let nothing = cleanup(&far, &["--execute"]).await.text();
    assert!(nothing.contains("left anything behind"), "{nothing}");
    check_code(&far.moves().run(LIMIT).await.unwrap(), 0);
    far.check_rows("_t_oxold", "t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_stood_on_the_target_before_stays() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let name = far.source.name();
    let mut target = far.target.conn().await.unwrap();
    target
        .query_drop(format!("CREATE DATABASE `{name}`"))
        .await
        .unwrap();
    target.query_drop(far.table.create_sql()).await.unwrap();
    let moves = far.moves().arg("--target-tables").arg("empty");
    killed(postponed(moves).await).await;
    cleanup(&far, &["--execute"]).await;
    assert_eq!(far.tables().await.1, ["t"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_under_another_name_or_with_its_state_in_a_file_is_found() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let name = far.source.name();
    let rename = format!("{name}.t={name}.other");
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let moves = || far.moves().arg("--rename").arg(&rename);
    killed(postponed(moves()).await).await;
    // As somebody does who takes the target for a server of migrations.
    let (target, state_text) = (far.target.url(), state.to_str().unwrap());
    let alone = Oxferry::new(["cleanup", "--source", &target, "--execute"]);
    let alone = alone
        .program(env!("CARGO_BIN_EXE_oxferry"))
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&alone, 0);
    assert!(
        alone.text().contains("belongs to a move"),
        "{}",
        alone.text()
    );
    assert_eq!(
        far.tables().await.1,
        ["_other_oxsentinel", "_other_oxstate", "other"]
    );
    cleanup(&far, &["--execute"]).await;
    assert_eq!(far.tables().await.1, NONE);
    killed(postponed(moves().arg("--state").arg(&state)).await).await;
    cleanup(&far, &["--state", state_text, "--execute"]).await;
    assert_eq!(far.tables().await.1, NONE);
    assert!(!state.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_move_and_one_that_may_have_shut_the_source_are_left_alone() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let switched = Called::new().await;
    let moves = far.moves().arg("--hook-switched").arg(switched.address());
    let running = postponed(moves).await;
    let left = cleanup(&far, &["--execute"]).await.text();
    assert!(left.contains("left alone: "), "{left}");
    let go_on = "DROP TABLE _t_oxsentinel";
    far.target_conn().await.query_drop(go_on).await.unwrap();
    // It dies while it tells the applications.
    let _call = switched.next().await;
    killed(running).await;
    let left = cleanup(&far, &["--execute"]).await.text();
    assert!(left.contains("run the same move again"), "{left}");
    let (here, there) = far.tables().await;
    assert!(here.contains(&"_t_oxold".to_owned()), "{here:?}");
    assert_eq!(there, ["_t_oxstate", "t"]);
    let moves = far.moves().arg("--announced").arg("target");
    check_code(&moves.run(LIMIT).await.unwrap(), 0);
    assert!(far.is_done().await);
}

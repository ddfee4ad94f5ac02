//! Moves that are ended at a chosen place, and go on from what they left.

use std::path::{Path, PathBuf};

use oxferry_testkit::{
    tables::TableSpec,
    tool::{Finished, Oxferry, Running, Signal},
};

use crate::{
    far::{Far, run},
    held::Blocker,
    world::{LIMIT, check_code},
};

const GO_ON: &str = "DROP TABLE _t_oxsentinel";

fn manual(far: &Far) -> Oxferry {
    far.moves().arg("--cutover").arg("manual")
}

async fn until_deferred(moves: Oxferry) -> Running {
    let mut running = moves.spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    running
}

async fn ended(running: Running, signal: Signal) -> Finished {
    running.signal(signal).unwrap();
    let finished = running.wait_exit(LIMIT).await.unwrap();
    let code = (signal != Signal::SIGKILL).then_some(130);
    assert_eq!(finished.code, code, "{}", finished.text());
    finished
}

/// Writes the checkpoint that a run printed at its end into a file.
fn printed(finished: &Finished, folder: &Path) -> PathBuf {
    let text = finished.text();
    let from = text.find("{\n").or_else(|| text.find("{\"")).unwrap();
    let mut read = serde_json::Deserializer::from_str(&text[from..]).into_iter();
    let state: serde_json::Value = read.next().unwrap().unwrap();
    let path = folder.join("printed");
    std::fs::write(&path, serde_json::to_string_pretty(&state).unwrap()).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_ended_after_some_chunks_goes_on_with_the_others() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let far = Far::new(TableSpec::sysbench, 20_000).await;
        let writers = far.writers(2, 43).await;
        let running = far.moves().spawn().unwrap();
        // The chunk that meets this row comes after some others, and waits.
        let mut blocker = later_blocker(&far, running, 15_000, signal).await;
        blocker.run("ROLLBACK").await;
        let finished = far.moves().run(LIMIT).await.unwrap();
        check_code(&finished, 0);
        assert!(finished.text().contains("resumes"), "{}", finished.text());
        far.check(&writers.stop().await).await;
    }
}

/// Ends a move while one of its chunks waits for a lock on row `id`.
async fn later_blocker(far: &Far, mut running: Running, id: u32, signal: Signal) -> Blocker {
    running.wait_phase("copy", LIMIT).await.unwrap();
    let insert = format!("INSERT INTO t (id) VALUES ({id})");
    let mut blocker = Blocker::new(far, &[&insert]).await;
    blocker.wait_until_met().await;
    running.signal(signal).unwrap();
    if signal != Signal::SIGKILL {
        running.wait_line("safe point", LIMIT).await.unwrap();
        blocker.run("ROLLBACK").await;
    }
    let finished = running.wait_exit(LIMIT).await.unwrap();
    let code = (signal != Signal::SIGKILL).then_some(130);
    assert_eq!(finished.code, code, "{}", finished.text());
    blocker
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_killed_between_the_row_events_of_one_statement_loses_none() {
    let far = Far::new(TableSpec::sysbench, 20_000).await;
    let running = until_deferred(manual(&far)).await;
    let lock = "SELECT * FROM t WHERE id = 12000 FOR UPDATE";
    let mut blocker = Blocker::new(&far, &[lock]).await;
    // One statement of some hundred row events, one of which can't be applied.
    let mut source = far.source.conn().await.unwrap();
    run(&mut source, &["UPDATE t SET c = CONCAT(id, ' anew')"]).await;
    blocker.wait_until_met().await;
    ended(running, Signal::SIGKILL).await;
    blocker.let_go().await;
    run(&mut far.target_conn().await, &[GO_ON]).await;
    check_code(&manual(&far).run(LIMIT).await.unwrap(), 0);
    far.check_rows("_t_oxold", "t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moves_checkpoint_can_be_resumed_twice() {
    let far = Far::new(TableSpec::with_unique, 20_000).await;
    let folder = tempfile::tempdir().unwrap();
    let (state, copy) = (folder.path().join("state"), folder.path().join("copy"));
    let moves = || manual(&far).arg("--state").arg(&state);
    let writers = far.writers(3, 29).await;
    let mut first = moves().spawn().unwrap();
    first.wait_phase("copy", LIMIT).await.unwrap();
    ended(first, Signal::SIGINT).await;
    std::fs::copy(&state, &copy).unwrap();
    ended(until_deferred(moves()).await, Signal::SIGKILL).await;
    std::fs::copy(&copy, &state).unwrap();
    let third = until_deferred(moves()).await;
    run(&mut far.target_conn().await, &[GO_ON]).await;
    check_code(&third.wait_exit(LIMIT).await.unwrap(), 0);
    assert!(!state.exists());
    far.check(&writers.stop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_move_prints_a_state_that_it_can_be_resumed_from() {
    let far = Far::new(TableSpec::sysbench, 2_000).await;
    let writers = far.writers(2, 47).await;
    let running = until_deferred(manual(&far).arg("--print-state")).await;
    let finished = ended(running, Signal::SIGTERM).await;
    let folder = tempfile::tempdir().unwrap();
    let state = printed(&finished, folder.path());
    // The one on the target is lost: the printed one is all there is.
    let mut target = far.target_conn().await;
    run(&mut target, &["DELETE FROM _t_oxstate", GO_ON]).await;
    let finished = manual(&far)
        .arg("--state")
        .arg(&state)
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 0);
    assert!(finished.text().contains("resumes"), "{}", finished.text());
    far.check(&writers.stop().await).await;
    assert!(far.is_done().await, "{:?}", far.tables().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_move_prints_a_state_that_it_can_be_resumed_from() {
    let far = Far::new(TableSpec::sysbench, 2_000).await;
    let running = until_deferred(manual(&far).arg("--print-state")).await;
    // Whoever takes the sessions away ends the run, not the move.
    let mut source = far.source.conn().await.unwrap();
    run(&mut source, &["CREATE TABLE other (id INT PRIMARY KEY)"]).await;
    let mut target = far.target_conn().await;
    run(&mut target, &["INSERT INTO t (id) VALUES (-3)"]).await;
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 74);
    let folder = tempfile::tempdir().unwrap();
    let state = printed(&finished, folder.path());
    run(&mut source, &["DROP TABLE other"]).await;
    run(
        &mut target,
        &["DELETE FROM _t_oxstate WHERE payload <> ''", GO_ON],
    )
    .await;
    let moves = manual(&far).arg("--detect-foreign-writes").arg("off");
    let finished = moves.arg("--state").arg(&state).run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    far.check_rows("_t_oxold", "t").await;
}

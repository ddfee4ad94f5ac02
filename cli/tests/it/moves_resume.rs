//! Moves that were ended early go on where they stopped.

use oxferry_testkit::{
    tables::TableSpec,
    tool::{Oxferry, Signal},
    writer::Writers,
};

use crate::{
    far::{Far, target_options},
    world::{LIMIT, check_code, options},
};

/// Runs the move and kills it somewhere inside `phase`: after `commits` more
/// commits of the writers, or, at the switch, where there may be none, at once.
/// Returns whether the move came to its end before.
async fn kill_in(tool: Oxferry, writers: &Writers, (phase, commits): (&str, u64)) -> bool {
    let mut running = tool.spawn().unwrap();
    if running.wait_phase(phase, LIMIT).await.is_err() {
        // Nothing but the cleaning up was left: it has ended by itself.
        check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
        return true;
    }
    if phase != "cutover" && phase != "cleanup" {
        writers.wait_for_commits(commits, LIMIT).await.unwrap();
    }
    // It may have ended by itself already.
    let _gone = running.signal(Signal::SIGKILL);
    let finished = running.wait_exit(LIMIT).await.unwrap();
    if finished.code == Some(0) {
        return true;
    }
    assert_eq!(finished.code, None, "{}", finished.text());
    false
}

/// Kills the move in one phase after the other, until it ends by itself.
async fn survives_kills(far: &Far, seed: u64) {
    let writers = far.writers(3, 17).await;
    let phases = [
        "prepare", "copy", "copy", "catch-up", "analyze", "verify", "cutover", "cleanup",
    ];
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut done = false;
    let mut kills = 0;
    while !done && kills < 10 {
        let moment = (*dice.choice(phases.iter()).unwrap(), dice.u64(0..40));
        done = kill_in(far.moves(), &writers, moment).await;
        kills += u32::from(!done);
        // Killed after its last statement, or before the switch goes on.
        done |= far.is_done().await;
        if matches!(moment.0, "cutover" | "cleanup") {
            break;
        }
    }
    assert!(kills > 0 || done);
    if !done {
        check_code(&far.moves().run(LIMIT).await.unwrap(), 0);
    }
    far.check(&writers.stop().await).await;
    assert!(far.is_done().await, "{:?}", far.tables().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_killed_at_any_moment_loses_nothing_with_gtids() {
    for seed in [23, 24] {
        survives_kills(&Far::new(TableSpec::sysbench, 10_000).await, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_killed_at_any_moment_loses_nothing_without_gtids() {
    let servers = (options().gtid(false), target_options().gtid(false));
    let far = Far::on(servers, TableSpec::with_unique, 10_000).await;
    survives_kills(&far, 25).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_killed_at_its_switch_goes_on_or_is_cleaned_up() {
    for phase in ["cutover", "cleanup"] {
        let far = Far::new(TableSpec::sysbench, 2_000).await;
        let writers = far.writers(2, 31).await;
        let done = kill_in(far.moves(), &writers, (phase, 0)).await;
        if !done && !far.is_done().await {
            check_code(&far.moves().run(LIMIT).await.unwrap(), 0);
        }
        far.check(&writers.stop().await).await;
        assert!(far.is_done().await, "{:?}", far.tables().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_move_keeps_its_checkpoint_and_goes_on() {
    let far = Far::new(TableSpec::sysbench, 20_000).await;
    let writers = far.writers(2, 37).await;
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut running = far.moves().spawn().unwrap();
        running.wait_phase("copy", LIMIT).await.unwrap();
        running.signal(signal).unwrap();
        check_code(&running.wait_exit(LIMIT).await.unwrap(), 130);
    }
    check_code(&far.moves().run(LIMIT).await.unwrap(), 0);
    far.check(&writers.stop().await).await;
}

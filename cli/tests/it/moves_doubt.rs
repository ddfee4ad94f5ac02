//! A move that ends while it announces its switch.

use oxferry_testkit::{
    tables::TableSpec,
    tool::{Finished, Running, Signal},
};

use crate::{
    far::Far,
    held::{Call, Called},
    moves_frozen::end_sessions,
    world::LIMIT,
};

/// A move whose hook `switched` is called, and not answered.
async fn announcing(far: &Far) -> (Running, Call) {
    let switched = Called::new().await;
    let moves = far.moves().arg("--hook-switched").arg(switched.address());
    let running = moves.spawn().unwrap();
    let call = switched.next().await;
    (running, call)
}

/// Checks that it is said, and nothing undone.
async fn check_in_doubt(far: &Far, finished: &Finished, told: &str) {
    let text = finished.text();
    assert_eq!(finished.code, Some(76), "{text}");
    assert!(text.contains(told), "{text}");
    assert!(!text.contains("run the same command again"), "{text}");
    let source = far.tables().await.0;
    assert!(source.contains(&"_t_oxold".to_owned()), "{source:?}");
    assert!(!source.contains(&"t".to_owned()), "{source:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_while_the_switch_is_announced_ends_in_doubt() {
    let far = Far::new(TableSpec::sysbench, 100).await;
    let (mut running, _call) = announcing(&far).await;
    running.signal(Signal::SIGTERM).unwrap();
    running.wait_line("once more", LIMIT).await.unwrap();
    running.signal(Signal::SIGTERM).unwrap();
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_in_doubt(&far, &finished, "the switch was being announced").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_lost_while_the_switch_is_announced_ends_in_doubt() {
    let far = Far::new(TableSpec::sysbench, 100).await;
    let (mut running, call) = announcing(&far).await;
    let pid = running.pid().unwrap();
    end_sessions(&mut far.source.conn().await.unwrap(), pid).await;
    end_sessions(&mut far.target_conn().await, pid).await;
    running
        .wait_line("no further attempt", LIMIT)
        .await
        .unwrap();
    // It is heard, and never answered.
    drop(call);
    let finished = running.wait_exit(LIMIT).await.unwrap();
    let told = "whether it is announced is not known";
    check_in_doubt(&far, &finished, told).await;
    assert!(finished.text().contains("lock on"), "{}", finished.text());
}

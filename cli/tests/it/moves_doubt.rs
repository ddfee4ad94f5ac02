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
async fn check_in_doubt(far: &Far, finished: &Finished) {
    let text = finished.text();
    assert_eq!(finished.code, Some(76), "{text}");
    assert!(text.contains("the switch was being announced"), "{text}");
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
    check_in_doubt(&far, &running.wait_exit(LIMIT).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_lost_while_the_switch_is_announced_ends_in_doubt() {
    let far = Far::new(TableSpec::sysbench, 100).await;
    let (running, _call) = announcing(&far).await;
    let pid = running.pid().unwrap();
    end_sessions(&mut far.source.conn().await.unwrap(), pid).await;
    end_sessions(&mut far.target_conn().await, pid).await;
    check_in_doubt(&far, &running.wait_exit(LIMIT).await.unwrap()).await;
}

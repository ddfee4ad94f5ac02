//! Connections lost before, in and after the rename.

use std::time::Duration;

use oxferry_cutover::{CutoverError, SourceLock, SwapReport, TablesSeen, swap, switch};
use oxferry_schema::Remedy;
use oxferry_testkit::wait::eventually;
use tokio::sync::oneshot;

use crate::{
    mover::{Do, Mover},
    proxy::{Cut, Proxy},
    toy::{Place, Toy, Way},
};

async fn swap_through(
    place: &Place,
    cut: Cut,
    attempts: u32,
) -> (Toy, Result<SwapReport, CutoverError>) {
    let proxy = Proxy::start(place.opts(), Some(cut)).await;
    let plan = place.plan().with_attempts_max(attempts.try_into().unwrap());
    let mut toy = place.toy(Way::Copy);
    let result = swap(&proxy.opts(), &plan, &mut toy).await;
    (toy, result)
}

#[tokio::test]
async fn a_session_killed_before_the_rename_is_an_attempt_that_failed() {
    let place = Place::new().await;
    let mut toy = place.toy(Way::EndSessionOnce);
    let plan = place.plan().with_attempts_max(2.try_into().unwrap());
    let report = swap(&place.opts(), &plan, &mut toy).await.unwrap();
    assert_eq!((report.attempts, toy.released), (2, 1));
    assert_eq!(place.tables().await, ["_t_oxold", "t"]);
}

#[tokio::test]
async fn a_rename_whose_answer_is_lost_is_found_done() {
    let place = Place::new().await;
    let (toy, result) = swap_through(&place, Cut::After, 2).await;
    let report = result.unwrap();
    assert!(report.looked_up);
    assert_eq!((report.attempts, toy.quiesced, toy.released), (1, 1, 0));
    assert_eq!(place.tables().await, ["_t_oxold", "t"]);
    place.expect_writes_flow().await;
}

#[tokio::test]
async fn a_rename_that_never_arrived_is_tried_again_with_new_evidence() {
    let place = Place::new().await;
    let (toy, result) = swap_through(&place, Cut::Before, 2).await;
    let report = result.unwrap();
    assert!(!report.looked_up);
    assert_eq!((report.attempts, toy.quiesced, toy.released), (2, 2, 1));
    assert_eq!(place.tables().await, ["_t_oxold", "t"]);
}

#[tokio::test]
async fn tables_that_fit_no_outcome_are_ambiguous_and_left_alone() {
    let place = Place::new().await;
    let meddle = Cut::Meddle(format!("DROP TABLE {}", place.pair.shadow));
    let (toy, result) = swap_through(&place, meddle, 5).await;
    let error = result.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Ambiguous);
    let CutoverError::Ambiguous { seen, .. } = error else {
        panic!("{error}");
    };
    let picture = TablesSeen {
        source: true,
        shadow: false,
        old: false,
    };
    assert_eq!(seen, [(place.pair.source.clone(), picture)]);
    assert_eq!((toy.quiesced, toy.released), (1, 0));
}

#[tokio::test]
async fn a_host_that_vanishes_under_the_lock_blocks_writes_for_seconds_only() {
    let place = Place::new().await;
    let proxy = Proxy::start(place.opts(), None).await;
    let (reached, under_lock) = oneshot::channel();
    let mut toy = place.toy(Way::Hang(Some(reached)));
    let (opts, plan) = (
        proxy.opts(),
        place.plan().with_lock_hold(Duration::from_secs(1)),
    );
    let mut swapping = Box::pin(swap(&opts, &plan, &mut toy));
    tokio::select! {
        ended = &mut swapping => panic!("{ended:?}"),
        told = under_lock => told.unwrap(),
    }
    // From here the server hears nothing, not even that the wire is closed.
    proxy.go_silent();
    drop(swapping);
    place.write().await.unwrap_err();
    let limit = plan.lock_hold + Duration::from_secs(25);
    eventually(limit, "the lock to be let go", async || {
        place.write().await.ok()
    })
    .await
    .unwrap();
    assert_eq!(place.tables().await, ["_t_oxnew", "t"]);
}

#[tokio::test]
async fn a_locking_rename_whose_answer_is_lost_is_taken_back_and_made_again() {
    for cut in [Cut::Before, Cut::After] {
        let place = Place::new().await;
        let proxy = Proxy::start(place.opts(), Some(cut)).await;
        let plan = place.switch_plan(SourceLock::Rename);
        let plan = plan.with_attempts_max(2.try_into().unwrap());
        let mut mover = Mover::new(&place, Do::Count);
        let report = switch(&proxy.opts(), &place.opts(), &plan, &mut mover)
            .await
            .unwrap();
        assert_eq!((report.attempts, mover.released), (2, 1));
        assert_eq!(place.tables().await, ["_t_oxnew", "_t_oxold"]);
    }
}

#[tokio::test]
async fn a_locking_rename_that_fits_no_outcome_is_ambiguous() {
    let place = Place::new().await;
    let meddle = Cut::Meddle(format!("CREATE TABLE {} (id INT)", place.pair.old));
    let proxy = Proxy::start(place.opts(), Some(meddle)).await;
    let plan = place.switch_plan(SourceLock::Rename);
    let mut mover = Mover::new(&place, Do::Count);
    let error = switch(&proxy.opts(), &place.opts(), &plan, &mut mover)
        .await
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::Ambiguous);
    assert!(
        error
            .to_string()
            .contains("NOT undone: source tables renamed")
    );
}

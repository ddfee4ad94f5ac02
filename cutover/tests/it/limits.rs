//! What becomes of the lock when something goes wrong under it.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use oxferry_cutover::{CutoverError, swap};
use oxferry_schema::Remedy;
use tokio::sync::oneshot;

use crate::toy::{Place, Way};

#[tokio::test]
async fn a_finish_that_fails_lets_the_lock_go() {
    let place = Place::new().await;
    let mut toy = place.toy(Way::Fail(Remedy::Data));
    let plan = place.plan().with_attempts_max(3.try_into().unwrap());
    let error = swap(&place.opts(), &plan, &mut toy).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Data);
    assert_eq!((toy.quiesced, toy.released), (1, 1));
    place.expect_writes_flow().await;
    assert_eq!(place.tables().await, ["_t_oxnew", "t"]);
}

#[tokio::test]
async fn a_failed_finish_is_rolled_back_not_committed() {
    let place = Place::new().await;
    place.run("INSERT INTO t VALUES (1, 1), (1, 2)").await;
    let mut toy = place.toy(Way::CopyHalf);
    let error = swap(&place.opts(), &place.plan(), &mut toy)
        .await
        .unwrap_err();
    assert!(matches!(error, CutoverError::Finish { .. }), "{error}");
    assert_eq!(place.count(&place.pair.shadow).await, 0);
}

#[tokio::test]
async fn a_wish_to_end_cuts_the_pause_short_and_ends_the_swap() {
    let place = Place::new().await;
    let mut toy = place.toy(Way::Fail(Remedy::Retry));
    toy.ends_in_pause = true;
    let plan = place.plan().with_attempts_max(9.try_into().unwrap());
    let error = swap(&place.opts(), &plan, &mut toy).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Interrupted);
    assert_eq!((toy.quiesced, toy.released), (2, 2));
    place.expect_writes_flow().await;
}

#[tokio::test]
async fn a_finish_that_takes_too_long_is_ended_on_the_server() {
    let place = Place::new().await;
    let mut toy = place.toy(Way::Run("DO SLEEP(777)"));
    let plan = place.plan().with_lock_hold(Duration::from_millis(200));
    let error = swap(&place.opts(), &plan, &mut toy).await.unwrap_err();
    assert!(
        matches!(error, CutoverError::HoldExceeded { .. }),
        "{error}"
    );
    assert_eq!(toy.released, 1);
    place.expect_writes_flow().await;
    let asleep: Option<u64> = place
        .conn()
        .await
        .query_first("SELECT id FROM information_schema.processlist WHERE info = 'DO SLEEP(777)'")
        .await
        .unwrap();
    assert_eq!(asleep, None);
}

#[tokio::test]
async fn a_lock_let_go_by_the_caller_is_noticed_before_the_rename() {
    for culprit in ["START TRANSACTION", "UNLOCK TABLES"] {
        let place = Place::new().await;
        let mut toy = place.toy(Way::Run(culprit));
        let error = swap(&place.opts(), &place.plan(), &mut toy)
            .await
            .unwrap_err();
        assert!(
            matches!(error, CutoverError::LockLost),
            "{culprit}: {error}"
        );
        assert_eq!(place.tables().await, ["_t_oxnew", "t"]);
    }
}

#[tokio::test]
async fn a_dropped_swap_lets_the_lock_go() {
    let place = Place::new().await;
    let (reached, under_lock) = oneshot::channel();
    let mut toy = place.toy(Way::Hang(Some(reached)));
    let (opts, plan) = (place.opts(), place.plan());
    tokio::select! {
        ended = swap(&opts, &plan, &mut toy) => panic!("{ended:?}"),
        told = under_lock => told.unwrap(),
    }
    place.expect_writes_flow().await;
    assert_eq!(place.tables().await, ["_t_oxnew", "t"]);
}

//! Sessions that hold the tables' metadata lock.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use oxferry_cutover::{CutoverError, KillBlockers, swap};
use oxferry_schema::Remedy;

use crate::{
    bystander::holder,
    toy::{Place, Way},
};

const KILL: KillBlockers = KillBlockers {
    after: Duration::ZERO,
    rows_modified_max: 3,
};

#[tokio::test]
async fn a_holder_is_named_and_writes_flow_after_the_lock_wait() {
    let place = Place::new().await;
    let holder = holder(&place, 2).await;
    let mut toy = place.toy(Way::Copy);
    let error = swap(&place.opts(), &place.plan(), &mut toy)
        .await
        .unwrap_err();
    place.expect_writes_flow().await;
    assert_eq!(error.remedy(), Remedy::Retry);
    let CutoverError::LockTimeout { blockers, .. } = error else {
        panic!("{error}");
    };
    let [blocker] = &blockers[..] else {
        panic!("{blockers:?}");
    };
    assert_eq!(blocker.id, u64::from(holder.id()));
    assert_eq!((&*blocker.user, &*blocker.command), ("root", "Sleep"));
    assert_eq!(blocker.rows_modified, Some(2));
    assert_eq!((toy.quiesced, toy.released), (1, 1));
}

#[tokio::test]
async fn the_swap_is_tried_again_until_the_holder_is_gone() {
    let place = Place::new().await;
    let mut toy = place.toy(Way::Copy);
    toy.holder = Some(holder(&place, 0).await);
    let plan = place.plan().with_attempts_max(3.try_into().unwrap());
    let report = swap(&place.opts(), &plan, &mut toy).await.unwrap();
    assert_eq!(report.attempts, 2);
    assert!(report.blocked_total > report.blocked_longest);
    assert_eq!((toy.quiesced, toy.released), (2, 1));
}

#[tokio::test]
async fn a_holder_with_few_changes_is_ended_when_asked_for() {
    let place = Place::new().await;
    let mut holder = holder(&place, 3).await;
    let mut toy = place.toy(Way::Copy);
    let plan = place.plan().with_kill(KILL);
    let report = swap(&place.opts(), &plan, &mut toy).await.unwrap();
    assert_eq!(report.attempts, 1);
    holder.query_drop("COMMIT").await.unwrap_err();
}

#[tokio::test]
async fn a_holder_with_many_changes_is_left_alone() {
    let place = Place::new().await;
    let mut holder = holder(&place, 4).await;
    let mut toy = place.toy(Way::Copy);
    let plan = place.plan().with_kill(KILL);
    let error = swap(&place.opts(), &plan, &mut toy).await.unwrap_err();
    assert!(matches!(error, CutoverError::LockTimeout { .. }), "{error}");
    holder.query_drop("COMMIT").await.unwrap();
}

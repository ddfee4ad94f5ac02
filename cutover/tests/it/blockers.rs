//! Sessions that hold the tables' metadata lock.

use std::time::Duration;

use mysql_async::{Opts, prelude::Queryable};
use oxferry_cutover::{Blocker, CutoverError, KillBlockers, swap};
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

/// Runs a swap that a holder blocks, as a user with these extra privileges.
async fn blocked_as(name: &str, extra: &[&str]) -> (u32, Vec<Blocker>) {
    let place = Place::new().await;
    let holder = holder(&place, 1).await;
    let database = &place.pair.source.schema;
    place
        .run(&format!("CREATE USER {name} IDENTIFIED BY 'a'"))
        .await;
    place
        .run(&format!("GRANT ALL ON {database}.* TO {name}"))
        .await;
    for privilege in extra {
        place.run(&format!("GRANT {privilege} TO {name}")).await;
    }
    let server = place.schema.server();
    let url = server.url_for(name, "a", place.schema.name());
    let opts = Opts::from_url(&url).unwrap();
    let plan = place.plan().with_kill(KILL);
    let error = swap(&opts, &plan, &mut place.toy(Way::Copy))
        .await
        .unwrap_err();
    let CutoverError::LockTimeout { blockers, .. } = error else {
        panic!("{error:?}");
    };
    (holder.id(), blockers)
}

#[tokio::test]
async fn without_process_a_holder_is_named_and_its_changes_are_not_known() {
    let (id, blockers) = blocked_as("no_process", &["SELECT ON performance_schema.*"]).await;
    let [blocker] = &blockers[..] else {
        panic!("{blockers:?}");
    };
    assert_eq!((blocker.id, blocker.rows_modified), (u64::from(id), None));
}

#[tokio::test]
async fn without_performance_schema_the_lock_wait_still_ends() {
    let (_, blockers) = blocked_as("no_schema", &["PROCESS ON *.*"]).await;
    assert_eq!(blockers, []);
}

#[tokio::test]
async fn locks_on_the_whole_server_are_named_too() {
    let place = Place::alone().await;
    let mut holder = place.conn().await;
    for (lock, unlock) in [
        ("LOCK INSTANCE FOR BACKUP", "UNLOCK INSTANCE"),
        ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"),
    ] {
        holder.query_drop(lock).await.unwrap();
        let mut toy = place.toy(Way::Copy);
        let error = swap(&place.opts(), &place.plan(), &mut toy)
            .await
            .unwrap_err();
        let CutoverError::LockTimeout { blockers, .. } = error else {
            panic!("{lock}: {error:?}");
        };
        let ids: Vec<_> = blockers.iter().map(|blocker| blocker.id).collect();
        assert_eq!(ids, [u64::from(holder.id())], "{lock}");
        holder.query_drop(unlock).await.unwrap();
    }
    let mut toy = place.toy(Way::Copy);
    swap(&place.opts(), &place.plan(), &mut toy).await.unwrap();
}

#[tokio::test]
async fn a_backup_that_begins_under_the_lock_stops_the_rename_and_nothing_is_lost() {
    let place = Place::alone().await;
    let mut toy = place.toy(Way::Beside("LOCK INSTANCE FOR BACKUP"));
    toy.holder = Some(place.conn().await);
    let error = swap(&place.opts(), &place.plan(), &mut toy)
        .await
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::Retry);
    assert!(error.is_passing());
    assert_eq!(place.tables().await, ["_t_oxnew", "t"]);
    place.expect_writes_flow().await;
}

//! Sessions that a run left behind when it was killed.

use std::time::Duration;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_cutover::{CutoverError, end_earlier, swap};
use oxferry_schema::{Remedy, TableName};
use oxferry_testkit::wait::eventually;

use crate::{
    bystander::holder,
    toy::{Place, Way, pair},
};

const LIMIT: Duration = Duration::from_secs(20);

/// Opens a session that holds the lock of a table's swap, by the name that
/// every version must give it.
async fn earlier_of(place: &Place, source: &TableName) -> Conn {
    let mut conn = place.conn().await;
    let take = "SELECT GET_LOCK(CONCAT('oxferry:cutover:', LEFT(SHA2(?, 256), 48)), 0)";
    let taken: Option<u8> = conn.exec_first(take, (source.to_string(),)).await.unwrap();
    assert_eq!(taken, Some(1));
    conn
}

/// Returns when a rename in the place's database waits for a lock.
async fn rename_waits(place: &Place) {
    let waits = "SELECT 1 FROM information_schema.processlist WHERE db = DATABASE() \
                 AND info LIKE 'RENAME TABLE%' AND state LIKE 'Waiting for%'";
    let mut conn = place.conn().await;
    eventually(LIMIT, "the rename to wait", async || {
        conn.query_first::<u8, _>(waits).await.unwrap()
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_rename_that_still_waits_is_ended_and_the_tables_stay_as_they_are() {
    let place = Place::new().await;
    let mut reader = holder(&place, 0).await;
    place.run("DROP TABLE other").await;
    let mut earlier = earlier_of(&place, &place.pair.source).await;
    let rename = format!(
        "RENAME TABLE {source} TO {old}, {shadow} TO {source}",
        source = place.pair.source,
        old = place.pair.old,
        shadow = place.pair.shadow,
    );
    let renaming = tokio::spawn(async move { earlier.query_drop(rename).await });
    rename_waits(&place).await;
    let mut conn = place.conn().await;
    end_earlier(&mut conn, &place.pair.source, LIMIT)
        .await
        .unwrap();
    reader.query_drop("COMMIT").await.unwrap();
    renaming.await.unwrap().unwrap_err();
    assert_eq!(place.tables().await, ["_t_oxnew", "t"]);
    place.expect_writes_flow().await;
}

#[tokio::test]
async fn a_swap_ends_the_one_that_was_given_up_at_its_rename() {
    let place = Place::alone().await;
    let mut given_up = place.toy(Way::Beside("LOCK INSTANCE FOR BACKUP"));
    given_up.holder = Some(place.conn().await);
    let opts = place.opts();
    let patient = place.plan().with_lock_wait(Duration::from_secs(600));
    let swapping = swap(&opts, &patient, &mut given_up);
    tokio::select! {
        ended = swapping => panic!("{ended:?}"),
        () = rename_waits(&place) => {}
    }
    let mut toy = place.toy(Way::Copy);
    let error = swap(&opts, &place.plan(), &mut toy).await.unwrap_err();
    assert!(matches!(error, CutoverError::LockTimeout { .. }), "{error}");
    let mut backup = given_up.holder.take().unwrap();
    backup.query_drop("UNLOCK INSTANCE").await.unwrap();
    assert_eq!(place.tables().await, ["_t_oxnew", "t"]);
    swap(&opts, &place.plan(), &mut toy).await.unwrap();
    assert_eq!(place.tables().await, ["_t_oxold", "t"]);
}

#[tokio::test]
async fn a_session_that_is_not_gone_in_time_is_told_of() {
    let place = Place::new().await;
    let earlier = earlier_of(&place, &place.pair.source).await;
    let mut conn = place.conn().await;
    let error = end_earlier(&mut conn, &place.pair.source, Duration::ZERO)
        .await
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::Retry);
    assert!(!error.is_passing());
    let CutoverError::EarlierStuck { id, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(id, u64::from(earlier.id()));
}

#[tokio::test]
async fn the_swap_of_another_table_is_left_alone() {
    let place = Place::new().await;
    let mut other = earlier_of(&place, &pair(&place.schema, "T").source).await;
    let mut conn = place.conn().await;
    end_earlier(&mut conn, &place.pair.source, LIMIT)
        .await
        .unwrap();
    other.query_drop("DO 1").await.unwrap();
}

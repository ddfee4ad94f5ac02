//! Swaps that go well, and the ones refused before or under the lock.

use oxferry_cutover::{CutoverError, TablesSeen, drop_old, swap};
use oxferry_schema::Remedy;
use std::time::Duration;

use crate::{
    bystander::{Writer, holder},
    toy::{Place, Way, pair},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_writers_lose_no_row_and_none_lands_in_the_old_table() {
    let place = Place::new().await;
    let mut writers = Vec::new();
    for number in 0..4 {
        writers.push(Writer::start(&place, number).await);
    }
    for writer in &mut writers {
        writer.commits(20).await;
    }
    let mut toy = place.toy(Way::Copy);
    let report = swap(&place.opts(), &place.plan(), &mut toy).await.unwrap();
    for writer in &mut writers {
        writer.commits(20).await;
    }
    let mut committed = 0;
    for writer in writers {
        committed += writer.stop().await;
    }
    assert_eq!(place.count(&place.pair.source).await, committed);
    assert_eq!(place.count(&place.pair.old).await, toy.copied);
    assert!(toy.copied < committed);
    assert_eq!((report.attempts, toy.quiesced, toy.released), (1, 1, 0));
    assert!(!report.looked_up);
    assert!(report.blocked_longest >= report.lock_held);
}

#[tokio::test]
async fn several_tables_are_swapped_together() {
    let place = Place::new().await;
    let second = pair(&place.schema, "u`v");
    place.create(&second).await;
    let plan = place.plan().with_pair(second.clone());
    let mut toy = place.toy(Way::Copy);
    swap(&place.opts(), &plan, &mut toy).await.unwrap();
    assert_eq!(place.tables().await, ["_t_oxold", "_u`v_oxold", "t", "u`v"]);
}

#[tokio::test]
async fn a_stale_old_table_is_refused_before_the_lock() {
    let place = Place::new().await;
    place
        .run(&format!("CREATE TABLE {} (id INT)", place.pair.old))
        .await;
    let mut toy = place.toy(Way::Copy);
    let error = swap(&place.opts(), &place.plan(), &mut toy)
        .await
        .unwrap_err();
    assert!(matches!(error, CutoverError::OldExists { .. }), "{error}");
    assert_eq!(error.remedy(), Remedy::Retry);
    assert_eq!(toy.released, 1);
}

#[tokio::test]
async fn a_shadow_that_is_not_there_needs_a_look() {
    let place = Place::new().await;
    place
        .run(&format!("DROP TABLE {}", place.pair.shadow))
        .await;
    let mut toy = place.toy(Way::Copy);
    let error = swap(&place.opts(), &place.plan(), &mut toy)
        .await
        .unwrap_err();
    let CutoverError::Missing { seen, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(
        seen,
        TablesSeen {
            source: true,
            shadow: false,
            old: false
        }
    );
}

#[tokio::test]
async fn a_trigger_made_during_the_copy_stops_the_swap() {
    let place = Place::new().await;
    place
        .run(&format!(
            "CREATE TRIGGER late BEFORE INSERT ON {} FOR EACH ROW SET @seen = 1",
            place.pair.source
        ))
        .await;
    expect_attached(&place, "trigger").await;
}

#[tokio::test]
async fn a_foreign_key_from_another_database_stops_the_swap() {
    let place = Place::new().await;
    let other = Place::new().await;
    other
        .run(&format!(
            "CREATE TABLE child (writer INT, number INT, \
             FOREIGN KEY (writer, number) REFERENCES {} (writer, number))",
            place.pair.source
        ))
        .await;
    expect_attached(&place, "foreign key").await;
}

async fn expect_attached(place: &Place, kind: &str) {
    let mut toy = place.toy(Way::Copy);
    let error = swap(&place.opts(), &place.plan(), &mut toy)
        .await
        .unwrap_err();
    let CutoverError::Attached { found } = &error else {
        panic!("{error}");
    };
    assert!(found.len() == 1 && found[0].starts_with(kind), "{found:?}");
    assert_eq!(toy.released, 1);
    place.expect_writes_flow().await;
}

#[tokio::test]
async fn the_old_table_is_dropped_and_dropping_it_twice_is_fine() {
    let place = Place::new().await;
    let mut toy = place.toy(Way::Copy);
    swap(&place.opts(), &place.plan(), &mut toy).await.unwrap();
    let mut conn = place.conn().await;
    for _ in 0..2 {
        drop_old(&mut conn, &place.pair.old, Duration::from_secs(1))
            .await
            .unwrap();
    }
    assert_eq!(place.tables().await, ["t"]);
}

#[tokio::test]
async fn dropping_a_table_in_use_gives_up_and_may_be_tried_again() {
    let place = Place::new().await;
    let _holder = holder(&place, 0).await;
    let mut conn = place.conn().await;
    let error = drop_old(&mut conn, &place.pair.source, Duration::from_millis(1))
        .await
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::Retry);
}

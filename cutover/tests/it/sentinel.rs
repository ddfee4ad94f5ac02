//! The sentinel table.

use std::time::Duration;

use oxferry_cutover::{CutoverError, Sentinel};
use oxferry_schema::{Ident, Remedy, TableName};
use tokio::sync::mpsc;

use crate::toy::Place;

fn sentinel(place: &Place) -> Sentinel {
    let schema = place.pair.source.schema.clone();
    Sentinel::new(TableName::new(schema, Ident::new("_t_oxsentinel").unwrap()))
}

#[tokio::test]
async fn a_sentinel_is_made_once_and_dropped_once() {
    let place = Place::new().await;
    let (sentinel, mut conn) = (sentinel(&place), place.conn().await);
    for _ in 0..2 {
        sentinel.create(&mut conn).await.unwrap();
        assert!(sentinel.exists(&mut conn).await.unwrap());
    }
    for _ in 0..2 {
        sentinel.drop(&mut conn).await.unwrap();
        assert!(!sentinel.exists(&mut conn).await.unwrap());
    }
}

#[tokio::test]
async fn a_table_that_only_looks_alike_is_no_sentinel() {
    let place = Place::new().await;
    place.run("CREATE TABLE xtxoxsentinel (id INT)").await;
    let mut conn = place.conn().await;
    assert!(!sentinel(&place).exists(&mut conn).await.unwrap());
}

#[tokio::test]
async fn a_table_somebody_else_made_is_neither_used_nor_dropped() {
    let place = Place::new().await;
    place.run("CREATE TABLE _t_oxsentinel (id INT)").await;
    let (sentinel, mut conn) = (sentinel(&place), place.conn().await);
    for error in [
        sentinel.create(&mut conn).await.unwrap_err(),
        sentinel.drop(&mut conn).await.unwrap_err(),
    ] {
        assert!(
            matches!(error, CutoverError::ForeignSentinel { .. }),
            "{error}"
        );
    }
    assert!(sentinel.exists(&mut conn).await.unwrap());
}

#[tokio::test]
async fn dropping_the_sentinel_ends_the_wait() {
    let place = Place::new().await;
    let sentinel = sentinel(&place);
    sentinel.create(&mut place.conn().await).await.unwrap();
    let (tick, mut ticks) = mpsc::unbounded_channel();
    let opts = place.opts();
    let wait = sentinel.wait_while_postponed(&opts, Duration::from_secs(600), |waited| {
        tick.send(waited).unwrap();
    });
    let operator = async {
        let first = ticks.recv().await.unwrap();
        place.run("DROP TABLE _t_oxsentinel").await;
        first
    };
    let (waited, first) = tokio::join!(wait, operator);
    assert!(waited.unwrap() > first);
}

#[tokio::test]
async fn the_limit_ends_the_wait_and_the_sentinel_stays() {
    let place = Place::new().await;
    let (sentinel, mut conn) = (sentinel(&place), place.conn().await);
    sentinel.create(&mut conn).await.unwrap();
    let error = sentinel
        .wait_while_postponed(&place.opts(), Duration::from_millis(1), |_| ())
        .await
        .unwrap_err();
    assert!(
        matches!(error, CutoverError::SentinelLimit { .. }),
        "{error}"
    );
    assert_eq!(error.remedy(), Remedy::Retry);
    assert!(sentinel.exists(&mut conn).await.unwrap());
}

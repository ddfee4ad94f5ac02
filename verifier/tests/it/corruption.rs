//! Differences that were put there on purpose.

use std::sync::Arc;

use oxferry_verifier::{
    CompareError, FixedRanges, Mismatch, MismatchKind, Verify, VerifyConfig, conformance,
};

use crate::{
    place::{Place, key},
    writes::{Job, config, ranges, touched},
};

/// Compares once, and returns what differs.
async fn differences(place: &Arc<Place>, keys: &[&str], mut ranges: FixedRanges) -> Vec<Mismatch> {
    let once = VerifyConfig {
        passes_max: 1.try_into().unwrap(),
        ..config()
    };
    let sides = place.sides("s", "t", keys).await;
    let job = Job::new(Arc::clone(place));
    let verify = Verify::new(vec![sides], job, touched(), once);
    match verify.run(&mut ranges).await {
        Err(CompareError::Different { found, .. }) => found.listed().to_vec(),
        Err(CompareError::NotMended { mismatch, .. }) => vec![mismatch],
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_corrupt_row_of_a_hundred_thousand_is_found() {
    let place = Arc::new(Place::start().await);
    place
        .run("CREATE TABLE s (id BIGINT PRIMARY KEY, v VARCHAR(40) NOT NULL, n INT)")
        .await;
    place
        .run(
            "INSERT INTO s WITH RECURSIVE d(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM d \
             WHERE i<99), e(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM e WHERE i<999) \
             SELECT d.i*1000+e.i, CONCAT('row ', d.i, e.i), e.i FROM d, e",
        )
        .await;
    place.run("CREATE TABLE t LIKE s").await;
    place.run("INSERT INTO t SELECT * FROM s").await;
    place
        .run("UPDATE t SET v=CONCAT(v,' ') WHERE id=54321")
        .await;
    place.run("DELETE FROM t WHERE id=0").await;
    place
        .run("INSERT INTO t VALUES (-5,'surplus',1), (200000,'surplus',1)")
        .await;
    let mut found = differences(&place, &["id"], ranges(&[10_000, 50_000, 90_000])).await;
    found.sort_by(|a, b| a.key.cmp(&b.key));
    let seen: Vec<_> = found.iter().map(|m| (m.key.to_string(), m.kind)).collect();
    let expected = [
        ("-5", MismatchKind::MissingOnSource),
        ("0", MismatchKind::MissingOnTarget),
        ("54321", MismatchKind::Different),
        ("200000", MismatchKind::MissingOnSource),
    ];
    assert_eq!(seen, expected.map(|(key, kind)| (key.to_owned(), kind)));
    assert!(found[2].source.is_some() && found[2].target.is_some());
    assert_ne!(found[2].source, found[2].target);
}

#[tokio::test]
async fn composite_keys_are_compared_and_held_to_the_contract() {
    let place = Arc::new(Place::start().await);
    place
        .run("CREATE TABLE s (a INT, b BIGINT UNSIGNED, v TEXT, PRIMARY KEY (a, b))")
        .await;
    place
        .run(
            "INSERT INTO s WITH RECURSIVE d(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM d \
             WHERE i<29) SELECT x.i-15, IF(y.i=29, 18446744073709551615, y.i), \
             REPEAT('x', x.i) FROM d x, d y",
        )
        .await;
    place.run("CREATE TABLE t LIKE s").await;
    place.run("INSERT INTO t SELECT * FROM s").await;
    let (side, _) = place.sides("s", "t", &["a", "b"]).await;
    let bounds = [
        None,
        Some(key(&[-3, 4])),
        Some(key(&[-3, 20])),
        Some(key(&[5, 0])),
        None,
    ];
    let range = |w: &[Option<oxferry_schema::Key>]| oxferry_schema::KeyRange {
        lower: w[0].clone(),
        upper: w[1].clone(),
    };
    let ranges: Vec<_> = bounds.windows(2).map(range).collect();
    conformance::holds(&side, &ranges, &key(&[99, 0])).await;

    place
        .run("UPDATE t SET v='y' WHERE a=-3 AND b=18446744073709551615")
        .await;
    let ranges = FixedRanges::new(ranges.into_iter().map(|range| (0, range)).collect());
    let found = differences(&place, &["a", "b"], ranges).await;
    let keys: Vec<_> = found.iter().map(|m| m.key.to_string()).collect();
    assert_eq!(keys, ["(-3, 18446744073709551615)"]);
}

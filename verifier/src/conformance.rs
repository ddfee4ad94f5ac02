//! What every [`Fingerprints`] must hold, as functions that panic.

use std::num::NonZeroUsize;

use oxferry_schema::{Key, KeyRange};

use crate::fingerprint::{Fingerprints, Summary};

/// Checks a side over a table that nobody writes to.
///
/// `ranges` are ranges that cover every key without overlap; `absent` is a key
/// without a row. The table must have at least three rows.
///
/// # Panics
///
/// When the side breaks the contract, or can't be read.
pub async fn holds(side: &impl Fingerprints, ranges: &[KeyRange], absent: &Key) {
    pages_and_summaries_agree(side, ranges).await;
    parts_add_up_to_the_whole(side, ranges).await;
    a_page_is_the_beginning(side).await;
    keys_find_their_rows(side, absent).await;
    an_empty_range_has_the_empty_summary(side).await;
}

/// Checks that `page` shows the rows that `summary` counts.
///
/// # Panics
///
/// When it doesn't.
pub async fn pages_and_summaries_agree(side: &impl Fingerprints, ranges: &[KeyRange]) {
    for range in ranges {
        let rows = side.page(range, MANY).await.expect("a page");
        let mut sum = Summary::default();
        for (key, row) in &rows {
            assert!(range.contains(key), "{key} lies outside {range}");
            sum.add(row);
        }
        assert!(
            rows.windows(2)
                .all(|pair| matches!(pair, [a, b] if a.0 < b.0)),
            "the rows of {range} are not in key order"
        );
        let summary = side.summary(range).await.expect("a summary");
        assert_eq!(sum, summary, "page and summary of {range} differ");
    }
}

/// Checks that disjoint ranges add up to the whole table.
///
/// # Panics
///
/// When they don't.
pub async fn parts_add_up_to_the_whole(side: &impl Fingerprints, ranges: &[KeyRange]) {
    let mut sum = Summary::default();
    for range in ranges {
        let part = side.summary(range).await.expect("a summary");
        sum.rows += part.rows;
        for (byte, more) in sum.digest.iter_mut().zip(part.digest) {
            *byte ^= more;
        }
    }
    let whole = side.summary(&KeyRange::ALL).await.expect("a summary");
    assert_eq!(sum, whole, "the ranges don't add up");
}

/// Checks that a limited page holds the first rows.
///
/// # Panics
///
/// When it doesn't.
pub async fn a_page_is_the_beginning(side: &impl Fingerprints) {
    let two = NonZeroUsize::new(2).expect("2 is not zero");
    let all = side.page(&KeyRange::ALL, MANY).await.expect("a page");
    let first = side.page(&KeyRange::ALL, two).await.expect("a page");
    assert_eq!(first.as_slice(), all.get(..2).expect("three rows"));
}

/// Checks that rows are found by their keys, in key order, and no others.
///
/// # Panics
///
/// When they aren't.
pub async fn keys_find_their_rows(side: &impl Fingerprints, absent: &Key) {
    let all = side.page(&KeyRange::ALL, MANY).await.expect("a page");
    let mut keys: Vec<Key> = all.iter().rev().map(|(key, _)| key.clone()).collect();
    keys.push(absent.clone());
    assert_eq!(side.by_keys(&keys).await.expect("rows"), all);
    assert_eq!(side.by_keys(&[]).await.expect("no rows"), []);
}

/// Checks that no rows make the default summary.
///
/// # Panics
///
/// When they don't.
pub async fn an_empty_range_has_the_empty_summary(side: &impl Fingerprints) {
    let all = side.page(&KeyRange::ALL, MANY).await.expect("a page");
    let key = all.first().map(|(key, _)| key.clone());
    let empty = KeyRange {
        lower: key.clone(),
        upper: key,
    };
    let summary = side.summary(&empty).await.expect("a summary");
    assert_eq!(summary, Summary::default());
}

/// More rows than a test table has.
const MANY: NonZeroUsize = NonZeroUsize::new(10_000).expect("10000 is not zero");

//! The contracts of [`Chunker`] and [`RowSink`], in executable form.

use std::future::Future;

use futures::FutureExt;
use oxferry_schema::{Key, KeyPart, KeyRange, Row, Value};

use crate::{Applied, Batch, Chunker, CopiedRows, KeyedChange, RowSink};

/// Checks chunkers of a table that nobody writes to.
///
/// `make` makes one for the given ranges; `keys` are the keys of all rows, in
/// key order, five at least.
///
/// # Panics
///
/// When a chunker breaks the contract, or can't read the table.
pub async fn chunks<C: Chunker>(make: impl Fn(Vec<KeyRange>) -> C, keys: &[Key]) {
    let all = vec![KeyRange::ALL];
    for rows in [1, 2, 3, 1_000_000] {
        chunks_partition(make(all.clone()), &all, rows).await;
        chunks_hold_about(make(all.clone()), keys, rows).await;
    }
    let [_, second, _, fourth, ..] = keys else {
        unreachable!("five keys at least");
    };
    let parts = vec![
        KeyRange {
            lower: None,
            upper: Some(second.clone()),
        },
        KeyRange {
            lower: Some(fourth.clone()),
            upper: None,
        },
    ];
    chunks_partition(make(parts.clone()), &parts, 1).await;
    chunks_partition(make(Vec::new()), &[], 1).await;
    let mut chunker = make(all.clone());
    // Whether it was ready or dropped in between.
    let first = chunker.next(2).now_or_never();
    let first = first.map(|range| range.expect("a range"));
    let rest = ranges(&mut chunker, 2).await;
    let found: Vec<_> = first.flatten().into_iter().chain(rest).collect();
    assert_partition(&found, &all);
}

/// Checks that the ranges are `within` in parts, and that the end lasts.
///
/// # Panics
///
/// When it isn't so.
pub async fn chunks_partition(mut chunker: impl Chunker, within: &[KeyRange], rows: u64) {
    let found = ranges(&mut chunker, rows).await;
    assert_partition(&found, within);
    let more = chunker.next(rows).await.expect("no range");
    assert_eq!(more, None, "a chunker that has ended");
}

/// Checks that each range but the last has about as many rows as asked for.
///
/// # Panics
///
/// When it isn't so.
pub async fn chunks_hold_about(mut chunker: impl Chunker, keys: &[Key], rows: u64) {
    let found = ranges(&mut chunker, rows).await;
    for range in found.iter().rev().skip(1) {
        let held = keys.iter().filter(|key| range.contains(key)).count() as u64;
        assert!(
            held > rows / 2 && held / 2 <= rows,
            "{range} has {held} rows instead of about {rows}"
        );
    }
}

async fn ranges(chunker: &mut impl Chunker, rows: u64) -> Vec<KeyRange> {
    let mut found = Vec::new();
    while let Some(range) = chunker.next(rows).await.expect("a range") {
        found.push(range);
    }
    found
}

fn assert_partition(found: &[KeyRange], within: &[KeyRange]) {
    let mut left = found.iter();
    for part in within {
        let mut lower = part.lower.clone();
        loop {
            let range = left.next().expect("ranges up to the part's end");
            assert_eq!(range.lower, lower, "{range} leaves a gap or overlaps");
            if range.upper == part.upper {
                break;
            }
            assert!(range.upper.is_some(), "{range} goes beyond {part}");
            assert!(range.upper > lower, "{range} has no room for a key");
            lower.clone_from(&range.upper);
        }
    }
    assert_eq!(left.next(), None, "nothing behind the last part");
}

/// A pair of tables with an integer key and one integer value, and a sink
/// between them.
pub trait SinkBed {
    /// The sink under test.
    type Sink: RowSink;

    /// Returns the sink.
    fn sink(&self) -> &Self::Sink;

    /// Makes these the rows of the source and of the target.
    fn fill(&mut self, source: &[(i64, i64)], target: &[(i64, i64)]) -> impl Future<Output = ()>;

    /// Returns the rows of the target, in key order.
    fn target(&mut self) -> impl Future<Output = Vec<(i64, i64)>>;
}

/// Runs every check of a sink.
///
/// # Panics
///
/// When the sink breaks the contract, or can't do its work.
pub async fn sinks(bed: &mut impl SinkBed) {
    copies_its_range_and_no_more(bed).await;
    empties_what_it_copies_again(bed).await;
    brings_keys_to_their_images(bed).await;
    applies_a_batch_again_without_effect(bed).await;
    brings_keys_to_the_sources_rows(bed).await;
}

/// Checks that the rows of some keys are those of the source afterwards, and
/// that all others stay.
///
/// # Panics
///
/// When it isn't so.
pub async fn brings_keys_to_the_sources_rows(bed: &mut impl SinkBed) {
    let stale = [(0, 0), (1, 0), (2, 0), (9, 0)];
    bed.fill(&[(1, 10), (3, 30), (7, 70)], &stale).await;
    let copied = bed.sink().copy_keys(&[1, 2, 3, 8].map(key)).await;
    assert_eq!(copied.expect("keys are copied").rows, 2);
    assert_eq!(bed.target().await, [(0, 0), (1, 10), (3, 30), (9, 0)]);
    let none = bed.sink().copy_keys(&[]).await;
    assert_eq!(none.expect("no keys"), CopiedRows::default());
}

/// Checks that the rows of a range are copied, and counted.
///
/// # Panics
///
/// When they aren't.
pub async fn copies_its_range_and_no_more(bed: &mut impl SinkBed) {
    bed.fill(&[(-5, 1), (0, 2), (3, 3), (7, 4)], &[]).await;
    assert_eq!(copy(bed, range(-5, 3), false).await, 2);
    assert_eq!(bed.target().await, [(-5, 1), (0, 2)]);
    assert_eq!(copy(bed, range(4, 7), false).await, 0);
    let rest = KeyRange {
        lower: Some(key(3)),
        upper: None,
    };
    assert_eq!(copy(bed, rest, false).await, 2);
    assert_eq!(bed.target().await, [(-5, 1), (0, 2), (3, 3), (7, 4)]);
}

/// Checks that a range copied again holds the source's rows only, and that
/// rows outside stay.
///
/// # Panics
///
/// When it isn't so.
pub async fn empties_what_it_copies_again(bed: &mut impl SinkBed) {
    let stale = [(0, 0), (1, 0), (2, 0), (9, 0)];
    bed.fill(&[(1, 10), (3, 30)], &stale).await;
    assert_eq!(copy(bed, range(1, 9), true).await, 2);
    assert_eq!(bed.target().await, [(0, 0), (1, 10), (3, 30), (9, 0)]);
    assert_eq!(copy(bed, KeyRange::ALL, true).await, 2);
    assert_eq!(bed.target().await, [(1, 10), (3, 30)]);
}

/// Checks that rows are written, replaced and removed by key, and counted.
///
/// # Panics
///
/// When they aren't.
pub async fn brings_keys_to_their_images(bed: &mut impl SinkBed) {
    bed.fill(&[], &[(0, 1), (1, 1), (2, 1)]).await;
    let batch = batch(&[(-1, Some(5)), (0, None), (1, Some(6)), (8, None)]);
    let applied = bed.sink().apply(&batch).await.expect("a batch is applied");
    let expected = Applied {
        upserts: 2,
        deletes: 2,
    };
    assert_eq!(applied, expected);
    assert_eq!(bed.target().await, [(-1, 5), (1, 6), (2, 1)]);
    let empty = bed.sink().apply(&Batch::default()).await;
    assert_eq!(empty.expect("an empty batch"), Applied::default());
}

/// Checks that a batch may be applied any number of times.
///
/// # Panics
///
/// When it may not.
pub async fn applies_a_batch_again_without_effect(bed: &mut impl SinkBed) {
    bed.fill(&[], &[(2, 1)]).await;
    let changes: Vec<_> = (0..1_000)
        .map(|id| (id, (id % 3 > 0).then_some(id)))
        .collect();
    let batch = batch(&changes);
    let mut seen = Vec::new();
    for _ in 0..2 {
        bed.sink().apply(&batch).await.expect("a batch is applied");
        seen.push(bed.target().await);
    }
    let rows = changes.iter().filter_map(|(id, v)| Some((*id, (*v)?)));
    let rows: Vec<_> = rows.collect();
    assert_eq!(seen, [rows.clone(), rows]);
}

async fn copy(bed: &impl SinkBed, range: KeyRange, again: bool) -> u64 {
    let copied = bed.sink().copy(&range, again).await;
    let CopiedRows { rows } = copied.expect("a range is copied");
    rows
}

fn key(id: i64) -> Key {
    Key::new([KeyPart::Int(id.into())])
}

fn range(lower: i64, upper: i64) -> KeyRange {
    KeyRange {
        lower: Some(key(lower)),
        upper: Some(key(upper)),
    }
}

fn batch(changes: &[(i64, Option<i64>)]) -> Batch {
    let change = |(id, value): &(i64, Option<i64>)| KeyedChange {
        key: key(*id),
        image: value.map(|value| Row::new([Value::Int(*id), Value::Int(value)])),
    };
    Batch {
        changes: changes.iter().map(change).collect(),
    }
}

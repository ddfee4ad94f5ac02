//! The ranges of a comparison: those of the copy where they are known, so
//! that nobody looks for them twice; else cut anew.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxferry_copier::{
    Applied, Batch, Chunker, Connections, CopiedRows, CopyError, RowFilter, RowSink, TableChunker,
};
use oxferry_schema::{Ident, Key, KeyRange, KeySide, TableName};
use oxferry_verifier::{FeedError, FixedRanges, Ranges};

use tokio::sync::watch;

use super::{Job, Prepared};

/// Ranges that a job remembers at most, about a hundred bytes each, an even
/// share of each table; a table with more is cut anew for its comparison.
const KEPT_MAX: usize = 100_000;

/// Rows of one comparison that is cut anew: many enough that the round trips
/// cost nothing, few enough that a busy table seldom changes one meanwhile.
const ROWS_MAX: u64 = 50_000;

/// The ranges of a table that a run copies, in key order.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    ranges: Arc<Mutex<Vec<KeyRange>>>,
    /// Those of them that aren't copied yet, in order.
    open: Arc<watch::Sender<Vec<KeyRange>>>,
    kept_max: usize,
}

impl Copied {
    /// Prepares to remember the ranges of one table out of `tables`.
    pub(crate) fn one_of(tables: usize) -> Self {
        Self {
            ranges: Arc::default(),
            open: Arc::new(watch::Sender::new(Vec::new())),
            kept_max: KEPT_MAX / tables.max(1),
        }
    }

    fn ranges(&self) -> MutexGuard<'_, Vec<KeyRange>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, range: KeyRange) {
        let mut ranges = self.ranges();
        if ranges.len() < self.kept_max {
            self.open.send_modify(|open| open.push(range.clone()));
            ranges.push(range);
        }
    }

    /// Notes that the rows of a range are on the target.
    fn close(&self, range: &KeyRange) {
        self.open.send_if_modified(|open| {
            let before = open.len();
            open.retain(|one| one != range);
            open.len() < before
        });
    }

    /// Waits until the range with this number, in key order, is copied; `None`
    /// when there is none, or there were too many to remember.
    async fn copied(&self, number: usize) -> Option<KeyRange> {
        let mut open = self.open.subscribe();
        loop {
            {
                // Locked in the same order as by `push`.
                let ranges = self.ranges();
                let open = open.borrow_and_update();
                match ranges.get(number) {
                    Some(range) if !open.contains(range) => return Some(range.clone()),
                    Some(_) => {}
                    None if self.is_full(&ranges) => return None,
                    None => {}
                }
            }
            // This very value holds the sender, so that it can't be gone.
            open.changed().await.ok()?;
        }
    }

    /// Returns whether no more ranges are remembered.
    fn is_full(&self, ranges: &[KeyRange]) -> bool {
        let is_whole = ranges.last().is_some_and(|last| last.upper.is_none());
        is_whole || ranges.len() >= self.kept_max
    }

    /// Returns up to `count` keys, evenly out of the whole table: the first
    /// keys of ranges. Some rows may be gone by now.
    pub(crate) fn sample(&self, count: usize) -> Vec<Key> {
        let ranges = self.ranges();
        let step = ranges.len().div_ceil(count.max(1)).max(1);
        ranges
            .iter()
            .step_by(step)
            .filter_map(|range| range.lower.clone())
            .collect()
    }

    /// Returns the ranges if they are the whole table: not after a resume, nor
    /// when there were too many.
    fn whole(&self) -> Option<Vec<KeyRange>> {
        let ranges = self.ranges();
        let starts_open = ranges.first().is_some_and(|range| range.lower.is_none());
        let ends_open = ranges.last().is_some_and(|range| range.upper.is_none());
        let joined = ranges
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a.upper == b.lower));
        (starts_open && ends_open && joined).then(|| ranges.clone())
    }
}

/// A chunker that lets its ranges be remembered.
#[derive(Debug)]
pub(crate) struct NotingChunker {
    inner: TableChunker,
    copied: Copied,
}

impl NotingChunker {
    pub(crate) const fn new(inner: TableChunker, copied: Copied) -> Self {
        Self { inner, copied }
    }
}

impl Chunker for NotingChunker {
    async fn next(&mut self, rows: u64) -> Result<Option<KeyRange>, CopyError> {
        let range = self.inner.next(rows).await?;
        if let Some(range) = &range {
            self.copied.push(range.clone());
        }
        Ok(range)
    }
}

/// A sink that says what it has copied.
#[derive(Debug)]
pub(crate) struct NotingSink<S> {
    inner: Arc<S>,
    copied: Copied,
}

impl<S> NotingSink<S> {
    pub(crate) const fn new(inner: Arc<S>, copied: Copied) -> Self {
        Self { inner, copied }
    }
}

impl<S: RowSink> RowSink for NotingSink<S> {
    async fn copy(&self, range: &KeyRange, again: bool) -> Result<CopiedRows, CopyError> {
        let rows = self.inner.copy(range, again).await?;
        self.copied.close(range);
        Ok(rows)
    }

    async fn copy_keys(&self, keys: &[Key]) -> Result<CopiedRows, CopyError> {
        self.inner.copy_keys(keys).await
    }

    async fn keys_of_owners(
        &self,
        owners: &[Key],
        from: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, CopyError> {
        self.inner.keys_of_owners(owners, from, limit).await
    }

    async fn apply(&self, batch: &Batch) -> Result<Applied, CopyError> {
        self.inner.apply(batch).await
    }
}

/// The ranges of a copy that is under way, each as soon as it is copied.
#[derive(Debug)]
pub(crate) struct Following {
    tables: Vec<Copied>,
    /// The table, and the number of its range, that come next.
    next: (usize, usize),
}

impl Following {
    /// Follows the copy of all tables, one after the other.
    pub(crate) const fn new(tables: Vec<Copied>) -> Self {
        Self {
            tables,
            next: (0, 0),
        }
    }
}

impl Ranges for Following {
    fn restart(&mut self) {
        self.next = (0, 0);
    }

    fn may_take_long(&self) -> bool {
        true
    }

    async fn next(&mut self) -> Result<Option<(usize, KeyRange)>, FeedError> {
        let (table, number) = self.next;
        let Some(copied) = self.tables.get(table) else {
            return Ok(None);
        };
        let Some(range) = copied.copied(number).await else {
            // Too many: the comparison is not whole, and says so.
            return Ok(None);
        };
        self.next = match range.upper {
            Some(_) => (table, number + 1),
            None => (table + 1, 0),
        };
        Ok(Some((table, range)))
    }
}

/// What a job compares, range by range and table by table.
#[derive(Debug)]
pub(crate) struct JobRanges {
    tables: Vec<TableRanges>,
    /// The table whose ranges come next.
    current: usize,
}

/// What of one table is compared.
#[derive(Debug)]
struct TableRanges {
    connections: Arc<Connections>,
    table: TableName,
    index: Ident,
    side: KeySide,
    filter: Option<RowFilter>,
    rows: u64,
    copied: Copied,
    next: Next,
}

/// Where the next range comes from.
#[derive(Debug)]
enum Next {
    Known(std::vec::IntoIter<KeyRange>),
    Cut(Box<TableChunker>),
}

impl JobRanges {
    /// Cuts the tables of `job`; `copied` is what is known of each.
    pub(crate) fn new(job: &Job, prepared: &Prepared, copied: &[Copied]) -> Self {
        let bytes = job.settings.copy.chunk_bytes;
        let tables = prepared.of(job).zip(copied);
        let tables = tables.map(|((table, ready), copied)| TableRanges {
            connections: Arc::clone(&prepared.source),
            table: table.source.name.clone(),
            index: table.key.index.clone(),
            side: ready.plan.source_side().clone(),
            filter: table.filter(&TableName::clone),
            rows: (bytes / table.row_bytes().max(1)).clamp(1, ROWS_MAX),
            copied: copied.clone(),
            next: Next::Known(Vec::new().into_iter()),
        });
        Self {
            tables: tables.collect(),
            current: 0,
        }
    }
}

impl JobRanges {
    /// Cuts all tables at once: where they are locked, nobody else could look
    /// for a range.
    pub(crate) async fn all(&mut self) -> Result<FixedRanges, FeedError> {
        self.restart();
        let mut all = Vec::new();
        while let Some(next) = self.next().await? {
            all.push(next);
        }
        Ok(FixedRanges::new(all))
    }
}

impl TableRanges {
    fn restart(&mut self) {
        self.next = match self.copied.whole() {
            Some(ranges) => Next::Known(ranges.into_iter()),
            None => Next::Cut(Box::new(self.cut())),
        };
    }

    fn cut(&self) -> TableChunker {
        let connections = Arc::clone(&self.connections);
        TableChunker::new(
            connections,
            &self.table,
            self.index.clone(),
            self.side.clone(),
            vec![KeyRange::ALL],
        )
        .with_filter(self.filter.clone())
    }

    async fn next(&mut self) -> Result<Option<KeyRange>, FeedError> {
        match &mut self.next {
            Next::Known(ranges) => Ok(ranges.next()),
            Next::Cut(chunker) => chunker
                .next(self.rows)
                .await
                .map_err(|error| FeedError::new("finding the next range", error.remedy(), error)),
        }
    }
}

impl Ranges for JobRanges {
    fn restart(&mut self) {
        self.tables.iter_mut().for_each(TableRanges::restart);
        self.current = 0;
    }

    async fn next(&mut self) -> Result<Option<(usize, KeyRange)>, FeedError> {
        while let Some(table) = self.tables.get_mut(self.current) {
            if let Some(range) = table.next().await? {
                return Ok(Some((self.current, range)));
            }
            self.current += 1;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use oxferry_schema::KeyPart;

    use super::*;

    fn range(lower: Option<i128>, upper: Option<i128>) -> KeyRange {
        let key = |value| Key::new([KeyPart::Int(value)]);
        KeyRange {
            lower: lower.map(key),
            upper: upper.map(key),
        }
    }

    fn copied(ranges: &[KeyRange]) -> Option<usize> {
        let copied = Copied::one_of(1);
        ranges.iter().for_each(|range| copied.push(range.clone()));
        copied.whole().map(|ranges| ranges.len())
    }

    #[test]
    fn a_sample_is_spread_over_the_table() {
        let copied = Copied::one_of(1);
        (0..1000).for_each(|at| copied.push(range(Some(at), Some(at + 1))));
        let keys = copied.sample(10);
        assert_eq!(keys.len(), 10);
        assert_eq!(keys.last().map(ToString::to_string).as_deref(), Some("900"));
        assert!(Copied::one_of(1).sample(10).is_empty());
    }

    #[tokio::test]
    async fn a_range_is_given_out_when_it_is_copied_and_in_key_order() {
        let copied = Copied::one_of(1);
        let mut following = Following::new(vec![copied.clone()]);
        let (first, last) = (range(None, Some(5)), range(Some(5), None));
        copied.push(first.clone());
        copied.push(last.clone());
        copied.close(&last);
        {
            let mut next = std::pin::pin!(following.next());
            assert!(futures::poll!(&mut next).is_pending());
            copied.close(&first);
            assert_eq!(next.await.unwrap(), Some((0, first)));
        }
        assert_eq!(following.next().await.unwrap(), Some((0, last)));
        assert_eq!(following.next().await.unwrap(), None);
    }

    #[test]
    fn only_ranges_without_a_gap_are_the_whole_table() {
        assert_eq!(
            copied(&[range(None, Some(5)), range(Some(5), None)]),
            Some(2)
        );
        assert_eq!(copied(&[range(None, None)]), Some(1));
        assert_eq!(copied(&[]), None);
        assert_eq!(copied(&[range(None, Some(5)), range(Some(6), None)]), None);
        assert_eq!(copied(&[range(Some(1), None)]), None);
        assert_eq!(copied(&[range(None, Some(5))]), None);
    }
}

//! The ranges of a comparison: those of the copy where they are known, so
//! that nobody looks for them twice; else cut anew.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxferry_copier::{Chunker, Connections, CopyError, RowFilter, TableChunker};
use oxferry_schema::{Ident, Key, KeyRange, KeySide, TableName};
use oxferry_verifier::{FeedError, Ranges};

use super::{Job, Prepared};

/// Ranges that a job remembers at most, about a hundred bytes each, an even
/// share of each table; a table with more is cut anew for its comparison.
const KEPT_MAX: usize = 100_000;

/// Rows of one comparison that is cut anew: many enough that the round trips
/// cost nothing, few enough that a busy table seldom changes one meanwhile.
const ROWS_MAX: u64 = 50_000;

/// The ranges of a table that a run has copied, in key order.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    ranges: Arc<Mutex<Vec<KeyRange>>>,
    kept_max: usize,
}

impl Copied {
    /// Prepares to remember the ranges of one table out of `tables`.
    pub(crate) fn one_of(tables: usize) -> Self {
        Self {
            ranges: Arc::default(),
            kept_max: KEPT_MAX / tables.max(1),
        }
    }

    fn ranges(&self) -> MutexGuard<'_, Vec<KeyRange>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, range: KeyRange) {
        let mut ranges = self.ranges();
        if ranges.len() < self.kept_max {
            ranges.push(range);
        }
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

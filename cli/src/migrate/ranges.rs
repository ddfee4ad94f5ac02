//! The ranges of a comparison: those of the copy where they are known, so
//! that nobody looks for them twice; else cut anew.

use std::sync::{Arc, Mutex, PoisonError};

use oxferry_copier::{Chunker, Connections, CopyError, TableChunker};
use oxferry_schema::{Ident, Key, KeyRange, KeySide, TableName};
use oxferry_verifier::{FeedError, Ranges};

use super::{job::Job, prepare::Prepared};

/// Ranges that are remembered at most, about a hundred bytes each; a table
/// with more is cut anew for its comparison.
const KEPT_MAX: usize = 100_000;

/// Rows of one comparison that is cut anew: many enough that the round trips
/// cost nothing, few enough that a busy table seldom changes one meanwhile.
const ROWS_MAX: u64 = 50_000;

/// The ranges that a run has copied, in key order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copied(Arc<Mutex<Vec<KeyRange>>>);

impl Copied {
    fn push(&self, range: KeyRange) {
        let mut ranges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ranges.len() < KEPT_MAX {
            ranges.push(range);
        }
    }

    /// Returns up to `count` keys, evenly out of the whole table: the first
    /// keys of ranges. Some rows may be gone by now.
    pub(crate) fn sample(&self, count: usize) -> Vec<Key> {
        let ranges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let ranges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// What a job compares, range by range.
#[derive(Debug)]
pub(crate) struct JobRanges {
    connections: Arc<Connections>,
    table: TableName,
    index: Ident,
    side: KeySide,
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
    pub(crate) fn new(job: &Job, prepared: &Prepared, copied: Copied) -> Self {
        let row_bytes = job
            .source
            .size_bytes
            .checked_div(job.source.row_estimate)
            .unwrap_or(0);
        Self {
            connections: Arc::clone(&prepared.connections),
            table: job.source.name.clone(),
            index: job.key.index.clone(),
            side: prepared.plan.source_side().clone(),
            rows: (job.args.copy.chunk_bytes / row_bytes.max(1)).clamp(1, ROWS_MAX),
            copied,
            next: Next::Known(Vec::new().into_iter()),
        }
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
    }
}

impl Ranges for JobRanges {
    fn restart(&mut self) {
        self.next = match self.copied.whole() {
            Some(ranges) => Next::Known(ranges.into_iter()),
            None => Next::Cut(Box::new(self.cut())),
        };
    }

    async fn next(&mut self) -> Result<Option<(usize, KeyRange)>, FeedError> {
        let range = match &mut self.next {
            Next::Known(ranges) => ranges.next(),
            Next::Cut(chunker) => chunker
                .next(self.rows)
                .await
                .map_err(|error| FeedError::new("finding the next range", error.remedy(), error))?,
        };
        Ok(range.map(|range| (0, range)))
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
        let copied = Copied::default();
        ranges.iter().for_each(|range| copied.push(range.clone()));
        copied.whole().map(|ranges| ranges.len())
    }

    #[test]
    fn a_sample_is_spread_over_the_table() {
        let copied = Copied::default();
        (0..1000).for_each(|at| copied.push(range(Some(at), Some(at + 1))));
        let keys = copied.sample(10);
        assert_eq!(keys.len(), 10);
        assert_eq!(keys.last().map(ToString::to_string).as_deref(), Some("900"));
        assert!(Copied::default().sample(10).is_empty());
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

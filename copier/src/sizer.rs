//! How many rows the next chunk shall have.

use std::time::Duration;

/// What a chunk may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain settings with a default")]
pub struct ChunkLimits {
    /// How long a chunk shall take. Too low: much overhead; too high: changes
    /// wait long for their chunk, and replicas lag by as much.
    pub time: Duration,
    /// How many bytes of rows a chunk shall hold at most; one row always may.
    pub bytes: u64,
    /// How many rows a chunk shall hold at most.
    pub rows_max: u64,
}

impl Default for ChunkLimits {
    /// 500 ms, 64 MiB, 1,000,000 rows: a chunk is one transaction on the
    /// target, and has to stay far below any transaction size limit.
    fn default() -> Self {
        Self {
            time: Duration::from_millis(500),
            bytes: 64 << 20,
            rows_max: 1_000_000,
        }
    }
}

/// Decides how many rows the next chunk shall have, from what the last ones
/// took.
///
/// The same law for every kind of key: a chunk is a number of rows in key
/// order, whatever the keys' values. Holds no clock.
#[derive(Clone, Debug)]
pub struct ChunkSizer {
    limits: ChunkLimits,
    /// The bytes that a row is thought to have, at least 1.
    row_bytes: u64,
    rows: u64,
}

impl ChunkSizer {
    /// Starts small; `row_bytes` is the average size of a row, 0 if unknown.
    #[must_use]
    pub fn new(limits: ChunkLimits, row_bytes: u64) -> Self {
        let mut sizer = Self {
            limits,
            row_bytes: row_bytes.max(1),
            rows: 0,
        };
        sizer.rows = sizer.bounded(ROWS_FIRST);
        sizer
    }

    /// Returns how many rows the next chunk shall have, at least 1.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes note that a chunk of `rows` rows took `took`.
    ///
    /// The size grows by a half at most, so that one lucky chunk does not make
    /// the next one far too long; it falls at once to what would have fitted
    /// when a chunk took more than twice its time, and in smaller steps for
    /// less. A chunk of less than half the size asked for, as the last one of
    /// a range is, says nothing in favour of growing.
    pub fn handle_chunk(&mut self, rows: u64, took: Duration) {
        if rows == 0 {
            return;
        }
        let fitting = fitting(rows, took, self.limits.time);
        let next = if took > self.limits.time.saturating_mul(2) {
            fitting.min(self.rows)
        } else if fitting < self.rows {
            // Over, but not by far: three quarters at least.
            fitting.max(self.rows.saturating_mul(3) / 4)
        } else if rows.saturating_mul(2) >= self.rows {
            fitting.min(self.rows.saturating_add(self.rows / 2).saturating_add(1))
        } else {
            self.rows
        };
        self.rows = self.bounded(next);
    }

    /// The byte budget is harder than the lower bound: 100 rows of 4 GiB each
    /// are too many.
    fn bounded(&self, rows: u64) -> u64 {
        let by_bytes = (self.limits.bytes / self.row_bytes).max(1);
        rows.max(ROWS_MIN)
            .min(self.limits.rows_max.max(1))
            .min(by_bytes)
    }
}

/// Returns how many rows would have taken `target` at the same rate.
fn fitting(rows: u64, took: Duration, target: Duration) -> u64 {
    let fitting = u128::from(rows) * target.as_nanos() / took.as_nanos().max(1);
    u64::try_from(fitting).unwrap_or(u64::MAX)
}

/// The first chunk: some milliseconds on any server.
const ROWS_FIRST: u64 = 1_000;

/// Below this a chunk costs more to look up than to copy.
const ROWS_MIN: u64 = 100;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn sizer() -> ChunkSizer {
        ChunkSizer::new(ChunkLimits::default(), 200)
    }

    #[test]
    fn fast_chunks_grow_by_a_half() {
        let mut sizer = sizer();
        sizer.handle_chunk(1_000, ms(5));
        assert_eq!(sizer.rows(), 1_501);
        sizer.handle_chunk(1_501, ms(5));
        assert_eq!(sizer.rows(), 2_252);
    }

    #[test]
    fn a_chunk_far_over_its_time_shrinks_the_next_at_once() {
        let mut sizer = sizer();
        sizer.handle_chunk(1_000, ms(5_000));
        assert_eq!(sizer.rows(), 100);
    }

    #[test]
    fn a_chunk_a_little_over_shrinks_the_next_a_little() {
        let mut sizer = sizer();
        sizer.handle_chunk(1_000, ms(550));
        assert_eq!(sizer.rows(), 909);
        sizer.handle_chunk(909, ms(990));
        assert_eq!(sizer.rows(), 681);
    }

    #[test]
    fn a_short_last_chunk_does_not_grow_the_next() {
        let mut sizer = sizer();
        sizer.handle_chunk(3, ms(1));
        assert_eq!(sizer.rows(), 1_000);
        sizer.handle_chunk(0, ms(900));
        assert_eq!(sizer.rows(), 1_000);
    }

    #[test]
    fn wide_rows_make_small_chunks() {
        let sizer = ChunkSizer::new(ChunkLimits::default(), 1 << 20);
        assert_eq!(sizer.rows(), 64);
        let huge = ChunkSizer::new(ChunkLimits::default(), 1 << 40);
        assert_eq!(huge.rows(), 1);
    }

    proptest! {
        #[test]
        fn the_size_stays_in_its_bounds_and_grows_slowly(
            chunks in proptest::collection::vec((0u64..2_000_000, 0u64..20_000), 0..40),
        ) {
            let mut sizer = sizer();
            for (rows, took) in chunks {
                let before = sizer.rows();
                sizer.handle_chunk(rows, ms(took));
                prop_assert!((ROWS_MIN..=1_000_000).contains(&sizer.rows()));
                prop_assert!(sizer.rows() <= before + before / 2 + 1);
            }
        }
    }
}

//! How far a verification is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters that a status line may read at any time, from any thread.
#[derive(Debug, Default)]
pub struct Progress {
    rows_compared: AtomicU64,
    comparisons: AtomicU64,
    keys_left: AtomicU64,
    mismatches: AtomicU64,
    repaired: AtomicU64,
    pass: AtomicU64,
}

impl Progress {
    /// Returns how many of the source's rows this pass has compared in ranges.
    #[must_use]
    pub fn rows_compared(&self) -> u64 {
        self.rows_compared.load(Relaxed)
    }

    /// Returns how many comparisons are done, over all passes.
    #[must_use]
    pub fn comparisons(&self) -> u64 {
        self.comparisons.load(Relaxed)
    }

    /// Returns how many changed keys are left to compare again.
    #[must_use]
    pub fn keys_left(&self) -> u64 {
        self.keys_left.load(Relaxed)
    }

    /// Returns how many differences were found, over all passes.
    #[must_use]
    pub fn mismatches(&self) -> u64 {
        self.mismatches.load(Relaxed)
    }

    /// Returns how many rows were repaired, over all passes.
    #[must_use]
    pub fn repaired(&self) -> u64 {
        self.repaired.load(Relaxed)
    }

    /// Returns the pass's number; the first one is 1.
    #[must_use]
    pub fn pass(&self) -> u64 {
        self.pass.load(Relaxed)
    }

    pub(crate) fn start_pass(&self) {
        self.rows_compared.store(0, Relaxed);
        self.pass.fetch_add(1, Relaxed);
    }

    pub(crate) fn add_comparison(&self, rows_compared: u64, keys_left: usize) {
        self.comparisons.fetch_add(1, Relaxed);
        self.rows_compared.store(rows_compared, Relaxed);
        let keys_left = u64::try_from(keys_left).unwrap_or(u64::MAX);
        self.keys_left.store(keys_left, Relaxed);
    }

    pub(crate) fn add_mismatches(&self, count: u64) {
        self.mismatches.fetch_add(count, Relaxed);
    }

    pub(crate) fn add_repaired(&self, rows: u64) {
        self.repaired.fetch_add(rows, Relaxed);
    }
}

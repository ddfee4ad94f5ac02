//! One pass over all tables: what to compare next, and what it proves.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;

use oxferry_schema::{Key, KeyRange};

use crate::{
    evidence::Clean,
    fingerprint::{KeyedFingerprint, Summary},
    mismatch::{Mismatch, Mismatches, differences},
    repair::{Repair, repairs},
    touched::{Scope, Touched, WindowId},
};

/// Decides what a verification does next, and whether it found a difference.
///
/// Holds no connection and no clock. The caller asks [`Pass::poll`] for the
/// next step, does it, and reports back; several steps may be under way at
/// once. Each comparison is done in this order, or proves nothing:
///
/// 1. wait until every change that was dispatched before `poll` handed the
///    comparison out is applied to the target and visible on the source;
/// 2. read both sides;
/// 3. read the source's binlog position;
/// 4. wait until the stream has dispatched up to it, every change of it having
///    been given to [`Touched::handle_change`];
/// 5. report the result.
///
/// A key that didn't change between 1 and 5 was at rest on both sides.
#[derive(Debug)]
pub struct Pass {
    limits: PassLimits,
    has_all_ranges: bool,
    has_asked_range: bool,
    waiting: VecDeque<Work>,
    in_flight: BTreeMap<WindowId, Work>,
    repairs: VecDeque<Repair>,
    repairing: usize,
    rounds: u32,
    was_keys: bool,
    found: Mismatches,
    rows_compared: u64,
    repaired_count: u64,
}

/// The sizes that a [`Pass`] works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain limits")]
pub struct PassLimits {
    /// Rows whose fingerprints are read one by one in one statement, where a
    /// range differs; at least 2.
    pub page_rows: NonZeroUsize,
    /// Keys of the re-verify set that are compared in one statement.
    pub batch_keys: NonZeroUsize,
    /// Keys that may be left to compare under the cutover lock. Too high: the
    /// lock is held long. Too low: a busy table never gets there.
    pub remaining_max: usize,
    /// How often the whole re-verify set is gone through before the pass
    /// gives up, because rows change faster than they are compared.
    pub rounds_max: u32,
}

/// What to do next.
#[derive(Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must do every step")]
pub enum Step {
    /// Compare; then call `handle_summaries` or `handle_fingerprints`.
    Compare(Comparison),
    /// Copy a range again, by the copy's own rule; then `handle_repaired`.
    Repair(Repair),
    /// Find one more range; then `handle_range`, or `handle_ranges_end`.
    FindRange,
    /// Report a step that is under way first.
    Wait,
    /// The pass is over.
    Done(Outcome),
}

/// A comparison to do.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a plain order")]
pub struct Comparison {
    /// Its window, to report back with.
    pub window: WindowId,
    /// The table.
    pub table: usize,
    /// What to read on both sides.
    pub what: What,
}

/// What to read.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must read every kind")]
pub enum What {
    /// The summary of a range.
    Summary(KeyRange),
    /// The first rows of a range.
    Page {
        /// The range.
        range: KeyRange,
        /// How many rows.
        limit: NonZeroUsize,
    },
    /// These keys.
    Keys(Vec<Key>),
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must act on every end")]
pub enum Outcome {
    /// Not one difference; what remains is to be compared under the lock.
    Clean,
    /// Differences were found, and repaired: another pass is needed.
    Repaired,
    /// The ranges left out some keys of this table.
    Uncovered {
        /// The table.
        table: usize,
    },
    /// Rows change faster than they can be compared.
    NeverSettles {
        /// How many keys are left.
        remaining: usize,
        /// How often the set was gone through.
        rounds: u32,
    },
}

#[derive(Clone, Debug)]
struct Work {
    table: usize,
    what: Part,
}

#[derive(Clone, Debug)]
enum Part {
    Summary(KeyRange),
    Page(KeyRange),
    Keys,
}

impl Default for PassLimits {
    /// 2,000 rows a page, 500 keys a statement, 300 keys left, 1,000 rounds.
    fn default() -> Self {
        const PAGE: NonZeroUsize = NonZeroUsize::new(2000).expect("2000 is not zero");
        const BATCH: NonZeroUsize = NonZeroUsize::new(500).expect("500 is not zero");
        Self {
            page_rows: PAGE,
            batch_keys: BATCH,
            remaining_max: 300,
            rounds_max: 1000,
        }
    }
}

impl Pass {
    /// Begins a full pass: everything is to be compared.
    #[must_use]
    pub fn full(limits: PassLimits, touched: &mut Touched) -> Self {
        touched.restart();
        Self::new(limits, false)
    }

    /// Begins a pass over what has changed since the last one, or was not
    /// compared by it; after one that found differences, that is everything.
    #[must_use]
    pub fn changed(limits: PassLimits, touched: &mut Touched) -> Self {
        touched.recover();
        Self::new(limits, true)
    }

    /// Takes a range that the caller found. The ranges of a table must cover
    /// every key there can be, without overlap, both ends open.
    pub fn handle_range(&mut self, table: usize, range: KeyRange) {
        self.has_asked_range = false;
        self.waiting.push_back(Work {
            table,
            what: Part::Summary(range),
        });
    }

    /// Records that there are no more ranges.
    pub const fn handle_ranges_end(&mut self) {
        self.has_asked_range = false;
        self.has_all_ranges = true;
    }

    /// Takes both summaries of a range.
    pub fn handle_summaries(
        &mut self,
        window: WindowId,
        touched: &mut Touched,
        source: Summary,
        target: Summary,
    ) {
        let Some(work) = self.in_flight.remove(&window) else {
            return;
        };
        let closed = touched.close(window);
        let range = match closed.scope {
            Scope::Range(range) => range,
            Scope::Keys(keys) => return touched.put_back(work.table, keys),
        };
        match closed.touched {
            Some(keys) if source == target => {
                self.rows_compared += source.rows;
                touched.mark_compared(work.table, range, keys);
            }
            // Either rows differ, or so many changed that equality says little.
            _ => self.waiting.push_front(Work {
                what: Part::Page(range),
                ..work
            }),
        }
    }

    /// Takes both sides' rows of a page or of a list of keys.
    pub fn handle_fingerprints(
        &mut self,
        window: WindowId,
        touched: &mut Touched,
        source: &[KeyedFingerprint],
        target: &[KeyedFingerprint],
    ) {
        let Some(work) = self.in_flight.remove(&window) else {
            return;
        };
        let closed = touched.close(window);
        match closed.scope {
            Scope::Keys(keys) => {
                let changed = closed.touched.unwrap_or_else(|| keys.into_iter().collect());
                let found = differences(work.table, source, target, &changed);
                self.record(work.table, &KeyRange::ALL, found, touched);
                touched.put_back(work.table, changed);
            }
            Scope::Range(range) => match closed.touched {
                None => {
                    self.rounds += 1;
                    self.waiting.push_front(work);
                }
                Some(changed) => {
                    let (page, rest) = self.split(range, source, target);
                    let mut found = differences(work.table, source, target, &changed);
                    found.retain(|mismatch| page.contains(&mismatch.key));
                    self.record(work.table, &page, found, touched);
                    self.rows_compared += count_inside(&page, source);
                    touched.mark_compared(work.table, page, changed);
                    self.waiting.extend(rest.map(|rest| Work {
                        what: Part::Page(rest),
                        ..work
                    }));
                }
            },
        }
    }

    /// Records that a repair has reached the target. Whether it helped is for
    /// the next full pass to say, which every repair makes necessary.
    pub const fn handle_repaired(&mut self, repair: &Repair) {
        self.repairing = self.repairing.saturating_sub(1);
        self.repaired_count += repair.row_count;
    }

    /// Says what to do next.
    pub fn poll(&mut self, touched: &mut Touched) -> Step {
        if let Some(repair) = self.repairs.pop_front() {
            self.repairing += 1;
            return Step::Repair(repair);
        }
        if self.rounds > self.limits.rounds_max {
            return Step::Done(Outcome::NeverSettles {
                remaining: touched.remaining(),
                rounds: self.rounds,
            });
        }
        if !self.was_keys
            && touched.is_filling()
            && let Some(step) = self.compare_keys(touched)
        {
            return step;
        }
        self.was_keys = false;
        if let Some(work) = self.next_range(touched) {
            return self.compare_range(work, touched);
        }
        if !self.has_all_ranges {
            let is_asked = std::mem::replace(&mut self.has_asked_range, true);
            return if is_asked {
                Step::Wait
            } else {
                Step::FindRange
            };
        }
        let is_clean = self.found.is_empty();
        if is_clean && touched.remaining() > self.limits.remaining_max {
            return self.compare_keys(touched).unwrap_or(Step::Wait);
        }
        if !self.in_flight.is_empty() || self.repairing > 0 {
            return Step::Wait;
        }
        Step::Done(match touched.uncovered() {
            Some(table) => Outcome::Uncovered { table },
            None if is_clean => Outcome::Clean,
            None => Outcome::Repaired,
        })
    }

    /// Returns the evidence of a pass that ended [`Outcome::Clean`], `None`
    /// for any other.
    #[must_use]
    pub fn clean(&self, touched: &Touched) -> Option<Clean> {
        let is_over = self.has_all_ranges && self.in_flight.is_empty();
        let is_equal = self.found.is_empty() && !touched.has_differences();
        (is_over && is_equal && touched.uncovered().is_none())
            .then(|| Clean::new(self.rows_compared))
    }

    /// Returns the differences found in this pass.
    #[must_use]
    pub const fn found(&self) -> &Mismatches {
        &self.found
    }

    /// Returns how many of the source's rows were compared.
    #[must_use]
    pub const fn rows_compared(&self) -> u64 {
        self.rows_compared
    }

    /// Returns how many rows were repaired.
    #[must_use]
    pub const fn repaired_count(&self) -> u64 {
        self.repaired_count
    }

    fn new(limits: PassLimits, has_all_ranges: bool) -> Self {
        Self {
            limits,
            has_all_ranges,
            has_asked_range: false,
            waiting: VecDeque::new(),
            in_flight: BTreeMap::new(),
            repairs: VecDeque::new(),
            repairing: 0,
            rounds: 0,
            was_keys: false,
            found: Mismatches::default(),
            rows_compared: 0,
            repaired_count: 0,
        }
    }

    fn next_range(&mut self, touched: &mut Touched) -> Option<Work> {
        self.waiting.pop_front().or_else(|| {
            let (table, range) = touched.take_stale()?;
            let what = Part::Summary(range);
            Some(Work { table, what })
        })
    }

    fn compare_range(&mut self, work: Work, touched: &mut Touched) -> Step {
        let limit = self.limits.page_rows.max(PAGE_ROWS_MIN);
        let (range, what) = match &work.what {
            Part::Page(range) => {
                let range = range.clone();
                (range.clone(), What::Page { range, limit })
            }
            Part::Summary(range) => (range.clone(), What::Summary(range.clone())),
            Part::Keys => return Step::Wait,
        };
        let table = work.table;
        let window = touched.open_range(table, range);
        self.in_flight.insert(window, work);
        Step::Compare(Comparison {
            window,
            table,
            what,
        })
    }

    fn compare_keys(&mut self, touched: &mut Touched) -> Option<Step> {
        let (window, table, keys, is_end) = touched.open_keys(self.limits.batch_keys.get())?;
        self.was_keys = true;
        self.rounds += u32::from(is_end);
        let what = Part::Keys;
        self.in_flight.insert(window, Work { table, what });
        Some(Step::Compare(Comparison {
            window,
            table,
            what: What::Keys(keys),
        }))
    }

    /// Splits a range behind what both pages show completely.
    ///
    /// The last row of a full page is left to the next one, which begins with
    /// it: so both ends stay keys that exist.
    fn split(
        &self,
        range: KeyRange,
        source: &[KeyedFingerprint],
        target: &[KeyedFingerprint],
    ) -> (KeyRange, Option<KeyRange>) {
        let limit = self.limits.page_rows.max(PAGE_ROWS_MIN).get();
        let full = [source, target]
            .into_iter()
            .filter(|rows| rows.len() >= limit);
        match full.filter_map(|rows| Some(&rows.last()?.0)).min() {
            None => (range, None),
            Some(border) => (
                KeyRange {
                    lower: range.lower,
                    upper: Some(border.clone()),
                },
                Some(KeyRange {
                    lower: Some(border.clone()),
                    upper: range.upper,
                }),
            ),
        }
    }

    fn record(
        &mut self,
        table: usize,
        within: &KeyRange,
        found: Vec<Mismatch>,
        touched: &mut Touched,
    ) {
        if !found.is_empty() {
            touched.mark_different();
        }
        self.repairs.extend(repairs(table, within, &found));
        self.found.extend(found);
    }
}

fn count_inside(range: &KeyRange, rows: &[KeyedFingerprint]) -> u64 {
    let count = rows.iter().filter(|(key, _)| range.contains(key)).count();
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// A page of one row could never move its border on.
const PAGE_ROWS_MIN: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not zero");

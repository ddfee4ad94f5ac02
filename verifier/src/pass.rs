//! One pass over all tables: what to compare next, and what it proves.

mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;

use oxferry_schema::{Key, KeyRange};

use self::work::{Part, Work, first_look};
use crate::{
    evidence::Clean,
    fingerprint::{KeyedFingerprint, Summary},
    mismatch::{Mismatch, Mismatches, differences},
    repair::{Repair, repairs},
    step::{Comparison, Outcome, PassLimits, Step, What},
    touched::{Scope, Touched, WindowId},
    walk::{Backward, Walk, split},
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
///
/// Where the client knows the order of keys, a range that differs is compared
/// page by page on both sides. Where only the servers do, a page of the source
/// is compared with the rows of the same keys on the target (*forward*), and
/// then a page of the target with those on the source (*backward*), which finds
/// rows that the source doesn't have. Where the target has an order of its own,
/// nothing but forward and backward is left, and backward goes over the whole
/// target. Keys are only ever compared for being the same; a key that is equal
/// for the server alone is judged by its own page or its own change.
///
/// Rows that were repaired are compared again at once: one that still differs
/// ends the pass.
#[derive(Debug)]
pub struct Pass {
    limits: PassLimits,
    has_all_ranges: bool,
    has_asked_range: bool,
    waiting: VecDeque<Work>,
    in_flight: BTreeMap<WindowId, Work>,
    /// Whether differences are repaired, or only told.
    mends: bool,
    repairs: VecDeque<Repair>,
    repairing: usize,
    /// Keys that were repaired just now.
    repaired: VecDeque<(usize, Vec<Key>)>,
    /// Rows that differed again after their repair.
    stuck: Mismatches,
    /// A row of the target that the source's key can't name.
    foreign: Option<(usize, Key)>,
    rounds: u32,
    was_keys: bool,
    found: Mismatches,
    rows_compared: u64,
    repaired_count: u64,
}

impl Pass {
    /// Begins a full pass: everything is to be compared.
    #[must_use]
    pub fn full(limits: PassLimits, touched: &mut Touched) -> Self {
        touched.restart();
        Self::new(limits, false)
    }

    /// Tells of differences, and repairs none: such a pass ends
    /// [`Outcome::Repaired`] all the same when there are some.
    #[must_use]
    pub const fn without_repairs(mut self) -> Self {
        self.mends = false;
        self
    }

    /// Returns whether differences are repaired.
    pub(crate) const fn mends(&self) -> bool {
        self.mends
    }

    /// Begins a pass over what has changed since the last one, or was not
    /// compared by it; after one that found differences, that is everything.
    #[must_use]
    pub fn changed(limits: PassLimits, touched: &mut Touched) -> Self {
        touched.recover();
        Self::new(limits, true)
    }

    /// Takes a range that the caller found. The ranges of a table must cover
    /// every key there can be, without overlap, both ends open, and come in the
    /// source's order where the client doesn't know it.
    pub fn handle_range(&mut self, touched: &mut Touched, table: usize, range: KeyRange) {
        self.has_asked_range = false;
        touched.hand_out(table, &range);
        let what = first_look(touched, table, range);
        self.waiting.push_back(Work { table, what });
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
        let changed = touched.close(window).touched;
        let Part::Summary(range) = work.what else {
            return;
        };
        let table = work.table;
        match changed {
            Some(keys) if source == target => {
                self.rows_compared += source.rows;
                touched.mark_compared(table, range, keys);
            }
            // Either rows differ, or so many changed that equality says little.
            _ => {
                let what = if touched.is_located(table) {
                    Part::Page(range)
                } else {
                    Part::Forward(Walk::new(range, touched.generation(table)))
                };
                self.waiting.push_front(Work { table, what });
            }
        }
    }

    /// Takes both sides' rows of a page, of its keys, or of a list of keys.
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
        let table = work.table;
        match (work.what, closed.scope, closed.touched) {
            (part @ (Part::Keys | Part::Repaired), Scope::Keys(keys), changed) => {
                let changed = changed.unwrap_or_else(|| keys.iter().cloned().collect());
                let counts = |key: &Key| keys.contains(key) && !changed.contains(key);
                let found = differences(table, source, target, counts);
                if matches!(part, Part::Repaired) {
                    self.stuck.extend(found);
                } else {
                    let within = touched.is_located(table).then_some(&KeyRange::ALL);
                    self.record(table, within, found, touched);
                }
                touched.put_back(table, changed);
            }
            (Part::Page(range), _, Some(changed)) => {
                let (page, rest) = split(range, self.page_rows(), source, target);
                let counts = |key: &Key| page.contains(key) && !changed.contains(key);
                let found = differences(table, source, target, counts);
                self.record(table, Some(&page), found, touched);
                self.rows_compared += count_inside(&page, source);
                touched.mark_compared(table, page, changed);
                self.waiting.extend(rest.map(|rest| Work {
                    table,
                    what: Part::Page(rest),
                }));
            }
            (Part::Forward(walk), _, Some(changed)) => {
                self.walk_forward(table, (walk, changed), touched, (source, target));
            }
            (what, ..) => {
                self.rounds += 1;
                self.waiting.push_front(Work { table, what });
            }
        }
    }

    /// Takes what was read for [`What::Backward`].
    pub fn handle_backward(&mut self, window: WindowId, touched: &mut Touched, read: &Backward) {
        let Some(work) = self.in_flight.remove(&window) else {
            return;
        };
        let changed = touched.close(window).touched;
        let (Part::Backward(walk), table) = (work.what, work.table) else {
            return;
        };
        let is_current = walk.generation == touched.generation(table);
        let (Some(changed), true) = (changed, is_current) else {
            return self.walk_again(table, walk, touched);
        };
        let judged = read.judge(self.page_rows(), &changed);
        if judged.foreign.is_some() && judged.foreign != walk.suspect {
            // A repair may have taken it away just now: once more.
            self.rounds += 1;
            let suspect = judged.foreign;
            let what = Part::Backward(Walk { suspect, ..walk });
            return self.waiting.push_front(Work { table, what });
        }
        if let Some((key, _)) = judged.foreign {
            self.foreign = Some((table, key));
            return;
        }
        let is_at_end = judged.border.is_none();
        let Some(rest) = walk.rest_behind(judged.border) else {
            return self.walk_again(table, walk, touched);
        };
        let found = judged.surplus.into_iter();
        let found = found.map(|(key, row)| Mismatch::surplus(table, key, row));
        let found: Vec<Mismatch> = found.collect();
        self.record(table, None, found, touched);
        if walk.is_whole_table {
            // First: with the keys, the set may be full, and all is left anew.
            touched.set_back(table, (!is_at_end).then(|| rest.clone()));
            touched.mark_part(table, changed);
        } else if is_at_end {
            touched.mark_compared(table, walk.whole.clone(), changed);
        } else {
            touched.mark_part(table, changed);
        }
        if !is_at_end {
            let what = Part::Backward(Walk { rest, ..walk });
            self.waiting.push_front(Work { table, what });
        }
    }

    /// Records that a repair has reached the target. Whether it helped, a look
    /// at its first rows says at once; whether everything is equal, the next
    /// full pass does, which every repair makes necessary.
    pub fn handle_repaired(&mut self, repair: &Repair) {
        self.repairing = self.repairing.saturating_sub(1);
        self.repaired_count += repair.row_count;
        self.repaired
            .push_back((repair.table, repair.first.clone()));
    }

    /// Says what to do next.
    pub fn poll(&mut self, touched: &mut Touched) -> Step {
        if let Some((table, key)) = self.foreign.clone() {
            return Step::Done(Outcome::Foreign { table, key });
        }
        if !self.stuck.is_empty() {
            return Step::Done(Outcome::NotMended(self.stuck.clone()));
        }
        if let Some((table, keys)) = self.repaired.pop_front() {
            let window = touched.open_named(table, &keys);
            return self.compare(window, (table, Part::Repaired), What::Keys(keys));
        }
        if let Some(repair) = self.repairs.pop_front() {
            self.repairing += 1;
            return Step::Repair(repair);
        }
        if self.rounds > self.limits.rounds_max || touched.overflows() > self.limits.overflows_max {
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
        if let Some((table, range)) = touched.open_back() {
            let walk = Walk::over_target(range, touched.generation(table));
            let what = Part::Backward(walk);
            return self.compare_range(Work { table, what }, touched);
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
            mends: true,
            repairs: VecDeque::new(),
            repairing: 0,
            repaired: VecDeque::new(),
            stuck: Mismatches::default(),
            foreign: None,
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
            let what = first_look(touched, table, range);
            Some(Work { table, what })
        })
    }

    fn compare_range(&mut self, work: Work, touched: &mut Touched) -> Step {
        let limit = self.page_rows();
        let (range, what) = match &work.what {
            Part::Summary(range) => (range.clone(), What::Summary(range.clone())),
            Part::Page(range) => {
                let range = range.clone();
                (range.clone(), What::Page { range, limit })
            }
            Part::Forward(walk) => {
                let range = walk.rest.clone();
                (range.clone(), What::Forward { range, limit })
            }
            Part::Backward(walk) => {
                let range = walk.rest.clone();
                (range.clone(), What::Backward { range, limit })
            }
            Part::Keys | Part::Repaired => return Step::Wait,
        };
        let window = touched.open_range(work.table, range);
        self.compare(window, (work.table, work.what), what)
    }

    fn compare_keys(&mut self, touched: &mut Touched) -> Option<Step> {
        let (window, table, keys, is_end) = touched.open_keys(self.limits.batch_keys.get())?;
        self.was_keys = true;
        self.rounds += u32::from(is_end);
        Some(self.compare(window, (table, Part::Keys), What::Keys(keys)))
    }

    fn compare(&mut self, window: WindowId, (table, part): (usize, Part), what: What) -> Step {
        self.in_flight.insert(window, Work { table, what: part });
        Step::Compare(Comparison {
            window,
            table,
            what,
        })
    }

    /// Takes a page of the source with the target's rows of its keys.
    fn walk_forward(
        &mut self,
        table: usize,
        (walk, changed): (Walk, BTreeSet<Key>),
        touched: &mut Touched,
        (source, target): (&[KeyedFingerprint], &[KeyedFingerprint]),
    ) {
        let is_full = source.len() >= self.page_rows().get();
        let border = source.last().filter(|_| is_full);
        let border = border.map(|(key, _)| key.clone());
        let is_at_end = border.is_none();
        let is_current = walk.generation == touched.generation(table);
        let (Some(rest), true) = (walk.rest_behind(border), is_current) else {
            return self.walk_again(table, walk, touched);
        };
        // The last row of a full page comes again as the first of the next one.
        let count_here = source.len() - usize::from(is_full);
        let here = source.iter().take(count_here);
        let asked: BTreeSet<&Key> = here.map(|(key, _)| key).collect();
        let counts = |key: &Key| asked.contains(key) && !changed.contains(key);
        let found = differences(table, source, target, counts);
        self.record(table, None, found, touched);
        self.rows_compared += count(count_here);
        match (is_at_end, touched.has_back(table)) {
            (true, true) => touched.mark_compared(table, walk.whole, changed),
            (at_end, _) => {
                touched.mark_part(table, changed);
                let what = if at_end {
                    let rest = walk.whole.clone();
                    Part::Backward(Walk { rest, ..walk })
                } else {
                    Part::Forward(Walk { rest, ..walk })
                };
                self.waiting.push_front(Work { table, what });
            }
        }
    }

    /// Reads a page once more, or starts the walk over where what it has found
    /// so far counts no longer.
    fn walk_again(&mut self, table: usize, walk: Walk, touched: &Touched) {
        self.rounds += 1;
        let generation = touched.generation(table);
        let what = if walk.is_whole_table {
            let is_current = walk.generation == generation;
            let left = if is_current { walk.rest } else { KeyRange::ALL };
            Part::Backward(Walk::over_target(left, generation))
        } else {
            first_look(touched, table, walk.whole)
        };
        self.waiting.push_front(Work { table, what });
    }

    fn page_rows(&self) -> NonZeroUsize {
        self.limits.page_rows.max(PAGE_ROWS_MIN)
    }

    fn record(
        &mut self,
        table: usize,
        within: Option<&KeyRange>,
        found: Vec<Mismatch>,
        touched: &mut Touched,
    ) {
        if !found.is_empty() {
            touched.mark_different();
        }
        if self.mends {
            self.repairs.extend(repairs(table, within, &found));
        }
        self.found.extend(found);
    }
}

fn count_inside(range: &KeyRange, rows: &[KeyedFingerprint]) -> u64 {
    count(rows.iter().filter(|(key, _)| range.contains(key)).count())
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

/// A page of one row could never move its border on.
const PAGE_ROWS_MIN: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not zero");

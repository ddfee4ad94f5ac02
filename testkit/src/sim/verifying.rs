//! The steps of comparing: the real verifier between the simulated servers.

use std::collections::{BTreeSet, VecDeque};

use fastrand::Rng;
use oxferry_copier::engine::{self, TableId, TxnSeq};
use oxferry_schema::{Key, KeyRange};
use oxferry_verifier::{
    Clean, Comparison, Fingerprint, KeyOrder, KeyedFingerprint, Outcome, Pass, PassLimits, Repair,
    RepairRows, Step, Summary, Touched, TouchedLimits, What,
};

use super::{
    Failure, Fault, Invariant, Params,
    chunker::Chunker,
    row::{SimRow, Tables, key, number},
    world::World,
};

/// Comparisons at once.
const COMPARISONS_MAX: usize = 3;

/// The rows that were damaged at some moment.
pub(super) type Damaged = BTreeSet<(usize, i64)>;

/// What a job knows of its comparison; a crash ends it.
#[derive(Debug)]
pub(super) struct Verification {
    pub(super) touched: Touched,
    limits: PassLimits,
    /// The pass under way.
    pass: Option<Pass>,
    /// Whether the pass under way goes over all rows.
    is_full: bool,
    /// What the pass under way has still to be told of.
    ranges: VecDeque<(usize, KeyRange)>,
    running: Vec<Comparing>,
    repairing: Vec<Repair>,
    /// The evidence of the last full pass.
    pub(super) clean: Option<Clean>,
    /// Whether all that changed since was compared, too: the cutover may come.
    pub(super) is_trimmed: bool,
}

/// A comparison under way.
#[derive(Debug)]
struct Comparing {
    order: Comparison,
    /// The last transaction dispatched, in part or whole, when it began.
    settle: TxnSeq,
    /// How many transactions have to be visible before the reads.
    until: Option<usize>,
    source: Option<Answer>,
    target: Option<(Answer, Damaged)>,
    /// The end of the log after both reads.
    position: Option<usize>,
}

#[derive(Debug)]
enum Answer {
    Summary(Summary),
    Rows(Vec<KeyedFingerprint>),
}

/// The sizes that a seed compares with: so small that they are met.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    touched: TouchedLimits,
    pass: PassLimits,
}

impl Sizes {
    /// Chooses the sizes.
    pub(super) fn random(rng: &mut Rng) -> Self {
        let two = std::num::NonZeroUsize::MIN.saturating_add(1);
        Self {
            touched: TouchedLimits {
                keys_max: rng.usize(1..12),
                window_keys_max: rng.usize(1..8),
            },
            pass: PassLimits {
                page_rows: two.saturating_add(rng.usize(..3)),
                batch_keys: two,
                remaining_max: rng.usize(..5),
                rounds_max: 1_000,
                overflows_max: 1_000,
            },
        }
    }
}

impl Verification {
    /// Begins with nothing compared.
    pub(super) fn new(params: &Params) -> Self {
        let Sizes { touched, pass } = params.sizes;
        Self {
            touched: Touched::new(params.modes.iter().map(|_| KeyOrder::Shared), touched),
            limits: pass,
            pass: None,
            is_full: false,
            ranges: VecDeque::new(),
            running: Vec::new(),
            repairing: Vec::new(),
            clean: None,
            is_trimmed: false,
        }
    }

    /// Returns how many keys may be left for the lock.
    pub(super) const fn remaining_max(&self) -> usize {
        self.limits.remaining_max * 4
    }

    /// Returns whether a row that is damaged now will be looked at: no full
    /// pass has begun, or another one must follow, or this one is not there
    /// yet. Damage behind a comparison's back is nobody's to find.
    pub(super) fn will_read(&self, table: usize, number: i64) -> bool {
        let key = key(number);
        match &self.pass {
            None => self.clean.is_none(),
            Some(pass) => {
                let mut ranges = self.ranges.iter();
                let is_ahead = |(t, range): &(usize, KeyRange)| *t == table && range.contains(&key);
                !pass.found().is_empty() || self.is_full && ranges.any(is_ahead)
            }
        }
    }

    /// Returns whether nothing is compared just now.
    pub(super) const fn is_at_rest(&self) -> bool {
        self.pass.is_none()
    }

    fn drop_pass(&mut self) {
        self.pass = None;
        self.running.clear();
        self.repairing.clear();
    }
}

impl World {
    /// Goes on comparing.
    pub(super) fn verify(&mut self) -> Result<(), Failure> {
        let verify = &self.job.verify;
        let is_trimming = verify.clean.is_some() && !verify.is_at_rest();
        if verify.is_at_rest() {
            self.begin_pass();
        } else if is_trimming && self.rng.u8(..100) == 0 {
            // As when the sentinel is dropped in the midst of it.
            self.job.verify.drop_pass();
        } else if self.rng.bool() {
            self.ask_pass()?;
        } else {
            self.advance_comparison()?;
        }
        Ok(())
    }

    fn begin_pass(&mut self) {
        let is_ready = self.is_built() && self.job.engine.is_copied() && self.params.verifies;
        if !is_ready || self.job.is_holding {
            return;
        }
        let verify = &mut self.job.verify;
        verify.is_trimmed = false;
        verify.is_full = verify.clean.is_none();
        if verify.is_full {
            for table in 0..self.params.modes.len() {
                let mut chunker = Chunker::new(&[], self.params.keys, self.params.orders[table]);
                let ranges = std::iter::from_fn(|| chunker.next(&mut self.rng));
                verify.ranges.extend(ranges.map(|range| (table, range)));
            }
        }
        verify.pass = Some(if verify.is_full {
            Pass::full(verify.limits, &mut verify.touched)
        } else {
            Pass::changed(verify.limits, &mut verify.touched)
        });
    }

    /// Does what the pass wants next.
    fn ask_pass(&mut self) -> Result<(), Failure> {
        let settle = if self.faults.has(Fault::PartsNotSettled) {
            self.job.engine.dispatched()
        } else {
            self.job.engine.begun()
        };
        let verify = &mut self.job.verify;
        let Some(pass) = &mut verify.pass else {
            return Ok(());
        };
        if verify.running.len() >= COMPARISONS_MAX {
            return Ok(());
        }
        match pass.poll(&mut verify.touched) {
            Step::Compare(order) => {
                self.stats.compared += 1;
                verify.running.push(Comparing {
                    order,
                    settle,
                    until: None,
                    source: None,
                    target: None,
                    position: None,
                });
            }
            Step::Repair(repair) => {
                let table = TableId(repair.table);
                let what = match &repair.rows {
                    RepairRows::Range(range) => engine::Repair::Range(range.clone()),
                    RepairRows::Keys(keys) => engine::Repair::Keys(keys.clone()),
                };
                self.job.engine.repair(table, what);
                verify.repairing.push(repair);
                self.stats.repairs += 1;
            }
            Step::FindRange => match verify.ranges.pop_front() {
                Some((table, range)) => pass.handle_range(&mut verify.touched, table, range),
                None => pass.handle_ranges_end(),
            },
            Step::Wait => {}
            Step::Done(outcome) => return self.end_pass(outcome),
        }
        Ok(())
    }

    fn end_pass(&mut self, outcome: Outcome) -> Result<(), Failure> {
        let verify = &mut self.job.verify;
        let Some(pass) = verify.pass.take() else {
            return Ok(());
        };
        match (outcome, pass.clean(&verify.touched)) {
            (Outcome::Clean, Some(clean)) => {
                if verify.is_full {
                    verify.clean = Some(clean);
                } else {
                    verify.is_trimmed = true;
                }
            }
            // Damaged once more: the job would end, and be started again.
            (Outcome::Repaired | Outcome::NotMended(_), None) => {
                verify.drop_pass();
                verify.ranges.clear();
                verify.clean = None;
            }
            (Outcome::NeverSettles { .. }, _) => {}
            (outcome, clean) => {
                return Err(Failure::new(
                    Invariant::Compares,
                    format!("a pass ended {outcome:?} with {clean:?}"),
                ));
            }
        }
        Ok(())
    }

    /// Moves one comparison, or the repairs, on by one step.
    fn advance_comparison(&mut self) -> Result<(), Failure> {
        let verify = &mut self.job.verify;
        if self.job.engine.is_copied()
            && let Some(pass) = &mut verify.pass
            && let Some(repair) = verify.repairing.pop()
        {
            pass.handle_repaired(&repair);
            return Ok(());
        }
        if verify.running.is_empty() {
            return Ok(());
        }
        let index = self.rng.usize(..verify.running.len());
        let run = &mut verify.running[index];
        let dispatched = self.job.stream.txn;
        match (run.until, &run.source, &run.target, run.position) {
            (None, ..) => {
                let is_applied = self.job.engine.resume_seq() > run.settle;
                run.until = is_applied.then_some(dispatched);
            }
            (Some(until), ..) if self.source.visible < until => {}
            (_, None, target, _) if target.is_some() || self.rng.bool() => {
                run.source = Some(answer(&self.source.seen, &run.order));
            }
            (.., None, _) => {
                let rows = answer(&self.target.rows, &run.order);
                run.target = Some((rows, self.damaged.clone()));
            }
            (_, None, ..) => {}
            (.., None) => run.position = Some(self.source.log.len()),
            (.., Some(position)) => {
                if dispatched >= position || self.faults.has(Fault::ReachSkipped) {
                    let run = verify.running.swap_remove(index);
                    return self.report(run);
                }
            }
        }
        Ok(())
    }

    fn report(&mut self, run: Comparing) -> Result<(), Failure> {
        let verify = &mut self.job.verify;
        let (Some(pass), Some(source), Some((target, damaged))) =
            (&mut verify.pass, run.source, run.target)
        else {
            return Ok(());
        };
        let before = pass.found().listed().len();
        let (window, touched) = (run.order.window, &mut verify.touched);
        match (source, target) {
            (Answer::Summary(source), Answer::Summary(target)) => {
                pass.handle_summaries(window, touched, source, target);
            }
            (Answer::Rows(source), Answer::Rows(target)) => {
                pass.handle_fingerprints(window, touched, &source, &target);
            }
            (Answer::Summary(_), Answer::Rows(_)) | (Answer::Rows(_), Answer::Summary(_)) => {}
        }
        for mismatch in pass.found().listed().iter().skip(before) {
            self.stats.mismatches += 1;
            let is_real = number(Some(&mismatch.key))
                .is_some_and(|number| damaged.contains(&(mismatch.table, number)));
            if !is_real {
                return Err(Failure::new(
                    Invariant::Compares,
                    format!("{mismatch}, and nobody damaged it"),
                ));
            }
        }
        Ok(())
    }
}

/// Reads one side at one moment.
fn answer(tables: &Tables, order: &Comparison) -> Answer {
    let rows = || fingerprints(tables, order.table);
    match &order.what {
        What::Summary(range) => {
            let mut summary = Summary::default();
            for (_, row) in rows().filter(|(key, _)| range.contains(key)) {
                summary.add(&row);
            }
            Answer::Summary(summary)
        }
        What::Page { range, limit }
        | What::Forward { range, limit }
        | What::Backward { range, limit } => {
            let inside = rows().filter(|(key, _)| range.contains(key));
            Answer::Rows(inside.take(limit.get()).collect())
        }
        What::Keys(keys) => Answer::Rows(by_keys(tables, order.table, keys)),
    }
}

/// Reads the rows of some keys, in key order.
pub(super) fn by_keys(tables: &Tables, table: usize, keys: &[Key]) -> Vec<KeyedFingerprint> {
    let rows = fingerprints(tables, table);
    rows.filter(|(key, _)| keys.contains(key)).collect()
}

fn fingerprints(tables: &Tables, table: usize) -> impl Iterator<Item = KeyedFingerprint> + '_ {
    let rows = tables.get(table).into_iter().flatten();
    rows.map(|(number, row)| (key(*number), fingerprint(*number, *row)))
}

/// Mixes well: a sum of different rows must not look like a sum of equal ones.
fn fingerprint(number: i64, row: SimRow) -> Fingerprint {
    let mut state = 0_u64;
    for part in [number, row.version, row.unique] {
        state = mix(state ^ part.cast_unsigned());
    }
    Fingerprint::new(std::array::from_fn(|_| {
        state = mix(state);
        state.to_be_bytes()[0]
    }))
}

const fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 29)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state ^ (state >> 31)
}

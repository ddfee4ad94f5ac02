//! Random interleavings of writes, dispatch, application and comparison.
//!
//! The model: one log of changes; the source shows a prefix of it, the stream
//! has dispatched a prefix, the target has applied a prefix. Some target rows
//! are damaged beforehand.

use std::collections::BTreeMap;

use oxferry_schema::{Key, KeyPart, KeyRange};
use proptest::prelude::*;

use crate::{
    Comparison, Fingerprint, KeyedFingerprint, MemorySide, Outcome, Pass, PassLimits, Repair, Step,
    Touched, TouchedLimits, What,
};

type Image = (Key, Option<Fingerprint>);

/// A change, and whether the target spoils it, as a trigger there could.
type Change = (Image, bool);

#[derive(Debug, Clone)]
enum Answer {
    Summary(crate::Summary),
    Rows(Vec<KeyedFingerprint>),
}

#[derive(Debug)]
struct Running {
    order: Comparison,
    settled: usize,
    source: Option<Answer>,
    target: Option<Answer>,
    position: Option<usize>,
}

struct World {
    log: Vec<Change>,
    visible: usize,
    dispatched: usize,
    applied: usize,
    source: MemorySide,
    target: MemorySide,
    damaged: BTreeMap<Key, ()>,
    touched: Touched,
    pass: Pass,
    running: Vec<Running>,
    repairing: Vec<Repair>,
    ranges: Vec<KeyRange>,
    limits: PassLimits,
}

fn key(n: u8) -> Key {
    Key::new([KeyPart::Int(n.into())])
}

/// Mixes well: a sum of damaged rows must not look like a sum of good ones.
fn row(key: u8, value: u8) -> Fingerprint {
    let mut state = u64::from(key) << 8 | u64::from(value);
    Fingerprint::new(std::array::from_fn(|_| {
        state = (state ^ (state >> 29)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state.to_be_bytes()[0]
    }))
}

fn set(side: &MemorySide, (key, image): &Image) {
    match image {
        Some(row) => side.rows().insert(key.clone(), *row),
        None => side.rows().remove(key),
    };
}

fn ranges() -> Vec<KeyRange> {
    let borders = [None, Some(5), Some(9), Some(15), None];
    let bound = |n: Option<u8>| n.map(key);
    let pair = |w: &[Option<u8>]| KeyRange {
        lower: bound(w[0]),
        upper: bound(w[1]),
    };
    borders.windows(2).map(pair).collect()
}

fn answer(side: &MemorySide, what: &What) -> Answer {
    match what {
        What::Summary(range) => Answer::Summary(side.summary_now(range)),
        What::Page { range, limit } => Answer::Rows(side.page_now(range, *limit)),
        What::Keys(keys) => Answer::Rows(side.by_keys_now(keys)),
    }
}

impl World {
    fn new(damage: &[(u8, u8)], sizes: (usize, usize, usize)) -> Self {
        let rows = || (0..20).step_by(2).map(|n| (key(n), row(n, 0)));
        let (source, target) = (MemorySide::new(rows()), MemorySide::new(rows()));
        let mut damaged = BTreeMap::new();
        for (n, value) in damage {
            let image = (*value > 0).then(|| row(*n, 200 + value));
            set(&target, &(key(*n), image));
            if target.rows().get(&key(*n)) != source.rows().get(&key(*n)) {
                damaged.insert(key(*n), ());
            }
        }
        let mut touched = Touched::new(
            1,
            TouchedLimits {
                keys_max: sizes.0,
                window_keys_max: sizes.1,
            },
        );
        let limits = PassLimits {
            page_rows: 2.try_into().unwrap(),
            batch_keys: 2.try_into().unwrap(),
            remaining_max: sizes.2,
            rounds_max: u32::MAX,
        };
        let pass = Pass::full(limits, &mut touched);
        Self {
            log: Vec::new(),
            visible: 0,
            dispatched: 0,
            applied: 0,
            source,
            target,
            damaged,
            touched,
            pass,
            running: Vec::new(),
            repairing: Vec::new(),
            ranges: ranges(),
            limits,
        }
    }

    fn show(&mut self) {
        if let Some((image, _)) = self.log.get(self.visible) {
            set(&self.source, image);
            self.visible += 1;
        }
    }

    fn dispatch(&mut self) {
        if let Some(((key, _), _)) = self.log.get(self.dispatched) {
            self.touched.handle_change(0, key);
            self.dispatched += 1;
        }
    }

    fn apply(&mut self) {
        if self.applied < self.dispatched {
            let (image, is_spoiled) = &self.log[self.applied];
            set(&self.target, image);
            self.damaged.remove(&image.0);
            if *is_spoiled {
                set(&self.target, &(image.0.clone(), Some(row(255, 255))));
                self.damaged.insert(image.0.clone(), ());
            }
            self.applied += 1;
        }
    }

    /// Moves one comparison, or one repair, on by one step.
    fn advance(&mut self, pick: usize) {
        if let Some(repair) = self.repairing.pop() {
            self.repair(&repair);
            return;
        }
        if self.running.is_empty() {
            return;
        }
        let index = pick % self.running.len();
        let settled = self.running[index].settled;
        if self.visible < settled {
            return self.show();
        }
        if self.applied < settled {
            return self.apply();
        }
        let (log_end, dispatched) = (self.log.len(), self.dispatched);
        let run = &mut self.running[index];
        match (&run.source, &run.target, run.position) {
            (None, None, _) if pick.is_multiple_of(3) => {
                run.target = Some(answer(&self.target, &run.order.what));
            }
            (None, ..) => run.source = Some(answer(&self.source, &run.order.what)),
            (_, None, _) => run.target = Some(answer(&self.target, &run.order.what)),
            (_, _, None) => run.position = Some(log_end),
            (_, _, Some(position)) if dispatched < position => self.dispatch(),
            _ => {
                let run = self.running.swap_remove(index);
                self.report(run);
            }
        }
    }

    fn report(&mut self, run: Running) {
        let before = self.pass.found().listed().len();
        let (pass, touched) = (&mut self.pass, &mut self.touched);
        match (run.source.unwrap(), run.target.unwrap()) {
            (Answer::Summary(source), Answer::Summary(target)) => {
                pass.handle_summaries(run.order.window, touched, source, target);
            }
            (Answer::Rows(source), Answer::Rows(target)) => {
                pass.handle_fingerprints(run.order.window, touched, &source, &target);
            }
            mixed => panic!("{mixed:?}"),
        }
        for mismatch in &self.pass.found().listed()[before..] {
            let is_damaged = self.damaged.contains_key(&mismatch.key);
            assert!(is_damaged, "{mismatch} is no real difference");
        }
    }

    /// Copies what the source held when the last applied change committed.
    fn repair(&mut self, repair: &Repair) {
        let held = Self::new(&[], (1, 1, 1)).source;
        self.log[..self.applied]
            .iter()
            .for_each(|(image, _)| set(&held, image));
        self.target.rows().retain(|k, _| !repair.range.contains(k));
        self.damaged.retain(|k, ()| !repair.range.contains(k));
        for (key, row) in held.rows().iter().filter(|(k, _)| repair.range.contains(k)) {
            self.target.rows().insert(key.clone(), *row);
        }
        self.pass.handle_repaired(repair);
    }

    /// Asks for the next step; returns whether a clean pass ended.
    fn step(&mut self) -> bool {
        match self.pass.poll(&mut self.touched) {
            Step::Compare(order) => self.running.push(Running {
                order,
                settled: self.dispatched,
                source: None,
                target: None,
                position: None,
            }),
            Step::Repair(repair) => self.repairing.push(repair),
            Step::FindRange => match self.ranges.pop() {
                Some(range) => self.pass.handle_range(0, range),
                None => self.pass.handle_ranges_end(),
            },
            Step::Wait => {}
            Step::Done(Outcome::Clean) => return true,
            Step::Done(Outcome::Repaired) => {
                self.pass = Pass::full(self.limits, &mut self.touched);
                self.ranges = ranges();
            }
            Step::Done(other) => panic!("{other:?}"),
        }
        false
    }

    fn act(&mut self, action: (u8, u8, u8)) -> bool {
        match action {
            (0 | 1, n, value) => {
                let image = (value > 60).then(|| row(n % 20, value % 100));
                let is_spoiled = value.is_multiple_of(13);
                self.log.push(((key(n % 20), image), is_spoiled));
            }
            (2 | 3, ..) => self.show(),
            (4 | 5, ..) => self.dispatch(),
            (6 | 7, ..) => self.apply(),
            (8 | 9, ..) => return self.step(),
            (_, pick, _) => self.advance(pick.into()),
        }
        false
    }

    fn run_to_clean(&mut self) {
        for turn in 0..20_000 {
            if self.step() {
                return;
            }
            self.advance(turn);
        }
        panic!("the verification never ends");
    }

    /// The cutover: no more writes, all of the log applied, the rest compared.
    fn finish(&mut self) {
        while self.visible < self.log.len() {
            self.show();
        }
        while self.applied < self.log.len() {
            self.dispatch();
            self.apply();
        }
        if self.touched.uncovered().is_some() {
            // Too much changed since: the rest is compared without the lock.
            self.pass = Pass::changed(self.limits, &mut self.touched);
            self.run_to_clean();
        }
        while !self.is_equal_under_the_lock() {
            self.pass = Pass::changed(self.limits, &mut self.touched);
            self.run_to_clean();
        }
        assert_eq!(
            *self.source.rows(),
            *self.target.rows(),
            "a difference was missed"
        );
    }
}

impl World {
    fn is_equal_under_the_lock(&mut self) -> bool {
        let clean = self.pass.clean(&self.touched).expect("a clean pass");
        let rest = clean.remaining(&self.touched, 20).unwrap();
        let rows = |side: &MemorySide| side.by_keys_now(&rest[0]);
        let (source, target) = (rows(&self.source), rows(&self.target));
        clean.judge(&mut self.touched, &[(source, target)]).is_ok()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_difference_is_missed_and_none_is_invented(
        damage in prop::collection::vec((0u8..20, 0u8..3), 0..4),
        actions in prop::collection::vec((0u8..16, any::<u8>(), any::<u8>()), 0..400),
        sizes in (1usize..8, 1usize..6, 0usize..4),
    ) {
        let mut world = World::new(&damage, sizes);
        let is_clean = actions.into_iter().any(|action| world.act(action));
        if !is_clean {
            world.run_to_clean();
        }
        world.finish();
    }

    #[test]
    fn a_dropped_pass_loses_no_key(
        actions in prop::collection::vec((0u8..16, any::<u8>(), any::<u8>()), 0..300),
        more in prop::collection::vec((0u8..16, any::<u8>(), any::<u8>()), 0..100),
        sizes in (1usize..8, 1usize..6, 0usize..4),
    ) {
        let mut world = World::new(&[], sizes);
        let _ = actions.into_iter().any(|action| world.act(action));
        world.running.clear();
        world.pass = Pass::changed(world.limits, &mut world.touched);
        let is_clean = more.into_iter().any(|action| world.act(action));
        if !is_clean {
            world.run_to_clean();
        }
        world.finish();
    }
}

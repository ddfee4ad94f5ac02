//! Random interleavings of writes, dispatch, application and comparison.
//!
//! The model: one log of changes; the source shows a prefix of it, the stream
//! has dispatched a prefix, the target has applied a prefix. Some target rows
//! are damaged beforehand.
//!
//! Where only the servers know the keys' order, `2n` and `2n+1` are one key for
//! the source, as `'a'` and `'A'` are in a collation, and stand in an order that
//! has nothing to do with the numbers; the target may have another one.

use std::collections::{BTreeSet, VecDeque};

use oxferry_schema::{Key, KeyPart, KeyRange};
use proptest::prelude::*;

use crate::{
    Backward, Comparison, Fingerprint, KeyOrder, KeyedFingerprint, MemorySide, Outcome, Pass,
    PassLimits, Repair, RepairRows, Step, Touched, TouchedLimits, What,
};

type Image = (Key, Option<Fingerprint>);

/// A transaction, and whether the target spoils it, as a trigger there could.
type Change = (Vec<Image>, bool);

#[derive(Debug, Clone)]
enum Answer {
    Summary(crate::Summary),
    Rows(Vec<KeyedFingerprint>),
    Again(Vec<KeyedFingerprint>, Vec<KeyedFingerprint>),
}

#[derive(Debug)]
struct Running {
    order: Comparison,
    settled: usize,
    source: Option<Answer>,
    target: Option<Answer>,
    position: Option<usize>,
    /// What was damaged when the target was read.
    damaged: BTreeSet<Key>,
}

struct World {
    order: KeyOrder,
    log: Vec<Change>,
    visible: usize,
    dispatched: usize,
    applied: usize,
    source: MemorySide,
    target: MemorySide,
    touched: Touched,
    pass: Pass,
    running: Vec<Running>,
    repairing: Vec<Repair>,
    ranges: VecDeque<KeyRange>,
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

/// Where a key stands on a side.
type Place = fn(&Key) -> u64;

/// Where a number stands for the source, two and two together.
fn source_place(key: &Key) -> u64 {
    number(key) / 2 * 7 % 10
}

/// Where a number stands for a target with another order, each alone.
fn target_place(key: &Key) -> u64 {
    number(key) * 13 % 20
}

fn number(key: &Key) -> u64 {
    match key.parts() {
        [KeyPart::Int(n)] => u64::try_from(*n).unwrap(),
        _ => unreachable!(),
    }
}

/// Whether the server takes two keys for one.
fn is_same(place: Option<Place>, a: &Key, b: &Key) -> bool {
    place.map_or_else(|| a == b, |place| place(a) == place(b))
}

fn places(order: KeyOrder) -> [Option<Place>; 2] {
    match order {
        KeyOrder::Shared => [None, None],
        KeyOrder::Server => [Some(source_place), Some(source_place)],
        KeyOrder::Apart => [Some(source_place), Some(target_place)],
    }
}

fn side(place: Option<Place>) -> MemorySide {
    let side = MemorySide::new((0..20).step_by(2).map(|n| (key(n), row(n, 0))));
    match place {
        Some(place) => side.collated(place),
        None => side,
    }
}

/// Writes as a server does: a row takes the place of one with the same key.
fn set(side: &MemorySide, place: Option<Place>, (key, image): &Image) {
    side.rows().retain(|held, _| !is_same(place, held, key));
    if let Some(row) = image {
        side.rows().insert(key.clone(), *row);
    }
}

fn ranges(order: KeyOrder) -> VecDeque<KeyRange> {
    let mut keys: Vec<Key> = (0..20).map(key).collect();
    if let [Some(place), _] = places(order) {
        keys.sort_by_key(place);
        keys.dedup_by_key(|key| place(key));
    }
    let borders = [3, 5, 8].map(|at| keys.get(at).cloned());
    let bounds: Vec<_> = [None].into_iter().chain(borders).chain([None]).collect();
    let pair = |w: &[Option<Key>]| KeyRange {
        lower: w[0].clone(),
        upper: w[1].clone(),
    };
    bounds.windows(2).map(pair).collect()
}

fn answer(side: &MemorySide, what: &What) -> Answer {
    match what {
        What::Summary(range) => Answer::Summary(side.summary_now(range)),
        What::Page { range, limit }
        | What::Forward { range, limit }
        | What::Backward { range, limit } => Answer::Rows(side.page_now(range, *limit)),
        What::Keys(keys) => Answer::Rows(side.by_keys_now(keys)),
    }
}

fn keys_of(answer: &Option<Answer>) -> Vec<Key> {
    match answer {
        Some(Answer::Rows(rows)) => rows.iter().map(|(key, _)| key.clone()).collect(),
        other => panic!("{other:?}"),
    }
}

impl World {
    fn new(order: KeyOrder, damage: &[(u8, u8)], sizes: (usize, usize, usize)) -> Self {
        let [source_place, target_place] = places(order);
        let (source, target) = (side(source_place), side(target_place));
        for (n, value) in damage {
            let image = (*value > 0).then(|| row(*n, 200 + value));
            set(&target, target_place, &(key(*n), image));
        }
        let mut touched = Touched::new(
            [order],
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
            overflows_max: u32::MAX,
        };
        let pass = Pass::full(limits, &mut touched);
        Self {
            order,
            log: Vec::new(),
            visible: 0,
            dispatched: 0,
            applied: 0,
            source,
            target,
            touched,
            pass,
            running: Vec::new(),
            repairing: Vec::new(),
            ranges: ranges(order),
            limits,
        }
    }

    /// What the source held after so many transactions.
    fn held(&self, count: usize) -> MemorySide {
        let [place, _] = places(self.order);
        let held = side(place);
        let images = self.log[..count].iter().flat_map(|(images, _)| images);
        images.for_each(|image| set(&held, place, image));
        held
    }

    /// The keys whose rows on the target are not what was applied.
    fn damaged(&self) -> BTreeSet<Key> {
        let held = self.held(self.applied);
        let (held, target) = (held.rows(), self.target.rows());
        let keys = (0..20).map(key);
        keys.filter(|key| held.get(key) != target.get(key))
            .collect()
    }

    /// Writes a row; one whose key is the same for the source takes its place,
    /// in one transaction.
    fn write(&mut self, n: u8, image: Option<Fingerprint>, is_spoiled: bool) {
        let held = self.held(self.log.len());
        let [place, _] = places(self.order);
        let rows = held.rows();
        let other = rows.keys().find(|held| is_same(place, held, &key(n)));
        let other = other.filter(|other| **other != key(n)).cloned();
        drop(rows);
        let gone = other.map(|other| (other, None));
        let images = gone.into_iter().chain([(key(n), image)]).collect();
        self.log.push((images, is_spoiled));
    }

    fn show(&mut self) {
        if let Some((images, _)) = self.log.get(self.visible) {
            let [place, _] = places(self.order);
            images
                .iter()
                .for_each(|image| set(&self.source, place, image));
            self.visible += 1;
        }
    }

    fn dispatch(&mut self) {
        if let Some((images, _)) = self.log.get(self.dispatched) {
            for (key, _) in images {
                self.touched.handle_change(0, key);
            }
            self.dispatched += 1;
        }
    }

    fn apply(&mut self) {
        if self.applied < self.dispatched {
            let [_, place] = places(self.order);
            let (images, is_spoiled) = &self.log[self.applied];
            images
                .iter()
                .for_each(|image| set(&self.target, place, image));
            if let (true, Some((key, _))) = (is_spoiled, images.last()) {
                set(&self.target, place, &(key.clone(), Some(row(255, 255))));
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
        let damaged = self.damaged();
        let run = &mut self.running[index];
        let what = &run.order.what;
        let is_forward = matches!(what, What::Forward { .. });
        let is_backward = matches!(what, What::Backward { .. });
        match (&run.source, &run.target, run.position) {
            (None, None, _) if is_backward || !is_forward && pick.is_multiple_of(3) => {
                run.target = Some(answer(&self.target, what));
                run.damaged.extend(damaged);
            }
            (None, ..) if is_backward => {
                let rows = self.source.by_keys_now(&keys_of(&run.target));
                run.source = Some(Answer::Rows(rows));
            }
            (None, ..) => run.source = Some(answer(&self.source, what)),
            (_, None, _) if is_forward => {
                let rows = self.target.by_keys_now(&keys_of(&run.source));
                run.target = Some(Answer::Rows(rows));
                run.damaged.extend(damaged);
            }
            (_, None, _) => {
                run.target = Some(answer(&self.target, what));
                run.damaged.extend(damaged);
            }
            (Some(Answer::Rows(source)), Some(Answer::Rows(page)), _) if is_backward => {
                let again = Backward::doubtful(page, source);
                let again = self.target.by_keys_now(&again);
                run.target = Some(Answer::Again(page.clone(), again));
            }
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
        let window = run.order.window;
        match (run.source.unwrap(), run.target.unwrap()) {
            (Answer::Summary(source), Answer::Summary(target)) => {
                pass.handle_summaries(window, touched, source, target);
            }
            (Answer::Rows(source), Answer::Rows(target)) => {
                pass.handle_fingerprints(window, touched, &source, &target);
            }
            (Answer::Rows(source), Answer::Again(page, again)) => {
                let read = Backward {
                    page,
                    source,
                    again,
                };
                pass.handle_backward(window, touched, &read);
            }
            mixed => panic!("{mixed:?}"),
        }
        for mismatch in &self.pass.found().listed()[before..] {
            let is_damaged = run.damaged.contains(&mismatch.key);
            assert!(is_damaged, "{mismatch} is no real difference");
        }
    }

    /// Copies what the source held when the last applied change committed.
    fn repair(&mut self, repair: &Repair) {
        let held = self.held(self.applied);
        let [source_place, target_place] = places(self.order);
        let covers = |place, key: &Key| match &repair.rows {
            RepairRows::Range(range) => range.contains(key),
            RepairRows::Keys(keys) => keys.iter().any(|asked| is_same(place, asked, key)),
        };
        let mut rows = self.target.rows();
        rows.retain(|key, _| !covers(target_place, key));
        for (key, row) in held.rows().iter().filter(|(k, _)| covers(source_place, k)) {
            rows.insert(key.clone(), *row);
        }
        drop(rows);
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
                damaged: BTreeSet::new(),
            }),
            Step::Repair(repair) => self.repairing.push(repair),
            Step::FindRange => match self.ranges.pop_front() {
                Some(range) => self.pass.handle_range(&mut self.touched, 0, range),
                None => self.pass.handle_ranges_end(),
            },
            Step::Wait => {}
            Step::Done(Outcome::Clean) => return true,
            // The target spoils what is repaired: the job would end, and begin anew.
            Step::Done(Outcome::Repaired | Outcome::NotMended(_)) => {
                self.running.clear();
                self.repairing.clear();
                self.pass = Pass::full(self.limits, &mut self.touched);
                self.ranges = ranges(self.order);
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
                self.write(n % 20, image, is_spoiled);
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

const ORDERS: &[KeyOrder] = &[KeyOrder::Shared, KeyOrder::Server, KeyOrder::Apart];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_difference_is_missed_and_none_is_invented(
        order in prop::sample::select(ORDERS),
        damage in prop::collection::vec((0u8..20, 0u8..3), 0..4),
        actions in prop::collection::vec((0u8..16, any::<u8>(), any::<u8>()), 0..400),
        sizes in (1usize..8, 1usize..6, 0usize..4),
    ) {
        let mut world = World::new(order, &damage, sizes);
        let is_clean = actions.into_iter().any(|action| world.act(action));
        if !is_clean {
            world.run_to_clean();
        }
        world.finish();
    }

    #[test]
    fn a_dropped_pass_loses_no_key(
        order in prop::sample::select(ORDERS),
        actions in prop::collection::vec((0u8..16, any::<u8>(), any::<u8>()), 0..300),
        more in prop::collection::vec((0u8..16, any::<u8>(), any::<u8>()), 0..100),
        sizes in (1usize..8, 1usize..6, 0usize..4),
    ) {
        let mut world = World::new(order, &[], sizes);
        let _ = actions.into_iter().any(|action| world.act(action));
        world.running.clear();
        world.repairing.clear();
        world.pass = Pass::changed(world.limits, &mut world.touched);
        let is_clean = more.into_iter().any(|action| world.act(action));
        if !is_clean {
            world.run_to_clean();
        }
        world.finish();
    }
}

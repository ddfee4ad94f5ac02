//! What a writer does next: random, but decided here, without a connection.

use fastrand::Rng;

/// One statement of a transaction; keys are the writer's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A new row with this key, if there is none.
    Insert(u64),
    /// New values for the row with this key, if there is one.
    Update(u64),
    /// Another key for a row, if the first exists and the second doesn't.
    Move(u64, u64),
    /// No row with this key any more.
    Delete(u64),
    /// Two rows exchange their values of the secondary unique key.
    Swap(u64, u64),
}

/// A transaction to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// Whether it ends in ROLLBACK.
    pub(super) roll_back: bool,
}

/// The keys of writer `number` of `writers`: those with that remainder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys {
    number: u64,
    writers: u64,
    /// How many keys the writer has: the table's rows and a tenth more.
    count: u64,
}

impl Keys {
    pub(super) fn new(number: u32, writers: u32, rows: u64) -> Self {
        let writers = u64::from(writers.max(1));
        let range = rows + rows / 10 + 100;
        Self {
            number: u64::from(number),
            writers,
            count: range.div_ceil(writers),
        }
    }

    /// One of them; never 0, which `AUTO_INCREMENT` columns treat specially.
    fn any(&self, rng: &mut Rng) -> u64 {
        self.at(rng.u64(0..self.count))
    }

    /// One out of the highest tenth, most of which the loader left free.
    fn high(&self, rng: &mut Rng) -> u64 {
        self.at(rng.u64(self.count - self.count.div_ceil(10)..self.count))
    }

    fn at(&self, index: u64) -> u64 {
        (index + 1) * self.writers + self.number
    }
}

/// Chooses the next transaction.
pub(super) fn next(rng: &mut Rng, keys: Keys, swaps: bool) -> Plan {
    let length = if rng.u8(0..10) < 6 {
        1
    } else {
        rng.usize(2..=8)
    };
    let steps = (0..length).map(|_| step(rng, keys, swaps)).collect();
    Plan {
        steps,
        roll_back: rng.u8(0..20) == 0,
    }
}

fn step(rng: &mut Rng, keys: Keys, swaps: bool) -> Step {
    let key = keys.any(rng);
    match rng.u8(0..100) {
        // Holes are rare at first: without the high keys most inserts would meet a row.
        0..15 => Step::Insert(keys.high(rng)),
        15..25 => Step::Insert(key),
        25..65 => Step::Update(key),
        65..75 => Step::Move(key, keys.any(rng)),
        75..85 if swaps => Step::Swap(key, keys.any(rng)),
        75..85 => Step::Update(key),
        _ => Step::Delete(key),
    }
}

impl Plan {
    /// Every key that it may touch, each once.
    pub(super) fn keys(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for step in &self.steps {
            match step {
                Step::Insert(key) | Step::Update(key) | Step::Delete(key) => all.push(*key),
                Step::Move(one, two) | Step::Swap(one, two) => all.extend([*one, *two]),
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_never_share_a_key() {
        for number in 0..3 {
            let keys = Keys::new(number, 3, 50);
            let mut rng = Rng::with_seed(1);
            for _ in 0..500 {
                for key in next(&mut rng, keys, true).keys() {
                    assert_eq!(key % 3, u64::from(number));
                    assert!(key > 0);
                }
            }
        }
    }

    #[test]
    fn every_kind_of_step_and_both_ends_come_up() {
        let keys = Keys::new(0, 1, 100);
        let mut rng = Rng::with_seed(2);
        let plans: Vec<Plan> = (0..500).map(|_| next(&mut rng, keys, true)).collect();
        let has =
            |wanted: fn(&Step) -> bool| plans.iter().any(|plan| plan.steps.iter().any(wanted));
        assert!(has(|step| matches!(step, Step::Insert(_))));
        assert!(has(|step| matches!(step, Step::Update(_))));
        assert!(has(|step| matches!(step, Step::Move(..))));
        assert!(has(|step| matches!(step, Step::Delete(_))));
        assert!(has(|step| matches!(step, Step::Swap(..))));
        assert!(plans.iter().any(|plan| plan.roll_back));
        assert!(plans.iter().any(|plan| plan.steps.len() > 1));
    }

    #[test]
    fn a_table_without_a_unique_key_gets_no_swaps() {
        let mut rng = Rng::with_seed(3);
        let keys = Keys::new(0, 1, 100);
        let swap = |step: &Step| matches!(step, Step::Swap(..));
        assert!((0..500).all(|_| !next(&mut rng, keys, false).steps.iter().any(swap)));
    }
}

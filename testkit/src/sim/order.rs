//! How the simulated servers order a table's keys, and which are the same.

use oxferry_copier::engine::{KeyOrder, Mode, Repair};
use oxferry_schema::KeyRange;

use super::row::{key, number};

/// One table's keys, as the servers see them.
///
/// Where only they know the order, keys `2n` and `2n + 1` are one key to them,
/// as `'a'` and `'A'` are, and their order is none that could be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order(pub(super) KeyOrder);

/// There are no more keys that differ than this, a power of two.
const RANKS: i64 = 8;

impl Order {
    /// Returns what the engine is told: in *ranged* mode, that the client knows.
    pub(super) fn told(self, mode: Mode) -> KeyOrder {
        match mode {
            Mode::Ranged => KeyOrder::Client,
            Mode::Ordered => self.0,
        }
    }

    /// Returns the place of a key; keys that are the same have the same.
    pub(super) fn rank(self, number: i64) -> i64 {
        match self.0 {
            KeyOrder::Client => number,
            KeyOrder::Server => (number.div_euclid(2) * 3 + 2).rem_euclid(RANKS),
        }
    }

    /// Returns a key of a place, the second one where there are two and
    /// `second` says so.
    pub(super) fn at(self, rank: i64, second: bool) -> i64 {
        match self.0 {
            KeyOrder::Client => rank,
            // 3 * 3 is 1, modulo 8.
            KeyOrder::Server => (rank - 2).rem_euclid(RANKS) * 3 % RANKS * 2 + i64::from(second),
        }
    }

    /// Returns the place behind all keys below `keys`.
    pub(super) fn end(self, keys: i64) -> i64 {
        match self.0 {
            KeyOrder::Client => keys,
            KeyOrder::Server => RANKS,
        }
    }

    /// Returns whether two keys are the same to the servers.
    pub(super) fn same(self, a: i64, b: i64) -> bool {
        self.rank(a) == self.rank(b)
    }

    /// Returns whether a key lies in a range.
    pub(super) fn contains(self, range: &KeyRange, k: i64) -> bool {
        let rank = |bound| number(bound).map(|bound| self.rank(bound));
        let (lower, upper) = (rank(range.lower.as_ref()), rank(range.upper.as_ref()));
        lower.is_none_or(|lower| lower <= self.rank(k))
            && upper.is_none_or(|upper| self.rank(k) < upper)
    }

    /// Returns whether a row belongs to what is copied.
    pub(super) fn holds(self, what: &Repair, k: i64) -> bool {
        match what {
            Repair::Range(range) => self.contains(range, k),
            Repair::Keys(keys) => keys.iter().any(|held| match number(Some(held)) {
                Some(held) => self.same(held, k),
                None => *held == key(k),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_its_keys() {
        let order = Order(KeyOrder::Server);
        for k in 0..16 {
            assert_eq!(order.at(order.rank(k), k % 2 == 1), k);
            assert!(order.same(k, k ^ 1) && !order.same(k, k ^ 2));
        }
    }
}

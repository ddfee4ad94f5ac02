//! How much of a table has been compared.

use std::collections::BTreeMap;

use oxferry_schema::{Key, KeyRange};

use crate::{
    KeyOrder,
    compared::{Compared, RANGES_MAX},
};

/// What a pass has compared of one table, and what is left.
#[derive(Debug)]
pub(crate) enum Coverage {
    /// The client can tell which range holds a key.
    Located(Compared),
    /// It can't: any key may lie in any range.
    Handed(Handed),
}

/// Ranges whose order only the server knows; two of them are neighbours where
/// one ends with the key that the other one begins with.
#[derive(Debug)]
pub(crate) struct Handed {
    /// Whether anything was compared.
    is_begun: bool,
    /// Those compared, lower to upper bound.
    done: BTreeMap<Option<Key>, Option<Key>>,
    /// Those handed out and not compared yet.
    open: Vec<KeyRange>,
    /// What is not handed out yet; ranges come in the source's order.
    rest: Option<KeyRange>,
    /// What is left of the target to look through for rows that the source
    /// doesn't have, in the target's own order.
    back: Option<KeyRange>,
    is_back_open: bool,
    is_apart: bool,
}

impl Coverage {
    /// Begins with nothing compared.
    pub(crate) fn new(order: KeyOrder) -> Self {
        match order {
            KeyOrder::Shared => Self::Located(Compared::default()),
            KeyOrder::Server | KeyOrder::Apart => {
                Self::Handed(Handed::new(order == KeyOrder::Apart))
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn restart(&mut self) {
        match self {
            Self::Located(compared) => *compared = Compared::default(),
            Self::Handed(handed) => *handed = Handed::new(handed.is_apart),
        }
    }

    /// Returns whether `key` may lie in what was compared.
    pub(crate) fn may_hold(&self, key: &Key) -> bool {
        match self {
            Self::Located(compared) => compared.find(key).is_some(),
            Self::Handed(handed) => handed.is_begun,
        }
    }

    /// Returns whether a key's range can be told.
    pub(crate) const fn is_located(&self) -> bool {
        matches!(self, Self::Located(_))
    }

    /// Returns whether the target is looked through as a whole.
    pub(crate) const fn is_apart(&self) -> bool {
        matches!(self, Self::Handed(handed) if handed.is_apart)
    }

    /// Records that `range` is now to be compared.
    pub(crate) fn hand_out(&mut self, range: &KeyRange) {
        if let Self::Handed(handed) = self {
            handed.hand_out(range);
        }
    }

    /// Records that a part of a range that was handed out is compared.
    pub(crate) const fn begin(&mut self) {
        if let Self::Handed(handed) = self {
            handed.is_begun = true;
        }
    }

    /// Records that `range` is compared, in whole.
    pub(crate) fn insert(&mut self, range: KeyRange) {
        match self {
            Self::Located(compared) => compared.insert(range),
            Self::Handed(handed) => handed.insert(range),
        }
    }

    /// Returns what isn't compared, and counts all of it as handed out.
    pub(crate) fn take_gaps(&mut self) -> Vec<KeyRange> {
        match self {
            Self::Located(compared) => compared.gaps(),
            Self::Handed(handed) => {
                handed.is_back_open = false;
                handed.open.extend(handed.rest.take());
                handed.open.clone()
            }
        }
    }

    /// Returns whether every key there can be was compared.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Located(compared) => compared.is_whole(),
            Self::Handed(handed) => {
                handed.open.is_empty() && handed.rest.is_none() && handed.back.is_none()
            }
        }
    }

    /// Takes what is left to look through on the target, if anything is, and
    /// nobody is at it: until [`Coverage::take_gaps`], the pass that took it.
    pub(crate) fn open_back(&mut self) -> Option<KeyRange> {
        let Self::Handed(handed) = self else {
            return None;
        };
        let back = handed.back.clone().filter(|_| !handed.is_back_open)?;
        handed.is_back_open = true;
        Some(back)
    }

    /// Records what is left to look through on the target.
    pub(crate) fn set_back(&mut self, left: Option<KeyRange>) {
        if let Self::Handed(handed) = self {
            handed.back = left;
        }
    }
}

impl Handed {
    fn new(is_apart: bool) -> Self {
        Self {
            is_begun: false,
            done: BTreeMap::new(),
            open: Vec::new(),
            rest: Some(KeyRange::ALL),
            back: is_apart.then_some(KeyRange::ALL),
            is_back_open: false,
            is_apart,
        }
    }

    /// Counts everything compared as not compared, and returns those ranges.
    pub(crate) fn forget(&mut self) -> Vec<KeyRange> {
        self.is_begun = false;
        // Whoever is at it notices, and begins anew.
        self.is_back_open &= self.back.is_some();
        self.back = self.is_apart.then_some(KeyRange::ALL);
        let done = std::mem::take(&mut self.done).into_iter();
        let done: Vec<KeyRange> = done
            .map(|(lower, upper)| KeyRange { lower, upper })
            .collect();
        self.open.extend(done.iter().cloned());
        done
    }

    fn hand_out(&mut self, range: &KeyRange) {
        let Some(rest) = &self.rest else {
            return;
        };
        // A range that begins elsewhere leaves a gap, which is never compared.
        if rest.lower == range.lower {
            self.rest = range.upper.as_ref().map(|upper| KeyRange {
                lower: Some(upper.clone()),
                upper: None,
            });
            self.open.push(range.clone());
        }
    }

    fn insert(&mut self, range: KeyRange) {
        self.is_begun = true;
        let Some(at) = self.open.iter().position(|open| *open == range) else {
            return;
        };
        self.open.swap_remove(at);
        self.done.insert(range.lower, range.upper);
        if self.done.len() > RANGES_MAX {
            self.merge_neighbours();
        }
    }

    fn merge_neighbours(&mut self) {
        let mut left = std::mem::take(&mut self.done);
        while let Some((lower, mut upper)) = left.pop_first() {
            while upper.is_some()
                && let Some(behind) = left.remove(&upper).or_else(|| self.done.remove(&upper))
            {
                upper = behind;
            }
            self.done.insert(lower, upper);
        }
    }
}

#[cfg(test)]
mod tests {
    use oxferry_schema::KeyPart;

    use super::*;

    fn text(text: &str) -> Key {
        Key::new([KeyPart::Text(text.as_bytes().into())])
    }

    fn range(lower: Option<&str>, upper: Option<&str>) -> KeyRange {
        KeyRange {
            lower: lower.map(text),
            upper: upper.map(text),
        }
    }

    #[test]
    fn ranges_in_an_order_that_nobody_knows_cover_a_table() {
        // In a collation, 'B' stands behind 'a'; as bytes, it stands before.
        let mut coverage = Coverage::new(KeyOrder::Server);
        let all = [
            range(None, Some("a")),
            range(Some("a"), Some("B")),
            range(Some("B"), None),
        ];
        assert!(!coverage.may_hold(&text("x")));
        all[..2].iter().for_each(|range| coverage.hand_out(range));
        coverage.insert(all[1].clone());
        assert!(coverage.may_hold(&text("x")) && !coverage.is_whole());
        assert_eq!(coverage.take_gaps(), [all[0].clone(), all[2].clone()]);
        coverage.insert(all[0].clone());
        coverage.insert(all[2].clone());
        assert!(coverage.is_whole());
    }

    #[test]
    fn a_range_that_leaves_a_gap_is_never_the_whole_table() {
        let mut coverage = Coverage::new(KeyOrder::Server);
        let all = [range(None, Some("a")), range(Some("b"), None)];
        all.iter().for_each(|range| coverage.hand_out(range));
        all.iter().for_each(|range| coverage.insert(range.clone()));
        assert!(!coverage.is_whole());
        assert_eq!(coverage.take_gaps(), [range(Some("a"), None)]);
    }

    #[test]
    fn many_ranges_are_merged_and_none_is_lost() {
        let mut handed = Handed::new(false);
        // Every second one first, so that neighbours meet late.
        let count = RANGES_MAX * 2;
        let key = |n: usize| Some(Key::new([KeyPart::Int(i128::try_from(n).unwrap())]));
        let piece = |n: usize| KeyRange {
            lower: if n == 0 { None } else { key(n) },
            upper: if n + 1 == count { None } else { key(n + 1) },
        };
        (0..count).for_each(|n| handed.hand_out(&piece(n)));
        (0..count).rev().for_each(|n| handed.insert(piece(n)));
        assert!(handed.done.len() <= RANGES_MAX && handed.open.is_empty());
        let done = handed.forget();
        assert_eq!(done.iter().filter(|range| range.lower.is_none()).count(), 1);
        assert_eq!(handed.open, done);
    }

    #[test]
    fn a_target_in_another_order_is_looked_through_as_well() {
        let mut coverage = Coverage::new(KeyOrder::Apart);
        coverage.hand_out(&KeyRange::ALL);
        coverage.insert(KeyRange::ALL);
        assert!(!coverage.is_whole());
        assert_eq!(coverage.open_back(), Some(KeyRange::ALL));
        assert_eq!(coverage.open_back(), None);
        coverage.set_back(Some(range(Some("q"), None)));
        assert!(coverage.take_gaps().is_empty());
        assert_eq!(coverage.open_back(), Some(range(Some("q"), None)));
        coverage.set_back(None);
        assert!(coverage.is_whole());
    }
}

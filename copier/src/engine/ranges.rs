//! Sets of disjoint key ranges, each with something attached.

use std::collections::BTreeMap;
use std::ops::Bound;

use oxferry_schema::{Key, KeyRange};

/// Disjoint ranges by their lower bound, each with a value.
#[derive(Clone, Debug)]
pub(super) struct RangeMap<T> {
    /// The range without a lower bound, by its upper one.
    first: Option<(Option<Key>, T)>,
    rest: BTreeMap<Key, (Option<Key>, T)>,
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self {
            first: None,
            rest: BTreeMap::new(),
        }
    }
}

impl<T> RangeMap<T> {
    /// Adds a range, which must not overlap those already in.
    pub(super) fn insert(&mut self, range: KeyRange, value: T) {
        let KeyRange { lower, upper } = range;
        match lower {
            None => self.first = Some((upper, value)),
            Some(lower) => {
                self.rest.insert(lower, (upper, value));
            }
        }
    }

    /// Takes out the range that begins at `lower`.
    pub(super) fn remove(&mut self, lower: Option<&Key>) -> Option<(Option<Key>, T)> {
        match lower {
            None => self.first.take(),
            Some(lower) => self.rest.remove(lower),
        }
    }

    /// Returns the value of the range that holds `key`.
    pub(super) fn find(&self, key: &Key) -> Option<&T> {
        let (upper, value) = self.at_or_before(Some(key))?;
        reaches_past(upper.as_ref(), key).then_some(value)
    }

    /// Returns whether a range shares a key with `range`.
    pub(super) fn overlaps(&self, range: &KeyRange) -> bool {
        let before = self
            .at_or_before(range.lower.as_ref())
            .is_some_and(|(upper, _)| match &range.lower {
                Some(lower) => reaches_past(upper.as_ref(), lower),
                None => true,
            });
        let start = range
            .lower
            .as_ref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let inside = self.rest.range::<Key, _>((start, Bound::Unbounded)).next();
        before || inside.is_some_and(|(lower, _)| reaches_past(range.upper.as_ref(), lower))
    }

    /// Returns the values, in key order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        let first = self.first.iter().map(|(_, value)| value);
        first.chain(self.rest.values().map(|(_, value)| value))
    }

    /// Returns the ranges in key order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = KeyRange> + '_ {
        let first = self.first.iter().map(|(upper, _)| KeyRange {
            lower: None,
            upper: upper.clone(),
        });
        first.chain(self.rest.iter().map(|(lower, (upper, _))| KeyRange {
            lower: Some(lower.clone()),
            upper: upper.clone(),
        }))
    }

    /// Returns the last range that begins at `lower` or before it.
    fn at_or_before(&self, lower: Option<&Key>) -> Option<&(Option<Key>, T)> {
        let Some(lower) = lower else {
            return self.first.as_ref();
        };
        let bounds = (Bound::Unbounded, Bound::Included(lower));
        let found = self.rest.range::<Key, _>(bounds).next_back();
        found.map(|(_, found)| found).or(self.first.as_ref())
    }
}

/// Keys that are covered, as few disjoint ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeSet(RangeMap<()>);

impl RangeSet {
    /// Covers the keys of `range` too; ranges that touch become one.
    pub(super) fn insert(&mut self, range: KeyRange) {
        let mut merged = range;
        for old in self.touching(&merged) {
            self.0.remove(old.lower.as_ref());
            merged = hull(merged, old);
        }
        self.0.insert(merged, ());
    }

    /// Covers the keys of `range` no longer.
    pub(super) fn remove(&mut self, range: &KeyRange) {
        for old in self.touching(range) {
            self.0.remove(old.lower.as_ref());
            for left in minus(old, range) {
                self.0.insert(left, ());
            }
        }
    }

    /// Returns whether `key` is covered.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.find(key).is_some()
    }

    /// Returns whether every key of `range` is covered.
    pub(super) fn covers(&self, range: &KeyRange) -> bool {
        self.0.ranges_around(range).any(|held| {
            let from = held.lower.is_none() || range.lower.is_some() && held.lower <= range.lower;
            let to = match (&held.upper, &range.upper) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(held), Some(wanted)) => wanted <= held,
            };
            from && to
        })
    }

    /// Returns the covered ranges in key order, no two of which touch.
    pub(super) fn to_vec(&self) -> Vec<KeyRange> {
        self.0.ranges().collect()
    }

    /// Returns the ranges that overlap `range` or end or begin where it does.
    fn touching(&self, range: &KeyRange) -> Vec<KeyRange> {
        self.0.ranges_around(range).collect()
    }
}

impl<T> RangeMap<T> {
    /// Returns the ranges that overlap or touch `range`, in key order.
    fn ranges_around<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = KeyRange> + 'a {
        let start = self.start_before(range.lower.as_ref());
        let rest = self.rest.range::<Key, _>((start, Bound::Unbounded));
        let rest = rest
            .map(|(lower, (upper, _))| KeyRange {
                lower: Some(lower.clone()),
                upper: upper.clone(),
            })
            .take_while(|held| !before(range.upper.as_ref(), held.lower.as_ref()));
        let first = self.first.iter().map(|(upper, _)| KeyRange {
            lower: None,
            upper: upper.clone(),
        });
        first
            .chain(rest)
            .filter(|held| !before(held.upper.as_ref(), range.lower.as_ref()))
    }

    /// Returns where the last range at or before `lower` begins.
    fn start_before<'a>(&'a self, lower: Option<&'a Key>) -> Bound<&'a Key> {
        let Some(lower) = lower else {
            return Bound::Unbounded;
        };
        let bounds = (Bound::Unbounded, Bound::Included(lower));
        let last = self.rest.range::<Key, _>(bounds).next_back();
        last.map_or(Bound::Unbounded, |(lower, _)| Bound::Included(lower))
    }
}

/// Returns whether a range up to `upper` goes beyond `key`, which lies at or
/// after its lower bound.
fn reaches_past(upper: Option<&Key>, key: &Key) -> bool {
    upper.is_none_or(|upper| key < upper)
}

/// Returns whether an upper bound lies before a lower one, with keys between.
fn before(upper: Option<&Key>, lower: Option<&Key>) -> bool {
    matches!((upper, lower), (Some(upper), Some(lower)) if upper < lower)
}

/// Returns the smallest range that holds both.
fn hull(a: KeyRange, b: KeyRange) -> KeyRange {
    KeyRange {
        // `None` sorts before every lower bound, as it should.
        lower: a.lower.min(b.lower),
        upper: a.upper.zip(b.upper).map(|(a, b)| a.max(b)),
    }
}

/// Returns what is left of `range` without the keys of `gone`.
fn minus(range: KeyRange, gone: &KeyRange) -> impl Iterator<Item = KeyRange> {
    let head = gone.lower.as_ref().map(|lower| KeyRange {
        lower: range.lower.clone(),
        upper: range.upper.iter().chain([lower]).min().cloned(),
    });
    let tail = gone.upper.as_ref().map(|upper| KeyRange {
        lower: range.lower.iter().chain([upper]).max().cloned(),
        upper: range.upper.clone(),
    });
    [head, tail]
        .into_iter()
        .flatten()
        .filter(|left| !is_void(left))
}

/// Returns whether no key can lie in `range`.
fn is_void(range: &KeyRange) -> bool {
    matches!((&range.lower, &range.upper), (Some(lower), Some(upper)) if upper <= lower)
}

#[cfg(test)]
mod tests {
    use oxferry_schema::KeyPart;
    use proptest::prelude::*;

    use super::*;

    const KEYS: i128 = 12;

    fn key(number: i128) -> Key {
        Key::new([KeyPart::Int(number)])
    }

    fn bound() -> impl Strategy<Value = Option<i128>> {
        prop_oneof![1 => Just(None), 4 => (0..KEYS).prop_map(Some)]
    }

    fn range() -> impl Strategy<Value = KeyRange> {
        let bounds = (bound(), bound()).prop_filter("empty", |(lower, upper)| {
            lower.zip(*upper).is_none_or(|(lower, upper)| lower < upper)
        });
        bounds.prop_map(|(lower, upper)| KeyRange {
            lower: lower.map(key),
            upper: upper.map(key),
        })
    }

    /// The keys of a range, with one before and one behind all bounds.
    fn keys(range: &KeyRange) -> Vec<i128> {
        (-1..=KEYS).filter(|k| range.contains(&key(*k))).collect()
    }

    proptest! {
        #[test]
        fn a_set_covers_what_was_put_in_and_not_taken_out(
            steps in prop::collection::vec((any::<bool>(), range()), 1..12),
            asked in range(),
        ) {
            let mut set = RangeSet::default();
            let mut model = std::collections::BTreeSet::new();
            for (adds, range) in steps {
                if adds {
                    model.extend(keys(&range));
                    set.insert(range);
                } else {
                    model.retain(|k| !range.contains(&key(*k)));
                    set.remove(&range);
                }
            }
            for k in -1..=KEYS {
                prop_assert_eq!(set.contains(&key(k)), model.contains(&k), "{}", k);
            }
            let covers = keys(&asked).iter().all(|k| model.contains(k));
            prop_assert_eq!(set.covers(&asked), covers);
        }

        #[test]
        fn covered_ranges_are_in_key_order_and_do_not_touch(
            ranges in prop::collection::vec(range(), 1..8),
        ) {
            let mut set = RangeSet::default();
            for range in ranges {
                set.insert(range);
            }
            for pair in set.to_vec().windows(2) {
                prop_assert!(pair[0].upper.is_some() && pair[0].upper < pair[1].lower, "{:?}", pair);
            }
        }

        #[test]
        fn a_map_finds_overlaps_and_the_range_of_a_key(
            ranges in prop::collection::vec(range(), 1..8),
            asked in range(),
        ) {
            let mut map = RangeMap::default();
            let mut held: Vec<KeyRange> = Vec::new();
            for range in ranges {
                let overlaps = held.iter().any(|h| keys(h).iter().any(|k| range.contains(&key(*k))));
                prop_assert_eq!(map.overlaps(&range), overlaps);
                if !overlaps {
                    map.insert(range.clone(), held.len());
                    held.push(range);
                }
            }
            for k in keys(&asked) {
                let expected = held.iter().position(|range| range.contains(&key(k)));
                prop_assert_eq!(map.find(&key(k)).copied(), expected);
            }
        }
    }
}

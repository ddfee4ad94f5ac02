//! Which ranges of a table have been compared.

use std::collections::BTreeMap;

use oxferry_schema::{Key, KeyRange};

/// Disjoint ranges of one table, in key order.
///
/// Keeps about the ranges that were put in, so that one of them can be taken
/// out again without taking out all; neighbours are merged only when there
/// are more than [`RANGES_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Lower bound to upper bound; `None` below sorts first, above is open.
    ranges: BTreeMap<Option<Key>, Option<Key>>,
}

impl Compared {
    /// Puts a range in that overlaps none that is there.
    pub(crate) fn insert(&mut self, range: KeyRange) {
        if range.lower.is_some() && range.lower == range.upper {
            return;
        }
        self.ranges.insert(range.lower, range.upper);
        if self.ranges.len() > RANGES_MAX {
            self.merge_pairs();
        }
    }

    /// Takes out exactly the range that starts at `lower`.
    pub(crate) fn remove(&mut self, lower: &Option<Key>) {
        self.ranges.remove(lower);
    }

    /// Returns the range that holds `key`.
    pub(crate) fn find(&self, key: &Key) -> Option<KeyRange> {
        let (lower, upper) = self.ranges.range(..=Some(key.clone())).next_back()?;
        upper
            .as_ref()
            .is_none_or(|upper| key < upper)
            .then(|| KeyRange {
                lower: lower.clone(),
                upper: upper.clone(),
            })
    }

    /// Returns the ranges between, before and behind those that were put in.
    pub(crate) fn gaps(&self) -> Vec<KeyRange> {
        let mut gaps = Vec::new();
        let mut reached: Option<&Option<Key>> = None;
        for (lower, upper) in &self.ranges {
            let from = reached.unwrap_or(&None);
            if from != lower {
                gaps.push(KeyRange {
                    lower: from.clone(),
                    upper: lower.clone(),
                });
            }
            reached = Some(upper);
        }
        match reached {
            None => gaps.push(KeyRange::ALL),
            Some(None) => {}
            Some(last) => gaps.push(KeyRange {
                lower: last.clone(),
                upper: None,
            }),
        }
        gaps
    }

    /// Returns whether every key there can be lies in a range.
    pub(crate) fn is_whole(&self) -> bool {
        self.gaps().is_empty()
    }

    fn merge_pairs(&mut self) {
        let mut merged: BTreeMap<Option<Key>, Option<Key>> = BTreeMap::new();
        let mut single: Option<(Option<Key>, Option<Key>)> = None;
        for (lower, upper) in std::mem::take(&mut self.ranges) {
            single = match single.take() {
                Some((first, border)) if border == lower => {
                    merged.insert(first, upper);
                    None
                }
                Some((first, border)) => {
                    merged.insert(first, border);
                    Some((lower, upper))
                }
                None => Some((lower, upper)),
            };
        }
        merged.extend(single);
        self.ranges = merged;
    }
}

/// The most ranges kept apart: 4,096 of them take below a megabyte, and one of
/// them is then a small part of even a very large table.
pub(crate) const RANGES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use oxferry_schema::KeyPart;

    use super::*;

    fn key(n: i128) -> Key {
        Key::new([KeyPart::Int(n)])
    }

    fn range(lower: Option<i128>, upper: Option<i128>) -> KeyRange {
        KeyRange {
            lower: lower.map(key),
            upper: upper.map(key),
        }
    }

    #[test]
    fn a_key_is_found_in_its_range_only() {
        let mut compared = Compared::default();
        compared.insert(range(Some(3), Some(5)));
        assert_eq!(compared.find(&key(2)), None);
        assert_eq!(compared.find(&key(3)), Some(range(Some(3), Some(5))));
        assert_eq!(compared.find(&key(5)), None);
    }

    #[test]
    fn gaps_are_what_is_left() {
        let mut compared = Compared::default();
        assert_eq!(compared.gaps(), [KeyRange::ALL]);
        compared.insert(range(Some(3), Some(5)));
        assert_eq!(
            compared.gaps(),
            [range(None, Some(3)), range(Some(5), None)]
        );
        compared.insert(range(None, Some(3)));
        compared.insert(range(Some(7), None));
        assert_eq!(compared.gaps(), [range(Some(5), Some(7))]);
        compared.insert(range(Some(5), Some(7)));
        assert!(compared.is_whole());
    }

    #[test]
    fn many_ranges_are_merged_and_none_is_lost() {
        let mut compared = Compared::default();
        let count = i128::try_from(RANGES_MAX).unwrap() * 3;
        compared.insert(range(None, Some(0)));
        for n in 0..count {
            compared.insert(range(Some(n), Some(n + 1)));
        }
        compared.insert(range(Some(count), None));
        assert!(compared.ranges.len() <= RANGES_MAX);
        assert!(compared.is_whole());
    }
}

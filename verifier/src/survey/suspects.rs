//! Rows that may differ.

use std::collections::BTreeMap;

use oxferry_schema::Key;

use crate::{
    Mismatch, MismatchKind,
    fingerprint::{Fingerprint, KeyedFingerprint},
};

/// Rows of one table that differed when they were last looked at.
///
/// Holds no connection and no clock: whoever does reads both sides' rows of
/// [`Suspects::keys`], with some time between two looks.
#[derive(Debug, Default)]
pub struct Suspects {
    table: usize,
    rows: BTreeMap<Key, Sighting>,
}

/// What a look at the suspects showed in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "two answers")]
pub struct Look {
    /// Rows that differ, and were the same on either side at two looks.
    pub different: Vec<Mismatch>,
    /// Rows that differed at every look, and were changed between the last two:
    /// nothing is known of them.
    pub changing: Vec<Mismatch>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sighting {
    source: Option<Fingerprint>,
    target: Option<Fingerprint>,
    /// Whether the look before showed the same.
    steady: bool,
}

impl Suspects {
    /// Suspects nothing yet of a table, an index into the caller's list.
    #[must_use]
    pub fn new(table: usize) -> Self {
        Self {
            table,
            rows: BTreeMap::new(),
        }
    }

    /// Takes up a row that differs.
    pub fn handle_found(&mut self, found: Mismatch) {
        let (source, target) = (found.source, found.target);
        let seen = Sighting {
            source,
            target,
            steady: false,
        };
        self.rows.insert(found.key, seen);
    }

    /// Takes up a key of which nothing is known but that it differed: after an
    /// interruption.
    pub fn handle_key(&mut self, key: Key) {
        self.rows.entry(key).or_default();
    }

    /// Takes what another look showed, on both sides, for all of
    /// [`Suspects::keys`]. Rows that are equal now are no suspects any more.
    pub fn handle_look(&mut self, source: &[KeyedFingerprint], target: &[KeyedFingerprint]) {
        let source: BTreeMap<_, _> = source.iter().cloned().collect();
        let target: BTreeMap<_, _> = target.iter().cloned().collect();
        self.rows.retain(|key, seen| {
            let (source, target) = (source.get(key).copied(), target.get(key).copied());
            *seen = Sighting {
                source,
                target,
                steady: (seen.source, seen.target) == (source, target),
            };
            source != target
        });
    }

    /// Returns the keys to look at.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.rows.keys().cloned().collect()
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes all of them out, judged by the last look.
    pub fn judge(&mut self) -> Look {
        let mut look = Look::default();
        for (key, seen) in std::mem::take(&mut self.rows) {
            let kind = match (seen.source, seen.target) {
                (Some(_), Some(_)) => MismatchKind::Different,
                (Some(_), None) => MismatchKind::MissingOnTarget,
                (None, _) => MismatchKind::MissingOnSource,
            };
            let found = Mismatch {
                table: self.table,
                key,
                kind,
                source: seen.source,
                target: seen.target,
            };
            if seen.steady {
                look.different.push(found);
            } else {
                look.changing.push(found);
            }
        }
        look
    }
}

#[cfg(test)]
mod tests {
    use oxferry_schema::KeyPart;

    use super::*;
    use crate::mismatch::differences;

    fn row(key: i128, value: u8) -> KeyedFingerprint {
        (Key::new([KeyPart::Int(key)]), Fingerprint::new([value; 32]))
    }

    fn suspects(source: &[KeyedFingerprint], target: &[KeyedFingerprint]) -> Suspects {
        let mut suspects = Suspects::new(3);
        for found in differences(3, source, target, |_| true) {
            suspects.handle_found(found);
        }
        suspects
    }

    #[test]
    fn what_arrives_late_does_not_differ() {
        let mut suspects = suspects(&[row(1, 1), row(2, 1)], &[row(2, 0)]);
        assert_eq!(suspects.len(), 2);
        suspects.handle_look(&[row(1, 1)], &[row(1, 1)]);
        assert!(suspects.is_empty());
        assert_eq!(suspects.judge(), Look::default());
    }

    #[test]
    fn what_stays_as_it_is_differs() {
        let mut suspects = suspects(&[row(1, 1)], &[row(2, 1)]);
        suspects.handle_look(&[row(1, 1)], &[row(2, 1)]);
        let look = suspects.judge();
        let kinds: Vec<_> = look.different.iter().map(|found| found.kind).collect();
        assert_eq!(
            kinds,
            [MismatchKind::MissingOnTarget, MismatchKind::MissingOnSource]
        );
        assert_eq!((look.changing, look.different[0].table), (Vec::new(), 3));
        assert!(suspects.is_empty());
    }

    #[test]
    fn what_changes_between_looks_is_not_judged() {
        let mut suspects = suspects(&[row(1, 1)], &[]);
        suspects.handle_look(&[row(1, 2)], &[row(1, 1)]);
        let look = suspects.judge();
        assert_eq!((look.different.len(), look.changing.len()), (0, 1));
    }

    #[test]
    fn a_key_taken_up_again_needs_two_looks() {
        let mut suspects = Suspects::new(0);
        suspects.handle_key(row(1, 0).0);
        suspects.handle_look(&[row(1, 1)], &[]);
        suspects.handle_look(&[row(1, 1)], &[]);
        assert_eq!(suspects.judge().different.len(), 1);
    }
}

//! Rows that differ.

use std::{collections::BTreeMap, fmt};

use oxferry_schema::{Key, TableName};

use crate::fingerprint::{Fingerprint, KeyedFingerprint};

/// One row that really differs: no change was under way for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a plain report")]
pub struct Mismatch {
    /// The table, as an index into the job's tables.
    pub table: usize,
    /// The row's key.
    pub key: Key,
    /// How the two sides differ.
    pub kind: MismatchKind,
    /// The source's row, if there is one.
    pub source: Option<Fingerprint>,
    /// The target's row, if there is one.
    pub target: Option<Fingerprint>,
}

/// How two sides differ in one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no fourth way")]
pub enum MismatchKind {
    /// The source has a row, the target has none.
    MissingOnTarget,
    /// The target has a row, the source has none.
    MissingOnSource,
    /// Both have a row, with different values.
    Different,
}

impl Mismatch {
    /// Reports a row that the target alone has.
    pub(crate) const fn surplus(table: usize, key: Key, row: Fingerprint) -> Self {
        Self {
            table,
            key,
            kind: MismatchKind::MissingOnSource,
            source: None,
            target: Some(row),
        }
    }
}

impl fmt::Display for Mismatch {
    /// Writes `key 7 is different: source 3f…, target 9a…`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}

impl Mismatch {
    /// Writes it with what stands behind the key, which names its table.
    fn write(&self, f: &mut fmt::Formatter<'_>, of_table: &str) -> fmt::Result {
        let kind = match self.kind {
            MismatchKind::MissingOnTarget => "missing on the target",
            MismatchKind::MissingOnSource => "missing on the source",
            MismatchKind::Different => "different",
        };
        write!(f, "key {}{of_table} is {kind}: ", self.key)?;
        let side = |f: &mut fmt::Formatter<'_>, row: &Option<Fingerprint>| match row {
            Some(row) => write!(f, "{row}"),
            None => f.write_str("no row"),
        };
        f.write_str("source ")?;
        side(f, &self.source)?;
        f.write_str(", target ")?;
        side(f, &self.target)
    }
}

/// Mismatches, the first of them by name, all of them by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatches {
    listed: Vec<Mismatch>,
    count: u64,
    /// The tables' names, for whoever reads it; none while they aren't known.
    names: Vec<TableName>,
}

impl Mismatches {
    /// The most mismatches that are kept by name: enough to see a pattern.
    pub const LISTED_MAX: usize = 200;

    /// Returns the first mismatches, [`Mismatches::LISTED_MAX`] at most.
    #[must_use]
    pub fn listed(&self) -> &[Mismatch] {
        &self.listed
    }

    /// Returns how many there were, exactly.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether there was none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Says what the tables are called, in the job's order.
    pub(crate) fn name(&mut self, names: &[TableName]) {
        names.clone_into(&mut self.names);
    }

    /// Adds some more.
    pub(crate) fn extend(&mut self, more: impl IntoIterator<Item = Mismatch>) {
        for mismatch in more {
            self.count += 1;
            if self.listed.len() < Self::LISTED_MAX {
                self.listed.push(mismatch);
            }
        }
    }
}

impl fmt::Display for Mismatches {
    /// Writes the number, then the first mismatches, one after the other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows differ", self.count)?;
        for mismatch in self.listed.iter().take(SHOWN_MAX) {
            f.write_str("; ")?;
            let of_table = match self.names.get(mismatch.table) {
                Some(name) => format!(" of {}", name.plain()),
                None => format!(" of table {}", mismatch.table),
            };
            mismatch.write(f, &of_table)?;
        }
        if self.listed.len() > SHOWN_MAX {
            f.write_str("; and more")?;
        }
        Ok(())
    }
}

/// So many mismatches a message shows.
const SHOWN_MAX: usize = 10;

/// Returns every key in which the two sides differ, in key order, of those that
/// `counts` says can be judged: not those that changed meanwhile, nor those
/// that were not asked for on both sides.
pub(crate) fn differences(
    table: usize,
    source: &[KeyedFingerprint],
    target: &[KeyedFingerprint],
    counts: impl Fn(&Key) -> bool,
) -> Vec<Mismatch> {
    let mut rows: BTreeMap<&Key, (Option<Fingerprint>, Option<Fingerprint>)> = BTreeMap::new();
    for (key, row) in source {
        rows.entry(key).or_default().0 = Some(*row);
    }
    for (key, row) in target {
        rows.entry(key).or_default().1 = Some(*row);
    }
    rows.into_iter()
        .filter(|(key, _)| counts(key))
        .filter_map(|(key, (source, target))| {
            let kind = match (source, target) {
                (Some(source), Some(target)) if source == target => return None,
                (Some(_), Some(_)) => MismatchKind::Different,
                (Some(_), None) => MismatchKind::MissingOnTarget,
                (None, _) => MismatchKind::MissingOnSource,
            };
            Some(Mismatch {
                table,
                key: key.clone(),
                kind,
                source,
                target,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use oxferry_schema::KeyPart;

    use super::*;

    fn row(key: i128, value: u8) -> KeyedFingerprint {
        (Key::new([KeyPart::Int(key)]), Fingerprint::new([value; 32]))
    }

    #[test]
    fn every_kind_of_difference_is_told_apart() {
        let found = differences(
            0,
            &[row(1, 1), row(2, 1), row(3, 1)],
            &[row(1, 1), row(2, 2), row(4, 1)],
            |_| true,
        );
        let kinds: Vec<_> = found.iter().map(|m| m.kind).collect();
        assert_eq!(
            kinds,
            [
                MismatchKind::Different,
                MismatchKind::MissingOnTarget,
                MismatchKind::MissingOnSource
            ]
        );
    }

    #[test]
    fn a_touched_key_proves_nothing() {
        let counts = |key: &Key| *key != row(2, 0).0;
        assert_eq!(differences(0, &[row(2, 1)], &[row(2, 2)], counts), []);
    }

    #[test]
    fn the_list_is_bounded_and_the_count_exact() {
        let mut all = Mismatches::default();
        for key in 0..500 {
            all.extend(differences(0, &[row(key, 1)], &[], |_| true));
        }
        assert_eq!(all.count(), 500);
        assert_eq!(all.listed().len(), Mismatches::LISTED_MAX);
        assert!(
            all.to_string()
                .starts_with("500 rows differ; key 0 of table 0 is missing")
        );
        assert!(all.to_string().ends_with("and more"));
        let name = |text| oxferry_schema::Ident::new(text).unwrap();
        all.name(&[TableName::new(name("shop"), name("orders"))]);
        assert!(
            all.to_string()
                .starts_with("500 rows differ; key 0 of shop.orders is missing")
        );
    }
}

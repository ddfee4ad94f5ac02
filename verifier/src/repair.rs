//! Rows to copy again.

use oxferry_schema::{Key, KeyRange};

use crate::mismatch::Mismatch;

/// Rows to copy again, by the copy's own rule: what the source holds takes the
/// place of what the target holds, with changes held back meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The table.
    pub table: usize,
    /// Which rows.
    pub rows: RepairRows,
    /// How many of them were found to differ.
    pub row_count: u64,
    /// The first of the keys that differ: those to compare once it is done.
    pub(crate) first: Vec<Key>,
}

/// Which rows to copy again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a job must repair both")]
pub enum RepairRows {
    /// All of a range, whose end is known on both sides.
    Range(KeyRange),
    /// These keys, on either side.
    Keys(Vec<Key>),
}

/// Returns what to copy again for `found`, all of it inside `within`; `None`
/// where a range means nothing to the target, or to the client.
///
/// Few rows are copied one by one, many as the whole range; a list of keys
/// has no range of its own and is always taken one by one.
pub(crate) fn repairs(table: usize, within: Option<&KeyRange>, found: &[Mismatch]) -> Vec<Repair> {
    let repair = |rows, found: &[Mismatch]| Repair {
        table,
        rows,
        row_count: u64::try_from(found.len()).unwrap_or(u64::MAX),
        first: found
            .iter()
            .take(FIRST_MAX)
            .map(|m| m.key.clone())
            .collect(),
    };
    let keys = |found: &[Mismatch]| found.iter().map(|m| m.key.clone()).collect();
    match within {
        None => found
            .chunks(KEYS_MAX)
            .map(|found| repair(RepairRows::Keys(keys(found)), found))
            .collect(),
        Some(range) if found.len() > SINGLE_MAX && *range != KeyRange::ALL => {
            vec![repair(RepairRows::Range(range.clone()), found)]
        }
        Some(_) => {
            let single = |mismatch: &Mismatch| KeyRange {
                lower: Some(mismatch.key.clone()),
                upper: mismatch.key.successor(),
            };
            found
                .iter()
                .map(|one| repair(RepairRows::Range(single(one)), std::slice::from_ref(one)))
                .collect()
        }
    }
}

/// From this many differing rows of a page on, the page is copied as a whole.
const SINGLE_MAX: usize = 16;

/// The most keys that are copied again at once.
const KEYS_MAX: usize = 200;

/// So many rows of a repair are compared at once when it is done: enough to
/// see that it doesn't help.
const FIRST_MAX: usize = 8;

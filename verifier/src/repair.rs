//! Rows to copy again.

use oxferry_schema::KeyRange;

use crate::mismatch::Mismatch;

/// A range to copy again, by the copy's own rule: emptied on the target and
/// read from the source in one transaction, with changes held back meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a plain order")]
pub struct Repair {
    /// The table.
    pub table: usize,
    /// The keys to copy.
    pub range: KeyRange,
    /// How many of its rows were found to differ.
    pub row_count: u64,
}

/// Returns what to copy again for `found`, all of it inside `within`.
///
/// Few rows are copied one by one, many as the whole range; a list of keys
/// has no range of its own and is always taken one by one.
pub(crate) fn repairs(table: usize, within: &KeyRange, found: &[Mismatch]) -> Vec<Repair> {
    if found.len() > SINGLE_MAX && *within != KeyRange::ALL {
        return vec![Repair {
            table,
            range: within.clone(),
            row_count: u64::try_from(found.len()).unwrap_or(u64::MAX),
        }];
    }
    let single = |mismatch: &Mismatch| Repair {
        table,
        range: KeyRange {
            lower: Some(mismatch.key.clone()),
            upper: mismatch.key.successor(),
        },
        row_count: 1,
    };
    found.iter().map(single).collect()
}

/// From this many differing rows of a page on, the page is copied as a whole.
const SINGLE_MAX: usize = 16;

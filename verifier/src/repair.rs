//! Rows to copy again.

use oxferry_schema::{Key, KeyPart, KeyRange};

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
            upper: behind(&mismatch.key),
        },
        row_count: 1,
    };
    found.iter().map(single).collect()
}

/// Returns the first key that sorts behind `key`, of all keys of its type;
/// `None` where there is none.
fn behind(key: &Key) -> Option<Key> {
    let mut parts = key.parts().to_vec();
    for index in (0..parts.len()).rev() {
        let part = parts.get_mut(index)?;
        match part {
            KeyPart::Int(value) if *value < i128::from(u64::MAX) => {
                *value += 1;
                return Some(Key::new(parts));
            }
            // The highest value: the part before it moves on, and this one
            // starts with the lowest.
            KeyPart::Int(value) => *value = i128::from(i64::MIN),
        }
    }
    None
}

/// From this many differing rows of a page on, the page is copied as a whole.
const SINGLE_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &[i128]) -> Key {
        Key::new(parts.iter().map(|n| KeyPart::Int(*n)).collect::<Vec<_>>())
    }

    #[test]
    fn the_key_behind_leaves_no_room_between() {
        assert_eq!(behind(&key(&[7])), Some(key(&[8])));
        assert_eq!(behind(&key(&[7, -1])), Some(key(&[7, 0])));
        let max = i128::from(u64::MAX);
        let min = i128::from(i64::MIN);
        assert_eq!(behind(&key(&[7, max])), Some(key(&[8, min])));
        assert_eq!(behind(&key(&[max])), None);
    }
}

//! Going over rows in an order that the client doesn't know.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroUsize;

use oxferry_schema::{Key, KeyRange};

use crate::fingerprint::KeyedFingerprint;

/// How far a range was gone over, page by page.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// The whole range, in the source's order.
    pub(crate) whole: KeyRange,
    /// What is left of it, in the order of the side whose pages are read.
    pub(crate) rest: KeyRange,
    /// When it began, see [`Touched::generation`](crate::Touched).
    pub(crate) generation: u64,
    /// Whether it goes over all of the target, in the target's own order.
    pub(crate) is_whole_table: bool,
    /// A row of the last page that its own key didn't find.
    pub(crate) suspect: Option<KeyedFingerprint>,
}

/// A page of the target, and what it is compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "three answers")]
pub struct Backward {
    /// The target's first rows of the range, in the target's order.
    pub page: Vec<KeyedFingerprint>,
    /// The source's rows of the page's keys.
    pub source: Vec<KeyedFingerprint>,
    /// The target's rows of [`Backward::doubtful`].
    pub again: Vec<KeyedFingerprint>,
}

/// What a page of the target shows.
#[derive(Debug)]
pub(crate) struct Judged {
    /// Rows that the source doesn't have.
    pub(crate) surplus: Vec<KeyedFingerprint>,
    /// A key of the target that finds no row there: the source's type can't
    /// hold it, and what was read is only nearest to it.
    pub(crate) foreign: Option<KeyedFingerprint>,
    /// Where the next page begins, unless this was the last one.
    pub(crate) border: Option<Key>,
}

impl Walk {
    /// Begins at the range's beginning.
    pub(crate) fn new(range: KeyRange, generation: u64) -> Self {
        Self {
            rest: range.clone(),
            whole: range,
            generation,
            is_whole_table: false,
            suspect: None,
        }
    }

    /// Goes over what is left of the target.
    pub(crate) fn over_target(rest: KeyRange, generation: u64) -> Self {
        Self {
            is_whole_table: true,
            ..Self::new(rest, generation)
        }
    }

    /// Returns what is left from `border` on; `None` where that is no less
    /// than before.
    pub(crate) fn rest_behind(&self, border: Option<Key>) -> Option<KeyRange> {
        let is_moving = border.is_none() || border != self.rest.lower;
        is_moving.then(|| KeyRange {
            lower: border,
            upper: self.rest.upper.clone(),
        })
    }
}

impl Backward {
    /// Returns the keys of a page that are asked for once more on the target:
    /// the last ones, to begin the next page with, and those whose rows the
    /// source holds otherwise.
    ///
    /// The target's column may hold what the source's can't, and then reads as
    /// something else; such a key is no place to go on from, and finds no row.
    #[must_use]
    pub fn doubtful(page: &[KeyedFingerprint], source: &[KeyedFingerprint]) -> Vec<Key> {
        let same: HashSet<&KeyedFingerprint> = source.iter().collect();
        let tail = page.len().saturating_sub(TAIL);
        let keys = page.iter().enumerate();
        let keys = keys.filter(|(at, row)| *at >= tail || !same.contains(row));
        keys.map(|(_, (key, _))| key.clone()).collect()
    }

    /// Judges the page, of `limit` rows at most, given what `changed`.
    pub(crate) fn judge(&self, limit: NonZeroUsize, changed: &BTreeSet<Key>) -> Judged {
        let reached: HashSet<&KeyedFingerprint> = self.again.iter().collect();
        let held: HashSet<&KeyedFingerprint> = self.source.iter().collect();
        let held_keys: HashSet<&Key> = self.source.iter().map(|(key, _)| key).collect();
        let is_full = self.page.len() >= limit.get();
        // The first row may be where this page began.
        let is_border = |(at, row): &(usize, &KeyedFingerprint)| *at > 0 && reached.contains(row);
        let mut last = self.page.iter().enumerate().rev();
        let border = last.find(is_border).filter(|_| is_full);
        // The border comes again, as the first row of the next page.
        let end = border.map_or(self.page.len(), |(at, _)| at);
        let mut judged = Judged {
            surplus: Vec::new(),
            foreign: None,
            border: border.map(|(_, (key, _))| key.clone()),
        };
        if is_full && border.is_none() {
            // No way on: the same page again.
            judged.border = self.page.first().map(|(key, _)| key.clone());
        }
        let rows = self.page.iter().take(end);
        for row in rows.filter(|row| !changed.contains(&row.0) && !held.contains(row)) {
            if !reached.contains(row) {
                judged.foreign = Some(row.clone());
            } else if !held_keys.contains(&row.0) {
                judged.surplus.push(row.clone());
            }
        }
        judged
    }
}

/// Splits a range behind what both pages, of `limit` rows at most, show
/// completely, in an order that the client knows.
///
/// The last row of a full page is left to the next one, which begins with it:
/// so both ends stay keys that exist.
pub(crate) fn split(
    range: KeyRange,
    limit: NonZeroUsize,
    source: &[KeyedFingerprint],
    target: &[KeyedFingerprint],
) -> (KeyRange, Option<KeyRange>) {
    let full = [source, target]
        .into_iter()
        .filter(|rows| rows.len() >= limit.get());
    match full.filter_map(|rows| Some(&rows.last()?.0)).min() {
        None => (range, None),
        Some(border) => (
            KeyRange {
                lower: range.lower,
                upper: Some(border.clone()),
            },
            Some(KeyRange {
                lower: Some(border.clone()),
                upper: range.upper,
            }),
        ),
    }
}

/// So many rows at a page's end are asked for once more: more than are likely
/// to change between the two statements.
const TAIL: usize = 16;

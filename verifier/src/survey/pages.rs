//! A range that differs, page by page.

use std::{collections::BTreeSet, num::NonZeroUsize};

use oxferry_schema::{Key, KeyRange};

use crate::{
    Fingerprints, Mismatch, MismatchKind,
    fingerprint::{FingerprintError, KeyedFingerprint},
    mismatch::differences,
    walk::split,
};

/// Finds the rows of one range that differ, page by page, so that a range may
/// hold any number of rows on either side.
///
/// Both sides must order keys alike. Where the client knows that order, pages of
/// both sides are laid side by side; else the source's pages are compared with
/// the target's rows of the same keys, and then the target's with the source's.
#[derive(Debug)]
pub struct SurveyPages {
    table: usize,
    limit: NonZeroUsize,
    part: Option<Part>,
    rows_compared: u64,
}

#[derive(Debug)]
enum Part {
    Both(KeyRange),
    Forward { rest: KeyRange, whole: KeyRange },
    Backward { rest: KeyRange, whole: KeyRange },
}

impl SurveyPages {
    /// Begins with a range of a table, an index into the caller's list.
    /// `limit` is the most rows of a page, at least two.
    #[must_use]
    pub fn new(
        table: usize,
        range: KeyRange,
        is_client_ordered: bool,
        limit: NonZeroUsize,
    ) -> Self {
        let part = if is_client_ordered {
            Part::Both(range)
        } else {
            Part::Forward {
                rest: range.clone(),
                whole: range,
            }
        };
        Self {
            table,
            limit: limit.max(NonZeroUsize::MIN.saturating_add(1)),
            part: Some(part),
            rows_compared: 0,
        }
    }

    /// Returns the rows of the next page that differ; `None` behind the last
    /// page.
    ///
    /// # Errors
    ///
    /// [`FingerprintError`] when a side can't be read.
    ///
    /// # Cancel safety
    ///
    /// A call may be dropped; the next one reads the same page.
    pub async fn next(
        &mut self,
        source: &impl Fingerprints,
        target: &impl Fingerprints,
    ) -> Result<Option<Vec<Mismatch>>, FingerprintError> {
        let (found, rows, next) = match &self.part {
            None => return Ok(None),
            Some(Part::Both(range)) => self.both(range, source, target).await?,
            Some(Part::Forward { rest, whole }) => {
                let page = source.page(rest, self.limit).await?;
                let new = judged(rest, whole, &page);
                let other = target.by_keys(&keys(&page)).await?;
                let counts = |key: &Key| new.contains(key);
                let found = differences(self.table, &page, &other, counts);
                let next = self.behind(rest, &page).map(|rest| Part::Forward {
                    rest,
                    whole: whole.clone(),
                });
                let next = next.unwrap_or_else(|| Part::Backward {
                    rest: whole.clone(),
                    whole: whole.clone(),
                });
                (found, new.len(), Some(next))
            }
            Some(Part::Backward { rest, whole }) => {
                let page = target.page(rest, self.limit).await?;
                let new = judged(rest, whole, &page);
                let other = source.by_keys(&keys(&page)).await?;
                let counts = |key: &Key| new.contains(key);
                let mut found = differences(self.table, &other, &page, counts);
                // The others were found on the way forward.
                found.retain(|row| row.kind == MismatchKind::MissingOnSource);
                let next = self.behind(rest, &page).map(|rest| Part::Backward {
                    rest,
                    whole: whole.clone(),
                });
                (found, 0, next)
            }
        };
        self.part = next;
        self.rows_compared += rows as u64;
        Ok(Some(found))
    }

    /// Returns how many of the source's rows were compared.
    #[must_use]
    pub const fn rows_compared(&self) -> u64 {
        self.rows_compared
    }

    async fn both(
        &self,
        range: &KeyRange,
        source: &impl Fingerprints,
        target: &impl Fingerprints,
    ) -> Result<(Vec<Mismatch>, usize, Option<Part>), FingerprintError> {
        let pages = futures::future::try_join(
            source.page(range, self.limit),
            target.page(range, self.limit),
        );
        let (source, target) = pages.await?;
        let (shown, rest) = split(range.clone(), self.limit, &source, &target);
        let counts = |key: &Key| shown.contains(key);
        let found = differences(self.table, &source, &target, counts);
        let rows = source.iter().filter(|(key, _)| counts(key)).count();
        Ok((found, rows, rest.map(Part::Both)))
    }

    /// What is left behind a page: from its last row on, which comes again.
    fn behind(&self, range: &KeyRange, page: &[KeyedFingerprint]) -> Option<KeyRange> {
        let last = page.last().filter(|_| page.len() >= self.limit.get())?;
        Some(KeyRange {
            lower: Some(last.0.clone()),
            upper: range.upper.clone(),
        })
    }
}

fn keys(page: &[KeyedFingerprint]) -> Vec<Key> {
    page.iter().map(|(key, _)| key.clone()).collect()
}

/// The keys of a page but the one that the page before ended with, if any.
fn judged(rest: &KeyRange, whole: &KeyRange, page: &[KeyedFingerprint]) -> BTreeSet<Key> {
    let border = (rest != whole).then_some(rest.lower.as_ref()).flatten();
    let keys = page.iter().map(|(key, _)| key);
    keys.filter(|key| Some(*key) != border).cloned().collect()
}

#[cfg(test)]
mod tests {
    use oxferry_schema::KeyPart;
    use proptest::prelude::*;

    use super::*;
    use crate::{Fingerprint, MemorySide};

    fn key(n: u8) -> Key {
        Key::new([KeyPart::Int(n.into())])
    }

    fn place(key: &Key) -> u64 {
        match key.parts() {
            [KeyPart::Int(n)] => u64::try_from(*n).unwrap_or_default().reverse_bits(),
            _ => 0,
        }
    }

    fn side(rows: &[(u8, u8)], is_client_ordered: bool) -> MemorySide {
        let row = |(n, value): &(u8, u8)| (key(*n), Fingerprint::new([*value; 32]));
        let side = MemorySide::new(rows.iter().map(row));
        if is_client_ordered {
            side
        } else {
            side.collated(place)
        }
    }

    fn expected(source: &MemorySide, target: &MemorySide) -> Vec<(Key, MismatchKind)> {
        let (source, target) = (source.rows(), target.rows());
        let rows = |rows: &std::collections::BTreeMap<Key, Fingerprint>| {
            let rows = rows.iter().map(|(key, row)| (key.clone(), *row));
            rows.collect::<Vec<_>>()
        };
        let found = differences(0, &rows(&source), &rows(&target), |_| true);
        found.into_iter().map(|row| (row.key, row.kind)).collect()
    }

    proptest! {
        #[test]
        fn every_difference_is_found_once(
            source in prop::collection::vec((any::<u8>(), 0_u8..2), 0..60),
            target in prop::collection::vec((any::<u8>(), 0_u8..2), 0..60),
            limit in 1_usize..9,
            is_client_ordered in any::<bool>(),
        ) {
            let source = side(&source, is_client_ordered);
            let target = side(&target, is_client_ordered);
            let limit = NonZeroUsize::new(limit).unwrap();
            let mut pages = SurveyPages::new(0, KeyRange::ALL, is_client_ordered, limit);
            let mut found = Vec::new();
            while let Some(Some(page)) =
                futures::FutureExt::now_or_never(pages.next(&source, &target)).map(Result::unwrap)
            {
                found.extend(page.into_iter().map(|row| (row.key, row.kind)));
            }
            found.sort_by(|a, b| a.0.cmp(&b.0));
            prop_assert_eq!(found, expected(&source, &target));
            prop_assert_eq!(pages.rows_compared(), source.rows().len() as u64);
        }
    }
}

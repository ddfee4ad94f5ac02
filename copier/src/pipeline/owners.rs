//! Rows that belong to an owner in another table: which of them must be read
//! again when the owner came or went.

use std::collections::VecDeque;

use oxferry_schema::Key;

use crate::engine::{TableId, TxnSeq};

/// Owners that came or went, and how far the rows that name them are brought
/// after them.
///
/// No connection, no clock: the driver looks for the keys that
/// [`next`](Self::next) asks for, lets the engine copy them again, and reports
/// both. The keys are read page by page, one page of a table at a time, and an
/// owner holds the resume position back until its last page is on the target.
#[derive(Debug, Default)]
pub(super) struct Owners {
    tables: Vec<OwnedTable>,
}

/// A table of rows that name owners.
#[derive(Debug)]
struct OwnedTable {
    table: TableId,
    /// Owners whose turn is still to come, the oldest first.
    waiting: VecDeque<(TxnSeq, Key)>,
    round: Option<Round>,
}

/// Owners whose rows are being brought after them.
#[derive(Debug)]
struct Round {
    /// The first transaction that changed one of them.
    first: TxnSeq,
    owners: Vec<Key>,
    stage: Stage,
    /// The last key found.
    from: Option<Key>,
    /// Whether all keys are found.
    is_found: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// The next page of keys is to be looked for.
    Due,
    Looking,
    /// A page is being copied again.
    Copying(Vec<Key>),
}

/// What to look for: keys of the rows of `table` that name one of `owners`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) table: TableId,
    pub(super) owners: Vec<Key>,
    /// The key to go on from, itself included.
    pub(super) from: Option<Key>,
}

impl Owners {
    /// Begins for these tables.
    pub(super) fn new(tables: impl IntoIterator<Item = TableId>) -> Self {
        let table = |table| OwnedTable {
            table,
            waiting: VecDeque::new(),
            round: None,
        };
        Self {
            tables: tables.into_iter().map(table).collect(),
        }
    }

    /// Notes that transaction `seq` has made or removed an owner of rows of
    /// `table`.
    pub(super) fn note(&mut self, table: TableId, seq: TxnSeq, owner: Key) {
        if let Some(owned) = self.of(table) {
            owned.waiting.push_back((seq, owner));
        }
    }

    /// Returns what to look for next; it is under way from now on.
    pub(super) fn next(&mut self) -> Option<Look> {
        self.tables.iter_mut().find_map(OwnedTable::next)
    }

    /// Takes the keys that were found, fewer than `limit` where there are no
    /// more; returns those to copy again.
    pub(super) fn handle_found(
        &mut self,
        table: TableId,
        keys: Vec<Key>,
        limit: usize,
    ) -> Vec<Key> {
        match self.of(table) {
            Some(owned) => owned.handle_found(keys, limit),
            None => Vec::new(),
        }
    }

    /// Returns whether keys that are being copied again are a page of ours.
    pub(super) fn is_page(&self, table: TableId, keys: &[Key]) -> bool {
        let owned = self.tables.iter().find(|owned| owned.table == table);
        let round = owned.and_then(|owned| owned.round.as_ref());
        matches!(round, Some(Round { stage: Stage::Copying(page), .. }) if *page == keys)
    }

    /// Notes that a page is on the target.
    pub(super) fn handle_copied(&mut self, table: TableId) {
        if let Some(owned) = self.of(table) {
            owned.end_page();
        }
    }

    /// Returns the first transaction whose owners' rows aren't all on the
    /// target as it left them.
    pub(super) fn first_unapplied(&self) -> Option<TxnSeq> {
        let firsts = self.tables.iter().filter_map(|owned| {
            let round = owned.round.as_ref().map(|round| round.first);
            round.or_else(|| owned.first_waiting())
        });
        firsts.min()
    }

    /// Returns the first transaction whose owners' rows aren't all known.
    pub(super) fn first_unfound(&self) -> Option<TxnSeq> {
        let firsts = self.tables.iter().filter_map(|owned| {
            let round = owned.round.as_ref().filter(|round| !round.is_found);
            round
                .map(|round| round.first)
                .or_else(|| owned.first_waiting())
        });
        firsts.min()
    }

    /// Returns whether an owner waits that transaction `seq`, the last one,
    /// changed.
    pub(super) fn begins_with(&self, seq: TxnSeq) -> bool {
        self.tables.iter().any(|owned| {
            let round = owned.round.as_ref().is_some_and(|round| round.first == seq);
            let last = owned.waiting.back();
            round || last.is_some_and(|(waiting, _)| *waiting == seq)
        })
    }

    /// Returns whether the stream must wait until some are done.
    pub(super) fn is_full(&self) -> bool {
        let waiting = self.tables.iter().map(|owned| owned.waiting.len());
        waiting.sum::<usize>() >= WAITING_MAX
    }
}

impl Owners {
    fn of(&mut self, table: TableId) -> Option<&mut OwnedTable> {
        self.tables.iter_mut().find(|owned| owned.table == table)
    }
}

impl OwnedTable {
    fn first_waiting(&self) -> Option<TxnSeq> {
        self.waiting.front().map(|(seq, _)| *seq)
    }

    fn next(&mut self) -> Option<Look> {
        if self.round.is_none() {
            let first = self.first_waiting()?;
            let some = self.waiting.len().min(ROUND_MAX);
            let mut owners: Vec<Key> = self.waiting.drain(..some).map(|(_, key)| key).collect();
            owners.sort();
            owners.dedup();
            self.round = Some(Round {
                first,
                owners,
                stage: Stage::Due,
                from: None,
                is_found: false,
            });
        }
        let round = self.round.as_mut()?;
        if round.stage != Stage::Due {
            return None;
        }
        round.stage = Stage::Looking;
        Some(Look {
            table: self.table,
            owners: round.owners.clone(),
            from: round.from.clone(),
        })
    }

    fn handle_found(&mut self, mut keys: Vec<Key>, limit: usize) -> Vec<Key> {
        let Some(round) = self.round.as_mut() else {
            return Vec::new();
        };
        round.is_found = keys.len() < limit;
        // The page before ended with it.
        keys.retain(|key| Some(key) != round.from.as_ref());
        round.from = keys.last().cloned().or_else(|| round.from.take());
        round.stage = Stage::Copying(keys.clone());
        if keys.is_empty() {
            self.end_page();
        }
        keys
    }

    fn end_page(&mut self) {
        match self.round.as_mut() {
            Some(round) if !round.is_found => round.stage = Stage::Due,
            _ => self.round = None,
        }
    }
}

/// Owners that wait, at most, before the stream does.
const WAITING_MAX: usize = 50_000;

/// Owners of one round.
const ROUND_MAX: usize = 500;

/// Keys of one page.
pub(super) const PAGE_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use oxferry_schema::KeyPart;
    use proptest::prelude::*;

    use super::*;

    const TABLE: TableId = TableId(1);

    fn key(id: i128) -> Key {
        Key::new([KeyPart::Int(id)])
    }

    fn keys(ids: &[i128]) -> Vec<Key> {
        ids.iter().map(|id| key(*id)).collect()
    }

    #[test]
    fn an_owner_holds_the_resume_position_back_until_its_rows_are_there() {
        let mut owners = Owners::new([TABLE]);
        owners.note(TABLE, TxnSeq(4), key(1));
        assert!(owners.begins_with(TxnSeq(4)));
        let look = owners.next().unwrap();
        assert_eq!((look.owners, look.from), (keys(&[1]), None));
        assert_eq!(owners.next(), None);
        owners.note(TABLE, TxnSeq(6), key(2));
        assert_eq!(owners.first_unfound(), Some(TxnSeq(4)));
        let page = owners.handle_found(TABLE, keys(&[10, 11]), 3);
        assert_eq!(page, keys(&[10, 11]));
        assert_eq!(owners.first_unfound(), Some(TxnSeq(6)));
        assert_eq!(owners.first_unapplied(), Some(TxnSeq(4)));
        assert!(owners.is_page(TABLE, &page) && !owners.is_page(TABLE, &keys(&[10])));
        owners.handle_copied(TABLE);
        assert_eq!(owners.first_unapplied(), Some(TxnSeq(6)));
        owners.next().unwrap();
        assert_eq!(owners.handle_found(TABLE, Vec::new(), 3), Vec::new());
        assert_eq!(owners.first_unapplied(), None);
    }

    #[test]
    fn many_rows_are_read_page_by_page() {
        let mut owners = Owners::new([TABLE]);
        owners.note(TABLE, TxnSeq(1), key(1));
        assert_eq!(owners.next().unwrap().from, None);
        owners.handle_found(TABLE, keys(&[1, 2]), 2);
        assert_eq!(owners.first_unfound(), Some(TxnSeq(1)));
        owners.handle_copied(TABLE);
        assert_eq!(owners.next().unwrap().from, Some(key(2)));
        let page = owners.handle_found(TABLE, keys(&[2, 5]), 2);
        assert_eq!(page, keys(&[5]));
        owners.handle_copied(TABLE);
        assert_eq!(owners.next().unwrap().from, Some(key(5)));
        assert!(owners.handle_found(TABLE, keys(&[5]), 2).is_empty());
        assert_eq!(owners.first_unapplied(), None);
    }

    /// A source whose rows name owners, the target, and the driver's part.
    #[derive(Debug, Default)]
    struct Model {
        owners: Owners,
        seq: u64,
        present: BTreeSet<i128>,
        /// Each row's owner.
        rows: BTreeMap<i128, i128>,
        target: BTreeSet<i128>,
        copying: Option<Vec<Key>>,
        looking: Option<Look>,
    }

    impl Model {
        fn wanted(&self) -> BTreeSet<i128> {
            let rows = self.rows.iter();
            let owned = rows.filter(|(_, owner)| self.present.contains(owner));
            owned.map(|(row, _)| *row).collect()
        }

        /// What the stream's own changes of rows do: the row is read again.
        fn read_again(&mut self, row: i128) {
            if self.wanted().contains(&row) {
                self.target.insert(row);
            } else {
                self.target.remove(&row);
            }
        }

        fn step(&mut self, (what, row, owner): (u8, i128, i128)) {
            match what {
                0 => {
                    self.seq += 1;
                    if !self.present.remove(&owner) {
                        self.present.insert(owner);
                    }
                    self.owners.note(TABLE, TxnSeq(self.seq), key(owner));
                }
                1 => {
                    self.seq += 1;
                    if self.rows.remove(&row).is_none() {
                        self.rows.insert(row, owner);
                    }
                    self.read_again(row);
                }
                2 => {
                    if self.looking.is_none() {
                        self.looking = self.owners.next();
                    }
                }
                3 => self.find(),
                _ => self.copy(),
            }
        }

        fn find(&mut self) {
            let Some(look) = self.looking.take() else {
                return;
            };
            let from = look.from.unwrap_or_else(|| key(i128::MIN));
            let rows = self.rows.iter();
            let named = rows.filter(|(_, owner)| look.owners.contains(&key(**owner)));
            let found = named
                .map(|(row, _)| key(*row))
                .filter(|row| *row >= from)
                .take(2);
            let page = self.owners.handle_found(TABLE, found.collect(), 2);
            self.copying = (!page.is_empty()).then_some(page);
        }

        fn copy(&mut self) {
            let Some(page) = self.copying.take() else {
                return;
            };
            assert!(self.owners.is_page(TABLE, &page));
            for row in page {
                let KeyPart::Int(row) = row.parts()[0] else {
                    panic!()
                };
                self.read_again(row);
            }
            self.owners.handle_copied(TABLE);
        }
    }

    proptest! {
        #[test]
        fn rows_follow_their_owners_whatever_the_order(
            steps in prop::collection::vec((0..5_u8, 0..8_i128, 0..3_i128), 0..60)
        ) {
            let mut model = Model { owners: Owners::new([TABLE]), ..Model::default() };
            for step in steps {
                model.step(step);
                if model.owners.first_unapplied().is_none() {
                    prop_assert_eq!(&model.target, &model.wanted());
                }
            }
            for _ in 0..200 {
                (2..5).for_each(|what| model.step((what, 0, 0)));
            }
            prop_assert_eq!(model.owners.first_unapplied(), None);
            prop_assert_eq!(&model.target, &model.wanted());
        }
    }
}

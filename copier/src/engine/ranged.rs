//! The change buffer of *ranged* tables: order by key, nothing else.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use oxferry_schema::Key;

use super::{
    ChunkId, TxnSeq,
    buffer::{BatchLimit, Entry, Taken},
    coverage::Coverage,
    ledger::Ledger,
};
use crate::KeyedChange;

/// The latest image of each key, first come, first served.
///
/// A key is in one of these places: queued, returned, parked under an open
/// chunk, or (its image only) behind the batch in flight that holds the key.
#[derive(Debug, Default)]
pub(super) struct RangedBuffer {
    entries: HashMap<Key, Entry>,
    queue: VecDeque<Key>,
    /// Keys that had to wait once; they go first.
    returned: VecDeque<Key>,
    /// Keys that wait for the chunk that covers them.
    parked: BTreeMap<ChunkId, Vec<Key>>,
    in_flight: HashSet<Key>,
}

impl RangedBuffer {
    /// Holds a change of transaction `seq`.
    pub(super) fn put(&mut self, change: KeyedChange, seq: TxnSeq, ledger: &mut Ledger) {
        let KeyedChange { key, image } = change;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.supersede(&key, image, ledger);
            return;
        }
        let entry = Entry::new(&key, image, seq);
        ledger.add(entry.weight);
        if !self.in_flight.contains(&key) {
            self.queue.push_back(key.clone());
        }
        self.entries.insert(key, entry);
    }

    /// Takes a batch of changes whose range is not being copied.
    pub(super) fn take(&mut self, limit: BatchLimit, coverage: &Coverage) -> Option<Taken> {
        let mut taken = Taken::default();
        while let Some(key) = self.pop() {
            if let Some(chunk) = coverage.open_at(&key) {
                self.parked.entry(chunk).or_default().push(key);
                continue;
            }
            let Some(entry) = self.entries.remove(&key) else {
                continue;
            };
            if !taken.has_room(entry.weight.bytes, limit) {
                self.entries.insert(key.clone(), entry);
                self.returned.push_front(key);
                break;
            }
            self.in_flight.insert(key.clone());
            taken.push(key, entry);
        }
        (!taken.is_empty()).then(|| taken.sorted())
    }

    /// Lets later changes of `keys` go on.
    pub(super) fn handle_applied(&mut self, keys: &[Key]) {
        for key in keys {
            self.in_flight.remove(key);
            if self.entries.contains_key(key) {
                self.returned.push_back(key.clone());
            }
        }
    }

    /// Lets the changes go on that waited for `chunk`.
    pub(super) fn handle_chunk_closed(&mut self, chunk: ChunkId) {
        self.returned
            .extend(self.parked.remove(&chunk).unwrap_or_default());
    }

    /// Returns whether a change to `key` is held, one in flight included.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.entries.contains_key(key) || self.in_flight.contains(key)
    }

    /// Hands over all that is held; nothing may be in flight.
    pub(super) fn into_entries(mut self) -> Vec<(Key, Entry)> {
        let parked = self.parked.into_values().flatten();
        let keys = self.returned.into_iter().chain(self.queue).chain(parked);
        keys.filter_map(|key| self.entries.remove_entry(&key))
            .collect()
    }

    fn pop(&mut self) -> Option<Key> {
        self.returned.pop_front().or_else(|| self.queue.pop_front())
    }
}

//! Changes that wait for their turn, in the way of the table's mode.

use std::collections::{HashMap, VecDeque};

use oxferry_schema::{Key, Row};

use super::{
    ChunkId, Mode, TxnSeq,
    coverage::Coverage,
    ledger::{Ledger, Weight},
    ordered::OrderedBuffer,
    ranged::RangedBuffer,
};
use crate::{Batch, KeyedChange};

/// How large a batch may grow; it holds one change at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchLimit {
    pub(super) rows_max: usize,
    pub(super) bytes_max: u64,
}

/// A change in the buffer: the latest image of its key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) image: Option<Row>,
    pub(super) weight: Weight,
}

/// Changes that were taken out of the buffer to be applied together.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) batch: Batch,
    pub(super) weights: Vec<Weight>,
    pub(super) bytes: u64,
}

impl Taken {
    /// Returns the keys that are taken, in the batch's order.
    pub(super) fn keys(&self) -> Vec<Key> {
        let changes = self.batch.changes.iter();
        changes.map(|change| change.key.clone()).collect()
    }
}

/// The changes of one table that wait.
#[derive(Debug)]
pub(super) enum Buffer {
    Ranged(RangedBuffer),
    Ordered(OrderedBuffer),
}

impl Entry {
    /// Begins an entry with a change of transaction `seq`.
    pub(super) fn new(key: &Key, image: Option<Row>, seq: TxnSeq) -> Self {
        let bytes = size_bytes(key, image.as_ref());
        Self {
            image,
            weight: Weight { first: seq, bytes },
        }
    }

    /// Puts a later image in the place of the earlier one.
    pub(super) fn supersede(&mut self, key: &Key, image: Option<Row>, ledger: &mut Ledger) {
        let bytes = size_bytes(key, image.as_ref());
        ledger.resize(self.weight.bytes, bytes);
        self.weight.bytes = bytes;
        self.image = image;
    }
}

impl Taken {
    /// Returns whether another change of `bytes` finds room.
    pub(super) fn has_room(&self, bytes: u64, limit: BatchLimit) -> bool {
        let count = self.batch.changes.len();
        count == 0 || count < limit.rows_max && self.bytes + bytes <= limit.bytes_max
    }

    /// Adds a change.
    pub(super) fn push(&mut self, key: Key, entry: Entry) {
        self.bytes += entry.weight.bytes;
        self.weights.push(entry.weight);
        self.batch.changes.push(KeyedChange {
            key,
            image: entry.image,
        });
    }

    /// Adds the first changes of `queue` as far as there is room.
    pub(super) fn fill(
        &mut self,
        (entries, queue): (&mut HashMap<Key, Entry>, &mut VecDeque<Key>),
        limit: BatchLimit,
    ) {
        while let Some(key) = queue.pop_front() {
            let Some(entry) = entries.remove(&key) else {
                continue;
            };
            if !self.has_room(entry.weight.bytes, limit) {
                entries.insert(key.clone(), entry);
                queue.push_front(key);
                return;
            }
            self.push(key, entry);
        }
    }

    /// Returns whether nothing was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.batch.changes.is_empty()
    }

    /// Puts the changes into key order.
    pub(super) fn sorted(mut self) -> Self {
        self.batch
            .changes
            .sort_unstable_by(|a, b| a.key.cmp(&b.key));
        self
    }
}

impl Buffer {
    /// Makes an empty buffer for a table that is copied in `mode`.
    pub(super) fn new(mode: Mode) -> Self {
        match mode {
            Mode::Ranged => Self::Ranged(RangedBuffer::default()),
            Mode::Ordered => Self::Ordered(OrderedBuffer::default()),
        }
    }

    /// Holds a change; `waits_through` is the table's last opened chunk.
    pub(super) fn put(
        &mut self,
        change: KeyedChange,
        seq: TxnSeq,
        waits_through: ChunkId,
        ledger: &mut Ledger,
    ) {
        match self {
            Self::Ranged(buffer) => buffer.put(change, seq, ledger),
            Self::Ordered(buffer) => buffer.put(change, seq, waits_through, ledger),
        }
    }

    /// Takes the next batch that may be applied now, beside those in flight;
    /// `first_open` is the table's earliest open chunk.
    pub(super) fn take(
        &mut self,
        limit: BatchLimit,
        (coverage, first_open): (&Coverage, Option<ChunkId>),
        ledger: &mut Ledger,
    ) -> Option<Taken> {
        match self {
            Self::Ranged(buffer) => buffer.take(limit, coverage),
            Self::Ordered(buffer) => buffer.take(limit, first_open, ledger),
        }
    }

    /// Notes that a batch of changes to `keys` has reached the target.
    pub(super) fn handle_applied(&mut self, keys: &[Key]) {
        match self {
            Self::Ranged(buffer) => buffer.handle_applied(keys),
            Self::Ordered(buffer) => buffer.handle_applied(),
        }
    }

    /// Notes that the rows of a chunk have reached the target.
    pub(super) fn handle_chunk_closed(&mut self, chunk: ChunkId) {
        match self {
            Self::Ranged(buffer) => buffer.handle_chunk_closed(chunk),
            Self::Ordered(_) => {}
        }
    }

    /// Returns whether a change to `key` is held.
    pub(super) fn contains(&self, key: &Key) -> bool {
        match self {
            Self::Ranged(buffer) => buffer.contains(key),
            Self::Ordered(buffer) => buffer.contains(key),
        }
    }
}

/// Returns about how much memory a change takes: its key stands in the map
/// and in the queue.
fn size_bytes(key: &Key, image: Option<&Row>) -> u64 {
    let row = image.map_or(0, Row::size_bytes);
    u64::try_from(2 * key.size_bytes() + row + size_of::<Entry>()).unwrap_or(u64::MAX)
}

//! Changes that wait for their turn, in the way of the table's mode.

use oxferry_schema::{Key, Row};

use super::{
    ChunkId, Mode, TxnSeq,
    ledger::{Ledger, Weight},
    ordered::OrderedBuffer,
    ranged::RangedBuffer,
    ranges::RangeMap,
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

    /// Takes batches that may be applied at the same time, `count_max` at most.
    pub(super) fn take(
        &mut self,
        limit: BatchLimit,
        count_max: usize,
        open: &RangeMap<ChunkId>,
        ledger: &mut Ledger,
    ) -> Vec<Taken> {
        match self {
            Self::Ranged(buffer) => buffer.take(limit, open).into_iter().collect(),
            Self::Ordered(buffer) => buffer.take(limit, count_max, first_open(open), ledger),
        }
    }

    /// Notes that `keys` have reached the target.
    pub(super) fn handle_applied(&mut self, keys: &[Key]) {
        match self {
            Self::Ranged(buffer) => buffer.handle_applied(keys),
            Self::Ordered(_) => {}
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

/// Returns the earliest chunk that is open.
fn first_open(open: &RangeMap<ChunkId>) -> Option<ChunkId> {
    open.values().min().copied()
}

/// Returns about how much memory a change takes: its key stands in the map
/// and in the queue.
fn size_bytes(key: &Key, image: Option<&Row>) -> u64 {
    let row = image.map_or(0, Row::size_bytes);
    u64::try_from(2 * key.size_bytes() + row + size_of::<Entry>()).unwrap_or(u64::MAX)
}

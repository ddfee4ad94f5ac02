//! The ranges that wait to be copied, the open chunks, and their barriers.

use std::collections::{BTreeMap, VecDeque};

use super::{BarrierId, BatchId, ChunkId, Repair, TableId, TxnSeq};

/// What shall be copied, not open yet.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) table: TableId,
    pub(super) what: Repair,
    /// Whether a change is the cause: such rows are read again for as long as
    /// changes come, and no end of the copy waits for them.
    pub(super) by_change: bool,
}

/// An open chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) table: TableId,
    pub(super) what: Repair,
    /// Whether the target may hold rows of the range.
    pub(super) again: bool,
    /// The last transaction that its snapshot has to contain.
    pub(super) must_see: TxnSeq,
    /// Batches up to this one have to be done before the copy begins.
    pub(super) after_batch: Option<BatchId>,
    /// As in [`Wanted`].
    pub(super) by_change: bool,
    pub(super) stage: Stage,
}

/// How far a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its snapshot may not be taken yet.
    Opened,
    /// Its snapshot may be taken.
    Readable,
    /// It is being copied.
    Copying,
}

/// A barrier that is being waited for.
#[derive(Debug)]
struct Barrier {
    id: BarrierId,
    /// The last transaction that it makes visible.
    covers: TxnSeq,
}

/// Everything about chunks that does not belong to one table.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    pub(super) wanted: VecDeque<Wanted>,
    pub(super) repairs: VecDeque<Wanted>,
    open: BTreeMap<ChunkId, Chunk>,
    copying: usize,
    chunks_opened: u64,
    barrier: Option<Barrier>,
    barriers_started: u64,
    /// The last transaction known to be visible; unknown before the first
    /// barrier, when not even those before the stream's start are.
    visible: Option<TxnSeq>,
}

impl Chunks {
    /// Returns the number for the next chunk.
    pub(super) fn next_id(&mut self) -> ChunkId {
        self.chunks_opened += 1;
        ChunkId(self.chunks_opened)
    }

    /// Returns whether nothing is left to copy but what changes are the cause of.
    pub(super) fn is_copied(&self) -> bool {
        self.wanted.is_empty()
            && self.repairs.iter().all(|wanted| wanted.by_change)
            && self.open.values().all(|chunk| chunk.by_change)
    }

    /// Adds an open chunk.
    pub(super) fn open(&mut self, id: ChunkId, chunk: Chunk) {
        self.open.insert(id, chunk);
    }

    /// Starts the barrier that open chunks need, one at a time.
    ///
    /// `committed` is the last transaction that it will make visible.
    pub(super) fn start_barrier(&mut self, committed: TxnSeq) -> Option<BarrierId> {
        let visible = self.visible;
        let mut unseen = false;
        for chunk in self
            .open
            .values_mut()
            .filter(|chunk| chunk.stage == Stage::Opened)
        {
            if visible.is_some_and(|visible| chunk.must_see <= visible) {
                chunk.stage = Stage::Readable;
            } else {
                unseen = true;
            }
        }
        if !unseen || self.barrier.is_some() {
            return None;
        }
        self.barriers_started += 1;
        let id = BarrierId(self.barriers_started);
        self.barrier = Some(Barrier {
            id,
            covers: committed,
        });
        Some(id)
    }

    /// Notes that a barrier was passed. A barrier never asked for is none.
    pub(super) fn handle_barrier_passed(&mut self, id: BarrierId) {
        if let Some(barrier) = self.barrier.take_if(|barrier| barrier.id == id) {
            self.visible = self.visible.max(Some(barrier.covers));
        }
    }

    /// Returns the next chunk to copy; `oldest_batch` is still in flight.
    pub(super) fn start_copy(
        &mut self,
        oldest_batch: impl Fn(TableId) -> Option<BatchId>,
    ) -> Option<(ChunkId, &Chunk)> {
        let (id, chunk) = self.open.iter_mut().find(|(_, chunk)| {
            let batches_done = chunk
                .after_batch
                .is_none_or(|after| oldest_batch(chunk.table).is_none_or(|oldest| after < oldest));
            chunk.stage == Stage::Readable && batches_done
        })?;
        chunk.stage = Stage::Copying;
        self.copying += 1;
        Some((*id, chunk))
    }

    /// Takes out a chunk that was copied.
    pub(super) fn close(&mut self, id: ChunkId) -> Option<Chunk> {
        let copying = self.open.get(&id)?.stage == Stage::Copying;
        if !copying {
            return None;
        }
        self.copying -= 1;
        self.open.remove(&id)
    }

    /// Returns how many chunks are open, those being copied included.
    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Returns how many chunks are being copied.
    pub(super) fn copying_count(&self) -> usize {
        self.copying
    }

    /// Returns whether a barrier is being waited for.
    pub(super) fn has_barrier(&self) -> bool {
        self.barrier.is_some()
    }
}

//! Which ranges of a table are on the target, and which are open.

use oxferry_schema::{Key, KeyRange};

use super::{
    ChunkId, KeyOrder,
    ranges::{RangeMap, RangeSet},
    segments::Segments,
};

/// The closed and the open ranges of one table.
#[derive(Debug)]
pub(super) enum Coverage {
    /// Of keys that the client can order: any range may be opened.
    Client {
        closed: RangeSet,
        open: RangeMap<ChunkId>,
    },
    /// Of keys that it can't: ranges are opened one after the other.
    Server(Segments),
}

impl Coverage {
    /// Begins with what is on the target already, in key order.
    pub(super) fn new(order: KeyOrder, closed: Vec<KeyRange>) -> Self {
        match order {
            KeyOrder::Client => {
                let mut set = RangeSet::default();
                for range in closed {
                    set.insert(range);
                }
                Self::Client {
                    closed: set,
                    open: RangeMap::default(),
                }
            }
            KeyOrder::Server => Self::Server(Segments::new(closed)),
        }
    }

    /// Opens a range that shall be copied for the first time in this run, or
    /// once more.
    pub(super) fn open(&mut self, chunk: ChunkId, range: KeyRange, repair: bool) {
        match self {
            Self::Client { closed, open } => {
                closed.remove(&range);
                open.insert(range, chunk);
            }
            // A repair is one transaction, and no change is thrown away here:
            // what was closed stays closed.
            Self::Server(_) if repair => {}
            Self::Server(segments) => segments.open(chunk, range),
        }
    }

    /// Closes a range that was opened.
    pub(super) fn close(&mut self, chunk: ChunkId, range: KeyRange) {
        match self {
            Self::Client { closed, open } => {
                open.remove(range.lower.as_ref());
                closed.insert(range);
            }
            Self::Server(segments) => segments.close(chunk),
        }
    }

    /// Returns whether every key of `range` is on the target and none of them
    /// open, as far as the client can tell.
    pub(super) fn may_repair(&self, range: &KeyRange) -> bool {
        match self {
            Self::Client { closed, open } => closed.covers(range) && !open.overlaps(range),
            Self::Server(_) => true,
        }
    }

    /// Returns whether a chunk that opens later will read `key`, as far as the
    /// client can tell.
    pub(super) fn is_unread(&self, key: &Key) -> bool {
        match self {
            Self::Client { closed, open } => !closed.contains(key) && open.find(key).is_none(),
            Self::Server(_) => false,
        }
    }

    /// Returns the open chunk that holds `key`, where the client can tell.
    pub(super) fn open_at(&self, key: &Key) -> Option<ChunkId> {
        match self {
            Self::Client { open, .. } => open.find(key).copied(),
            Self::Server(_) => None,
        }
    }

    /// Returns the closed ranges in key order, no two of which touch.
    pub(super) fn closed(&self) -> Vec<KeyRange> {
        match self {
            Self::Client { closed, .. } => closed.to_vec(),
            Self::Server(segments) => segments.closed(),
        }
    }

    /// Returns the open ranges in key order.
    pub(super) fn open_ranges(&self) -> Vec<(ChunkId, KeyRange)> {
        match self {
            Self::Client { open, .. } => open.values().copied().zip(open.ranges()).collect(),
            Self::Server(segments) => segments.open_ranges(),
        }
    }
}

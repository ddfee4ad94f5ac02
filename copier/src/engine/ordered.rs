//! The change buffer of *ordered* tables: one queue, in waves.
//!
//! Why waves: the images of one wave are all those of one moment, so no two
//! of them hold the same unique value, and they may be written in any order
//! and by any number of connections. The images of two waves may clash, so
//! the later wave begins when the earlier one is on the target.

use std::collections::{HashMap, VecDeque};

use oxferry_schema::Key;

use super::{
    ChunkId, TxnSeq,
    buffer::{BatchLimit, Entry, Taken},
    ledger::Ledger,
};
use crate::KeyedChange;

/// Changes in segments, first come, first served.
#[derive(Debug, Default)]
pub(super) struct OrderedBuffer {
    segments: VecDeque<Segment>,
}

/// Changes that wait for the same chunks, the latest image of each key.
#[derive(Debug)]
struct Segment {
    /// Every open chunk up to this one has to close first.
    waits_through: ChunkId,
    entries: HashMap<Key, Entry>,
    queue: VecDeque<Key>,
}

impl OrderedBuffer {
    /// Begins with changes of different keys that wait for no open chunk.
    pub(super) fn holding(entries: Vec<(Key, Entry)>, waits_through: ChunkId) -> Self {
        let mut segment = Segment::new(waits_through);
        for (key, entry) in entries {
            segment.queue.push_back(key.clone());
            segment.entries.insert(key, entry);
        }
        Self {
            segments: VecDeque::from([segment]),
        }
    }

    /// Holds a change of transaction `seq` until the chunks up to
    /// `waits_through` are closed.
    pub(super) fn put(
        &mut self,
        change: KeyedChange,
        seq: TxnSeq,
        waits_through: ChunkId,
        ledger: &mut Ledger,
    ) {
        if self
            .segments
            .back()
            .is_none_or(|last| last.waits_through != waits_through)
        {
            self.segments.push_back(Segment::new(waits_through));
        }
        if let Some(last) = self.segments.back_mut() {
            last.put(change, seq, ledger);
        }
    }

    /// Takes the next wave: `count_max` batches at most, from one segment.
    ///
    /// The wave before it must have been applied.
    pub(super) fn take(
        &mut self,
        limit: BatchLimit,
        count_max: usize,
        first_open: Option<ChunkId>,
        ledger: &mut Ledger,
    ) -> Vec<Taken> {
        let may_go = |segment: &Segment| first_open.is_none_or(|id| segment.waits_through < id);
        while self
            .segments
            .front()
            .is_some_and(|front| front.queue.len() < limit.rows_max)
            && self.segments.get(1).is_some_and(may_go)
        {
            self.merge_front(ledger);
        }
        let Some(front) = self.segments.front_mut().filter(|front| may_go(front)) else {
            return Vec::new();
        };
        let wave = (0..count_max).map_while(|_| front.take(limit)).collect();
        if front.queue.is_empty() {
            self.segments.pop_front();
        }
        wave
    }

    /// Returns whether a change to `key` is held.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.segments
            .iter()
            .any(|segment| segment.entries.contains_key(key))
    }

    /// Moves the first segment's changes to the head of the second.
    fn merge_front(&mut self, ledger: &mut Ledger) {
        let Some(front) = self.segments.pop_front() else {
            return;
        };
        if let Some(next) = self.segments.front_mut() {
            next.precede(front, ledger);
        }
    }
}

impl Segment {
    fn new(waits_through: ChunkId) -> Self {
        Self {
            waits_through,
            entries: HashMap::new(),
            queue: VecDeque::new(),
        }
    }

    fn put(&mut self, change: KeyedChange, seq: TxnSeq, ledger: &mut Ledger) {
        let KeyedChange { key, image } = change;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.supersede(&key, image, ledger);
            return;
        }
        let entry = Entry::new(&key, image, seq);
        ledger.add(entry.weight);
        self.queue.push_back(key.clone());
        self.entries.insert(key, entry);
    }

    /// Puts an earlier segment's changes before these; a key that is in both
    /// keeps its later image and its earlier beginning.
    fn precede(&mut self, mut earlier: Self, ledger: &mut Ledger) {
        for key in earlier.queue.into_iter().rev() {
            let Some(entry) = earlier.entries.remove(&key) else {
                continue;
            };
            if let Some(later) = self.entries.get_mut(&key) {
                ledger.remove(entry.weight);
                ledger.remove(later.weight);
                later.weight.first = entry.weight.first;
                ledger.add(later.weight);
            } else {
                self.queue.push_front(key.clone());
                self.entries.insert(key, entry);
            }
        }
    }

    fn take(&mut self, limit: BatchLimit) -> Option<Taken> {
        let mut taken = Taken::default();
        while let Some(key) = self.queue.pop_front() {
            let Some(entry) = self.entries.remove(&key) else {
                continue;
            };
            if !taken.has_room(entry.weight.bytes, limit) {
                self.entries.insert(key.clone(), entry);
                self.queue.push_front(key);
                break;
            }
            taken.push(key, entry);
        }
        (!taken.is_empty()).then(|| taken.sorted())
    }
}

//! The change buffer of *ordered* tables: one queue, in rounds.
//!
//! Why rounds: the images of one round are all those of one moment, so no two
//! of them hold the same unique value, and no two of them are rows of one key,
//! whatever the server takes for one. They may be written in any order and by
//! any number of connections, once the rows that were gone at that moment are
//! gone: to the server, a key that is deleted may be the same as one that is
//! written. So a round's deletes come first. The images of two rounds may
//! clash, so the later round begins when the earlier one is on the target.

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
    /// What is being given out.
    round: Round,
    segments: VecDeque<Segment>,
    /// Batches given out and not applied yet.
    in_flight: usize,
}

/// Changes that wait for the same chunks, the latest image of each key.
#[derive(Debug)]
struct Segment {
    /// Every open chunk up to this one has to close first.
    waits_through: ChunkId,
    entries: HashMap<Key, Entry>,
    queue: VecDeque<Key>,
}

/// Changes as they were at one moment: nothing is added any more.
#[derive(Debug, Default)]
struct Round {
    entries: HashMap<Key, Entry>,
    /// Keys whose row is gone.
    deletes: VecDeque<Key>,
    /// Keys that have one.
    upserts: VecDeque<Key>,
    /// Whether no delete is left or in flight, so that upserts may run side by
    /// side.
    is_writing: bool,
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
            ..Self::default()
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

    /// Takes the next batch that may be applied now, beside those in flight.
    pub(super) fn take(
        &mut self,
        limit: BatchLimit,
        first_open: Option<ChunkId>,
        ledger: &mut Ledger,
    ) -> Option<Taken> {
        if self.round.is_over() && self.in_flight == 0 {
            self.begin_round(limit, first_open, ledger);
        }
        let taken = self.round.take(limit, self.in_flight == 0)?;
        self.in_flight += 1;
        Some(taken)
    }

    /// Notes that a batch has reached the target.
    pub(super) fn handle_applied(&mut self) {
        self.in_flight -= 1;
    }

    /// Returns whether a change to `key` is held, those in flight left out.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.round.entries.contains_key(key)
            || self
                .segments
                .iter()
                .any(|segment| segment.entries.contains_key(key))
    }

    /// Cuts a round out of the first segments that need not wait.
    fn begin_round(&mut self, limit: BatchLimit, first_open: Option<ChunkId>, ledger: &mut Ledger) {
        let may_go = |segment: &Segment| first_open.is_none_or(|id| segment.waits_through < id);
        while self
            .segments
            .front()
            .is_some_and(|front| front.queue.len() < limit.rows_max)
            && self.segments.get(1).is_some_and(may_go)
        {
            self.merge_front(ledger);
        }
        if self.segments.front().is_some_and(may_go)
            && let Some(front) = self.segments.pop_front()
        {
            self.round = Round::of(front);
        }
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

impl Round {
    fn of(segment: Segment) -> Self {
        let Segment { entries, queue, .. } = segment;
        let has_row = |key: &Key| entries.get(key).is_some_and(|entry| entry.image.is_some());
        let (upserts, deletes) = queue.into_iter().partition(has_row);
        Self {
            entries,
            deletes,
            upserts,
            is_writing: false,
        }
    }

    fn is_over(&self) -> bool {
        self.deletes.is_empty() && self.upserts.is_empty()
    }

    /// Takes the next batch; `is_quiet` says that none is in flight.
    ///
    /// The last deletes and the first upserts may share a batch, since a batch
    /// begins with its deletes; it then runs alone.
    fn take(&mut self, limit: BatchLimit, is_quiet: bool) -> Option<Taken> {
        let mut taken = Taken::default();
        taken.fill((&mut self.entries, &mut self.deletes), limit);
        let has_deletes = !taken.is_empty();
        if self.deletes.is_empty() && (self.is_writing || is_quiet) {
            taken.fill((&mut self.entries, &mut self.upserts), limit);
            self.is_writing = !has_deletes;
        }
        (!taken.is_empty()).then(|| taken.sorted())
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
}

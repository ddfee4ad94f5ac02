//! Reads the simulated binlog, one row event at a time.

use oxferry_copier::engine::TxnSeq;

/// Where the stream is, and where each numbered transaction began.
#[derive(Debug)]
pub(super) struct Stream {
    /// The transaction of the log that comes next, or is being read.
    pub(super) txn: usize,
    /// How many of its events have been read.
    pub(super) event: usize,
    /// Where each number was first given, from 1 on.
    starts: Vec<Place>,
    /// Whether the last number given still waits for its end.
    is_inside: bool,
}

/// A place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) txn: usize,
    /// Not 0 only where a broken rule resumes inside a transaction.
    pub(super) event: usize,
}

impl Stream {
    /// Begins to read at a place.
    pub(super) fn new(start: Place) -> Self {
        Self {
            txn: start.txn,
            event: start.event,
            starts: Vec::new(),
            is_inside: false,
        }
    }

    /// Returns the number of the transaction that is being read.
    pub(super) fn begin(&mut self) -> TxnSeq {
        if !self.is_inside {
            self.is_inside = true;
            self.starts.push(self.here());
        }
        TxnSeq(self.starts.len() as u64)
    }

    /// Ends the number given last.
    pub(super) fn end(&mut self) {
        self.is_inside = false;
    }

    /// Goes back to the beginning of the transaction that is being read.
    pub(super) fn reconnect(&mut self) {
        if let Some(start) = self.starts.last()
            && self.is_inside
        {
            self.event = start.event;
        }
    }

    /// Returns whether nothing of the next transaction has been read.
    pub(super) fn is_between(&self) -> bool {
        !self.is_inside && self.event == 0
    }

    /// Returns where a transaction began, the next one included.
    pub(super) fn start_of(&self, seq: TxnSeq) -> Place {
        let index = usize::try_from(seq.0.saturating_sub(1)).unwrap_or(usize::MAX);
        self.starts
            .get(index)
            .copied()
            .unwrap_or_else(|| self.here())
    }

    /// Returns where the stream is.
    pub(super) fn here(&self) -> Place {
        Place {
            txn: self.txn,
            event: self.event,
        }
    }
}

//! What is buffered or in flight, and from where a stream must begin again.

use std::collections::BTreeMap;

use super::TxnSeq;

/// Counts the changes that are not on the target yet, by the transaction
/// that each of them begins with.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// How many held changes begin with a transaction. As many entries as
    /// there are held changes, at most.
    pending: BTreeMap<TxnSeq, u64>,
    rows: u64,
    bytes: u64,
    committed: TxnSeq,
    /// The last transaction of which a change was dispatched.
    changed: TxnSeq,
}

/// What one held change weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    /// The earliest transaction that is part of the change's image.
    pub(super) first: TxnSeq,
    /// About how much memory it takes.
    pub(super) bytes: u64,
}

impl Ledger {
    /// Counts a change that is held from now on.
    pub(super) fn add(&mut self, weight: Weight) {
        *self.pending.entry(weight.first).or_default() += 1;
        self.rows += 1;
        self.bytes += weight.bytes;
    }

    /// Counts a held change no longer.
    pub(super) fn remove(&mut self, weight: Weight) {
        if let Some(count) = self.pending.get_mut(&weight.first) {
            *count -= 1;
            if *count == 0 {
                self.pending.remove(&weight.first);
            }
        }
        self.rows -= 1;
        self.bytes -= weight.bytes;
    }

    /// Notes that a held change takes other memory than before.
    pub(super) fn resize(&mut self, from_bytes: u64, to_bytes: u64) {
        self.bytes = self.bytes - from_bytes + to_bytes;
    }

    /// Notes that a change of transaction `seq` was dispatched.
    pub(super) fn change(&mut self, seq: TxnSeq) {
        self.changed = seq;
    }

    /// Returns whether a transaction was dispatched in part.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.changed > self.committed
    }

    /// Notes that transaction `seq` was dispatched to its end.
    pub(super) fn commit(&mut self, seq: TxnSeq) {
        self.committed = seq;
    }

    /// Returns the last transaction dispatched to its end.
    pub(super) fn committed(&self) -> TxnSeq {
        self.committed
    }

    /// Returns the first transaction that is not wholly on the target.
    pub(super) fn resume_seq(&self) -> TxnSeq {
        let next = TxnSeq(self.committed.0 + 1);
        let oldest = self.pending.first_key_value().map(|(first, _)| *first);
        oldest.map_or(next, |oldest| oldest.min(next))
    }

    /// Returns whether a held change begins with transaction `seq`.
    pub(super) fn begins_with(&self, seq: TxnSeq) -> bool {
        self.pending.contains_key(&seq)
    }

    /// Returns how many changes are held.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns about how much memory the held changes take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(first: u64) -> Weight {
        Weight {
            first: TxnSeq(first),
            bytes: 10,
        }
    }

    #[test]
    fn the_oldest_held_change_decides_where_to_resume() {
        let mut ledger = Ledger::default();
        for first in [3, 4, 4] {
            ledger.add(weight(first));
        }
        ledger.commit(TxnSeq(5));
        assert_eq!(ledger.resume_seq(), TxnSeq(3));
        ledger.remove(weight(3));
        ledger.remove(weight(4));
        assert_eq!(ledger.resume_seq(), TxnSeq(4));
        ledger.remove(weight(4));
        assert_eq!(ledger.resume_seq(), TxnSeq(6));
        assert_eq!((ledger.rows(), ledger.bytes()), (0, 0));
    }

    #[test]
    fn a_transaction_without_its_end_is_resumed_at_its_beginning() {
        let mut ledger = Ledger::default();
        ledger.commit(TxnSeq(7));
        ledger.add(weight(8));
        ledger.remove(weight(8));
        assert_eq!(ledger.resume_seq(), TxnSeq(8));
    }
}

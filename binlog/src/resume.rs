//! From where the log must be read again, as work on it proceeds.

use std::collections::VecDeque;

use crate::{FilePosition, Gtid, GtidSet, Position};

/// Knows the position in front of the first transaction that isn't wholly
/// applied, and the one behind the last that was handed out.
///
/// Whoever reads the stream counts its transactions, from 1; here their ends
/// are remembered until they are applied. Takes memory for transactions with
/// changes only: what has none is drawn together with what came before it.
#[derive(Clone, Debug)]
pub struct ResumeTracker {
    safe: Position,
    dispatched: Position,
    pending: VecDeque<Mark>,
}

/// A transaction that may not be applied, and those without changes behind it.
#[derive(Clone, Debug)]
struct Mark {
    /// The last transaction that the mark stands for.
    through: u64,
    end: FilePosition,
    first: Option<Gtid>,
    others: Option<Box<GtidSet>>,
}

impl ResumeTracker {
    /// Begins at the position that the stream starts from.
    #[must_use]
    pub fn new(start: Position) -> Self {
        Self {
            dispatched: start.clone(),
            safe: start,
            pending: VecDeque::new(),
        }
    }

    /// Notes the end of transaction `seq`, each one higher than the last.
    ///
    /// `has_changes` says whether a change that begins with it is not applied
    /// yet, so that it may have to be read again.
    pub fn record(&mut self, seq: u64, end: FilePosition, gtid: Option<Gtid>, has_changes: bool) {
        extend(&mut self.dispatched, &end, gtid.as_ref());
        if has_changes {
            self.pending.push_back(Mark {
                through: seq,
                end,
                first: gtid,
                others: None,
            });
            return;
        }
        match self.pending.back_mut() {
            Some(mark) => mark.cover(seq, end, gtid),
            None => extend(&mut self.safe, &end, gtid.as_ref()),
        }
    }

    /// Notes that the stream has moved on without a transaction.
    pub fn record_progress(&mut self, end: FilePosition) {
        match self.pending.back_mut() {
            Some(mark) => mark.end = end.clone(),
            None => self.safe.file = end.clone(),
        }
        self.dispatched.file = end;
    }

    /// Notes that every transaction before `first_unapplied` is applied.
    pub fn advance(&mut self, first_unapplied: u64) {
        while let Some(mark) = self
            .pending
            .pop_front_if(|mark| mark.through < first_unapplied)
        {
            let Mark {
                end, first, others, ..
            } = mark;
            extend(&mut self.safe, &end, first.as_ref());
            if let (Some(gtids), Some(others)) = (&mut self.safe.gtids, others) {
                gtids.union(&others);
            }
        }
    }

    /// Returns where to read from so that no unapplied change is missed: a
    /// transaction's boundary.
    #[must_use]
    pub const fn position(&self) -> &Position {
        &self.safe
    }

    /// Returns the position behind all that was recorded.
    #[must_use]
    pub const fn dispatched(&self) -> &Position {
        &self.dispatched
    }
}

impl Mark {
    fn cover(&mut self, seq: u64, end: FilePosition, gtid: Option<Gtid>) {
        self.through = seq;
        self.end = end;
        if let Some(gtid) = gtid {
            self.others.get_or_insert_default().insert(&gtid);
        }
    }
}

fn extend(position: &mut Position, end: &FilePosition, gtid: Option<&Gtid>) {
    position.file.clone_from(end);
    if let (Some(gtids), Some(gtid)) = (&mut position.gtids, gtid) {
        gtids.insert(gtid);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn place(offset: u64) -> FilePosition {
        FilePosition::new("binlog.000001", offset).unwrap()
    }

    fn tracker() -> ResumeTracker {
        let gtids = Some(format!("{UUID}:1-10").parse().unwrap());
        ResumeTracker::new(Position {
            file: place(4),
            gtids,
        })
    }

    fn record(tracker: &mut ResumeTracker, seq: u64, has_changes: bool) {
        let gtid = format!("{UUID}:{}", 10 + seq).parse().unwrap();
        tracker.record(seq, place(100 * seq), Some(gtid), has_changes);
    }

    #[track_caller]
    fn check(position: &Position, offset: u64, last: u64) {
        assert_eq!(position.file, place(offset));
        let gtids = format!("{UUID}:1-{last}").parse().unwrap();
        assert_eq!(position.gtids, Some(gtids));
    }

    #[test]
    fn the_position_stays_in_front_of_what_is_not_applied() {
        let mut tracker = tracker();
        record(&mut tracker, 1, true);
        record(&mut tracker, 2, true);
        check(tracker.position(), 4, 10);
        check(tracker.dispatched(), 200, 12);
        tracker.advance(2);
        check(tracker.position(), 100, 11);
        tracker.advance(3);
        check(tracker.position(), 200, 12);
    }

    #[test]
    fn transactions_without_changes_move_it_on() {
        let mut tracker = tracker();
        record(&mut tracker, 1, false);
        check(tracker.position(), 100, 11);
        record(&mut tracker, 2, true);
        for seq in 3..1000 {
            record(&mut tracker, seq, false);
        }
        assert_eq!(tracker.pending.len(), 1);
        check(tracker.position(), 100, 11);
        tracker.advance(1000);
        check(tracker.position(), 99_900, 1009);
    }

    #[test]
    fn a_rotation_is_never_in_front_of_an_unapplied_change() {
        let mut tracker = tracker();
        record(&mut tracker, 1, true);
        tracker.record_progress(place(150));
        check(tracker.position(), 4, 10);
        assert_eq!(tracker.dispatched().file, place(150));
        tracker.advance(2);
        check(tracker.position(), 150, 11);
    }

    proptest! {
        #[test]
        fn the_position_holds_all_before_and_nothing_unapplied(
            changes in prop::collection::vec(any::<bool>(), 1..40),
            unapplied in 1..42_u64,
        ) {
            let mut tracker = tracker();
            for (seq, has_changes) in (1..).zip(&changes) {
                record(&mut tracker, seq, *has_changes);
            }
            let mut seqs = (1..).zip(&changes);
            let first = seqs.find(|(seq, has_changes)| **has_changes && *seq >= unapplied);
            let first = first.map_or(changes.len() as u64 + 1, |(seq, _)| seq);
            tracker.advance(first);
            let last = first - 1;
            check(tracker.position(), if last == 0 { 4 } else { 100 * last }, 10 + last);
        }
    }
}

//! The steps of the stream: reading the binlog into the engine.

use oxferry_copier::engine::{Mode, TableId, TxnSeq};

use super::{
    Failure, Fault, Invariant,
    row::{RowChange, key},
    world::World,
};

impl World {
    /// Reads the next row event, or the end of a transaction.
    pub(super) fn dispatch(&mut self) -> Result<(), Failure> {
        let place = self.job.stream.here();
        let Some(events) = self.source.log.get(place.txn) else {
            return Ok(());
        };
        let ignores_limit = self.faults.has(Fault::BufferLimitIgnored);
        let Some(event) = events.get(place.event).cloned() else {
            self.end_transaction();
            return Ok(());
        };
        if !self.job.engine.accepts_changes() && !ignores_limit {
            return Ok(());
        }
        let given = if self.faults.has(Fault::OrderReversed) {
            events[events.len() - 1 - place.event].clone()
        } else {
            event.clone()
        };
        let seq = self.job.stream.begin();
        for change in event {
            self.note_change(change);
        }
        for change in given {
            self.dispatch_change(seq, change)?;
        }
        self.job.stream.event += 1;
        self.stats.events += 1;
        if self.faults.has(Fault::TransactionsSplit) {
            self.job.engine.handle_commit(seq);
            self.job.stream.end();
        }
        Ok(())
    }

    /// Cuts the stream's connection, or the server that it reads from.
    pub(super) fn disturb_stream(&mut self) {
        if self.params.gtid && self.rng.bool() {
            self.source.fail_over(&mut self.rng);
        }
        if !self.faults.has(Fault::TransactionsSplit) {
            self.job.stream.reconnect();
            self.stats.reconnects += 1;
        }
    }

    fn end_transaction(&mut self) {
        let seq = self.job.stream.begin();
        self.job.engine.handle_commit(seq);
        self.job.stream.end();
        self.job.stream.txn += 1;
        self.job.stream.event = 0;
        self.job.touched.fill(false);
    }

    fn note_change(&mut self, change: RowChange) {
        let mode = self.job.modes[change.table];
        self.job.touched[change.table] = true;
        self.job.watch.note_change(change, mode);
    }

    /// Hands one change to the engine, unless the broken rule says otherwise.
    fn dispatch_change(&mut self, seq: TxnSeq, change: RowChange) -> Result<(), Failure> {
        let is_lost = self.is_lost(change);
        let table = TableId(change.table);
        if !self.faults.has(Fault::ChangesNotNoted) {
            let touched = &mut self.job.verify.touched;
            touched.handle_change(change.table, &key(change.key));
        }
        let engine = &mut self.job.engine;
        let before = engine.progress(table).unwrap_or_default();
        if !is_lost {
            engine.handle_change(seq, table, change.to_keyed());
        }
        let after = engine.progress(table).unwrap_or_default();
        if after.changes_discarded > before.changes_discarded {
            self.stats.discarded += 1;
            let mode = self.job.modes[change.table];
            let checked = self.job.watch.check_discard(change, mode, &before.closed);
            self.rule(checked)?;
        } else if !engine.is_unapplied(table, &key(change.key)) {
            self.rule(Err(Failure::new(
                Invariant::I2,
                format!("{change:?} is neither held nor counted as thrown away"),
            )))?;
        }
        Ok(())
    }

    /// Returns whether a broken rule throws the change away.
    fn is_lost(&self, change: RowChange) -> bool {
        let key = key(change.key);
        let engine = &self.job.engine;
        let is_open = || {
            let mut open = engine.open_chunks(TableId(change.table));
            open.any(|(_, range)| range.contains(&key))
        };
        let is_closed = || {
            let closed = self.job.closed(change.table);
            closed.iter().any(|range| range.contains(&key))
        };
        let is_ordered = self.job.modes[change.table] == Mode::Ordered;
        self.faults.has(Fault::OpenDiscarded) && is_open()
            || self.faults.has(Fault::ClosedDiscarded) && is_closed()
            || self.faults.has(Fault::OrderedDiscards) && is_ordered && !is_open() && !is_closed()
    }
}

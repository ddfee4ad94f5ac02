//! What a handle may ask of the driver, and the answers.

use std::sync::Arc;

use oxferry_binlog::ChangeStream;
use tokio::{sync::oneshot, time::Instant};

use super::{
    barrier::Barrier,
    driver::{Done, Driver, STATUS_EVERY},
    handle::{Command, Progress, Status, TableState},
    waiters::Goal,
};
use crate::{Batch, Chunker, RowSink, engine::TableId};

impl<S, C, K, B> Driver<S, C, K, B>
where
    S: ChangeStream,
    C: Chunker + 'static,
    K: RowSink + 'static,
    B: Barrier + 'static,
{
    pub(super) fn handle_command(&mut self, command: Command) {
        match command {
            Command::Settle(reply) => {
                self.waiters.add(Goal::Applied(self.engine.begun()), reply);
            }
            Command::Reach(position, reply) => {
                self.waiters.add(Goal::Dispatched(position), reply);
            }
            Command::HoldConsistent(reply) => self.consistent.push(reply),
            Command::Hold(reply) => {
                self.engine.set_applying(false);
                self.waiters.add(Goal::Quiet, reply);
            }
            Command::Release => self.release(),
            Command::Drain(reply) => self.drain(reply),
            Command::Drained => self.handle_drained(),
            Command::IndexesBuilt(table) => self.engine.handle_indexes_built(table),
            Command::Repair(table, what, reply) => {
                self.engine.repair(table, what);
                self.waiters.add(Goal::Copied, reply);
            }
            Command::SetCopying(on) => self.engine.set_copying(on),
            Command::Progress(reply) => answer(reply, self.progress()),
            Command::Stop => self.stopping = true,
        }
    }

    /// Where nothing can be handed out, what was handed out before is kept.
    fn drain(&mut self, reply: oneshot::Sender<Option<Vec<(TableId, Batch)>>>) {
        let rest = self.engine.drain();
        if let Some(rest) = &rest {
            self.resting = true;
            self.drained.clone_from(rest);
        }
        answer(reply, rest);
    }

    /// Once it is being applied again, only that says when it is applied.
    fn handle_drained(&mut self) {
        if !self.redoing {
            self.drained.clear();
            self.engine.handle_drained();
        }
    }

    /// What was drained and not reported as applied may be on the target in
    /// part: it is applied once more, and the engine gives out nothing newer
    /// until it is.
    fn release(&mut self) {
        self.resting = false;
        self.consistent.clear();
        self.engine.set_applying(true);
        if self.drained.is_empty() {
            return;
        }
        self.redoing = true;
        let batches: Vec<_> = std::mem::take(&mut self.drained)
            .into_iter()
            .map(|(table, batch)| (self.sink(table), batch))
            .collect();
        self.work.push(Box::pin(async move {
            for (sink, batch) in batches {
                sink.apply(&batch).await?;
            }
            Ok(Done::Redone)
        }));
    }

    pub(super) fn answer_waiters(&mut self) {
        if self.stopping {
            return;
        }
        self.find_consistent_point();
        let dispatched = self.tracker.dispatched();
        let quiet = self.engine.in_flight().batches == 0 && !self.redoing;
        let ready = self
            .waiters
            .take_ready((&self.engine, &self.owners), &dispatched.file, quiet);
        for (goal, reply) in ready {
            match goal {
                // Applied is half of it: the source must show it to others too.
                Goal::Applied(_) => {
                    let barrier = Arc::clone(&self.barrier);
                    let through = dispatched.clone();
                    self.work.push(Box::pin(async move {
                        barrier.pass(&through).await.map(|()| Done::Settled(reply))
                    }));
                }
                Goal::Dispatched(_) | Goal::Found(_) | Goal::Quiet | Goal::Copied => {
                    answer(reply, ());
                }
            }
        }
    }

    fn find_consistent_point(&mut self) {
        let is_idle = self.engine.is_idle() && self.owners.first_unapplied().is_none();
        if self.consistent.is_empty() || self.changed || !is_idle {
            return;
        }
        self.engine.set_applying(false);
        for reply in self.consistent.drain(..) {
            answer(reply, ());
        }
    }

    pub(super) fn progress(&mut self) -> Progress {
        self.tracker.advance(self.resume_seq());
        let tables = self.tables.iter().enumerate().map(|(table, work)| {
            let now = self.engine.progress(TableId(table)).unwrap_or_default();
            TableState {
                closed: now.closed,
                rows_copied: work.before.rows_copied + now.rows_copied,
                changes_applied: work.before.changes_applied + now.changes_applied,
            }
        });
        Progress {
            position: self.tracker.position().clone(),
            tables: tables.collect(),
        }
    }

    pub(super) fn publish_status(&mut self) {
        let now = Instant::now();
        let copied = self.engine.is_copied();
        let due = self.status_at.map(|at| at + STATUS_EVERY);
        self.status_due = due.filter(|due| now < *due);
        if self.status_due.is_some() && self.status.borrow().copied == copied {
            return;
        }
        self.status_at = Some(now);
        self.status_due = None;
        let tables = self.progress().tables;
        self.status.send_replace(Status {
            rows_copied: tables.iter().map(|table| table.rows_copied).sum(),
            changes_applied: tables.iter().map(|table| table.changes_applied).sum(),
            changes_waiting: self.engine.buffered_rows(),
            changes_waiting_bytes: self.engine.buffered_bytes(),
            copied,
            dispatched: Some(self.tracker.dispatched().file.clone()),
        });
    }
}

/// Whoever asked may have gone; what was asked for has happened all the same.
pub(super) fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    let _gone = reply.send(value);
}

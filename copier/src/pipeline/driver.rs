//! The loop that feeds the engine and does what it wants done.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use oxferry_binlog::{
    ChangeStream, FilePosition, Gtid, ResumeTracker, RowChange, StreamError, StreamEvent,
};
use oxferry_schema::{Key, KeyRange, RowKey, TableName};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Parts,
    barrier::Barrier,
    handle::{Command, Progress, Status, TableState},
    waiters::{Goal, Waiters},
};
use crate::{
    Batch, ChunkSizer, Chunker, CopyError, KeyedChange, RowSink,
    engine::{Action, BarrierId, BatchId, ChunkId, Engine, TableId, TablePlan, TxnSeq},
};

/// Is told the table and the key of every change, when it is dispatched.
pub type ChangeObserver = Box<dyn FnMut(usize, &Key) + Send>;

/// How often the status is renewed, at most.
const STATUS_EVERY: Duration = Duration::from_millis(100);

/// A table of the job, with all that copying it takes.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "arguments of one constructor")]
pub struct TableSetup<C, K> {
    /// The source table's name, for errors.
    pub name: TableName,
    /// How the engine shall copy it, and what of it is copied already.
    pub plan: TablePlan,
    /// The source table's key.
    pub key: RowKey,
    /// Finds the ranges.
    pub chunker: C,
    /// Writes to the target.
    pub sink: Arc<K>,
    /// Says how many rows a range shall have.
    pub sizer: ChunkSizer,
    /// What the runs before this one have done.
    pub before: Counts,
}

/// How much has been done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "two counts")]
pub struct Counts {
    /// Rows copied.
    pub rows_copied: u64,
    /// Changes applied.
    pub changes_applied: u64,
}

/// What has ended since the driver looked last.
enum Done<C> {
    Range {
        table: TableId,
        chunker: C,
        range: Option<KeyRange>,
    },
    Barrier(BarrierId),
    Chunk {
        id: ChunkId,
        table: TableId,
        rows: u64,
        took: Duration,
    },
    Batch(BatchId),
    Settled(oneshot::Sender<()>),
    Redone,
}

/// What can wake the driver.
enum Wake<C> {
    Command(Command),
    Done(Result<Done<C>, CopyError>),
    Event(Result<StreamEvent, StreamError>),
    Orphaned,
}

struct TableWork<C, K> {
    name: TableName,
    key: RowKey,
    /// Absent while a range is being looked up.
    chunker: Option<C>,
    sink: Arc<K>,
    sizer: ChunkSizer,
    /// What the runs before this one have done.
    before: Counts,
}

impl<C, K> TableWork<C, K> {
    fn new(setup: TableSetup<C, K>) -> (TablePlan, Self) {
        let TableSetup {
            name,
            plan,
            key,
            chunker,
            sink,
            sizer,
            before,
        } = setup;
        (
            plan,
            Self {
                name,
                key,
                chunker: Some(chunker),
                sink,
                sizer,
                before,
            },
        )
    }
}

/// The future that copies: poll [`Driver::run`].
pub struct Driver<S, C, K, B> {
    engine: Engine,
    stream: S,
    barrier: Arc<B>,
    tables: Vec<TableWork<C, K>>,
    tracker: ResumeTracker,
    /// The transaction whose changes come next.
    seq: TxnSeq,
    /// Whether the transaction `seq` has shown a change of ours.
    changed: bool,
    observer: ChangeObserver,
    commands: mpsc::Receiver<Command>,
    status: watch::Sender<Status>,
    status_at: Option<Instant>,
    work: FuturesUnordered<BoxFuture<'static, Result<Done<C>, CopyError>>>,
    waiters: Waiters,
    /// What was handed out to be applied by the caller, until it says that it did.
    drained: Vec<(TableId, Batch)>,
    /// Whether the stream rests: everything up to the cutover's position is
    /// handed out, and what comes next may be the cutover itself.
    resting: bool,
    /// Asked for a consistent point and waiting for the buffer to run dry.
    consistent: Option<oneshot::Sender<()>>,
    stopping: bool,
}

impl<S, C, K, B> fmt::Debug for Driver<S, C, K, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("seq", &self.seq)
            .field("stopping", &self.stopping)
            .finish()
    }
}

impl<S, C, K, B> Driver<S, C, K, B>
where
    S: ChangeStream,
    C: Chunker + 'static,
    K: RowSink + 'static,
    B: Barrier + 'static,
{
    pub(super) fn new(
        parts: Parts<S, B>,
        tables: Vec<TableSetup<C, K>>,
        observer: ChangeObserver,
        (commands, status): (mpsc::Receiver<Command>, watch::Sender<Status>),
    ) -> Self {
        let (plans, tables): (Vec<_>, Vec<_>) = tables.into_iter().map(TableWork::new).unzip();
        Self {
            engine: Engine::new(parts.config, plans),
            stream: parts.stream,
            barrier: Arc::new(parts.barrier),
            tables,
            tracker: ResumeTracker::new(parts.start),
            seq: TxnSeq(1),
            changed: false,
            observer,
            commands,
            status,
            status_at: None,
            work: FuturesUnordered::new(),
            waiters: Waiters::default(),
            drained: Vec::new(),
            resting: false,
            consistent: None,
            stopping: false,
        }
    }

    /// Works until [`super::Handle::stop`] was asked for and nothing is in
    /// flight, or until every handle is gone; returns what a checkpoint must
    /// keep.
    ///
    /// # Errors
    ///
    /// [`CopyError`] for whatever ends the copy; the last checkpoint stays
    /// good.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, chunks and batches in flight may or may not
    /// be on the target: every checkpoint written before can be resumed.
    pub async fn run(mut self) -> Result<Progress, CopyError> {
        loop {
            self.start_work();
            self.answer_waiters();
            self.publish_status();
            if self.stopping && self.work.is_empty() {
                return Ok(self.progress());
            }
            match self.wait().await {
                Wake::Command(command) => self.handle_command(command),
                Wake::Done(done) => self.handle_done(done?),
                Wake::Event(event) => {
                    let event = event.map_err(|source| CopyError::Stream { source })?;
                    self.handle_event(event)?;
                }
                Wake::Orphaned => self.stopping = true,
            }
        }
    }

    async fn wait(&mut self) -> Wake<C> {
        let reading = self.reads_stream();
        let Self {
            commands,
            work,
            stream,
            stopping,
            ..
        } = self;
        tokio::select! {
            biased;
            command = commands.recv(), if !*stopping => command.map_or(Wake::Orphaned, Wake::Command),
            Some(done) = work.next(), if !work.is_empty() => Wake::Done(done),
            event = stream.next(), if reading => Wake::Event(event),
        }
    }

    /// A full buffer makes the stream wait (I8), and a consistent point is
    /// looked for at the end of a transaction only.
    fn reads_stream(&self) -> bool {
        let looks_for_consistent = self.consistent.is_some() && !self.changed;
        !self.stopping && !self.resting && self.engine.accepts_changes() && !looks_for_consistent
    }

    fn start_work(&mut self) {
        if self.stopping {
            return;
        }
        while let Some(action) = self.engine.poll() {
            let work = self.action(action);
            self.work.push(work);
        }
        while let Some(table) = self.engine.wanted_range() {
            let Some(work) = self.look_up_range(table) else {
                break;
            };
            self.work.push(work);
        }
    }

    fn look_up_range(
        &mut self,
        table: TableId,
    ) -> Option<BoxFuture<'static, Result<Done<C>, CopyError>>> {
        let work = self.tables.get_mut(table.0)?;
        let mut chunker = work.chunker.take()?;
        let rows = work.sizer.rows();
        Some(Box::pin(async move {
            let range = chunker.next(rows).await?;
            Ok(Done::Range {
                table,
                chunker,
                range,
            })
        }))
    }

    fn action(&self, action: Action) -> BoxFuture<'static, Result<Done<C>, CopyError>> {
        match action {
            Action::Barrier { id } => {
                let barrier = Arc::clone(&self.barrier);
                let through = self.tracker.dispatched().clone();
                Box::pin(async move { barrier.pass(&through).await.map(|()| Done::Barrier(id)) })
            }
            Action::Copy {
                chunk,
                table,
                range,
                again,
            } => {
                let sink = self.sink(table);
                Box::pin(async move {
                    let started = Instant::now();
                    let rows = sink.copy(&range, again).await?.rows;
                    Ok(Done::Chunk {
                        id: chunk,
                        table,
                        rows,
                        took: started.elapsed(),
                    })
                })
            }
            Action::Apply { id, table, batch } => {
                let sink = self.sink(table);
                Box::pin(async move { sink.apply(&batch).await.map(|_| Done::Batch(id)) })
            }
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the engine names only tables that it was given"
    )]
    fn sink(&self, table: TableId) -> Arc<K> {
        Arc::clone(&self.tables[table.0].sink)
    }

    fn handle_done(&mut self, done: Done<C>) {
        match done {
            Done::Range {
                table,
                chunker,
                range,
            } => {
                if let Some(work) = self.tables.get_mut(table.0) {
                    work.chunker = Some(chunker);
                }
                match range {
                    Some(range) => self.engine.handle_range(table, range),
                    None => self.engine.handle_ranges_exhausted(table),
                }
            }
            Done::Barrier(id) => self.engine.handle_barrier_passed(id),
            Done::Chunk {
                id,
                table,
                rows,
                took,
            } => {
                self.engine.handle_chunk_copied(id, rows);
                if let Some(work) = self.tables.get_mut(table.0) {
                    work.sizer.handle_chunk(rows, took);
                }
            }
            Done::Batch(id) => self.engine.handle_batch_applied(id),
            Done::Settled(reply) => answer(reply, ()),
            Done::Redone => {
                self.engine.handle_drained();
                self.engine.set_applying(true);
            }
        }
    }

    fn handle_event(&mut self, event: StreamEvent) -> Result<(), CopyError> {
        match event {
            StreamEvent::Rows { table, changes } => changes
                .into_iter()
                .try_for_each(|change| self.handle_row(table, change)),
            StreamEvent::Commit { end, gtid } => {
                self.handle_commit(end, gtid);
                Ok(())
            }
            StreamEvent::Progress { end } => {
                self.tracker.record_progress(end);
                Ok(())
            }
            StreamEvent::Ddl {
                table, statement, ..
            } => Err(CopyError::ForeignDdl {
                table: self.tables.get(table).map(|work| work.name.clone()),
                statement,
            }),
        }
    }

    fn handle_commit(&mut self, end: FilePosition, gtid: Option<Gtid>) {
        self.engine.handle_commit(self.seq);
        self.tracker.record(self.seq.0, end, gtid, self.changed);
        self.tracker.advance(self.engine.resume_seq().0);
        self.seq = TxnSeq(self.seq.0 + 1);
        self.changed = false;
    }

    fn handle_row(&mut self, table: usize, change: RowChange) -> Result<(), CopyError> {
        self.changed = true;
        let Some(work) = self.tables.get(table) else {
            return Ok(());
        };
        for change in KeyedChange::split(change, &work.key, &work.name)? {
            (self.observer)(table, &change.key);
            self.engine.handle_change(self.seq, TableId(table), change);
        }
        Ok(())
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::Settle(reply) => {
                self.waiters
                    .add(Goal::Applied(self.engine.dispatched()), reply);
            }
            Command::Reach(position, reply) => {
                self.waiters.add(Goal::Dispatched(position), reply);
            }
            Command::HoldConsistent(reply) => self.consistent = Some(reply),
            Command::Hold(reply) => {
                self.engine.set_applying(false);
                self.waiters.add(Goal::Quiet, reply);
            }
            Command::Release => self.release(),
            Command::Drain(reply) => {
                let rest = self.engine.drain();
                self.resting = rest.is_some();
                self.drained = rest.clone().unwrap_or_default();
                answer(reply, rest);
            }
            Command::Drained => {
                self.drained.clear();
                self.engine.handle_drained();
            }
            Command::IndexesBuilt(table) => self.engine.handle_indexes_built(table),
            Command::Repair(table, range, reply) => {
                self.engine.repair(table, range);
                self.waiters.add(Goal::Copied, reply);
            }
            Command::SetCopying(on) => self.engine.set_copying(on),
            Command::Progress(reply) => answer(reply, self.progress()),
            Command::Stop => self.stopping = true,
        }
    }

    /// What was drained and not reported as applied may be on the target in
    /// part: it is applied once more, before anything newer is.
    fn release(&mut self) {
        self.resting = false;
        if self.drained.is_empty() {
            return self.engine.set_applying(true);
        }
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

    fn answer_waiters(&mut self) {
        self.find_consistent_point();
        let dispatched = self.tracker.dispatched();
        for (goal, reply) in self.waiters.take_ready(&self.engine, &dispatched.file) {
            match goal {
                // Applied is half of it: the source must show it to others too.
                Goal::Applied(_) => {
                    let barrier = Arc::clone(&self.barrier);
                    let through = dispatched.clone();
                    self.work.push(Box::pin(async move {
                        barrier.pass(&through).await.map(|()| Done::Settled(reply))
                    }));
                }
                Goal::Dispatched(_) | Goal::Quiet | Goal::Copied => answer(reply, ()),
            }
        }
    }

    fn find_consistent_point(&mut self) {
        if self.engine.is_idle()
            && !self.changed
            && let Some(reply) = self.consistent.take()
        {
            self.engine.set_applying(false);
            answer(reply, ());
        }
    }

    fn progress(&mut self) -> Progress {
        self.tracker.advance(self.engine.resume_seq().0);
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

    fn publish_status(&mut self) {
        let now = Instant::now();
        let copied = self.engine.is_copied();
        let fresh = self
            .status_at
            .is_some_and(|at| now.duration_since(at) < STATUS_EVERY);
        if fresh && self.status.borrow().copied == copied {
            return;
        }
        self.status_at = Some(now);
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
fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    let _gone = reply.send(value);
}

//! The loop that feeds the engine and does what it wants done.

use std::{fmt, future, sync::Arc, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use oxferry_binlog::{
    ChangeStream, FilePosition, Gtid, ResumeTracker, RowChange, StreamError, StreamEvent,
    is_own_statement,
};
use oxferry_schema::{Key, KeyRange};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

use super::{
    Parts,
    barrier::Barrier,
    commands::answer,
    handle::{Command, Progress, Status},
    owners::{Look, Owners, PAGE_MAX},
    table::{TableSetup, TableWork},
    waiters::Waiters,
};
use crate::{
    Batch, Chunker, CopyError, KeyedChange, RowSink,
    engine::{Action, BarrierId, BatchId, ChunkId, Engine, TableId, TxnSeq},
};

/// Is told the table and the key of every change, when it is dispatched.
pub type ChangeObserver = Box<dyn FnMut(usize, &Key) + Send>;

/// How often the status is renewed, at most.
pub(super) const STATUS_EVERY: Duration = Duration::from_millis(100);

/// What has ended since the driver looked last.
pub(super) enum Done<C> {
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
    Repaired {
        id: ChunkId,
        rows: u64,
        /// The table, if these are rows that follow their owner.
        owned: Option<TableId>,
    },
    Batch(BatchId),
    /// Rows of a table that name owners which came or went.
    Owned {
        table: TableId,
        keys: Vec<Key>,
    },
    Settled(oneshot::Sender<()>),
    Redone,
}

/// What can wake the driver.
enum Wake<C> {
    Command(Command),
    Done(Result<Done<C>, CopyError>),
    Event(Result<StreamEvent, StreamError>),
    StatusDue,
    Orphaned,
}

/// The future that copies: poll [`Driver::run`].
pub struct Driver<S, C, K, B> {
    pub(super) engine: Engine,
    stream: S,
    pub(super) barrier: Arc<B>,
    pub(super) tables: Vec<TableWork<C, K>>,
    pub(super) owners: Owners,
    pub(super) tracker: ResumeTracker,
    /// The transaction whose changes come next.
    seq: TxnSeq,
    /// Whether the transaction `seq` has shown a change of ours.
    pub(super) changed: bool,
    /// The GTID of that transaction, as far as it is known.
    under_way: Option<Gtid>,
    observer: ChangeObserver,
    commands: mpsc::Receiver<Command>,
    pub(super) status: watch::Sender<Status>,
    pub(super) status_at: Option<Instant>,
    /// When the status must be renewed, if something may have changed since.
    pub(super) status_due: Option<Instant>,
    pub(super) work: FuturesUnordered<BoxFuture<'static, Result<Done<C>, CopyError>>>,
    pub(super) waiters: Waiters,
    /// What was handed out to be applied by the caller, until it says that it did.
    pub(super) drained: Vec<(TableId, Batch)>,
    /// Whether what was handed out is being applied once more.
    pub(super) redoing: bool,
    /// Whether the stream rests: everything up to the cutover's position is
    /// handed out, and what comes next may be the cutover itself.
    pub(super) resting: bool,
    /// Who asked for a consistent point, while the buffer runs dry.
    pub(super) consistent: Vec<oneshot::Sender<()>>,
    pub(super) stopping: bool,
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
        let owned = tables.iter().enumerate();
        let owned = owned.filter(|(_, work)| work.ownership.owned);
        let owned: Vec<_> = owned.map(|(table, _)| TableId(table)).collect();
        Self {
            engine: Engine::new(parts.config, plans),
            owners: Owners::new(owned),
            stream: parts.stream,
            barrier: Arc::new(parts.barrier),
            tables,
            tracker: ResumeTracker::new(parts.start),
            seq: TxnSeq(1),
            changed: false,
            under_way: None,
            observer,
            commands,
            status,
            status_at: None,
            status_due: None,
            work: FuturesUnordered::new(),
            waiters: Waiters::default(),
            drained: Vec::new(),
            redoing: false,
            resting: false,
            consistent: Vec::new(),
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
                Wake::StatusDue => {}
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
            status_due,
            ..
        } = self;
        tokio::select! {
            biased;
            command = commands.recv(), if !*stopping => command.map_or(Wake::Orphaned, Wake::Command),
            Some(done) = work.next(), if !work.is_empty() => Wake::Done(done),
            event = stream.next(), if reading => Wake::Event(event),
            () = until(*status_due) => Wake::StatusDue,
        }
    }

    /// A full buffer makes the stream wait (I8), and a consistent point is
    /// looked for at the end of a transaction only.
    fn reads_stream(&self) -> bool {
        let looks_for_consistent = !self.consistent.is_empty() && !self.changed;
        let has_room = self.engine.accepts_changes() && !self.owners.is_full();
        !self.stopping && !self.resting && has_room && !looks_for_consistent
    }

    fn start_work(&mut self) {
        if self.stopping {
            return;
        }
        while let Some(look) = self.owners.next() {
            let work = self.look_for_owned(look);
            self.work.push(work);
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

    /// Looks for rows once their owners' comings and goings are visible.
    fn look_for_owned(&self, look: Look) -> BoxFuture<'static, Result<Done<C>, CopyError>> {
        let (sink, seen) = (self.sink(look.table), self.seen());
        Box::pin(async move {
            seen.await?;
            let Look {
                table,
                owners,
                from,
            } = look;
            let keys = sink
                .keys_of_owners(&owners, from.as_ref(), PAGE_MAX)
                .await?;
            Ok(Done::Owned { table, keys })
        })
    }

    /// Waits until everything dispatched by now is visible, the transaction
    /// under way included. Without GTIDs the barrier's own commit comes after
    /// that one's anyway.
    fn seen(&self) -> BoxFuture<'static, Result<(), CopyError>> {
        let barrier = Arc::clone(&self.barrier);
        let mut through = self.tracker.dispatched().clone();
        if let (Some(gtids), Some(gtid)) = (&mut through.gtids, &self.under_way) {
            gtids.insert(gtid);
        }
        Box::pin(async move { barrier.pass(&through).await })
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
            Action::CopyKeys { chunk, table, keys } => {
                let sink = self.sink(table);
                let owned = self.owners.is_page(table, &keys).then_some(table);
                Box::pin(async move {
                    let copied = sink.copy_keys(&keys).await?;
                    Ok(Done::Repaired {
                        id: chunk,
                        rows: copied.rows,
                        owned,
                    })
                })
            }
            Action::Apply { id, table, batch } => {
                let sink = self.sink(table);
                let seen = self.is_owned(table).then(|| self.seen());
                Box::pin(async move {
                    if let Some(seen) = seen {
                        seen.await?;
                    }
                    sink.apply(&batch).await.map(|_| Done::Batch(id))
                })
            }
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the engine names only tables that it was given"
    )]
    pub(super) fn sink(&self, table: TableId) -> Arc<K> {
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
            Done::Repaired { id, rows, owned } => {
                self.engine.handle_chunk_copied(id, rows);
                if let Some(table) = owned {
                    self.owners.handle_copied(table);
                }
            }
            Done::Owned { table, keys } => self.handle_owned(table, keys),
            Done::Batch(id) => self.engine.handle_batch_applied(id),
            Done::Settled(reply) => answer(reply, ()),
            Done::Redone => {
                self.redoing = false;
                self.engine.handle_drained();
            }
        }
    }

    fn is_owned(&self, table: TableId) -> bool {
        let work = self.tables.get(table.0);
        work.is_some_and(|work| work.ownership.owned)
    }

    /// Rows that name an owner which came or went are copied again.
    fn handle_owned(&mut self, table: TableId, keys: Vec<Key>) {
        let keys = self.owners.handle_found(table, keys, PAGE_MAX);
        for key in &keys {
            (self.observer)(table.0, key);
        }
        if !keys.is_empty() {
            self.engine.repair_by_change(table, keys);
        }
    }

    /// Returns the first transaction that is not wholly on the target.
    pub(super) fn resume_seq(&self) -> u64 {
        let resume = self.engine.resume_seq();
        let owners = self.owners.first_unapplied();
        owners.map_or(resume, |first| first.min(resume)).0
    }

    fn handle_event(&mut self, event: StreamEvent) -> Result<(), CopyError> {
        match event {
            StreamEvent::Rows { table, changes } => {
                self.under_way = self.stream.under_way().or_else(|| self.under_way.take());
                changes
                    .into_iter()
                    .try_for_each(|change| self.handle_row(table, change))
            }
            StreamEvent::Commit { end, gtid } => {
                self.handle_commit(end, gtid);
                Ok(())
            }
            StreamEvent::Progress { end } => {
                self.tracker.record_progress(end);
                Ok(())
            }
            // The job's own rename, which shuts writers out.
            StreamEvent::Ddl {
                statement,
                end,
                gtid,
                ..
            } if is_own_statement(statement.as_bytes()) => {
                self.handle_commit(end, gtid);
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
        // As many ends are remembered as changes are held: bounded (I8).
        let begins = self.engine.begins_with(self.seq) || self.owners.begins_with(self.seq);
        self.tracker.record(self.seq.0, end, gtid, begins);
        self.tracker.advance(self.resume_seq());
        self.seq = TxnSeq(self.seq.0 + 1);
        self.changed = false;
        self.under_way = None;
    }

    fn handle_row(&mut self, table: usize, change: RowChange) -> Result<(), CopyError> {
        self.changed = true;
        let work = self.tables.get(table);
        let work = work.expect("the stream follows the job's tables only");
        for (owned, owner) in work.ownership.came_or_went(&change) {
            self.owners.note(owned, self.seq, owner);
        }
        let is_owned = work.ownership.owned;
        for mut change in KeyedChange::split(change, &work.key, &work.name)? {
            if is_owned {
                change.image = None;
            }
            (self.observer)(table, &change.key);
            self.engine.handle_change(self.seq, TableId(table), change);
        }
        Ok(())
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => future::pending().await,
    }
}

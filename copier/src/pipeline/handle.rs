//! The caller's side: commands to the driver, and what it has reached.

use oxferry_binlog::{FilePosition, Position};
use oxferry_schema::KeyRange;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    Batch,
    engine::{Repair, TableId},
};

/// The driver is gone; why, its own result says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the copy has stopped")]
pub struct Stopped;

/// What the job shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Rows that were copied, this run and the ones before it.
    pub rows_copied: u64,
    /// Changes that were applied.
    pub changes_applied: u64,
    /// Changes that wait to be applied.
    pub changes_waiting: u64,
    /// Bytes of memory that they take, about.
    pub changes_waiting_bytes: u64,
    /// Whether every range has been copied.
    pub copied: bool,
    /// The place in the binary log up to which all has been dispatched.
    pub dispatched: Option<FilePosition>,
}

/// What a checkpoint must keep of the pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Where the stream must start again; never ahead of the target's data.
    pub position: Position,
    /// For each table, in the job's order: what is copied.
    pub tables: Vec<TableState>,
}

/// What is copied of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableState {
    /// The ranges whose rows are on the target, merged, in key order.
    pub closed: Vec<KeyRange>,
    /// Rows copied.
    pub rows_copied: u64,
    /// Changes applied.
    pub changes_applied: u64,
}

/// One thing asked of the driver.
#[derive(Debug)]
pub(super) enum Command {
    /// Everything dispatched by now is applied, and visible on the source.
    Settle(oneshot::Sender<()>),
    /// The stream has dispatched up to a position.
    Reach(FilePosition, oneshot::Sender<()>),
    /// Nothing is applied any more, from a transaction's end on at which the
    /// target is exactly a state of the source.
    HoldConsistent(oneshot::Sender<()>),
    /// Nothing is applied any more, whatever waits.
    Hold(oneshot::Sender<()>),
    /// Applying goes on.
    Release,
    /// Everything that waits, to be applied by the caller.
    Drain(oneshot::Sender<Option<Vec<(TableId, Batch)>>>),
    /// The caller applied what `Drain` gave.
    Drained,
    /// Unique indexes now stand on a table's target.
    IndexesBuilt(TableId),
    /// Rows are copied once more.
    Repair(TableId, Repair, oneshot::Sender<()>),
    /// Whether new chunks may start.
    SetCopying(bool),
    /// What a checkpoint must keep.
    Progress(oneshot::Sender<Progress>),
    /// No new work; the driver ends when nothing is in flight.
    Stop,
}

/// Steers a driver and waits for what it reaches.
///
/// Every method fails with [`Stopped`] once the driver has ended. Dropping a
/// call's future is safe; what was asked for happens all the same.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<Status>,
}

impl Handle {
    pub(super) const fn new(
        commands: mpsc::Sender<Command>,
        status: watch::Receiver<Status>,
    ) -> Self {
        Self { commands, status }
    }

    async fn send(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).await.map_err(|_| Stopped)
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(ask(reply)).await?;
        answer.await.map_err(|_| Stopped)
    }

    /// Returns when every range has been copied.
    ///
    /// # Errors
    ///
    /// [`Stopped`] when the driver ended before.
    pub async fn copied(&self) -> Result<(), Stopped> {
        let mut status = self.status.clone();
        status
            .wait_for(|status| status.copied)
            .await
            .map(drop)
            .map_err(|_| Stopped)
    }

    /// Returns when at most `changes` wait to be applied, as the status shows.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn waiting_at_most(&self, changes: u64) -> Result<(), Stopped> {
        let mut status = self.status.clone();
        let few = status
            .wait_for(|status| status.changes_waiting <= changes)
            .await;
        few.map(drop).map_err(|_| Stopped)
    }

    /// Returns when all that was dispatched before the call has been applied
    /// to the target and is visible to new snapshots on the source.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn settle(&self) -> Result<(), Stopped> {
        self.ask(Command::Settle).await
    }

    /// Returns when the stream has dispatched everything before `position`.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn reach(&self, position: FilePosition) -> Result<(), Stopped> {
        self.ask(|reply| Command::Reach(position, reply)).await
    }

    /// Stops applying at a consistent point: the target is then exactly the
    /// source at the end of some transaction. The caller has waited for
    /// [`Handle::copied`], and then for the source's position read after that.
    ///
    /// Lasts until [`Handle::release`]. The stream is still read, as far as
    /// the change buffer goes.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn hold_consistent(&self) -> Result<(), Stopped> {
        self.ask(Command::HoldConsistent).await
    }

    /// Stops applying; returns when no batch is in flight.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn hold(&self) -> Result<(), Stopped> {
        self.ask(Command::Hold).await
    }

    /// Lets applying go on. A [`Handle::hold_consistent`] that still looks for
    /// its point is given up.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn release(&self) -> Result<(), Stopped> {
        self.send(Command::Release).await
    }

    /// Hands out everything that waits, in an order in which it can be
    /// applied; `None` while a chunk is open or a batch in flight, so only
    /// while applying is held and everything is copied.
    ///
    /// The stream rests until [`Handle::release`].
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn drain(&self) -> Result<Option<Vec<(TableId, Batch)>>, Stopped> {
        self.ask(Command::Drain).await
    }

    /// Says that all that [`Handle::drain`] gave is on the target. Without it,
    /// [`Handle::release`] has it applied once more.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn drained(&self) -> Result<(), Stopped> {
        self.send(Command::Drained).await
    }

    /// Says that unique indexes have been built on a table's target, at the
    /// consistent point that [`Handle::hold_consistent`] found.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn indexes_built(&self, table: TableId) -> Result<(), Stopped> {
        self.send(Command::IndexesBuilt(table)).await
    }

    /// Copies rows once more, by the rules of every chunk; returns when they
    /// are on the target. Rows that the source doesn't have are removed.
    ///
    /// A range where the target doesn't order the keys as the source does
    /// keeps such rows: there, name the keys.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn repair(&self, table: TableId, what: Repair) -> Result<(), Stopped> {
        self.ask(|reply| Command::Repair(table, what, reply)).await
    }

    /// Says whether new chunks may start.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn set_copying(&self, on: bool) -> Result<(), Stopped> {
        self.send(Command::SetCopying(on)).await
    }

    /// Returns what a checkpoint must keep, as of now.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn progress(&self) -> Result<Progress, Stopped> {
        self.ask(Command::Progress).await
    }

    /// Asks the driver to end: nothing new is started, what is in flight is
    /// finished.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn stop(&self) -> Result<(), Stopped> {
        self.send(Command::Stop).await
    }

    /// Returns the latest status; it is renewed several times a second.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }
}

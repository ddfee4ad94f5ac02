//! Runs the engine against a stream, a source and a target.
//!
//! [`pipeline`] gives a [`Driver`], a future that does the work and that the
//! caller polls, and a [`Handle`] to steer it and to wait for what it reaches.
//! Everything that decides is in [`crate::engine`]; this is the thin shell
//! that reads, writes and waits.

mod barrier;
mod commands;
mod driver;
mod handle;
mod keyed;
mod owners;
mod table;
#[cfg(test)]
mod tests;
mod waiters;

pub use barrier::{Barrier, ServerBarrier};
pub use driver::{ChangeObserver, Driver};
pub use handle::{Handle, Progress, Status, Stopped, TableState};
pub use table::{Counts, Ownership, TableSetup};

use oxferry_binlog::{ChangeStream, Position};
use tokio::sync::{mpsc, watch};

use crate::{Chunker, RowSink, engine::EngineConfig};

/// How many commands may wait for the driver; each caller waits for its reply,
/// so more than a few are never under way.
const COMMANDS_WAITING_MAX: usize = 16;

/// Puts a driver together that follows `stream` from `start`.
///
/// `observer` is told the key of every change at the moment of its dispatch.
pub fn pipeline<S, C, K, B>(
    parts: Parts<S, B>,
    tables: Vec<TableSetup<C, K>>,
    observer: ChangeObserver,
) -> (Handle, Driver<S, C, K, B>)
where
    S: ChangeStream,
    C: Chunker + 'static,
    K: RowSink + 'static,
    B: Barrier + 'static,
{
    let (command_tx, command_rx) = mpsc::channel(COMMANDS_WAITING_MAX);
    let (status_tx, status_rx) = watch::channel(Status::default());
    let driver = Driver::new(parts, tables, observer, (command_rx, status_tx));
    (Handle::new(command_tx, status_rx), driver)
}

/// What a pipeline runs on.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "arguments of one constructor")]
pub struct Parts<S, B> {
    /// The changes of the job's tables, in the order of the job's list.
    pub stream: S,
    /// The barrier of the source.
    pub barrier: B,
    /// The engine's limits.
    pub config: EngineConfig,
    /// Where the stream starts.
    pub start: Position,
}

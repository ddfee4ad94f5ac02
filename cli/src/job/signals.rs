//! SIGINT and SIGTERM: the first ends the job at a safe point, the second at once.

use std::io;

use oxferry_schema::Remedy;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use super::callbacks::{check_callbacks, ended_early};
use crate::{
    args::CallbackArgs,
    failure::{Failure, exit_code},
};

/// Whether the operator wants the job to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Sender<bool>);

/// Listens for signals for as long as it is polled.
#[derive(Debug)]
pub(crate) struct Listener {
    interrupt: Signal,
    terminate: Signal,
    seen: Interrupt,
}

/// Runs a job that the operator may interrupt, and tells the error callback of
/// an end that nobody was told of.
///
/// # Errors
///
/// The job's; a second signal ends the process itself.
pub(crate) async fn attended(
    callbacks: &CallbackArgs,
    job: impl AsyncFnOnce(Interrupt) -> Result<(), Failure>,
) -> Result<(), Failure> {
    check_callbacks(callbacks)?;
    let (listener, interrupt) = listen()
        .map_err(|error| Failure::new(Remedy::Bug, error).context("listening for signals"))?;
    let told = async { ended_early(callbacks, job(interrupt).await).await };
    tokio::select! {
        outcome = told => outcome,
        // Ends the process itself, or never.
        () = listener.run() => Err(interrupted()),
    }
}

/// Begins to listen; from now on the first signal doesn't end the process.
///
/// # Errors
///
/// When the system refuses the handlers.
fn listen() -> io::Result<(Listener, Interrupt)> {
    let seen = Interrupt::new();
    let listener = Listener {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
        seen: seen.clone(),
    };
    Ok((listener, seen))
}

impl Listener {
    /// Tells of the first signal, and ends the process at the second.
    pub(crate) async fn run(mut self) {
        self.next().await;
        tracing::warn!("ending at the next safe point; once more to end at once");
        self.seen.ask();
        self.next().await;
        tracing::warn!("ended at once: the last checkpoint is kept");
        std::process::exit(i32::from(exit_code(Remedy::Interrupted)));
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

impl Interrupt {
    /// Begins with a job that may go on.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Has the job end at the next safe point.
    pub(crate) fn ask(&self) {
        self.0.send_replace(true);
    }

    /// Returns whether the job shall end.
    pub(crate) fn is_wanted(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the job shall end.
    pub(crate) async fn wanted(&self) -> Failure {
        // The sender lives in this very value.
        let mut seen = self.0.subscribe();
        let _closed = seen.wait_for(|seen| *seen).await;
        interrupted()
    }
}

/// The failure that an interrupted job ends with.
pub(crate) fn interrupted() -> Failure {
    Failure::new(Remedy::Interrupted, anyhow::anyhow!("interrupted"))
}

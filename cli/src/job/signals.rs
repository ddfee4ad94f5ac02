//! SIGINT and SIGTERM: the first ends the job at a safe point, the second at once.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use oxferry_schema::Remedy;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use super::callbacks::{check_callbacks, ended_early};
use crate::{args::CallbackArgs, failure::Failure};

/// Whether the operator wants the job to end, and what an end would leave.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    wanted: watch::Sender<bool>,
    /// Whether the applications may be on their way to the target.
    in_doubt: Arc<AtomicBool>,
}

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
/// The job's. A second signal drops it: a switch under way is undone then, unless
/// the applications may be on their way already.
pub(crate) async fn attended(
    callbacks: &CallbackArgs,
    job: impl AsyncFnOnce(Interrupt) -> Result<(), Failure>,
) -> Result<(), Failure> {
    check_callbacks(callbacks)?;
    let (listener, interrupt) = listen()
        .map_err(|error| Failure::new(Remedy::Bug, error).context("listening for signals"))?;
    let doubt = interrupt.clone();
    let told = async {
        let outcome = job(interrupt).await.map_err(|failure| doubt.judge(failure));
        ended_early(callbacks, outcome).await
    };
    let outcome = tokio::select! {
        outcome = told => return outcome,
        () = listener.run() => Err(interrupted()),
    };
    outcome.map_err(|failure| doubt.judge(failure))
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
    /// Tells of the first signal, and returns at the second.
    pub(crate) async fn run(mut self) {
        self.next().await;
        tracing::warn!("ending at the next safe point; once more to end at once");
        self.seen.ask();
        self.next().await;
        tracing::warn!("ending at once: the last checkpoint is kept");
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
        Self {
            wanted: watch::Sender::new(false),
            in_doubt: Arc::default(),
        }
    }

    /// Has the job end at the next safe point.
    pub(crate) fn ask(&self) {
        self.wanted.send_replace(true);
    }

    /// Returns whether the job shall end.
    pub(crate) fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    /// Notes whether the applications may be on their way to the target: from
    /// right before they are sent until it is stored that they were, or weren't.
    pub(crate) fn doubt(&self, in_doubt: bool) {
        self.in_doubt.store(in_doubt, Ordering::Relaxed);
    }

    /// Returns what a failure means that ends the job now.
    fn judge(&self, failure: Failure) -> Failure {
        if !self.in_doubt.load(Ordering::Relaxed) || failure.remedy() == Remedy::Ambiguous {
            return failure;
        }
        let line = failure.line();
        let why = anyhow::anyhow!(
            "{line}; the switch was being announced, and whether the applications write to the target is \
             not known: what was done to the source is not undone; look where they write before anything else"
        );
        let judged = Failure::new(Remedy::Ambiguous, why).without_advice();
        if failure.is_told() {
            judged.told()
        } else {
            judged
        }
    }

    /// Waits until the job shall end.
    pub(crate) async fn wanted(&self) -> Failure {
        // The sender lives in this very value.
        let mut seen = self.wanted.subscribe();
        let _closed = seen.wait_for(|seen| *seen).await;
        interrupted()
    }
}

/// The failure that an interrupted job ends with.
pub(crate) fn interrupted() -> Failure {
    Failure::new(Remedy::Interrupted, anyhow::anyhow!("interrupted"))
}

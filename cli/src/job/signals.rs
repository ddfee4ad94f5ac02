//! SIGINT and SIGTERM: the first ends the job at a safe point, the second at once.

use std::io;

use oxferry_schema::Remedy;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use crate::failure::{Failure, exit_code};

/// Whether the operator wants the job to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

/// Listens for signals for as long as it is polled.
#[derive(Debug)]
pub(crate) struct Listener {
    interrupt: Signal,
    terminate: Signal,
    seen: watch::Sender<bool>,
}

/// Begins to listen; from now on the first signal doesn't end the process.
///
/// # Errors
///
/// When the system refuses the handlers.
pub(crate) fn listen() -> io::Result<(Listener, Interrupt)> {
    let (seen, interrupted) = watch::channel(false);
    let listener = Listener {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
        seen,
    };
    Ok((listener, Interrupt(interrupted)))
}

impl Listener {
    /// Tells of the first signal, and ends the process at the second.
    pub(crate) async fn run(mut self) {
        self.next().await;
        tracing::warn!("ending at the next safe point; once more to end at once");
        self.seen.send_replace(true);
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
    /// Returns whether the job shall end.
    pub(crate) fn is_wanted(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the job shall end.
    pub(crate) async fn wanted(&self) -> Failure {
        let mut seen = self.0.clone();
        if seen.wait_for(|seen| *seen).await.is_err() {
            // The listener is gone, so nobody can interrupt any more.
            std::future::pending::<()>().await;
        }
        interrupted()
    }
}

/// The failure that an interrupted job ends with.
pub(crate) fn interrupted() -> Failure {
    Failure::new(Remedy::Interrupted, anyhow::anyhow!("interrupted"))
}

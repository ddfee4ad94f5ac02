//! A source at rest: nobody writes to it any more, and nothing may.

use std::sync::Arc;

use oxferry_binlog::Position;
use oxferry_copier::{
    CopyError,
    pipeline::{Barrier, ServerBarrier},
};
use tokio::sync::watch;

/// Whether the source is at rest: shut to all writers, and everything that was
/// committed visible.
#[derive(Clone, Debug)]
pub(crate) struct AtRest(Arc<watch::Sender<bool>>);

impl AtRest {
    /// Begins with a source that is written to.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Says whether the source is at rest from now on.
    pub(crate) fn set(&self, at_rest: bool) {
        self.0.send_replace(at_rest);
    }

    /// Returns whether it is.
    pub(crate) fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is, or isn't.
    pub(crate) async fn becomes(&self, at_rest: bool) {
        // This very value holds the sender, so that it can't be gone.
        let mut seen = self.0.subscribe();
        let _seen = seen.wait_for(|now| *now == at_rest).await;
    }
}

/// The source's barrier, which a source at rest doesn't need: without GTIDs it
/// would write there.
#[derive(Debug)]
pub(crate) struct JobBarrier {
    server: ServerBarrier,
    at_rest: AtRest,
}

impl JobBarrier {
    /// Passes by `server` while the source is written to.
    pub(crate) const fn new(server: ServerBarrier, at_rest: AtRest) -> Self {
        Self { server, at_rest }
    }
}

impl Barrier for JobBarrier {
    async fn pass(&self, through: &Position) -> Result<(), CopyError> {
        if self.at_rest.is_set() {
            return Ok(());
        }
        tokio::select! {
            passed = self.server.pass(through) => passed,
            () = self.at_rest.becomes(true) => Ok(()),
        }
    }
}

//! Who waits for what the pipeline has not reached yet.

use oxferry_binlog::FilePosition;
use tokio::sync::oneshot;

use crate::engine::{Engine, TxnSeq};

/// What somebody waits for.
#[derive(Debug)]
pub(super) enum Goal {
    /// Every transaction up to this one is applied.
    Applied(TxnSeq),
    /// The stream has dispatched up to this place.
    Dispatched(FilePosition),
    /// No batch is in flight.
    Quiet,
    /// Every range is copied, those to repair included.
    Copied,
}

/// Everybody who waits, with what for.
#[derive(Debug, Default)]
pub(super) struct Waiters(Vec<(Goal, oneshot::Sender<()>)>);

impl Waiters {
    /// Lets `reply` wait for `goal`.
    pub(super) fn add(&mut self, goal: Goal, reply: oneshot::Sender<()>) {
        self.0.push((goal, reply));
    }

    /// Takes out the replies whose goal is reached; `quiet` says whether no
    /// batch is in flight.
    pub(super) fn take_ready(
        &mut self,
        engine: &Engine,
        dispatched: &FilePosition,
        quiet: bool,
    ) -> Vec<(Goal, oneshot::Sender<()>)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        self.0
            .extract_if(.., |(goal, _)| match goal {
                Goal::Applied(seq) => engine.resume_seq() > *seq,
                Goal::Dispatched(position) => dispatched >= position,
                Goal::Quiet => quiet,
                Goal::Copied => engine.is_copied(),
            })
            .collect()
    }
}

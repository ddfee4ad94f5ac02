//! Who waits for what the pipeline has not reached yet.

use oxferry_binlog::FilePosition;
use tokio::sync::oneshot;

use super::owners::Owners;
use crate::engine::{Engine, TxnSeq};

/// What somebody waits for.
#[derive(Debug)]
pub(super) enum Goal {
    /// Every transaction up to this one is applied.
    Applied(TxnSeq),
    /// The stream has dispatched up to this place.
    Dispatched(FilePosition),
    /// Up to this transaction it is known which rows changed their tenant with
    /// their owner.
    Found(TxnSeq),
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
        (engine, owners): (&Engine, &Owners),
        dispatched: &FilePosition,
        quiet: bool,
    ) -> Vec<(Goal, oneshot::Sender<()>)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        for (goal, _) in &mut self.0 {
            if matches!(goal, Goal::Dispatched(position) if dispatched >= position) {
                *goal = Goal::Found(engine.begun());
            }
        }
        let is_behind = |first: Option<TxnSeq>, seq| first.is_none_or(|first| first > seq);
        self.0
            .extract_if(.., |(goal, _)| match goal {
                Goal::Applied(seq) => {
                    engine.resume_seq() > *seq && is_behind(owners.first_unapplied(), *seq)
                }
                Goal::Dispatched(_) => false,
                Goal::Found(seq) => is_behind(owners.first_unfound(), *seq),
                Goal::Quiet => quiet,
                Goal::Copied => engine.is_copied(),
            })
            .collect()
    }
}

//! The copy engine between two simulated servers.
//!
//! A seed decides everything: the tables, what the application writes, when a
//! commit becomes visible, when the stream brings it, how a chunk's rows and a
//! batch's changes are interleaved, when the job crashes and from which
//! checkpoint it resumes. [`run`] ends with the target taking over, or with
//! the first rule that was seen broken.
//!
//! A [`Fault`] breaks one rule on purpose, mostly by lying to the engine: so
//! that a test can show that the simulation notices.
#![expect(
    clippy::indexing_slicing,
    reason = "tables and changes are counted by the simulation itself"
)]

use std::fmt;

use fastrand::Rng;
use oxferry_copier::engine::{EngineConfig, KeyOrder, Mode};

use order::Order;
use verifying::Sizes;
use world::World;

mod applying;
mod checkpoint;
mod chunker;
mod copying;
mod lingering;
mod order;
mod proving;
mod row;
mod source;
mod stream;
mod streaming;
mod surviving;
mod taking_over;
mod target;
#[cfg(test)]
mod tests;
mod verifying;
mod watch;
mod world;

/// Runs one seed.
///
/// # Errors
///
/// The first rule that was broken.
pub fn run(seed: u64, faults: Faults) -> Result<Stats, Failure> {
    let rng = Rng::with_seed(seed);
    World::new(rng, faults)?.run()
}

/// What is broken on purpose, and whether only the outcome counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// The rule that is broken, if any.
    pub broken: Option<Fault>,
    /// Whether the checks along the way are left out, so that only rows that
    /// differ in the end make a run fail.
    pub outcome_only: bool,
}

/// One way to break a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Every barrier passes at once (I1).
    BarrierSkipped,
    /// Each row event counts as a transaction, so chunks open between the
    /// events of one (I1).
    TransactionsSplit,
    /// Changes in open chunks are thrown away (I2).
    OpenDiscarded,
    /// Changes in closed ranges are thrown away (I2).
    ClosedDiscarded,
    /// Changes that no chunk has covered are thrown away in *ordered* mode,
    /// too (I2).
    OrderedDiscards,
    /// A chunk counts as copied before its rows are written (I3).
    ChunkClosedEarly,
    /// A transaction's events come in reverse (I4).
    OrderReversed,
    /// A batch counts as applied before it is (I4, I5).
    BatchReportedEarly,
    /// The resume position is where the stream is (I5).
    CheckpointAhead,
    /// The resume position may lie inside a transaction (I5).
    CheckpointInside,
    /// An older checkpoint may replace a newer one (I6).
    StoreTakesStale,
    /// A range that is read again is not emptied first (I6).
    NotEmptied,
    /// The stream does not wait for room (I8).
    BufferLimitIgnored,
    /// The target takes over whenever it likes (I9).
    TakeOverUnproven,
    /// Unique indexes are built away from consistent points.
    IndexBuiltEarly,
    /// A table with a unique index on its target is copied in *ranged* mode.
    WrongMode,
    /// A range is emptied in a transaction of its own, before the copy (I5).
    EmptiedApart,
    /// What an earlier session was doing may commit while the work is done
    /// again (I3, I4).
    SessionsNotEnded,
    /// What a failed cutover attempt drained counts as applied (I2).
    DrainForgotten,
    /// What a failed cutover attempt drained is applied again after newer
    /// changes (I4).
    DrainOvertaken,
    /// A comparison does not wait for the stream to show what it has seen.
    ReachSkipped,
    /// A comparison waits for whole transactions only, not for the part of one
    /// that the verifier was told of.
    PartsNotSettled,
    /// The verifier is not told of changes (I9).
    ChangesNotNoted,
    /// Keys that only the server can order are taken for what the client
    /// thinks of them: *ranged* mode (I2).
    OrderGuessed,
    /// Deletes count as applied before they are, so that a key may be written
    /// before one that is the same to the server is deleted (I4).
    DeletesOvertaken,
}

/// The rules that a run is checked against, as DESIGN numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invariant {
    /// A chunk's snapshot contains every transaction dispatched before the
    /// chunk opened.
    I1,
    /// No change is thrown away unless a chunk that opens later covers it.
    I2,
    /// No change is applied before the chunks that it waits for.
    I3,
    /// Changes to one key reach the target in binlog order.
    I4,
    /// The resume position is not ahead of the target, nor in a transaction.
    I5,
    /// A checkpoint never goes back.
    I6,
    /// Nothing is unbounded.
    I8,
    /// The target takes over only where it equals the source.
    I9,
    /// A copied row meets no other in *ranged* mode.
    PlainInsert,
    /// At a consistent point the target equals the source.
    Converges,
    /// A comparison reports damaged rows only, and comes to an end.
    Compares,
    /// The job comes to an end.
    Progress,
}

/// A rule that was seen broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{invariant:?} broken: {what}")]
#[non_exhaustive]
pub struct Failure {
    /// Which rule.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
}

/// What happened in a run, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Steps taken.
    pub steps: u64,
    /// Row events dispatched.
    pub events: u64,
    /// Changes thrown away, rightly.
    pub discarded: u64,
    /// Changes applied.
    pub applied: u64,
    /// Batches given out.
    pub batches: u64,
    /// Chunks copied.
    pub chunks: u64,
    /// Barriers started.
    pub barriers: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Crashes, each followed by a resume.
    pub crashes: u64,
    /// Cuts of the stream's connection, and failovers.
    pub reconnects: u64,
    /// Rows damaged on the target.
    pub damaged: u64,
    /// Ranges copied once more because of a difference.
    pub repairs: u64,
    /// Comparisons by the verifier.
    pub compared: u64,
    /// Differences that they found.
    pub mismatches: u64,
    /// Checks of every row at a consistent point.
    pub checked: u64,
    /// Cutover attempts that failed.
    pub attempts_failed: u64,
    /// Those of them that had applied a part of what was left.
    pub drains_failed: u64,
    /// Those of them that found a difference under the lock.
    pub refused: u64,
    /// Sessions at work that a crash left behind.
    pub sessions_left: u64,
    /// Unique indexes built after the copy.
    pub indexes_built: u64,
    /// Runs with keys that only the servers could order.
    pub server_ordered: u64,
    /// Repairs of lists of keys.
    pub keys_repaired: u64,
}

/// What a seed decides at its beginning.
#[derive(Debug)]
struct Params {
    /// Keys are `0..keys`.
    keys: i64,
    modes: Vec<Mode>,
    /// How the servers order each table's keys.
    orders: Vec<Order>,
    /// Whether the verifier compares: not keys that only servers order.
    verifies: bool,
    /// Which tables' targets have a unique index from the start.
    unique: Vec<bool>,
    /// Which tables' targets get it after the copy.
    index_later: Vec<bool>,
    /// Whether positions and barriers go by GTID.
    gtid: bool,
    /// Whether chunks and batches are written in one step.
    whole_writes: bool,
    crashes: bool,
    damages: bool,
    /// How often the application writes, in a hundred steps.
    writes: u8,
    /// In how many of the last steps it goes on writing, and things go wrong.
    late_steps: usize,
    /// How often each kind of step is taken; see `World::progress`.
    weights: [u8; 11],
    /// Whether a rule is broken by copying in the wrong mode.
    wrong_mode: bool,
    config: EngineConfig,
    sizes: Sizes,
}

impl Params {
    fn random(rng: &mut Rng, faults: Faults) -> Self {
        let tables = rng.usize(1..4);
        let wrong_mode = faults.has(Fault::WrongMode);
        let mut modes = Vec::new();
        let mut unique = Vec::new();
        let mut index_later = Vec::new();
        let mut orders = Vec::new();
        let server_orders = faults.needs_server_order() || rng.u8(..3) == 0;
        for _ in 0..tables {
            let is_ranged = rng.bool();
            let has_index = rng.u8(..4) > 0;
            let is_server = server_orders && !is_ranged && !wrong_mode;
            orders.push(Order(if is_server {
                KeyOrder::Server
            } else {
                KeyOrder::Client
            }));
            let is_guessed = is_server && faults.has(Fault::OrderGuessed);
            modes.push(if is_ranged || wrong_mode || is_guessed {
                Mode::Ranged
            } else {
                Mode::Ordered
            });
            unique.push(has_index && (!is_ranged || wrong_mode));
            index_later.push(has_index && is_ranged && !wrong_mode);
        }
        Self {
            keys: rng.i64(4..15),
            modes,
            verifies: orders.iter().all(|order| order.0 == KeyOrder::Client),
            orders,
            unique,
            index_later,
            gtid: rng.bool(),
            whole_writes: rng.bool(),
            crashes: rng.u8(..3) > 0,
            damages: rng.u8(..4) == 0 && !server_orders,
            writes: rng.u8(1..20),
            late_steps: if rng.bool() {
                rng.usize(..200)
            } else {
                rng.usize(200..2_500)
            },
            weights: std::array::from_fn(|_| rng.u8(1..12)),
            wrong_mode,
            config: random_config(rng),
            sizes: Sizes::random(rng),
        }
    }
}

impl Faults {
    /// Breaks nothing.
    pub const NONE: Self = Self {
        broken: None,
        outcome_only: false,
    };

    /// Breaks one rule, and checks all of them.
    #[must_use]
    pub const fn breaking(fault: Fault) -> Self {
        Self {
            broken: Some(fault),
            outcome_only: false,
        }
    }

    /// Breaks one rule, and looks at the rows only.
    #[must_use]
    pub const fn breaking_unseen(fault: Fault) -> Self {
        Self {
            broken: Some(fault),
            outcome_only: true,
        }
    }

    /// Returns whether the broken rule is one of keys that only the server can
    /// order.
    fn needs_server_order(self) -> bool {
        self.has(Fault::OrderGuessed) || self.has(Fault::DeletesOvertaken)
    }

    fn has(self, fault: Fault) -> bool {
        self.broken == Some(fault)
    }
}

impl Failure {
    fn new(invariant: Invariant, what: String) -> Self {
        Self { invariant, what }
    }
}

impl Stats {
    /// Adds another run's numbers.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.events += other.events;
        self.discarded += other.discarded;
        self.applied += other.applied;
        self.batches += other.batches;
        self.chunks += other.chunks;
        self.barriers += other.barriers;
        self.checkpoints += other.checkpoints;
        self.crashes += other.crashes;
        self.reconnects += other.reconnects;
        self.damaged += other.damaged;
        self.repairs += other.repairs;
        self.compared += other.compared;
        self.mismatches += other.mismatches;
        self.checked += other.checked;
        self.attempts_failed += other.attempts_failed;
        self.drains_failed += other.drains_failed;
        self.refused += other.refused;
        self.sessions_left += other.sessions_left;
        self.indexes_built += other.indexes_built;
        self.server_ordered += other.server_ordered;
        self.keys_repaired += other.keys_repaired;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} steps, {} row events ({} thrown away), {} changes applied in {} batches, \
             {} chunks after {} barriers, {} checkpoints, {} crashes, {} reconnects, \
             {} rows damaged, {} ranges repaired, {} comparisons, {} differences, \
             {} checks of all rows, {} failed cutover attempts ({} drained in part, \
             {} refused for a difference), {} sessions left behind, {} indexes built later, \
             {} repairs by key, {} runs with keys that only the servers order",
            self.steps,
            self.events,
            self.discarded,
            self.applied,
            self.batches,
            self.chunks,
            self.barriers,
            self.checkpoints,
            self.crashes,
            self.reconnects,
            self.damaged,
            self.repairs,
            self.compared,
            self.mismatches,
            self.checked,
            self.attempts_failed,
            self.drains_failed,
            self.refused,
            self.sessions_left,
            self.indexes_built,
            self.keys_repaired,
            self.server_ordered,
        )
    }
}

/// Sets limits so tight that they are met all the time.
fn random_config(rng: &mut Rng) -> EngineConfig {
    let mut config = EngineConfig::default();
    config.copy_slots = rng.usize(1..4);
    config.apply_slots = rng.usize(1..4);
    config.batch_rows_max = rng.usize(1..6);
    config.batch_bytes_max = rng.u64(1..2_000);
    config.buffer_rows_max = rng.u64(1..40);
    config.chunks_ready_max = rng.usize(..3);
    config
}

//! The simulated servers, the job between them, and the steps that each of
//! them may take next.

use fastrand::Rng;
use oxferry_copier::engine::{
    Action, BarrierId, BatchId, ChunkId, Engine, Mode, Repair, TableId, TablePlan,
};
use oxferry_schema::KeyRange;

use super::{
    Failure, Fault, Faults, Invariant, Params, Stats,
    checkpoint::{Checkpoint, Store},
    chunker::Chunker,
    lingering::Lingering,
    row::{RowChange, SimRow},
    source::Source,
    stream::{Place, Stream},
    taking_over::Redo,
    target::Target,
    verifying::{Damaged, Verification},
    watch::Watch,
};

/// Everything there is.
#[derive(Debug)]
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) params: Params,
    pub(super) faults: Faults,
    pub(super) source: Source,
    pub(super) target: Target,
    pub(super) store: Store,
    pub(super) job: Job,
    pub(super) checkpoints_taken: u64,
    /// Rows that were damaged on the target behind the job's back.
    pub(super) damaged: Damaged,
    /// Sessions that nobody has ended, a rule broken on purpose.
    pub(super) lingering: Vec<Lingering>,
    /// Whether the application's writes are shut out.
    pub(super) is_locked: bool,
    pub(super) stats: Stats,
}

/// What a crash ends.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) engine: Engine,
    pub(super) stream: Stream,
    /// The tables that the transaction being read has touched.
    pub(super) touched: Vec<bool>,
    pub(super) modes: Vec<Mode>,
    pub(super) chunkers: Vec<Chunker>,
    pub(super) barrier: Option<Barrier>,
    pub(super) copies: Vec<Copying>,
    pub(super) batches: Vec<Applying>,
    /// Checkpoints on their way to the store.
    pub(super) taken: Vec<Checkpoint>,
    /// How many transactions the log held at the last chunk's read, or when
    /// the job began.
    pub(super) last_read: usize,
    /// The table whose unique index is being built.
    pub(super) building: Option<usize>,
    pub(super) watch: Watch,
    pub(super) verify: Verification,
    /// Whether an attempt to cut over has begun: no batch may begin.
    pub(super) is_holding: bool,
    /// What a failed attempt drained, until it is applied again.
    pub(super) redo: Option<Redo>,
}

/// A barrier that is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    pub(super) id: BarrierId,
    /// How many transactions have to be visible.
    pub(super) until: usize,
}

/// A chunk that is being copied.
#[derive(Clone, Debug)]
pub(super) struct Copying {
    pub(super) id: ChunkId,
    pub(super) table: usize,
    pub(super) what: Repair,
    pub(super) empties: bool,
    /// Whether that was done, apart from the copy: a rule broken on purpose.
    pub(super) is_emptied: bool,
    /// The rows that were read and are not written yet.
    pub(super) rows: Option<Vec<(i64, SimRow)>>,
    pub(super) rows_read: usize,
}

/// A batch that is being applied.
#[derive(Clone, Debug)]
pub(super) struct Applying {
    pub(super) id: BatchId,
    pub(super) changes: Vec<RowChange>,
    pub(super) rest: Vec<RowChange>,
}

impl World {
    /// Sets the servers up and begins the job on them.
    ///
    /// # Errors
    ///
    /// Whatever beginning finds wrong.
    pub(super) fn new(mut rng: Rng, faults: Faults) -> Result<Self, Failure> {
        let params = Params::random(&mut rng, faults);
        let mut source = Source::new(&mut rng, params.orders.clone(), params.keys);
        for _ in 0..rng.usize(..6) {
            source.write(&mut rng);
        }
        let start = source.log.len();
        let closed = vec![Vec::new(); params.modes.len()];
        let first = Checkpoint {
            number: 0,
            position: source.position(start),
            executed: start,
            event: 0,
            closed: closed.clone(),
        };
        let store = Store::new(first, faults.has(Fault::StoreTakesStale));
        let here = Place {
            txn: start,
            event: 0,
        };
        let plans = params
            .modes
            .iter()
            .zip(&params.orders)
            .map(|(mode, order)| TablePlan::new(*mode).ordered_by(order.told(*mode)))
            .collect();
        let job = Job::new(&params, here, (params.modes.clone(), closed), plans);
        Ok(Self {
            target: Target::new(params.unique.clone(), params.orders.clone()),
            checkpoints_taken: 0,
            damaged: Damaged::new(),
            lingering: Vec::new(),
            is_locked: false,
            stats: Stats {
                server_ordered: u64::from(!params.verifies),
                ..Stats::default()
            },
            rng,
            faults,
            source,
            store,
            job,
            params,
        })
    }

    /// Takes steps at random for a while, then brings the job to its end.
    ///
    /// # Errors
    ///
    /// The first rule that was seen broken.
    pub(super) fn run(mut self) -> Result<Stats, Failure> {
        for _ in 0..self.rng.usize(20..400) {
            self.stats.steps += 1;
            self.step()?;
            self.pump()?;
        }
        self.finish()?;
        Ok(self.stats)
    }

    /// Does one thing that may happen at any time.
    fn step(&mut self) -> Result<(), Failure> {
        let writes = self.params.writes;
        match self.rng.u8(..100) {
            20.. if self.rng.u8(..100) < writes => self.write(),
            0..2 => self.disturb_stream(),
            2..3 if self.params.crashes => self.crash()?,
            3..5 => self.toggle(),
            5..6 => self.damage(),
            6..8 => self.repair_something(),
            8..20 if self.faults.has(Fault::EmptiedApart) => self.repair_something(),
            8..9 if self.faults.has(Fault::TakeOverUnproven) => self.take_over()?,
            _ => {
                let weights = self.params.weights;
                self.progress(&weights)?;
            }
        }
        Ok(())
    }

    /// Does one thing that brings the job nearer to its end.
    pub(super) fn progress(&mut self, weights: &[u8; 11]) -> Result<(), Failure> {
        match pick(&mut self.rng, weights) {
            // The rule is broken only where the stream is ahead of the snapshots.
            0 if self.faults.has(Fault::TransactionsSplit) && self.rng.u8(..8) > 0 => {}
            0 => self.source.show_next(),
            1 => self.dispatch()?,
            2 => self.look_up(),
            3 => self.pass_barrier(),
            4 => self.copy()?,
            5 => self.apply(),
            6 => self.take_checkpoint()?,
            7 => self.write_checkpoint(),
            8 => self.prove()?,
            9 => self.build_index()?,
            _ => self.verify()?,
        }
        self.commit_late()?;
        self.check_limits()
    }

    /// Lets the engine say what to do, now and then.
    pub(super) fn pump(&mut self) -> Result<(), Failure> {
        for _ in 0..self.rng.usize(..6) {
            let action = self.job.engine.poll();
            let Job {
                engine,
                stream,
                touched,
                watch,
                ..
            } = &mut self.job;
            watch.note_open(engine, stream.txn, touched);
            match action {
                None => return Ok(()),
                Some(Action::Barrier { id }) => self.start_barrier(id),
                Some(Action::Copy {
                    chunk,
                    table,
                    range,
                    again,
                }) => {
                    self.start_copy(chunk, table.0, Repair::Range(range), again);
                }
                Some(Action::CopyKeys { chunk, table, keys }) => {
                    self.start_copy(chunk, table.0, Repair::Keys(keys), true);
                }
                Some(Action::Apply { id, table, batch }) => {
                    let changes = batch.changes.iter();
                    let changes = changes.filter_map(|c| RowChange::from_keyed(table.0, c));
                    self.start_batch(id, changes.collect())?;
                }
            }
        }
        Ok(())
    }

    /// Lets a failed check count, unless only the outcome shall.
    pub(super) fn rule(&self, checked: Result<(), Failure>) -> Result<(), Failure> {
        if self.faults.outcome_only {
            return Ok(());
        }
        checked
    }

    pub(super) fn write(&mut self) {
        if !self.is_locked {
            self.source.write(&mut self.rng);
        }
        if self.rng.u8(..8) == 0 {
            self.source.rotate();
        }
    }

    /// Throttles, or ends it.
    fn toggle(&mut self) {
        let on = self.rng.u8(..3) > 0;
        if self.job.building.is_some() {
            return;
        }
        if self.rng.bool() {
            self.job.engine.set_copying(on);
        } else {
            self.job.engine.set_applying(on);
        }
    }

    /// Checks that nothing grows beyond its limit.
    fn check_limits(&self) -> Result<(), Failure> {
        let config = &self.params.config;
        let engine = &self.job.engine;
        let in_flight = engine.in_flight();
        // The two halves of one update come together.
        let buffer_ok = engine.buffered_rows() <= config.buffer_rows_max + 1;
        let slots_ok = in_flight.copies <= config.copy_slots
            && in_flight.batches <= config.apply_slots
            && in_flight.chunks_open <= config.copy_slots + config.chunks_ready_max;
        if buffer_ok && slots_ok {
            return Ok(());
        }
        let held = engine.buffered_rows();
        self.rule(Err(Failure::new(
            Invariant::I8,
            format!("{held} changes held, {in_flight:?} with {config:?}"),
        )))
    }
}

impl Job {
    /// Begins, or goes on, at a place of the log.
    pub(super) fn new(
        params: &Params,
        start: Place,
        (modes, closed): (Vec<Mode>, Vec<Vec<KeyRange>>),
        plans: Vec<TablePlan>,
    ) -> Self {
        let chunkers = closed
            .iter()
            .zip(&params.orders)
            .map(|(closed, order)| Chunker::new(closed, params.keys, *order));
        Self {
            engine: Engine::new(params.config.clone(), plans),
            stream: Stream::new(start),
            touched: vec![false; modes.len()],
            chunkers: chunkers.collect(),
            modes,
            barrier: None,
            copies: Vec::new(),
            batches: Vec::new(),
            taken: Vec::new(),
            last_read: start.txn,
            building: None,
            watch: Watch::default(),
            verify: Verification::new(params),
            is_holding: false,
            redo: None,
        }
    }

    /// Returns the ranges of a table that are closed.
    pub(super) fn closed(&self, table: usize) -> Vec<KeyRange> {
        let progress = self.engine.progress(TableId(table));
        progress.map(|progress| progress.closed).unwrap_or_default()
    }
}

/// Picks one of the weights' places, the heavier the more often.
fn pick(rng: &mut Rng, weights: &[u8; 11]) -> usize {
    let total: u32 = weights.iter().map(|weight| u32::from(*weight)).sum();
    let mut left = rng.u32(..total.max(1));
    let place = weights.iter().position(|weight| {
        let weight = u32::from(*weight);
        let is_here = left < weight;
        left = left.saturating_sub(weight);
        is_here
    });
    place.unwrap_or_default()
}

//! Keeping the checkpoint: where, when and what.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use mysql_async::Opts;
use oxferry_binlog::Position;
use oxferry_copier::pipeline::{Handle, Progress, Stopped};
use oxferry_schema::{Remedy, TableName};
use oxferry_state::{
    Advanced, Checkpoint, CheckpointStore, FileStore, FileStoreError, Phase, Reverse, TableStore,
    TableStoreError, TargetServer,
};
use tokio::sync::Mutex;

use crate::failure::{Failure, remedied};

remedied!(FileStoreError, TableStoreError);

/// How often a checkpoint is written while rows are copied: what a crash can
/// cost is that much work done again.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// How long the server may take for a checkpoint: a semi-synchronous source
/// makes every commit wait 10 s by default when its replica is away.
/// Source: MySQL 9.7 manual, `rpl_semi_sync_source_timeout`.
pub(crate) const SAVE_MAX: Duration = Duration::from_secs(60);

/// Where a job's checkpoint is kept: in a table beside the shadow table, or in
/// a file of the operator's choice.
#[derive(Debug)]
pub(crate) struct Store {
    marks: TableStore,
    file: Option<FileStore>,
    place: Place,
}

/// Where a [`Store`] keeps its checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    file: Option<PathBuf>,
    opts: Opts,
    table: TableName,
    job: String,
}

impl Place {
    /// Opens it, on connections of its own.
    pub(crate) fn open(&self) -> Store {
        Store::new(
            self.file.as_ref(),
            self.opts.clone(),
            &self.table,
            &self.job,
        )
    }
}

impl Store {
    /// Chooses the file, if one was given, else the table.
    pub(crate) fn new(file: Option<&PathBuf>, opts: Opts, table: &TableName, job: &str) -> Self {
        let marks = TableStore::new(opts.clone(), table.clone(), job, SAVE_MAX);
        Self {
            marks,
            file: file.map(FileStore::new),
            place: Place {
                file: file.cloned(),
                opts,
                table: table.clone(),
                job: job.to_owned(),
            },
        }
    }

    /// Returns the last checkpoint, if there is one.
    pub(crate) async fn load(&self) -> Result<Option<Checkpoint>, Failure> {
        Ok(match &self.file {
            Some(file) => file.load().await?,
            None => self.marks.load().await?,
        })
    }

    /// Makes the table, beside a file too: it holds the marks that the barrier
    /// and the throttle need.
    pub(crate) async fn prepare(&self) -> Result<(), Failure> {
        Ok(self.marks.create().await?)
    }

    /// Forgets the checkpoint, and drops the table.
    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        if let Some(file) = &self.file {
            file.clear().await?;
        }
        Ok(self.marks.drop_table().await?)
    }

    async fn advance(&self, next: &Checkpoint) -> Result<Advanced, Failure> {
        Ok(match &self.file {
            Some(file) => file.advance(next).await?,
            None => self.marks.advance(next).await?,
        })
    }
}

/// Writes a job's checkpoints, one after the other.
#[derive(Debug)]
pub(crate) struct Saver {
    store: Store,
    current: Mutex<Current>,
    /// Whether what the pipeline reaches is on a move's way back.
    is_back: bool,
}

#[derive(Debug)]
struct Current {
    checkpoint: Checkpoint,
    /// The job is done: nothing is saved any more.
    closed: bool,
}

impl Saver {
    /// Goes on from `checkpoint`.
    pub(crate) fn new(store: Store, checkpoint: Checkpoint) -> Self {
        Self {
            store,
            current: Mutex::new(Current {
                checkpoint,
                closed: false,
            }),
            is_back: false,
        }
    }

    /// Returns where the checkpoint is kept.
    pub(crate) fn place(&self) -> Place {
        self.store.place.clone()
    }

    /// Makes it the one of a move's way back, whose stream is the target's.
    pub(crate) const fn of_the_way_back(mut self) -> Self {
        self.is_back = true;
        self
    }

    /// Makes a checkpoint with what `change` changes durable.
    pub(crate) async fn save(
        &self,
        change: impl FnOnce(&mut Checkpoint) + Send,
    ) -> Result<(), Failure> {
        let mut current = self.current.lock().await;
        self.store_next(&mut current, change).await
    }

    async fn store_next(
        &self,
        current: &mut Current,
        change: impl FnOnce(&mut Checkpoint) + Send,
    ) -> Result<(), Failure> {
        if current.closed {
            return Ok(());
        }
        let next = &mut current.checkpoint;
        change(next);
        next.stamp(humantime::format_rfc3339_seconds(SystemTime::now()).to_string());
        match self.store.advance(next).await? {
            Advanced::Durable => Ok(()),
            Advanced::Stale { held } => Err(Failure::new(
                Remedy::State,
                anyhow::anyhow!(
                    "another run went on with this job: its checkpoint {held} is newer than {}",
                    next.sequence
                ),
            )),
        }
    }

    /// Forgets what an earlier run left, and makes the table.
    pub(crate) async fn begin(&self, leftovers: bool) -> Result<(), Failure> {
        if leftovers {
            self.store.clear().await?;
        }
        self.store.prepare().await
    }

    /// Notes that a phase began.
    pub(crate) async fn enter(&self, phase: Phase) -> Result<(), Failure> {
        self.save(|checkpoint| checkpoint.phase = phase).await
    }

    /// Returns up to where the target's binary log was looked through.
    pub(crate) async fn target_position(&self) -> Option<Position> {
        let current = self.current.lock().await;
        current.checkpoint.target.as_ref()?.position.clone()
    }

    /// Notes something of the server that tables move to.
    pub(crate) async fn save_target(
        &self,
        change: impl FnOnce(&mut TargetServer) + Send,
    ) -> Result<(), Failure> {
        self.save(|checkpoint| {
            if let Some(target) = checkpoint.target.as_mut() {
                change(target);
            }
        })
        .await
    }

    /// Returns the checkpoint as it was saved last.
    pub(crate) async fn checkpoint(&self) -> Checkpoint {
        self.current.lock().await.checkpoint.clone()
    }

    /// Returns whether a move was taken back.
    pub(crate) async fn was_taken_back(&self) -> bool {
        let current = self.current.lock().await;
        let target = current.checkpoint.target.as_ref();
        target.is_some_and(|t| t.reverse.as_ref().is_some_and(|reverse| reverse.back))
    }

    /// Notes something of a move's way back.
    pub(crate) async fn save_reverse(
        &self,
        change: impl FnOnce(&mut Reverse) + Send,
    ) -> Result<(), Failure> {
        self.save_target(|target| {
            if let Some(reverse) = target.reverse.as_mut() {
                change(reverse);
            }
        })
        .await
    }

    /// Notes what the pipeline has reached.
    ///
    /// `progress` was taken from the pipeline before, so the data that it
    /// speaks of are on the target already (I5).
    pub(crate) async fn save_progress(&self, progress: Progress) -> Result<(), Failure> {
        let is_back = self.is_back;
        self.save(|checkpoint| note(checkpoint, progress, is_back))
            .await
    }

    /// Notes what the pipeline has reached by now.
    pub(crate) async fn save_reached(&self, handle: &Handle) -> Result<(), Failure> {
        // Asked for while nobody else can save: a later checkpoint never holds
        // an earlier state (I6).
        let mut current = self.current.lock().await;
        let progress = handle.progress().await?;
        let is_back = self.is_back;
        self.store_next(&mut current, |checkpoint| {
            note(checkpoint, progress, is_back);
        })
        .await
    }

    /// Writes checkpoints for as long as the pipeline runs; ends only with an
    /// error, or never once the pipeline has ended.
    pub(crate) async fn keep_saving(&self, handle: &Handle) -> Failure {
        loop {
            tokio::time::sleep(SAVE_EVERY).await;
            match self.save_reached(handle).await {
                Ok(()) => {}
                // The pipeline's own result says why it ended.
                Err(failure) if failure.is_caused_by::<Stopped>() => {
                    return std::future::pending().await;
                }
                Err(failure) => return failure,
            }
        }
    }

    /// Forgets the checkpoint: the job is done.
    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        self.current.lock().await.closed = true;
        self.store.clear().await
    }

    /// Returns the checkpoint as JSON, for the operator.
    pub(crate) async fn to_json(&self) -> Result<String, Failure> {
        let current = self.current.lock().await;
        current
            .checkpoint
            .to_json()
            .map_err(|error| Failure::new(error.remedy(), error))
    }
}

/// What ended the job decides the exit code, whatever becomes of this.
pub(crate) async fn print_state(saver: &Saver) {
    use std::io::Write as _;
    let printed = match saver.to_json().await {
        Ok(json) => writeln!(std::io::stdout(), "{json}").map_err(|error| error.to_string()),
        Err(failure) => Err(failure.line()),
    };
    if let Err(error) = printed {
        tracing::warn!("the checkpoint can't be printed: {error}");
    }
}

fn note(checkpoint: &mut Checkpoint, progress: Progress, is_back: bool) {
    let reverse = checkpoint.target.as_mut().and_then(|t| t.reverse.as_mut());
    match reverse {
        Some(reverse) if is_back => reverse.position = progress.position,
        _ => checkpoint.position = Some(progress.position),
    }
    for (table, now) in checkpoint.tables.iter_mut().zip(progress.tables) {
        table.closed = now.closed;
        table.rows_copied = now.rows_copied;
        table.changes_applied = now.changes_applied;
    }
}

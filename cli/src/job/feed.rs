//! What the verifier needs of a job: its stream, its copy, and its throttle.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use mysql_async::Conn;
use oxferry_binlog::FilePosition;
use oxferry_copier::{
    engine::{self, TableId},
    pipeline::Handle,
};
use oxferry_schema::Remedy;
use oxferry_throttle::Pacer;
use oxferry_verifier::{Feed, FeedError, KeyOrder, Repair, RepairRows, Touched, TouchedLimits};

use super::{Job, Prepared, Site};

/// What the verifier needs of the job.
#[derive(Debug)]
pub(crate) struct JobFeed {
    handle: Handle,
    pacer: Pacer,
    in_cutover: Arc<AtomicBool>,
    position: PositionReader,
    touched: Arc<Mutex<Touched>>,
}

/// Reads the end of the source's binary log on a connection of its own.
#[derive(Debug)]
struct PositionReader {
    source: Site,
    conn: tokio::sync::Mutex<Option<Conn>>,
}

/// A job's notes of what changed, empty: made before the stream begins.
pub(super) fn touched(prepared: &Prepared) -> Arc<Mutex<Touched>> {
    let plans = prepared.tables.iter().map(|table| &table.plan);
    let orders = plans.map(|plan| KeyOrder::of(plan.key(), plan.target_side()));
    Arc::new(Mutex::new(Touched::new(orders, TouchedLimits::default())))
}

impl JobFeed {
    /// Puts together what the verifier needs; `touched` is fed by the stream.
    pub(crate) fn new(
        job: &Job,
        handle: Handle,
        (pacer, in_cutover): (Pacer, Arc<AtomicBool>),
        touched: Arc<Mutex<Touched>>,
    ) -> Self {
        let position = PositionReader {
            source: job.source.clone(),
            conn: tokio::sync::Mutex::new(None),
        };
        Self {
            handle,
            pacer,
            in_cutover,
            position,
            touched,
        }
    }

    /// Returns the notes of what changed.
    pub(super) fn touched(&self) -> Arc<Mutex<Touched>> {
        Arc::clone(&self.touched)
    }
}

impl PositionReader {
    /// `read` was read of the log before the call.
    async fn read(&self, read: Option<&FilePosition>) -> Result<FilePosition, FeedError> {
        const WHAT: &str = "reading the source's binary log position";
        let mut slot = self.conn.lock().await;
        let mut conn = match slot.take() {
            Some(conn) => conn,
            None => oxferry_schema::connect(&self.source.url, "position")
                .await
                .map_err(|error| FeedError::new(WHAT, error.remedy(), error))?,
        };
        let now = self.source.position_after(&mut conn, read).await;
        let now = now.map_err(|failure| FeedError::new(WHAT, failure.remedy(), failure))?;
        *slot = Some(conn);
        Ok(now.file)
    }
}

impl Feed for JobFeed {
    async fn settle(&self) -> Result<(), FeedError> {
        self.handle.settle().await.map_err(|error| {
            FeedError::new("waiting for changes to be applied", Remedy::Retry, error)
        })
    }

    async fn source_position(&self) -> Result<FilePosition, FeedError> {
        let read = self.handle.status().dispatched;
        self.position.read(read.as_ref()).await
    }

    async fn reach(&self, position: &FilePosition) -> Result<(), FeedError> {
        self.handle
            .reach(position.clone())
            .await
            .map_err(|error| FeedError::new("waiting for the binary log", Remedy::Retry, error))
    }

    async fn repair(&self, repair: &Repair) -> Result<(), FeedError> {
        let rows = match &repair.rows {
            RepairRows::Range(range) => engine::Repair::Range(range.clone()),
            RepairRows::Keys(keys) => engine::Repair::Keys(keys.clone()),
        };
        self.handle
            .repair(TableId(repair.table), rows)
            .await
            .map_err(|error| FeedError::new("copying rows again", Remedy::Retry, error))
    }

    async fn pause_point(&self) {
        // A monitor that has ended ends the job as well, with its own error.
        // A cutover is over all the sooner for not being held up.
        if !self.in_cutover.load(Ordering::Relaxed) {
            let _ended = self.pacer.clone().wait_until_proceed().await;
        }
    }
}

//! What the way back does in its own way: it copies nothing, waits to be wanted,
//! and ends when its time is over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use mysql_async::Conn;
use oxferry_copier::{Load, Mark, TransferSettings, TransferSink};
use oxferry_cutover::switch;
use oxferry_schema::Table;
use oxferry_state::Phase;

use super::{takeback::TakeBack, way::Way};
use crate::{
    args::OnOff,
    failure::Failure,
    job::{Holder, Job, Kind, Prepared, PreparedTable, Script, Site, TakenOver, table_exists},
    moving::{
        Locks,
        attempt::{Attempt, taken_over},
        watch::{Guard, Lookout, look},
    },
};

/// How often it is looked whether somebody wants the move back.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often it is measured how far the source is behind.
const MEASURE_EVERY: Duration = Duration::from_secs(5);

/// The way back as a job: from the target to the source.
#[derive(Debug)]
pub(super) struct Back {
    pub(super) way: Way,
    pub(super) core: Job,
    /// How far the source's binary log has been looked through.
    pub(super) guard: Guard,
    /// The locks that the job holds, each with its server.
    pub(super) locks: Vec<(Site, Holder)>,
    closes: Instant,
}

impl Back {
    /// Prepares to keep the way open until `closes`.
    pub(super) fn new(way: Way, core: Job, locks: &Locks, closes: Instant) -> Self {
        Self {
            locks: locks.holders(&way.sites),
            way,
            core,
            guard: Guard::on_source(),
            closes,
        }
    }

    /// Waits until somebody wants the move back. A server that doesn't answer
    /// is asked again.
    async fn wanted(&self, script: &Script<'_, Self>) {
        let asked = async {
            let mut conn = None;
            loop {
                match self.is_requested(&mut conn).await {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(failure) => {
                        tracing::debug!("looking for {}: {}", self.way.request, failure.line());
                    }
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            () = asked => {}
            () = script.controls.cutover_wanted() => {}
        }
        tracing::info!("the move is to be taken back");
    }

    async fn is_requested(&self, slot: &mut Option<Conn>) -> Result<bool, Failure> {
        let mut conn = match slot.take() {
            Some(conn) => conn,
            None => self.core.source.connect("request").await?,
        };
        let exists = table_exists(&mut conn, &self.way.request).await?;
        *slot = Some(conn);
        Ok(exists)
    }

    /// Compares everything once, and then keeps it compared; ends with an error
    /// only.
    async fn keep_compared(
        &self,
        script: &Script<'_, Self>,
        compared: &AtomicBool,
    ) -> Result<(), Failure> {
        script.comparison.run().await?;
        compared.store(true, Ordering::Relaxed);
        tracing::info!("both sides were compared: the move can be taken back at once");
        script.keep_compared().await
    }

    /// Measures how long it takes until all that was done on the target is on
    /// the source; ends with an error only.
    async fn measure(&self, script: &Script<'_, Self>) -> Result<(), Failure> {
        loop {
            let began = Instant::now();
            script.catch_up().await?;
            script.progress.is_behind(began.elapsed());
            tokio::time::sleep(MEASURE_EVERY).await;
        }
    }
}

impl Kind for Back {
    type Sink = TransferSink;

    fn sink(&self, prepared: &Prepared, table: &PreparedTable) -> Arc<TransferSink> {
        let marked = self.way.args.detect_foreign_writes == OnOff::On;
        let settings = TransferSettings {
            load: Load::Statements,
            mark: marked.then(|| Mark {
                table: self.core.state.clone(),
            }),
        };
        let (source, target) = (Arc::clone(&prepared.source), Arc::clone(&prepared.target));
        Arc::new(TransferSink::new(
            source,
            target,
            table.plan.clone(),
            settings,
        ))
    }

    async fn watch(&self, script: &Script<'_, Self>) -> Failure {
        if self.way.args.detect_foreign_writes == OnOff::Off {
            return std::future::pending().await;
        }
        let prepared = script.prepared.tables.iter();
        let tables: Vec<Table> = prepared.map(|table| table.target.clone()).collect();
        let lookout = Lookout {
            guard: &self.guard,
            site: &self.core.target,
            mark: &self.core.state,
            tables,
            others: None,
        };
        let start = self.way.reverse.source_position.clone();
        let note = async |seen| {
            script
                .saver
                .save_reverse(|reverse| reverse.source_position = seen)
                .await
        };
        look(lookout, start, note).await
    }

    async fn lead_up(&self, script: &Script<'_, Self>) -> Result<bool, Failure> {
        script.enter(Phase::Reverse).await?;
        let compared = AtomicBool::new(false);
        tokio::select! {
            () = self.wanted(script) => {}
            () = tokio::time::sleep_until(self.closes.into()) => {
                tracing::info!("the time to take the move back is over");
                return Ok(false);
            }
            failed = self.keep_compared(script, &compared) => failed?,
            failed = self.measure(script) => failed?,
        }
        if !compared.load(Ordering::Relaxed) {
            // Without evidence nothing is taken back.
            script.comparison.run().await?;
        }
        Ok(true)
    }

    async fn cut_over(&self, script: &Script<'_, Self>) -> Result<TakenOver, Failure> {
        let plan = self.way.plan()?;
        let (from, to) = (&self.core.source, &self.core.target);
        let mut takeback = Attempt(TakeBack::new(script));
        let (from, to) = (from.opts("switch"), to.opts("switch"));
        let report = switch(&from, &to, &plan, &mut takeback).await;
        if report.is_ok() {
            script.interrupt.doubt(false);
        }
        let report = report.map_err(|error| {
            Failure::from(error)
                .context("taking the move back, where the target is what is locked like a source")
        })?;
        Ok(taken_over(report))
    }

    async fn clean_up(&self, script: &Script<'_, Self>) -> Result<(), Failure> {
        self.way.clean_up(script.saver, &script.lock).await
    }
}

//! Copying rows from one server to another.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_schema::{Key, KeyRange};

use crate::{
    Applied, Batch, Connections, CopiedRows, CopyError, CopyPlan, Mark, RowFilter, RowSink,
    connections::Pair,
    sink::{fault, writer::Writer},
};

mod documents;
mod encode;
mod load;
mod locate;
mod owned;
mod read;
mod unit;

use load::LoadStatement;
use owned::{OwnedKeys, Removal};
use read::Reader;
use unit::{TransferUnit, What};

/// How rows are written to the target of a [`TransferSink`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the ways that there are")]
pub enum Load {
    /// By `LOAD DATA LOCAL` out of memory where source and target columns have
    /// the same types, by statements where they don't.
    LocalInfile,
    /// By prepared statements of many rows.
    #[default]
    Statements,
}

impl Load {
    /// Asks a target for the fastest way that it allows.
    ///
    /// # Errors
    ///
    /// The driver's, when the server doesn't answer.
    pub async fn choose(conn: &mut Conn) -> Result<Self, DriverError> {
        let allowed: Option<bool> = conn.query_first("SELECT @@GLOBAL.local_infile").await?;
        Ok(match allowed {
            Some(true) => Self::LocalInfile,
            _ => Self::Statements,
        })
    }
}

/// How a [`TransferSink`] writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain settings with a default")]
pub struct TransferSettings {
    /// How rows are written.
    pub load: Load,
    /// What begins each transaction that writes to the target.
    pub mark: Option<Mark>,
}

/// A [`RowSink`] for a target on another server than its source.
///
/// Rows are read in one plain consistent read on the source and written in one
/// transaction on the target; reading goes on while what was read is written,
/// with a few megabytes in between at most.
#[derive(Debug)]
pub struct TransferSink {
    source: Arc<Connections>,
    target: Arc<Connections>,
    writer: Writer,
    reader: Reader,
    /// `None` where the columns' types differ.
    load: Option<LoadStatement>,
    /// Whether the target still takes `LOAD DATA LOCAL`.
    loads: AtomicBool,
    /// How many chunks in a row had to be written again by statements.
    repeats: AtomicU32,
}

impl TransferSink {
    /// Prepares to read in sessions of `source` and to write in sessions of
    /// `target` by `plan`, whose source is on the one server and whose target on
    /// the other.
    #[must_use]
    pub fn new(
        source: Arc<Connections>,
        target: Arc<Connections>,
        plan: CopyPlan,
        settings: TransferSettings,
    ) -> Self {
        let reader = Reader::new(&plan);
        let load = LoadStatement::new(&plan);
        Self {
            source,
            target,
            reader,
            load,
            loads: AtomicBool::new(settings.load == Load::LocalInfile),
            repeats: AtomicU32::new(0),
            writer: Writer::new(plan, settings.mark),
        }
    }

    /// As [`SelectSink::set_exclusive`](crate::SelectSink::set_exclusive).
    pub fn set_exclusive(&self) {
        self.writer.set_exclusive();
    }

    /// As [`SelectSink::apply_on`](crate::SelectSink::apply_on), on a connection
    /// to the target. The transaction begins with the mark, if there is one:
    /// whoever holds `LOCK TABLES` there must have locked its table too.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn apply_on(&self, conn: &mut Conn, batch: &Batch) -> Result<Applied, CopyError> {
        let limit = self.target.limits().statement;
        self.writer.apply_on(conn, batch, limit).await
    }

    /// Removes all of the plan's rows from the target.
    ///
    /// # Errors
    ///
    /// As [`RowSink::apply`].
    pub async fn remove_all(&self) -> Result<(), CopyError> {
        let writer = &self.writer;
        self.target.run(&Removal { writer }).await
    }

    /// Returns the statement to load with, where that is a way to go.
    fn load(&self) -> Option<&LoadStatement> {
        self.load
            .as_ref()
            .filter(|_| self.loads.load(Ordering::Relaxed))
    }

    /// Notes that a chunk was loaded.
    fn loaded(&self) {
        self.repeats.store(0, Ordering::Relaxed);
    }

    /// Notes that a chunk couldn't be loaded, as `said` tells; after some of
    /// them in a row it isn't tried any more.
    fn not_loaded(&self, said: &str, is_refused: bool) {
        let repeats = self.repeats.fetch_add(1, Ordering::Relaxed) + 1;
        let table = self.writer.plan.target().plain();
        tracing::debug!(table, said, "a chunk is written by statements instead");
        if is_refused || repeats >= REPEATS_MAX {
            tracing::info!(table, said, "rows are written by statements from now on");
            self.loads.store(false, Ordering::Relaxed);
        }
    }

    fn pair(&self) -> Pair<'_> {
        Pair {
            source: &self.source,
            target: &self.target,
        }
    }
}

impl RowSink for TransferSink {
    async fn copy(&self, range: &KeyRange, again: bool) -> Result<CopiedRows, CopyError> {
        let _turn = self.writer.chunk_turn().await;
        let what = What::Range(range, again);
        let unit = TransferUnit { sink: self, what };
        match self.pair().run(&unit).await {
            Ok(copied) => Ok(copied),
            Err(failed) => Err(locate::explain(&unit, failed).await),
        }
    }

    async fn copy_keys(&self, keys: &[Key]) -> Result<CopiedRows, CopyError> {
        if keys.is_empty() {
            return Ok(CopiedRows::default());
        }
        let what = What::Keys(keys);
        let unit = TransferUnit { sink: self, what };
        let copied = self.pair().run(&unit).await;
        copied.map_err(|(_, error)| error)
    }

    async fn keys_of_owners(
        &self,
        owners: &[Key],
        from: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, CopyError> {
        let plan = &self.writer.plan;
        let Some(side) = plan.filter().and_then(RowFilter::owner) else {
            return Ok(Vec::new());
        };
        let unit = OwnedKeys {
            plan,
            side,
            owners,
            from,
            limit,
        };
        self.source.run(&unit).await
    }

    async fn apply(&self, batch: &Batch) -> Result<Applied, CopyError> {
        if batch.changes.is_empty() {
            return Ok(Applied::default());
        }
        let _turn = self.writer.batch_turn().await;
        let filter = self.writer.plan.filter();
        if filter.is_some_and(RowFilter::is_by_keys) {
            let keys: Vec<Key> = batch.changes.iter().map(|c| c.key.clone()).collect();
            let upserts = usize::try_from(self.copy_keys(&keys).await?.rows).unwrap_or(keys.len());
            let deletes = keys.len().saturating_sub(upserts);
            return Ok(Applied { upserts, deletes });
        }
        fault::run(&self.target, &self.writer.batch(batch)).await
    }
}

/// Chunks that were loaded in vain cost twice the time.
const REPEATS_MAX: u32 = 5;

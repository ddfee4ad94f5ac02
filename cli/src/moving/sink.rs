//! What writes a move's rows, wherever their table is found on the source.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use oxferry_copier::{
    Applied, Batch, Connections, CopiedRows, CopyError, CopyPlan, RowFilter, RowSink,
    TransferSettings, TransferSink,
};
use oxferry_schema::{Key, KeyRange, TableName, server_code};
use tokio::{sync::watch, time::Instant};

use crate::job::Sink;

/// A [`TransferSink`] whose source table may get another name.
#[derive(Debug)]
pub(crate) struct MoveSink {
    connections: (Arc<Connections>, Arc<Connections>),
    plan: CopyPlan,
    settings: TransferSettings,
    now: RwLock<Arc<TransferSink>>,
    exclusive: AtomicBool,
    /// Changes with the name.
    renames: watch::Sender<u64>,
}

/// How long a table that isn't found may be on its way to another name.
const RENAME_MAX: Duration = Duration::from_secs(60);

/// How often it is looked for by the name that it had.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Source: MySQL 9.7 "Server Error Message Reference".
const ER_NO_SUCH_TABLE: u16 = 1146;

impl MoveSink {
    /// Prepares to read and to write by `plan`.
    pub(super) fn new(
        connections: (Arc<Connections>, Arc<Connections>),
        plan: CopyPlan,
        settings: TransferSettings,
    ) -> Self {
        let (source, target) = connections.clone();
        let now = TransferSink::new(source, target, plan.clone(), settings.clone());
        Self {
            connections,
            plan,
            settings,
            now: RwLock::new(Arc::new(now)),
            exclusive: AtomicBool::new(false),
            renames: watch::Sender::new(0),
        }
    }

    /// From now on the source's table is called `name`.
    pub(super) fn read_from(&self, name: TableName, filter: Option<RowFilter>) {
        let (source, target) = self.connections.clone();
        let plan = self.plan.clone().renamed(name, filter);
        let sink = TransferSink::new(source, target, plan, self.settings.clone());
        if self.exclusive.load(Ordering::Relaxed) {
            sink.set_exclusive();
        }
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(sink);
        self.renames.send_modify(|count| *count += 1);
    }

    /// Removes the plan's rows from the target.
    pub(super) async fn remove_all(&self) -> Result<(), CopyError> {
        self.now().remove_all().await
    }

    fn now(&self) -> Arc<TransferSink> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&now)
    }

    /// Does work once more that met no table: a switch may be renaming it, and
    /// tell of it in a moment.
    async fn found<T, F>(
        &self,
        work: impl Fn(Arc<TransferSink>) -> F + Send,
    ) -> Result<T, CopyError>
    where
        T: Send,
        F: Future<Output = Result<T, CopyError>> + Send,
    {
        let mut renames = self.renames.subscribe();
        let end = Instant::now() + RENAME_MAX;
        loop {
            let sink = {
                renames.mark_unchanged();
                self.now()
            };
            match work(sink).await {
                Err(error) if is_missing(&error) && Instant::now() < end => {}
                done => return done,
            }
            // Whether it was told or not, the next try shows.
            let _told = tokio::time::timeout(LOOK_EVERY, renames.changed()).await;
        }
    }
}

fn is_missing(error: &CopyError) -> bool {
    matches!(error, CopyError::Server { source, .. } if server_code(source) == Some(ER_NO_SUCH_TABLE))
}

impl Sink for TransferSink {
    fn set_exclusive(&self) {
        Self::set_exclusive(self);
    }
}

impl Sink for MoveSink {
    fn set_exclusive(&self) {
        self.exclusive.store(true, Ordering::Relaxed);
        self.now().set_exclusive();
    }
}

impl RowSink for MoveSink {
    async fn copy(&self, range: &KeyRange, again: bool) -> Result<CopiedRows, CopyError> {
        self.now().copy(range, again).await
    }

    async fn copy_keys(&self, keys: &[Key]) -> Result<CopiedRows, CopyError> {
        self.found(|sink| async move { sink.copy_keys(keys).await })
            .await
    }

    async fn keys_of_owners(
        &self,
        owners: &[Key],
        from: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, CopyError> {
        self.found(|sink| async move { sink.keys_of_owners(owners, from, limit).await })
            .await
    }

    async fn apply(&self, batch: &Batch) -> Result<Applied, CopyError> {
        self.found(|sink| async move { sink.apply(batch).await })
            .await
    }
}

//! A move whose copy is done wholly under the lock, and its applications.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mysql_async::{Conn, Error, Opts, prelude::Queryable};
use oxferry_binlog::FilePosition;
use oxferry_cutover::{Leftover, LockedSource, SourceLock, SwitchFinish, SwitchPlan};
use oxferry_schema::{Remedy, TableName};
use oxferry_verifier::Verified;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::toy::Place;

impl Place {
    /// One attempt, nothing repeated, the shortest lock wait.
    pub(crate) fn switch_plan(&self, lock: SourceLock) -> SwitchPlan {
        SwitchPlan::new(self.pair.source.clone(), lock)
            .with_attempts_max(1.try_into().unwrap())
            .with_lock_wait(Duration::from_secs(1))
    }
}

/// Four writers that go on when they are refused.
pub(crate) struct Writers {
    tasks: Vec<JoinHandle<()>>,
    pub(crate) told: Arc<Told>,
}

/// What the writers tell, and are told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) committed: AtomicU64,
    pub(crate) refused: [AtomicU64; 4],
    pub(crate) stop: AtomicBool,
    pub(crate) stopped: AtomicU64,
}

impl Writers {
    pub(crate) async fn start(place: &Place) -> Self {
        let told = Arc::new(Told::default());
        let mut tasks = Vec::new();
        for number in 0..4 {
            let mut conn = place.conn().await;
            conn.query_drop("SET SESSION lock_wait_timeout = 1")
                .await
                .unwrap();
            let insert = format!("INSERT INTO {} VALUES (?, ?)", place.pair.source);
            let told = Arc::clone(&told);
            tasks.push(tokio::spawn(async move {
                let mut count = 0_u64;
                while !told.stop.load(Ordering::SeqCst) {
                    match conn.exec_drop(&insert, (number, count)).await {
                        Ok(()) => {
                            count += 1;
                            told.committed.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(Error::Server(_)) => {
                            told.refused[number].fetch_add(1, Ordering::SeqCst);
                        }
                        Err(_) => break,
                    }
                }
                told.stopped.fetch_add(1, Ordering::SeqCst);
            }));
        }
        let writers = Self { tasks, told };
        writers.commit(80).await;
        writers
    }

    /// Waits for so many more commits.
    pub(crate) async fn commit(&self, more: u64) {
        let goal = self.told.committed() + more;
        until("commits", || self.told.committed() >= goal).await;
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Told {
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::SeqCst)
    }

    /// Waits until every writer has been refused once more.
    pub(crate) async fn all_are_refused(&self) {
        let read = || {
            self.refused
                .each_ref()
                .map(|one| one.load(Ordering::SeqCst))
        };
        let before = read();
        until("every writer to be refused", || {
            let now = read();
            (0..4).all(|i| now[i] > before[i])
        })
        .await;
    }

    /// Stops the writers, as an application that is sent elsewhere.
    pub(crate) async fn all_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        until("the writers to stop", || {
            self.stopped.load(Ordering::SeqCst) == 4
        })
        .await;
    }
}

/// What a mover does under the lock.
pub(crate) enum Do {
    /// Counts the rows, twice if there are writers, who must be refused.
    Count,
    /// Fails.
    Fail(Remedy),
    /// Tells that it was reached, and never ends.
    Hang(Option<oneshot::Sender<()>>),
    /// Runs a statement on another session, then counts.
    Beside(&'static str),
    /// Runs a statement on another session and fails, the first time; then counts.
    BesideOnce(&'static str),
}

/// A copy that looks at the source only under the lock.
pub(crate) struct Mover {
    opts: Opts,
    source: TableName,
    pub(crate) way: Do,
    pub(crate) writers: Option<Arc<Told>>,
    pub(crate) rows: u64,
    pub(crate) finished: u32,
    pub(crate) through: Vec<FilePosition>,
    pub(crate) released: u32,
    pub(crate) remembered: Vec<Option<String>>,
    pub(crate) interrupt: Option<Arc<tokio::sync::Notify>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum MoverError {
    #[error("fail as told")]
    Told(Remedy),
    #[error("count the rows under the lock")]
    Statement(#[from] Error),
}

impl Mover {
    pub(crate) fn new(place: &Place, way: Do) -> Self {
        Self::of(place.opts(), place.pair.source.clone(), way)
    }

    pub(crate) const fn of(opts: Opts, source: TableName, way: Do) -> Self {
        Self {
            opts,
            source,
            way,
            writers: None,
            rows: 0,
            finished: 0,
            through: Vec::new(),
            released: 0,
            remembered: Vec::new(),
            interrupt: None,
        }
    }

    async fn count(&mut self, locked: &LockedSource) -> Result<(), MoverError> {
        let mut conn = Conn::new(self.opts.clone()).await?;
        let query = format!("SELECT COUNT(*) FROM {}", locked.name_of(&self.source));
        self.rows = conn.query_first(&query).await?.unwrap();
        if let Some(writers) = &self.writers {
            writers.all_are_refused().await;
            let again: Option<u64> = conn.query_first(&query).await?;
            assert_eq!(again, Some(self.rows), "a write came through");
        }
        Ok(())
    }
}

impl SwitchFinish for Mover {
    type Error = MoverError;

    fn remedy(error: &MoverError) -> Remedy {
        match error {
            MoverError::Told(remedy) => *remedy,
            MoverError::Statement(_) => Remedy::Retry,
        }
    }

    fn interrupted(&self) -> impl Future<Output = ()> + Send + 'static {
        let interrupt = self.interrupt.clone();
        async move {
            match interrupt {
                Some(interrupt) => interrupt.notified().await,
                None => std::future::pending().await,
            }
        }
    }

    async fn quiesce(&mut self) -> Result<(), MoverError> {
        Ok(())
    }

    async fn remember(&mut self, leftover: Option<&Leftover>) -> Result<(), MoverError> {
        self.remembered.push(leftover.map(ToString::to_string));
        Ok(())
    }

    async fn finish(&mut self, locked: &LockedSource) -> Result<Verified, MoverError> {
        self.finished += 1;
        self.through.push(locked.through.clone());
        match &mut self.way {
            Do::Count => self.count(locked).await?,
            Do::Fail(remedy) => return Err(MoverError::Told(*remedy)),
            Do::Beside(statement) => {
                let mut conn = Conn::new(self.opts.clone()).await?;
                conn.query_drop(*statement).await?;
                self.count(locked).await?;
            }
            Do::BesideOnce(statement) => {
                let mut conn = Conn::new(self.opts.clone()).await?;
                conn.query_drop(*statement).await?;
                self.way = Do::Count;
                return Err(MoverError::Told(Remedy::Retry));
            }
            Do::Hang(reached) => {
                if let Some(reached) = reached.take() {
                    reached.send(()).unwrap();
                }
                std::future::pending::<()>().await;
            }
        }
        Ok(Verified::waived())
    }

    async fn release(&mut self) {
        self.released += 1;
    }

    async fn pause(&mut self, _wait: Duration) {}
}

/// Waits until a fact of this process has come true.
async fn until(what: &str, fact: impl Fn() -> bool) {
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    let coming = async {
        while !fact() {
            looks.tick().await;
        }
    };
    let came = tokio::time::timeout(LONG, coming).await;
    assert!(came.is_ok(), "waiting for {what} failed");
}

pub(crate) const LONG: Duration = Duration::from_secs(60);

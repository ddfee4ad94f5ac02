//! A table, its shadow, and a copy that is done wholly under the lock.

use std::{sync::Arc, time::Duration};

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_binlog::FilePosition;
use oxferry_cutover::{Finish, SwapPair, SwapPlan};
use oxferry_schema::{Ident, Remedy, TableName};
use oxferry_testkit::server::{Schema, Server, ServerOptions};
use oxferry_verifier::Verified;
use tokio::sync::oneshot;

/// A database with a table `t` and its empty shadow.
pub(crate) struct Place {
    pub(crate) schema: Schema,
    pub(crate) pair: SwapPair,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::with(Server::fresh_schema().await.unwrap()).await
    }

    /// On a server that no other test uses, for locks on the whole of it.
    pub(crate) async fn alone() -> Self {
        let server = Server::start(ServerOptions::default()).await.unwrap();
        Self::with(Schema::on(Arc::new(server)).await.unwrap()).await
    }

    async fn with(schema: Schema) -> Self {
        let pair = pair(&schema, "t");
        let place = Self { schema, pair };
        place.create(&place.pair).await;
        place
    }

    pub(crate) async fn create(&self, pair: &SwapPair) {
        for name in [&pair.source, &pair.shadow] {
            self.run(&format!(
                "CREATE TABLE {name} (writer INT, number INT, PRIMARY KEY (writer, number))"
            ))
            .await;
        }
    }

    pub(crate) fn opts(&self) -> Opts {
        Opts::from_url(&self.schema.url()).unwrap()
    }

    /// One attempt, nothing repeated, the shortest lock wait.
    pub(crate) fn plan(&self) -> SwapPlan {
        SwapPlan::new(self.pair.clone())
            .with_attempts_max(1.try_into().unwrap())
            .with_lock_wait(Duration::from_secs(1))
    }

    pub(crate) fn toy(&self, way: Way) -> Toy {
        Toy::new(&self.pair, way, self.opts())
    }

    pub(crate) async fn conn(&self) -> Conn {
        self.schema.conn().await.unwrap()
    }

    pub(crate) async fn run(&self, statement: &str) {
        self.conn().await.query_drop(statement).await.unwrap();
    }

    pub(crate) async fn count(&self, name: &TableName) -> u64 {
        let count = format!("SELECT COUNT(*) FROM {name}");
        self.conn().await.query_first(count).await.unwrap().unwrap()
    }

    /// The names of the tables, in order.
    pub(crate) async fn tables(&self) -> Vec<String> {
        self.conn().await.query("SHOW TABLES").await.unwrap()
    }

    /// Sees that writes flow: one that waited for a lock would fail.
    pub(crate) async fn expect_writes_flow(&self) {
        self.write().await.unwrap();
    }

    /// Writes once; waits for a table lock for a second at most.
    pub(crate) async fn write(&self) -> Result<(), mysql_async::Error> {
        let mut conn = self.conn().await;
        conn.query_drop("SET SESSION lock_wait_timeout = 1").await?;
        let write = format!("REPLACE INTO {} VALUES (99, 99)", self.pair.source);
        conn.query_drop(write).await
    }
}

pub(crate) fn pair(schema: &Schema, table: &str) -> SwapPair {
    let name = |table: String| {
        TableName::new(
            Ident::new(schema.name()).unwrap(),
            Ident::new(table).unwrap(),
        )
    };
    SwapPair {
        source: name(table.to_owned()),
        shadow: name(format!("_{table}_oxnew")),
        old: name(format!("_{table}_oxold")),
    }
}

/// What a toy does under the lock.
pub(crate) enum Way {
    /// Copies the table.
    Copy,
    /// Fails.
    Fail(Remedy),
    /// Copies in a transaction of its own, and fails before the commit.
    CopyHalf,
    /// Runs a statement, then claims success.
    Run(&'static str),
    /// Runs a statement on the holder's session, then claims success.
    Beside(&'static str),
    /// Copies, and ends its own session, the first time.
    EndSessionOnce,
    /// Tells that it was reached, and never ends.
    Hang(Option<oneshot::Sender<()>>),
}

/// A copy that does everything under the lock.
pub(crate) struct Toy {
    copy: String,
    way: Way,
    opts: Opts,
    /// A session whose transaction ends at the first release.
    pub(crate) holder: Option<Conn>,
    pub(crate) quiesced: u32,
    pub(crate) released: u32,
    /// Whether the caller's wish to end cuts the first pause short.
    pub(crate) ends_in_pause: bool,
    /// Rows in the source when it was last copied.
    pub(crate) copied: u64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ToyError {
    #[error("fail as told")]
    Told(Remedy),
    #[error("run a statement under the lock")]
    Statement(#[from] mysql_async::Error),
}

impl Toy {
    fn new(pair: &SwapPair, way: Way, opts: Opts) -> Self {
        Self {
            copy: format!("REPLACE INTO {} SELECT * FROM {}", pair.shadow, pair.source),
            way,
            opts,
            holder: None,
            quiesced: 0,
            released: 0,
            ends_in_pause: false,
            copied: 0,
        }
    }
}

impl Finish for Toy {
    type Error = ToyError;

    fn remedy(error: &ToyError) -> Remedy {
        match error {
            ToyError::Told(remedy) => *remedy,
            ToyError::Statement(_) => Remedy::Retry,
        }
    }

    async fn quiesce(&mut self) -> Result<(), ToyError> {
        self.quiesced += 1;
        match self.quiesced {
            2 if self.ends_in_pause => Err(ToyError::Told(Remedy::Interrupted)),
            _ => Ok(()),
        }
    }

    async fn finish(
        &mut self,
        conn: &mut Conn,
        _through: &FilePosition,
    ) -> Result<Verified, ToyError> {
        match &mut self.way {
            Way::Copy => {
                conn.query_drop(&self.copy).await?;
                self.copied = conn.affected_rows();
            }
            Way::CopyHalf => {
                conn.query_drop("SET autocommit = 0").await?;
                conn.query_drop(&self.copy).await?;
                return Err(ToyError::Told(Remedy::Data));
            }
            Way::Fail(remedy) => return Err(ToyError::Told(*remedy)),
            Way::Run(statement) => conn.query_drop(*statement).await?,
            Way::Beside(statement) => {
                let holder = self.holder.as_mut().unwrap();
                holder.query_drop(*statement).await?;
            }
            Way::EndSessionOnce => {
                self.way = Way::Copy;
                let mut other = Conn::new(self.opts.clone()).await?;
                other.query_drop(format!("KILL {}", conn.id())).await?;
            }
            Way::Hang(reached) => {
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
        if let Some(mut holder) = self.holder.take() {
            holder.query_drop("ROLLBACK").await.unwrap();
        }
    }
    async fn pause(&mut self, wait: Duration) {
        if !self.ends_in_pause {
            tokio::time::sleep(wait).await;
        }
    }
}

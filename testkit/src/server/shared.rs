//! One server for all the tests of a process, one database for each test.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use mysql_async::Conn;
use tokio::sync::Mutex;

use super::{Server, ServerError, ServerOptions};

type Servers = Mutex<HashMap<String, Arc<Server>>>;

/// The server that this process shares among callers with the same options.
///
/// Started by the first caller. It ends with the process, by its watchdog:
/// Rust doesn't drop what is static.
///
/// # Errors
///
/// As [`Server::start`].
pub async fn shared(options: ServerOptions) -> Result<Arc<Server>, ServerError> {
    static SERVERS: OnceLock<Servers> = OnceLock::new();
    // Held across the start on purpose: the others wait for the same server.
    let mut servers = SERVERS.get_or_init(Servers::default).lock().await;
    let key = format!("{options:?}");
    if let Some(server) = servers.get(&key) {
        return Ok(Arc::clone(server));
    }
    let server = Arc::new(Server::start(options).await?);
    servers.insert(key, Arc::clone(&server));
    Ok(server)
}

/// A database of one test's own on a shared server.
#[derive(Debug)]
pub struct Schema {
    server: Arc<Server>,
    name: String,
}

impl Server {
    /// The process-wide server with the default options, and a new empty database on it.
    ///
    /// # Errors
    ///
    /// As [`shared`], and when the database can't be made.
    pub async fn fresh_schema() -> Result<Schema, ServerError> {
        Schema::on(shared(ServerOptions::default()).await?).await
    }
}

impl Schema {
    /// A new empty database on `server`.
    ///
    /// # Errors
    ///
    /// [`ServerError::Sql`] when it can't be made.
    pub async fn on(server: Arc<Server>) -> Result<Self, ServerError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        server
            .execute(&[&format!("CREATE DATABASE `{name}`")])
            .await?;
        Ok(Self { server, name })
    }

    /// The database's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server that it is on; other tests use it too.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The URL of this database, as `root`.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url_for("root", "", &self.name)
    }

    /// A new connection with this database chosen.
    ///
    /// # Errors
    ///
    /// [`ServerError::Sql`] when the server doesn't take it.
    pub async fn conn(&self) -> Result<Conn, ServerError> {
        self.server.conn_to(&self.name).await
    }
}

//! Real `mysqld` processes, one temporary folder each.
//!
//! A [`Server`] is a copy of the template data folder with a server running
//! on it. It listens on `127.0.0.1` on a free port; the account is `root`
//! without a password. Dropping it, a panic, and even a `kill -9` of the
//! process that started it end the server and remove its folder.

mod options;
mod process;
mod replication;
mod session;
mod shared;
mod workplace;

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub use options::{BinlogFormat, RowImage, ServerOptions};
pub use shared::{Schema, shared};

use self::{process::Process, workplace::Workplace};
use crate::provision::{self, Mysqld, ProvisionError};

/// How long a server may take until it answers.
const START_DEADLINE: Duration = Duration::from_secs(90);
/// How long a clean shutdown may take.
const STOP_DEADLINE: Duration = Duration::from_secs(60);
/// How often another port is tried when somebody else has taken the first.
const PORT_ATTEMPTS: u32 = 8;

/// Why a test server isn't there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// There is no `mysqld` to start.
    #[error(transparent)]
    Provision(#[from] ProvisionError),
    /// The server's folder can't be made or used.
    #[error("preparing the server folder {} failed: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program can't be run.
    #[error("running {what} failed: {source}")]
    Spawn {
        /// The program.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The server ended, or didn't answer in time.
    #[error("starting mysqld on port {port} failed: {why}; the end of its log:\n{log}")]
    NotUp {
        /// The port that it was told to use.
        port: u16,
        /// What was seen.
        why: String,
        /// The last lines of its error log.
        log: String,
    },
    /// The server didn't end in time.
    #[error("stopping mysqld on port {port} failed: still running after {waited:?}")]
    NotDown {
        /// The server's port.
        port: u16,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A statement or a connection failed.
    #[error("talking to the server on port {port} failed: {source}")]
    Sql {
        /// The server's port.
        port: u16,
        /// What the client library said.
        source: mysql_async::Error,
    },
}

/// A running (or stopped) throwaway MySQL server.
#[derive(Debug)]
pub struct Server {
    mysqld: Mysqld,
    options: ServerOptions,
    port: u16,
    // Before `place`: the process must be gone when its folder is removed.
    process: Option<Process>,
    place: Workplace,
}

impl Server {
    /// Starts a server of its own, and returns when it answers.
    ///
    /// Fetches MySQL first where there is none, which takes some seconds once.
    ///
    /// # Errors
    ///
    /// [`ServerError`], with the end of the server's log where there is one.
    pub async fn start(options: ServerOptions) -> Result<Self, ServerError> {
        let made = tokio::task::spawn_blocking(|| {
            let found = provision::installation()?;
            let place = Workplace::create(&found.template)?;
            Ok::<_, ServerError>((found.mysqld, place))
        });
        let (mysqld, place) = match made.await {
            Ok(made) => made?,
            Err(lost) => {
                let source = io::Error::other(lost);
                return Err(ServerError::Spawn {
                    what: "the preparation",
                    source,
                });
            }
        };
        let mut server = Self {
            mysqld,
            options,
            port: 0,
            process: None,
            place,
        };
        server.start_on_some_port().await?;
        Ok(server)
    }

    async fn start_on_some_port(&mut self) -> Result<(), ServerError> {
        if let Some(port) = self.options.port {
            self.port = port;
            return self.launch().await;
        }
        for attempt in 1.. {
            self.port = process::free_port();
            match self.launch().await {
                Err(ServerError::NotUp { log, .. })
                    if attempt < PORT_ATTEMPTS && log.contains("Address already in use") => {}
                other => return other,
            }
        }
        Ok(())
    }

    /// Starts the process on the present port and waits until it answers.
    async fn launch(&mut self) -> Result<(), ServerError> {
        self.process = None;
        let arguments = self.options.arguments(self.port);
        let process = Process::spawn(&self.mysqld, &arguments, &self.place)?;
        let process = self.process.insert(process);
        let deadline = Instant::now() + START_DEADLINE;
        let url = url_of(self.port, "root", "", "");
        let up = process
            .wait_until_up(&url, &self.place.data(), deadline)
            .await;
        if let Err(why) = up {
            self.process = None;
            return Err(ServerError::NotUp {
                port: self.port,
                why,
                log: self.log_tail(30),
            });
        }
        Ok(())
    }

    /// Starts a stopped or killed server again, on the same port and data.
    ///
    /// # Errors
    ///
    /// As [`Server::start`]; a port that was taken meanwhile is an error.
    pub async fn start_again(&mut self) -> Result<(), ServerError> {
        self.launch().await
    }

    /// Starts a stopped server again with other options on the same data.
    ///
    /// # Errors
    ///
    /// As [`Server::start_again`].
    pub async fn start_again_with(&mut self, options: ServerOptions) -> Result<(), ServerError> {
        self.options = options;
        self.launch().await
    }

    /// Shuts the server down in order, as an administrator would.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotDown`] when it takes more than a minute.
    pub async fn stop(&mut self) -> Result<(), ServerError> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        process.terminate();
        if process.wait(Instant::now() + STOP_DEADLINE).await {
            self.process = None;
            return Ok(());
        }
        Err(ServerError::NotDown {
            port: self.port,
            waited: STOP_DEADLINE,
        })
    }

    /// Ends the server at once with SIGKILL; its data folder stays for [`Server::start_again`].
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Stops in order and starts again on the same port and data.
    ///
    /// # Errors
    ///
    /// As [`Server::stop`] and [`Server::start_again`].
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        self.stop().await?;
        self.launch().await
    }

    /// Whether the process is there.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_running)
    }

    /// The TCP port on `127.0.0.1`; the same one across restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `mysql://root@127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        url_of(self.port, "root", "", "")
    }

    /// A URL for another account or database; empty parts are left out.
    #[must_use]
    pub fn url_for(&self, user: &str, password: &str, database: &str) -> String {
        url_of(self.port, user, password, database)
    }

    /// The server's version, such as `9.7.4`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.mysqld.version()
    }

    /// A client tool of the same installation (`mysqlbinlog`, `mysql`), when there is one.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<std::process::Command> {
        self.mysqld.tool(name)
    }

    /// The data folder, with the binary logs (`binlog.000001` and on).
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.place.data()
    }

    /// The last `lines` lines of the error log.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.place.error_log(), lines)
    }
}

fn url_of(port: u16, user: &str, password: &str, database: &str) -> String {
    let secret = if password.is_empty() {
        String::new()
    } else {
        format!(":{password}")
    };
    let path = if database.is_empty() {
        String::new()
    } else {
        format!("/{database}")
    };
    format!("mysql://{user}{secret}@127.0.0.1:{port}{path}")
}

fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..)
        .unwrap_or_default()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leaves_out_what_is_empty() {
        assert_eq!(url_of(3306, "root", "", ""), "mysql://root@127.0.0.1:3306");
        assert_eq!(
            url_of(3306, "app", "pw", "shop"),
            "mysql://app:pw@127.0.0.1:3306/shop"
        );
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "a\nb\nc\n").unwrap();
        assert_eq!(tail(log.path(), 2), "b\nc");
        assert_eq!(tail(log.path(), 9), "a\nb\nc");
        assert_eq!(tail(Path::new("/no/such/log"), 2), "");
    }
}

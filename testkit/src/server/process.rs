//! One `mysqld` process: spawned, waited for, ended.

use std::{
    fs,
    fs::File,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use mysql_async::{Conn, Opts, prelude::Queryable};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{ServerError, workplace::Workplace};
use crate::provision::Mysqld;

/// How often a starting or ending process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long one attempt to connect may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A child process that is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

impl Process {
    pub(super) fn spawn(
        mysqld: &Mysqld,
        arguments: &[String],
        place: &Workplace,
    ) -> Result<Self, ServerError> {
        let data = place.data();
        let folder = |source| ServerError::Folder {
            path: data.clone(),
            source,
        };
        let log = File::options()
            .create(true)
            .append(true)
            .open(place.error_log());
        let log = log.map_err(folder)?;
        let also = log.try_clone().map_err(folder)?;
        let child = mysqld
            .command()
            .arg(format!("--datadir={}", data.display()))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(also)
            .stderr(log)
            // Ctrl-C in a terminal must not reach the server before its owner ends it.
            .process_group(0)
            .spawn()
            .map_err(|source| ServerError::Spawn {
                what: "mysqld",
                source,
            })?;
        let process = Self { child };
        fs::write(place.pid_file(), process.child.id().to_string()).map_err(folder)?;
        Ok(process)
    }

    /// Waits until the server on `url` answers and is the one on `data`.
    pub(super) async fn wait_until_up(
        &mut self,
        url: &str,
        data: &Path,
        deadline: Instant,
    ) -> Result<(), String> {
        loop {
            let failure = match answers(url, data).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            if let Some(status) = self.exit_status() {
                return Err(format!("it ended with {status}"));
            }
            if Instant::now() >= deadline {
                return Err(format!("it didn't answer in time: {failure}"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Asks the server to shut down (SIGTERM).
    pub(super) fn terminate(&self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // ESRCH means that it has ended already, which is what is wanted.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }

    /// Whether it has ended by `deadline`.
    pub(super) async fn wait(&mut self, deadline: Instant) -> bool {
        while self.exit_status().is_none() {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        true
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.exit_status().is_none()
    }

    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the server at `url` is the one that works in `data`.
async fn answers(url: &str, data: &Path) -> Result<(), String> {
    let opts = Opts::from_url(url).map_err(|error| error.to_string())?;
    let asked = async {
        let mut conn = Conn::new(opts).await?;
        let datadir: Option<String> = conn.query_first("SELECT @@datadir").await?;
        conn.disconnect().await?;
        Ok::<_, mysql_async::Error>(datadir.unwrap_or_default())
    };
    let datadir = match tokio::time::timeout(CONNECT_LIMIT, asked).await {
        Ok(Ok(datadir)) => datadir,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("no answer".to_owned()),
    };
    if Path::new(&datadir) == data {
        return Ok(());
    }
    Err(format!("another server answers there, on {datadir}"))
}

/// A port that nobody listens on, outside the range that Linux gives to
/// outgoing connections, so that it is still free after a restart.
pub(super) fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(10_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_bound() {
        let port = free_port();
        assert!((10_000..32_000).contains(&port));
    }

    #[tokio::test]
    async fn nobody_answers_on_a_closed_port() {
        let url = format!("mysql://root@127.0.0.1:{}", free_port());
        assert!(answers(&url, Path::new("/data")).await.is_err());
    }
}

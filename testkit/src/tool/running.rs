//! A running `oxferry`.

use std::{
    fs,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{process::Child, task::JoinHandle};

use super::{
    ToolError,
    log::{Line, Log, announces},
};

/// How often the child's memory is looked at while it is waited for.
const MEMORY_EVERY: Duration = Duration::from_millis(50);

/// A child process; dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    log: Log,
    readers: Vec<JoinHandle<()>>,
    started: Instant,
    memory_peak: u64,
}

/// How a child process ended, and what it printed.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; nothing when a signal ended it.
    pub code: Option<i32>,
    /// All lines of standard output and error, as they came.
    pub lines: Vec<Line>,
    /// From its start to its end.
    pub took: Duration,
    /// The most memory that it had resident (`VmHWM`), in bytes, as last seen.
    pub memory_peak: u64,
}

impl Finished {
    /// All that it printed.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines
            .iter()
            .map(|line| &*line.text)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// When each phase began, in the order of the log.
    #[must_use]
    pub fn phases(&self) -> Vec<(String, Instant)> {
        let name = |line: &Line| {
            let (_, rest) = line.text.split_once("phase=")?;
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            let name = rest.get(..end.unwrap_or(rest.len()))?;
            (!name.is_empty()).then(|| (name.to_owned(), line.at))
        };
        let mut all: Vec<(String, Instant)> = self.lines.iter().filter_map(name).collect();
        all.dedup_by(|later, earlier| later.0 == earlier.0);
        all
    }
}

impl Running {
    pub(super) fn spawn(mut command: tokio::process::Command) -> std::io::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let log = Log::new();
        let mut readers = Vec::new();
        readers.extend(child.stdout.take().map(|source| log.read(source)));
        readers.extend(child.stderr.take().map(|source| log.read(source)));
        Ok(Self {
            child,
            log,
            readers,
            started: Instant::now(),
            memory_peak: 0,
        })
    }

    /// Waits until a line `phase=name` has come, now or earlier.
    ///
    /// # Errors
    ///
    /// [`ToolError::Late`], or [`ToolError::Ended`] when the process is gone.
    pub async fn wait_phase(&mut self, name: &str, limit: Duration) -> Result<Line, ToolError> {
        self.wait_for(&format!("phase={name}"), limit, |line| {
            announces(line, name)
        })
        .await
    }

    /// Waits until a line that contains `text` has come, now or earlier.
    ///
    /// # Errors
    ///
    /// As [`Running::wait_phase`].
    pub async fn wait_line(&mut self, text: &str, limit: Duration) -> Result<Line, ToolError> {
        self.wait_for(&format!("a line with {text:?}"), limit, |line| {
            line.contains(text)
        })
        .await
    }

    async fn wait_for(
        &mut self,
        what: &str,
        limit: Duration,
        matches: impl Fn(&str) -> bool,
    ) -> Result<Line, ToolError> {
        let mut news = self.log.subscribe();
        let late = tokio::time::sleep(limit);
        tokio::pin!(late);
        loop {
            if let Some(line) = self.log.find(0, &matches) {
                return Ok(line);
            }
            tokio::select! {
                _ = news.changed() => {}
                () = &mut late => {
                    let log = self.log.text();
                    return Err(ToolError::Late { what: what.to_owned(), waited: limit, log });
                }
                status = self.child.wait() => {
                    let status = status.map_err(waiting)?;
                    self.drain().await;
                    return self.log.find(0, &matches).ok_or_else(|| ToolError::Ended {
                        what: what.to_owned(),
                        status: status.to_string(),
                        log: self.log.text(),
                    });
                }
            }
        }
    }

    /// The process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a signal; to a process that is gone it does nothing.
    ///
    /// # Errors
    ///
    /// [`ToolError::Process`] when the system refuses.
    pub fn signal(&self, signal: Signal) -> Result<(), ToolError> {
        let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) else {
            return Ok(());
        };
        match kill(Pid::from_raw(pid), signal) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(error) => Err(ToolError::Process {
                what: "sending a signal",
                source: error.into(),
            }),
        }
    }

    /// The lines that have come so far.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.log.lines()
    }

    /// Waits for its end; a process that doesn't end in time is killed.
    ///
    /// # Errors
    ///
    /// [`ToolError::Late`] when it didn't end in time.
    pub async fn wait_exit(mut self, limit: Duration) -> Result<Finished, ToolError> {
        let late = tokio::time::sleep(limit);
        tokio::pin!(late);
        let status: ExitStatus = loop {
            let looked = self.memory_now();
            self.memory_peak = self.memory_peak.max(looked);
            tokio::select! {
                status = self.child.wait() => break status.map_err(waiting)?,
                () = tokio::time::sleep(MEMORY_EVERY) => {}
                () = &mut late => {
                    let log = self.log.text();
                    let what = "the end of oxferry".to_owned();
                    return Err(ToolError::Late { what, waited: limit, log });
                }
            }
        };
        let took = self.started.elapsed();
        self.drain().await;
        let lines = self.log.lines();
        Ok(Finished {
            code: status.code(),
            lines,
            took,
            memory_peak: self.memory_peak,
        })
    }

    /// Reads what is still in the pipes of a process that has ended.
    async fn drain(&mut self) {
        for reader in self.readers.drain(..) {
            // A grandchild may hold the pipe open; its words are not waited for.
            let _ = tokio::time::timeout(Duration::from_secs(2), reader).await;
        }
    }

    /// `VmHWM` of proc(5), in bytes; 0 when the process is gone.
    fn memory_now(&self) -> u64 {
        let Some(pid) = self.child.id() else { return 0 };
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        peak_of(&status)
    }
}

fn peak_of(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn waiting(source: std::io::Error) -> ToolError {
    ToolError::Process {
        what: "waiting for oxferry",
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Running {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", script]);
        Running::spawn(command).unwrap()
    }

    #[tokio::test]
    async fn a_phase_is_awaited_and_the_end_reported() {
        let mut tool = shell("echo 'INFO phase=copy' >&2; echo 'INFO phase=done' >&2; exit 75");
        tool.wait_phase("copy", LIMIT).await.unwrap();
        let finished = tool.wait_exit(LIMIT).await.unwrap();
        assert_eq!(finished.code, Some(75));
        let phases: Vec<String> = finished
            .phases()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(phases, ["copy", "done"]);
    }

    #[tokio::test]
    async fn a_phase_that_cannot_come_fails_at_once_with_the_log() {
        let mut tool = shell("echo 'access denied' >&2; exit 77");
        let error = tool
            .wait_phase("copy", LIMIT)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("access denied") && error.contains("77"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_signal_reaches_the_child() {
        // Not SIGINT: a shell can't trap what its parent ignores, as one that
        // runs the tests in the background does.
        let mut tool = shell("trap 'exit 130' TERM; echo ready; while :; do sleep 0.01; done");
        tool.wait_line("ready", LIMIT).await.unwrap();
        tool.signal(Signal::SIGTERM).unwrap();
        assert_eq!(tool.wait_exit(LIMIT).await.unwrap().code, Some(130));
    }

    #[tokio::test]
    async fn a_child_that_does_not_end_is_killed() {
        let tool = shell("exec sleep 600");
        let pid = tool.pid().unwrap();
        let error = tool.wait_exit(Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, ToolError::Late { .. }));
        crate::wait::eventually(LIMIT, "the child's end", async || {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            (!status.contains("State:\tS")).then_some(())
        })
        .await
        .unwrap();
    }

    #[test]
    fn the_memory_peak_is_read_in_bytes() {
        assert_eq!(
            peak_of("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"),
            2 << 20
        );
        assert_eq!(peak_of(""), 0);
    }
}

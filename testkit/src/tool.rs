//! The `oxferry` program as a child process, with its log in hand.

mod log;
mod running;

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

pub use self::{
    log::Line,
    running::{Finished, Running},
};
pub use nix::sys::signal::Signal;

/// The environment variable that names the `oxferry` program to run.
pub const PROGRAM_VARIABLE: &str = "OXFERRY_BIN";

/// Why the tool didn't do what the test waits for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The program isn't built.
    #[error(
        "finding the oxferry program at {} failed; build it with `cargo build -p oxferry`, or set OXFERRY_BIN",
        path.display()
    )]
    NotBuilt {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The program can't be run.
    #[error("running {} failed: {source}", path.display())]
    Spawn {
        /// The program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line that was waited for can't come any more.
    #[error("waiting for {what} failed: oxferry ended with {status}; its log:\n{log}")]
    Ended {
        /// What was waited for.
        what: String,
        /// How the process ended.
        status: String,
        /// All that it printed.
        log: String,
    },
    /// The deadline passed.
    #[error("waiting for {what} failed: not there after {waited:?}; the log:\n{log}")]
    Late {
        /// What was waited for.
        what: String,
        /// How long it was waited for.
        waited: Duration,
        /// All that was printed so far.
        log: String,
    },
    /// The process can't be signalled or waited for.
    #[error("{what} failed: {source}")]
    Process {
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// A call of the `oxferry` program, to be spawned.
#[derive(Debug, Clone)]
#[must_use]
pub struct Oxferry {
    program: Option<PathBuf>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl Oxferry {
    /// A call with these arguments.
    pub fn new(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self {
            program: None,
            arguments,
            environment: Vec::new(),
        }
    }

    /// One more argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable for the child.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs this program instead of the one that [`program`] finds.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// Starts it; its standard output and error are read from now on.
    ///
    /// # Errors
    ///
    /// [`ToolError::NotBuilt`] or [`ToolError::Spawn`].
    pub fn spawn(&self) -> Result<Running, ToolError> {
        let path = match &self.program {
            Some(path) => path.clone(),
            None => program()?,
        };
        let mut command = tokio::process::Command::new(&path);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().cloned());
        Running::spawn(command).map_err(|source| ToolError::Spawn { path, source })
    }

    /// Runs it to its end.
    ///
    /// # Errors
    ///
    /// As [`Oxferry::spawn`] and [`Running::wait_exit`].
    pub async fn run(&self, limit: Duration) -> Result<Finished, ToolError> {
        self.spawn()?.wait_exit(limit).await
    }
}

/// The path of the `oxferry` program: `OXFERRY_BIN`, or the one in the same
/// target folder as the running test.
///
/// # Errors
///
/// [`ToolError::NotBuilt`] when there is none.
pub fn program() -> Result<PathBuf, ToolError> {
    let named = std::env::var_os(PROGRAM_VARIABLE).filter(|path| !path.is_empty());
    let path = named.map_or_else(
        || beside(&std::env::current_exe().unwrap_or_default()),
        Into::into,
    );
    if path.is_file() {
        Ok(path)
    } else {
        Err(ToolError::NotBuilt { path })
    }
}

/// `target/debug/oxferry` for `target/debug/deps/it-0123` and for `target/debug/xtask`.
fn beside(executable: &Path) -> PathBuf {
    let folder = executable.parent().unwrap_or(executable);
    let up = ["deps", "examples"]
        .iter()
        .any(|name| folder.ends_with(name));
    let profile = if up {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    profile.join("oxferry")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_lies_beside_the_test_or_above_deps() {
        assert_eq!(
            beside(Path::new("/t/debug/deps/it-1")),
            Path::new("/t/debug/oxferry")
        );
        assert_eq!(
            beside(Path::new("/t/release/xtask")),
            Path::new("/t/release/oxferry")
        );
    }

    #[tokio::test]
    async fn a_missing_program_is_named_with_the_command_that_builds_it() {
        let missing = Oxferry::new(["plan"]).program("/no/such/oxferry").spawn();
        let error = missing.unwrap_err().to_string();
        assert!(error.contains("/no/such/oxferry"), "{error}");
        let error = ToolError::NotBuilt { path: "/x".into() }.to_string();
        assert!(error.contains("cargo build -p oxferry"), "{error}");
    }
}

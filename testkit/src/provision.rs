//! Finds a MySQL server program, or fetches one.
//!
//! Looked for in this order: the path in `OXFERRY_MYSQLD`, `mysqld` on the
//! `PATH`, the cache, and last the machine's own package mirror, from which
//! the packages are unpacked into the cache. Nothing of the system changes,
//! and no root rights are needed.

mod apt;
mod cache;
mod mysqld;
mod sources;

use std::{
    ffi::OsStr,
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    sync::Mutex,
};

pub use cache::cache_dir;
pub use mysqld::Mysqld;

/// The environment variable that names a `mysqld` program to use.
pub const MYSQLD_VARIABLE: &str = "OXFERRY_MYSQLD";

/// Why no MySQL server program is at hand.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProvisionError {
    /// The program that was named can't be used.
    #[error("using {} as mysqld failed: {why}; point OXFERRY_MYSQLD at the mysqld of MySQL 8.0 or newer, or unset it", program.display())]
    BadProgram {
        /// The program that was tried.
        program: PathBuf,
        /// What was wrong with it.
        why: String,
    },
    /// There is none, and this machine can't fetch one.
    #[error(
        "finding mysqld failed: {why}; install MySQL 8.0 or newer and set OXFERRY_MYSQLD to its mysqld"
    )]
    NoSource {
        /// What keeps it from being fetched.
        why: String,
    },
    /// A step of fetching or preparing failed.
    #[error("{step} failed: {detail}")]
    Step {
        /// What was attempted.
        step: String,
        /// What the program that did it said.
        detail: String,
    },
    /// A file or folder of the cache can't be read or written.
    #[error("using {} failed: {source}; set OXFERRY_CACHE to a folder that can be written", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ProvisionError {
    fn cache(path: &Path, source: io::Error) -> Self {
        Self::Cache {
            path: path.to_owned(),
            source,
        }
    }

    fn step(step: impl Into<String>, detail: impl ToString) -> Self {
        Self::Step {
            step: step.into(),
            detail: detail.to_string(),
        }
    }
}

/// A server program together with an empty, initialized data folder.
#[derive(Debug, Clone)]
pub struct Installation {
    /// The program.
    pub mysqld: Mysqld,
    /// A data folder fresh from `--initialize-insecure`, to be copied, never used in place.
    pub template: PathBuf,
}

/// Finds or fetches `mysqld` and prepares its template data folder.
///
/// Blocks: seconds when it has to fetch, some milliseconds after that. Looked
/// up once per process; other processes that ask at the same time wait for
/// the first one's work.
///
/// # Errors
///
/// [`ProvisionError`] says in one line what is missing and what to do.
pub fn installation() -> Result<Installation, ProvisionError> {
    static FOUND: Mutex<Option<Installation>> = Mutex::new(None);
    let mut found = FOUND
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = &*found {
        return Ok(known.clone());
    }
    let cache = cache_dir()?;
    let _lock = cache::lock(&cache)?;
    let fresh = find_or_fetch(&cache)?;
    *found = Some(fresh.clone());
    Ok(fresh)
}

fn find_or_fetch(cache: &Path) -> Result<Installation, ProvisionError> {
    if let Some(named) = std::env::var_os(MYSQLD_VARIABLE).filter(|path| !path.is_empty()) {
        return prepare(Mysqld::from_program(Path::new(&named))?, cache);
    }
    if let Some(program) = on_path("mysqld") {
        match Mysqld::from_program(&program).and_then(|found| prepare(found, cache)) {
            Ok(usable) => return Ok(usable),
            Err(error) => note(&format!("{error}; looking for another mysqld")),
        }
    }
    let root = cache.join("mysql");
    if !root.exists() {
        note(&format!("fetching MySQL into {}", root.display()));
        apt::fetch(&root)?;
    }
    prepare(Mysqld::from_root(&root)?, cache)
}

/// Initializes the template data folder of this version unless it is there.
fn prepare(mysqld: Mysqld, cache: &Path) -> Result<Installation, ProvisionError> {
    let template = cache.join(format!("template-{}", mysqld.version_slug()));
    if !template.exists() {
        let unfinished = cache::unfinished(&template)?;
        mysqld.initialize(&unfinished)?;
        // Every copy must get a server_uuid of its own.
        remove_file_if_there(&unfinished.join("auto.cnf"))?;
        cache::finish(&unfinished, &template)?;
    }
    Ok(Installation { mysqld, template })
}

fn remove_file_if_there(path: &Path) -> Result<(), ProvisionError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ProvisionError::cache(path, error))
        }
        _ => Ok(()),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let sbin = [
        PathBuf::from("/usr/sbin"),
        PathBuf::from("/usr/local/mysql/bin"),
    ];
    std::env::split_paths(&path)
        .chain(sbin)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// Tells the person at the terminal why this takes a while.
fn note(text: &str) {
    // Nothing depends on whether the note could be shown.
    let _ = writeln!(io::stderr(), "oxferry-testkit: {text}");
}

/// Runs a program to its end and returns what it printed.
fn run(
    step: &str,
    program: &str,
    arguments: &[&OsStr],
    folder: &Path,
) -> Result<String, ProvisionError> {
    let output = std::process::Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| ProvisionError::step(step, format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.unwrap_or("it said nothing").trim().to_owned();
    Err(ProvisionError::step(
        step,
        format!("{program} ended with {}: {last}", output.status),
    ))
}

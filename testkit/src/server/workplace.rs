//! A server's folder, and what happens to it when nobody needs it any more.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
};

use super::ServerError;

/// The start of the folders' names; the process id of the owner follows.
const PREFIX: &str = "oxferry-server-";

/// Waits for the end of its owner, whose other end of the pipe then closes,
/// kills the server named in the folder's `pid` file and removes the folder.
/// A process that has got the same id since is not touched: its command line
/// doesn't name the folder.
const WATCHDOG: &str = r#"
while read -r line; do :; done
pid=$(cat "$1/pid" 2>/dev/null)
if [ -n "$pid" ] && grep -qsF -- "$1/" "/proc/$pid/cmdline"; then kill -9 "$pid"; fi
tries=0
while [ -d "$1" ] && [ $tries -lt 20 ]; do
  rm -rf -- "$1" 2>/dev/null || sleep 0.1
  tries=$((tries + 1))
done
"#;

/// The folder of one server: data, error log, and a watchdog over both.
#[derive(Debug)]
pub(super) struct Workplace {
    folder: PathBuf,
    /// A shell whose standard input is a pipe that this process holds open.
    watchdog: Child,
}

impl Workplace {
    /// Makes a folder with a copy of the `template` data folder.
    pub(super) fn create(template: &Path) -> Result<Self, ServerError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let base = std::env::temp_dir();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        if number == 0 {
            remove_stale(&base);
        }
        let folder = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let failed = |source| ServerError::Folder {
            path: folder.clone(),
            source,
        };
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        fs::create_dir(&folder).map_err(failed)?;
        let watchdog = watch(&folder)?;
        let place = Self {
            folder: folder.clone(),
            watchdog,
        };
        copy_folder(template, &place.data())?;
        Ok(place)
    }

    /// The data folder.
    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The server's error log.
    pub(super) fn error_log(&self) -> PathBuf {
        self.folder.join("error.log")
    }

    /// The file that tells the watchdog which process to kill.
    pub(super) fn pid_file(&self) -> PathBuf {
        self.folder.join("pid")
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // What can't be removed here, the watchdog tries again for two seconds.
        let _ = fs::remove_dir_all(&self.folder);
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

fn watch(folder: &Path) -> Result<Child, ServerError> {
    Command::new("sh")
        .args(["-c", WATCHDOG, "watchdog"])
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C in a terminal goes to the whole group; the watchdog must outlive it.
        .process_group(0)
        .spawn()
        .map_err(|source| ServerError::Spawn { what: "sh", source })
}

/// Copies with `cp`, which clones extents and keeps holes where the file system can.
fn copy_folder(from: &Path, to: &Path) -> Result<(), ServerError> {
    let failed = |source| ServerError::Folder {
        path: to.to_owned(),
        source,
    };
    let status = Command::new("cp")
        .args(["-R", "--reflink=auto", "--sparse=auto"])
        .arg(from)
        .arg(to)
        .status()
        .map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    let why = format!("copying {} with cp ended with {status}", from.display());
    Err(failed(std::io::Error::other(why)))
}

/// Removes the folders of owners that are gone, as after a power cut.
fn remove_stale(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let owner = owner.and_then(|rest| rest.split('-').next());
        let Some(owner) = owner.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        if Path::new(&format!("/proc/{owner}")).exists() {
            continue;
        }
        // Its server, if one runs, was the watchdog's to kill; this is only the rubbish.
        if !server_runs(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn server_runs(folder: &Path) -> bool {
    let Ok(pid) = fs::read_to_string(folder.join("pid")) else {
        return false;
    };
    let command = fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(&*folder.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> tempfile::TempDir {
        let template = tempfile::tempdir().unwrap();
        fs::write(template.path().join("ibdata1"), "a").unwrap();
        template
    }

    #[test]
    fn a_dropped_workplace_takes_its_folder_and_watchdog_along() {
        let place = Workplace::create(template().path()).unwrap();
        let (data, watchdog) = (place.data(), place.watchdog.id());
        assert!(data.join("ibdata1").exists());
        drop(place);
        assert!(!data.exists());
        assert!(!Path::new(&format!("/proc/{watchdog}")).exists());
    }

    #[test]
    fn the_watchdog_alone_kills_the_server_and_removes_the_folder() {
        let mut place = Workplace::create(template().path()).unwrap();
        let mut server = Command::new("tail");
        server.arg("-f").arg(place.data().join("ibdata1"));
        let mut server = server.stdout(Stdio::null()).spawn().unwrap();
        fs::write(place.pid_file(), server.id().to_string()).unwrap();
        // What the system does when the owner is killed: the pipe closes.
        drop(place.watchdog.stdin.take());
        assert!(!server.wait().unwrap().success());
        place.watchdog.wait().unwrap();
        assert!(!place.folder.exists());
    }

    #[test]
    fn the_watchdog_spares_a_process_that_only_has_the_same_id() {
        let mut place = Workplace::create(template().path()).unwrap();
        let mut stranger = Command::new("sleep").arg("60").spawn().unwrap();
        fs::write(place.pid_file(), stranger.id().to_string()).unwrap();
        drop(place.watchdog.stdin.take());
        place.watchdog.wait().unwrap();
        assert!(stranger.try_wait().unwrap().is_none());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn folders_of_owners_that_are_gone_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let gone = base.path().join(format!("{PREFIX}4294967290-0"));
        let alive = base
            .path()
            .join(format!("{PREFIX}{}-0", std::process::id()));
        fs::create_dir(&gone).unwrap();
        fs::create_dir(&alive).unwrap();
        remove_stale(base.path());
        assert!(!gone.exists());
        assert!(alive.exists());
    }
}

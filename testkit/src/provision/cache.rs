//! The folder that keeps what was fetched, and its lock.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use super::ProvisionError;

/// The environment variable that names the cache folder.
const CACHE_VARIABLE: &str = "OXFERRY_CACHE";

/// The folder where fetched servers and template data folders are kept.
///
/// The first that can be made: `OXFERRY_CACHE`, `$XDG_CACHE_HOME/oxferry`,
/// `~/.cache/oxferry`, and `oxferry-cache` in Cargo's target folder. When
/// `OXFERRY_CACHE` is set, no other is tried.
///
/// # Errors
///
/// [`ProvisionError::Cache`] when none can be made.
pub fn cache_dir() -> Result<PathBuf, ProvisionError> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(named) = set(CACHE_VARIABLE).map(PathBuf::from) {
        return writable(named);
    }
    let candidates = [
        set("XDG_CACHE_HOME").map(|cache| PathBuf::from(cache).join("oxferry")),
        set("HOME").map(|home| PathBuf::from(home).join(".cache/oxferry")),
    ];
    for candidate in candidates.into_iter().flatten() {
        if let Ok(folder) = writable(candidate) {
            return Ok(folder);
        }
    }
    let target = set("CARGO_TARGET_DIR").map_or_else(workspace_target, PathBuf::from);
    writable(target.join("oxferry-cache"))
}

fn workspace_target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")
}

fn writable(folder: PathBuf) -> Result<PathBuf, ProvisionError> {
    let tried = fs::create_dir_all(&folder).and_then(|()| {
        let probe = folder.join(format!(".probe-{}", std::process::id()));
        File::create(&probe)?;
        fs::remove_file(&probe)?;
        fs::canonicalize(&folder)
    });
    tried.map_err(|error| ProvisionError::cache(&folder, error))
}

/// Takes the cache's lock, and waits for it; it is released on drop.
pub(super) fn lock(cache: &Path) -> Result<File, ProvisionError> {
    let path = cache.join("lock");
    let taken = File::create(&path).and_then(|file| file.lock().map(|()| file));
    taken.map_err(|error| ProvisionError::cache(&path, error))
}

/// An empty place beside `finished` to build it in; call with the lock held.
///
/// What a killed run left there is removed.
pub(super) fn unfinished(finished: &Path) -> Result<PathBuf, ProvisionError> {
    let mut name = finished.as_os_str().to_owned();
    name.push(".unfinished");
    let folder = PathBuf::from(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| ProvisionError::cache(&folder, error))?;
    }
    Ok(folder)
}

/// Gives what was built its final name, in one step.
pub(super) fn finish(unfinished: &Path, finished: &Path) -> Result<(), ProvisionError> {
    fs::rename(unfinished, finished).map_err(|error| ProvisionError::cache(finished, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_folder_of_a_killed_run_is_removed() {
        let cache = tempfile::tempdir().unwrap();
        let finished = cache.path().join("mysql");
        let first = unfinished(&finished).unwrap();
        fs::create_dir(&first).unwrap();
        fs::write(first.join("half"), "a").unwrap();
        let second = unfinished(&finished).unwrap();
        assert_eq!(first, second);
        assert!(!second.exists());
    }

    #[test]
    fn a_finished_folder_appears_whole() {
        let cache = tempfile::tempdir().unwrap();
        let finished = cache.path().join("mysql");
        let building = unfinished(&finished).unwrap();
        fs::create_dir(&building).unwrap();
        fs::write(building.join("all"), "a").unwrap();
        finish(&building, &finished).unwrap();
        assert!(finished.join("all").exists());
        assert!(!building.exists());
    }

    #[test]
    fn the_lock_keeps_a_second_holder_out() {
        let cache = tempfile::tempdir().unwrap();
        let held = lock(cache.path()).unwrap();
        let second = File::open(cache.path().join("lock")).unwrap();
        assert!(second.try_lock().is_err());
        drop(held);
        // Not try_lock: a process that another test is just spawning may hold
        // a copy of the lock until it has become another program.
        second.lock().unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let blocked = tempfile::NamedTempFile::new().unwrap();
        let error = writable(blocked.path().join("cache"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("OXFERRY_CACHE"), "{error}");
        assert!(
            error.contains(&*blocked.path().to_string_lossy()),
            "{error}"
        );
    }
}

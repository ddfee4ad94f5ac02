//! Where a job's socket is.

use std::{
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// Returns where the socket of the job of this name is: in the folder `oxferry` of
/// the user's runtime folder.
///
/// `None` where there is none, or where it isn't the user's alone; the user may
/// name a path.
pub(crate) fn socket_of(job: &str) -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty())?;
    in_runtime(Path::new(&runtime), job)
}

fn in_runtime(runtime: &Path, job: &str) -> Option<PathBuf> {
    if !runtime.is_absolute() {
        return None;
    }
    let owner = private_owner(runtime)?;
    let folder = runtime.join("oxferry");
    let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    if made.is_err_and(|error| error.kind() != std::io::ErrorKind::AlreadyExists) {
        return None;
    }
    (private_owner(&folder)? == owner).then(|| folder.join(file_name(job)))
}

/// Returns the owner of a folder into which nobody else can write, if it is one.
fn private_owner(folder: &Path) -> Option<u32> {
    let seen = std::fs::symlink_metadata(folder).ok()?;
    (seen.is_dir() && seen.mode() & 0o022 == 0).then(|| seen.uid())
}

/// Names the file after the job. A name of other signs, or of a length that a
/// socket's path may not have, carries a hash of the whole.
fn file_name(job: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let kept: String = job.chars().filter(|c| plain(*c)).take(STEM_MAX).collect();
    if kept == job {
        return format!("{kept}.sock");
    }
    let digest = Sha256::digest(job.as_bytes());
    let hash: String = digest
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{kept}-{hash}.sock")
}

/// A socket's path has 107 bytes at most, and a runtime folder some 15 of them.
/// Source: unix(7), `sun_path`.
const STEM_MAX: usize = 48;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn every_job_has_a_file_of_its_own() {
        assert_eq!(file_name("shop.orders"), "shop.orders.sock");
        let odd = [
            "a/../b",
            "a..b",
            "a.\u{e9}b",
            &"x".repeat(49),
            &"x".repeat(50),
        ];
        let names: std::collections::BTreeSet<_> = odd.iter().map(|job| file_name(job)).collect();
        assert_eq!(names.len(), odd.len());
        assert!(
            names
                .iter()
                .all(|name| name.len() <= 70 && !name.contains('/')),
            "{names:?}"
        );
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(folder.path(), 0o700);
        let path = in_runtime(folder.path(), "d.t").unwrap();
        assert_eq!(path, folder.path().join("oxferry/d.t.sock"));
        set(path.parent().unwrap(), 0o777);
        assert_eq!(in_runtime(folder.path(), "d.t"), None);
        assert_eq!(in_runtime(Path::new("relative"), "d.t"), None);
    }
}

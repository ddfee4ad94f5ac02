//! Slowing down while a file exists.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{Reason, Throttle, Verdict};

/// Holds work while a file exists, whatever is in it.
#[derive(Clone, Debug)]
pub struct FlagFile {
    path: PathBuf,
    /// `None` where it can't be found out, and before the first look.
    exists: Option<bool>,
}

impl FlagFile {
    /// How soon to look again.
    pub const RECHECK_AFTER: Duration = Duration::from_millis(250);

    /// Watches `path`; holds until the first look.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            exists: None,
        }
    }

    /// Returns the file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records whether the file exists, `None` where that can't be found out.
    pub const fn handle_sample(&mut self, exists: Option<bool>) {
        self.exists = exists;
    }
}

impl Throttle for FlagFile {
    fn poll(&self, now: Instant) -> Verdict {
        let path = self.path.clone();
        let reason = match self.exists {
            Some(false) => return Verdict::Proceed,
            Some(true) => Reason::FlagFile { path },
            None => Reason::FlagFileUnknown { path },
        };
        Verdict::Hold {
            reason,
            recheck_at: now + Self::RECHECK_AFTER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_while_the_file_exists() {
        let now = Instant::now();
        let mut flag = FlagFile::new("/tmp/slow");
        for (exists, expected) in [
            (None, Some("can't look for flag file /tmp/slow")),
            (Some(true), Some("flag file /tmp/slow exists")),
            (Some(false), None),
        ] {
            flag.handle_sample(exists);
            let reason = flag.poll(now).reason().map(ToString::to_string);
            assert_eq!(reason.as_deref(), expected);
        }
    }
}

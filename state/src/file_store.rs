//! A checkpoint in a file.

use std::{
    io,
    path::{Path, PathBuf},
};

use oxferry_schema::Remedy;
use tokio::{fs, io::AsyncWriteExt, sync::Mutex};

use crate::{Advanced, Checkpoint, CheckpointStore, FormatError};

/// One job's checkpoint in a JSON file that only its owner can read.
///
/// Each save writes a file beside it, `NAME.tmp`, flushes it to the disk,
/// renames it over the old one and flushes the folder, so a crash leaves one
/// or the other, never a mixture. Meant for one process at a time.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
    // Two saves of this process must not write one temporary file.
    writing: Mutex<()>,
}

/// Why a checkpoint's file can't be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileStoreError {
    /// The file system refused.
    #[error("can't {action} the checkpoint file {}", .path.display())]
    Io {
        /// What was attempted: `read`, `write`, `rename`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// The file holds no checkpoint that this version can read.
    #[error("the checkpoint file {} is of no use", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with its content.
        source: FormatError,
    },
    /// The file holds another job's checkpoint.
    #[error(
        "the checkpoint file {} belongs to job {held:?}, not to {asked:?}; give another file",
        .path.display()
    )]
    OtherJob {
        /// The file.
        path: PathBuf,
        /// The job that the file belongs to.
        held: String,
        /// The job that was to be stored.
        asked: String,
    },
}

impl FileStore {
    /// Keeps the checkpoint in the file at `path`, whose folder must exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            writing: Mutex::new(()),
        }
    }

    /// Returns the file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn write(&self, json: &str) -> Result<(), FileStoreError> {
        let mut name = self.path.clone().into_os_string();
        name.push(".tmp");
        let temporary = PathBuf::from(name);
        // What a crash left must not lend its mode to the new file.
        remove(&temporary)
            .await
            .map_err(|e| io_error("remove what is left of", &temporary, e))?;
        let written = async {
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true).mode(MODE_OWNER_ONLY);
            let mut file = options.open(&temporary).await?;
            file.write_all(json.as_bytes()).await?;
            file.write_all(b"\n").await?;
            file.sync_all().await
        };
        written
            .await
            .map_err(|e| io_error("write", &temporary, e))?;
        fs::rename(&temporary, &self.path)
            .await
            .map_err(|e| io_error("rename", &self.path, e))?;
        self.sync_folder().await
    }

    /// Makes a rename or a removal survive a crash of the machine.
    async fn sync_folder(&self) -> Result<(), FileStoreError> {
        let parent = self.path.parent().unwrap_or_else(|| Path::new("."));
        let folder = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let synced = async { fs::File::open(folder).await?.sync_all().await };
        synced
            .await
            .map_err(|e| io_error("flush the folder of", &self.path, e))
    }
}

impl CheckpointStore for FileStore {
    type Error = FileStoreError;

    async fn load(&self) -> Result<Option<Checkpoint>, FileStoreError> {
        let text = match fs::read_to_string(&self.path).await {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &self.path, error)),
        };
        Checkpoint::from_json(&text)
            .map(Some)
            .map_err(|e| self.format_error(e))
    }

    async fn advance(&self, next: &Checkpoint) -> Result<Advanced, FileStoreError> {
        let json = next.to_json().map_err(|e| self.format_error(e))?;
        let _writing = self.writing.lock().await;
        if let Some(held) = self.load().await? {
            if held.job.name != next.job.name {
                return Err(FileStoreError::OtherJob {
                    path: self.path.clone(),
                    held: held.job.name,
                    asked: next.job.name.clone(),
                });
            }
            if held.sequence >= next.sequence {
                return Ok(Advanced::against(held.sequence, next.sequence));
            }
        }
        self.write(&json).await?;
        Ok(Advanced::Durable)
    }

    async fn clear(&self) -> Result<(), FileStoreError> {
        let _writing = self.writing.lock().await;
        let removed = remove(&self.path)
            .await
            .map_err(|e| io_error("remove", &self.path, e))?;
        if removed {
            self.sync_folder().await?;
        }
        Ok(())
    }
}

impl FileStore {
    fn format_error(&self, source: FormatError) -> FileStoreError {
        FileStoreError::Format {
            path: self.path.clone(),
            source,
        }
    }
}

impl FileStoreError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Io { .. } => Remedy::State,
            Self::Format { source, .. } => source.remedy(),
            Self::OtherJob { .. } => Remedy::Usage,
        }
    }
}

/// Removes a file, and says whether there was one.
async fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path).await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> FileStoreError {
    FileStoreError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Read and write for the owner, nothing for anybody else: statements may
/// hold what only the owner should see.
const MODE_OWNER_ONLY: u32 = 0o600;

//! What survives a crash: the checkpoint, its versioned format and its stores.
//!
//! A [`Checkpoint`] says enough to go on with a job without losing or missing
//! one change. A [`CheckpointStore`] keeps the newest one: [`TableStore`] in a
//! table beside the job's own, [`FileStore`] in a file, [`MemoryStore`] in a
//! test.
//!
//! # What it isn't
//!
//! It copies nothing, compares no rows and reads no clock: the time of a save
//! is an argument. Whether two runs of a job exclude each other is decided
//! elsewhere, by a lock on the server.
//!
//! # Example
//!
//! ```
//! use oxferry_schema::{Ident, TableName};
//! use oxferry_state::{Checkpoint, JobIdentity};
//!
//! let table = TableName::new(Ident::new("shop")?, Ident::new("orders")?);
//! let job = JobIdentity::migrate(vec![table], vec!["ALTER TABLE shop.orders ADD x INT".into()]);
//! let mut checkpoint = Checkpoint::new(job.clone(), "1.0.0", "a-server-uuid");
//! checkpoint.stamp("2026-01-31T12:00:00Z");
//! let read_back = Checkpoint::from_json(&checkpoint.to_json()?)?;
//! read_back.resumes(&job)?;
//! assert_eq!(read_back.sequence, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! - I6: a stored checkpoint never goes back: its sequence only grows.
//! - A format that this version doesn't know is refused, never guessed at.

mod checkpoint;
#[cfg(feature = "conformance")]
pub mod conformance;
mod definition;
mod file_store;
mod fingerprint;
mod format;
mod job;
mod phase;
mod pulse;
mod store;
mod table_store;

pub use checkpoint::{Checkpoint, CopyMode, Reverse, TableProgress, TargetServer, merge_ranges};
pub use definition::same_definition;
pub use file_store::{FileStore, FileStoreError};
pub use fingerprint::fingerprint;
pub use format::FormatError;
pub use job::{JobIdentity, JobKind, Mismatch};
pub use phase::{Phase, UnknownPhase};
pub use pulse::{beat, last_beat, touch_barrier};
pub use store::{Advanced, CheckpointStore, MemoryStore};
pub use table_store::{TableStore, TableStoreError};

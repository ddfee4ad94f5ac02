//! Copies a live table in chunks and applies its changes.
//!
//! [`TableChunker`] cuts a table into key ranges, [`ChunkSizer`] says how large
//! they shall be, and [`SelectSink`] copies them and applies changes, all on
//! one server. [`engine`] decides what is done when. Nothing here takes a lock
//! on a source row, and nothing here decides to take over: see the crates
//! `verifier` and `cutover`.

mod change;
mod chunker;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod connections;
mod document;
pub mod engine;
mod error;
mod filter;
#[cfg(test)]
mod fixture;
mod gaps;
mod indexes;
mod mark;
mod param;
mod pieces;
pub mod pipeline;
mod plan;
mod sink;
mod sizer;
mod statement;
mod transfer;

pub use change::{Batch, KeyedChange};
pub use chunker::{Chunker, TableChunker};
pub use connections::{Connections, WorkLimits};
pub use error::{CopyError, Place, Task};
pub use filter::{Access, Join, RowFilter};
pub use gaps::gaps;
pub use indexes::{BuildSettings, DeferredIndexes};
pub use mark::Mark;
pub use plan::{ColumnMap, CopyPlan, PlanError, new_unique_indexes};
pub use sink::{Applied, CopiedRows, RowSink, SelectSink};
pub use sizer::{ChunkLimits, ChunkSizer};
pub use transfer::{Load, TransferSettings, TransferSink};

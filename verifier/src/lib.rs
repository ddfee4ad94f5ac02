//! Shows that source and target hold the same rows, or which ones differ

mod column;
mod compared;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod evidence;
mod expression;
mod feed;
mod fingerprint;
#[cfg(test)]
mod interleaving;
#[cfg(any(test, feature = "conformance"))]
mod memory;
mod mismatch;
mod pass;
mod progress;
mod repair;
mod table_side;
mod touched;
mod verify;

pub use error::{CompareError, FeedError};
pub use evidence::{BothSides, Clean, Verified};
pub use expression::{ColumnPair, ExpressionError, RowExpressions};
pub use feed::{Feed, FixedRanges, Ranges};
pub use fingerprint::{Fingerprint, FingerprintError, Fingerprints, KeyedFingerprint, Summary};
#[cfg(any(test, feature = "conformance"))]
pub use memory::MemorySide;
pub use mismatch::{Mismatch, MismatchKind, Mismatches};
pub use pass::{Comparison, Outcome, Pass, PassLimits, Step, What};
pub use progress::Progress;
pub use repair::Repair;
pub use table_side::{LockedSide, SideTable, TableSide};
pub use touched::{Touched, TouchedLimits, WindowId};
pub use verify::{Verify, VerifyConfig};

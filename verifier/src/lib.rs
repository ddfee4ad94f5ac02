//! Shows that source and target hold the same rows, or which ones differ.
//!
//! [`Touched`] is fed with every change, [`Pass`] decides what to compare and
//! what it proves; both do no IO. [`TableSide`] has a server compute the
//! fingerprints that [`RowExpressions`] describe, [`Verify`] drives it all and
//! ends with [`Verified`], which a cutover takes by value.
//!
//! It copies nothing, reads no binary log and takes no lock.
//!
//! # Invariants
//!
//! - A difference is reported only for a key that was at rest on both sides.
//! - A key that changed is compared again, or its whole range is.
//! - Evidence comes from a full pass without one difference, and from the
//!   comparison of all that changed since, when nobody could write.

mod codec;
mod column;
mod compared;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod coverage;
mod duplicates;
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
mod order;
mod pass;
mod progress;
mod repair;
mod spots;
mod step;
mod survey;
mod table_side;
mod touched;
mod verify;
mod walk;

pub use codec::{Codec, CodecError, UnknownCodec};
pub use duplicates::DuplicateQuery;
pub use error::{CompareError, FeedError};
pub use evidence::{BothSides, Clean, Verified};
pub use expression::{ColumnPair, ExpressionError, RowExpressions, SideColumn, SideRow};
pub use feed::{Feed, FixedRanges, Ranges};
pub use fingerprint::{
    ColumnFingerprint, Fingerprint, FingerprintError, Fingerprints, KeyedFingerprint, Summary,
};
#[cfg(any(test, feature = "conformance"))]
pub use memory::MemorySide;
pub use mismatch::{Mismatch, MismatchKind, Mismatches};
pub use order::KeyOrder;
pub use pass::Pass;
pub use progress::Progress;
pub use repair::{Repair, RepairRows};
pub use spots::spots_agree;
pub use step::{Comparison, Outcome, PassLimits, Step, What};
pub use survey::{Look, SurveyPages, Suspects};
pub use table_side::{LockedSide, SideFilter, SideTable, TableSide};
pub use touched::{Touched, TouchedLimits, WindowId};
pub use verify::{Verify, VerifyConfig};
pub use walk::Backward;

//! Shows that source and target hold the same rows, or which ones differ

mod compared;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod evidence;
mod fingerprint;
#[cfg(test)]
mod interleaving;
#[cfg(any(test, feature = "conformance"))]
mod memory;
mod mismatch;
mod pass;
mod repair;
mod touched;

pub use error::{CompareError, FeedError};
pub use evidence::{BothSides, Clean, Verified};
pub use fingerprint::{Fingerprint, FingerprintError, Fingerprints, KeyedFingerprint, Summary};
#[cfg(any(test, feature = "conformance"))]
pub use memory::MemorySide;
pub use mismatch::{Mismatch, MismatchKind, Mismatches};
pub use pass::{Comparison, Outcome, Pass, PassLimits, Step, What};
pub use repair::Repair;
pub use touched::{Touched, TouchedLimits, WindowId};

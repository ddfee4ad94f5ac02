//! Copies a live table in chunks and applies its changes.

mod change;
pub mod engine;

pub use change::{Batch, KeyedChange};

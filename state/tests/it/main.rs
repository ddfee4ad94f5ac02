//! What the stores promise, from outside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod file;
mod fixtures;
mod memory;
mod table;

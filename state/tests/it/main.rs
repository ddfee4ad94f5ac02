//! What the stores promise, from outside.

mod file;
mod fixtures;
mod memory;
mod table;

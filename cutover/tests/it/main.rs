//! The cutover against real servers.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod attached;
mod blockers;
mod bystander;
mod connections;
mod ddl;
mod earlier;
mod hooks;
mod limits;
mod listener;
mod looks;
mod mover;
mod proxy;
mod sentinel;
mod swaps;
mod switches;
mod toy;

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
mod limits;
mod proxy;
mod sentinel;
mod swaps;
mod toy;

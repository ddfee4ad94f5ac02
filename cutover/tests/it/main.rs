//! The cutover against real servers.

mod blockers;
mod bystander;
mod connections;
mod limits;
mod proxy;
mod sentinel;
mod swaps;
mod toy;

//! The driver between a scripted stream and tables in memory.
//!
//! Nothing here waits: a [`bench::Bench`] polls the driver until it can't go
//! on by itself, and steps that a test holds back go on when it says so.

mod bench;
mod contract;
mod copying;
mod draining;
mod ending;
mod fakes;
mod holding;

//! Real and simulated MySQL servers for tests.
//!
//! Nothing here is part of the product: other crates use it as a
//! dev-dependency only. [`server::Server`] is a real `mysqld` on a free port
//! that is gone when the test is.

pub mod compare;
pub mod fuzz;
pub mod provision;
pub mod server;
#[cfg(feature = "sim")]
pub mod sim;
pub mod tables;
pub mod tool;
pub mod trial;
pub mod wait;
pub mod writer;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

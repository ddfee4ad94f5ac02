//! Real and simulated MySQL servers for tests.
//!
//! Nothing here is part of the product: other crates use it as a
//! dev-dependency only. [`server::Server`] is a real `mysqld` on a free port
//! that is gone when the test is.

pub mod provision;
pub mod server;

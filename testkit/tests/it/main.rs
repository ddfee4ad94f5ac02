//! The test kit against real servers.

mod server;

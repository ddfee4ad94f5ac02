//! The test kit against real servers.

#[cfg(test)]
mod server;
#[cfg(test)]
mod writers;

//! Real and simulated MySQL servers for tests

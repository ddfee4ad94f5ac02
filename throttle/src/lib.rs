//! When a copy must slow down: replica lag, load and flag file, in one verdict

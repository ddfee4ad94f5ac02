//! Shows that source and target hold the same rows, or which ones differ

//! Comparisons on real servers.

mod corruption;
mod place;
mod types;
mod writes;

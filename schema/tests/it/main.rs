//! Against real servers.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

mod create;
mod estate;
mod keys;
mod mapping;
mod mapping_kinds;
mod mapping_marks;
mod native;
mod place;
mod read;
mod session;
mod xa;

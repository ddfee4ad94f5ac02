//! Against real servers.

mod create;
mod mapping;
mod mapping_marks;
mod place;
mod read;
mod session;

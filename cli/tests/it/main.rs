//! The program itself, run on real servers as an operator runs it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends by panicking"
)]

mod attached;
mod callbacks;
mod control;
mod cutover;
mod estate;
mod far;
mod held;
mod migrate;
mod modes;
mod moves;
mod moves_again;
mod moves_cleanup;
mod moves_doubt;
mod moves_frozen;
mod moves_many;
mod moves_options;
mod moves_others;
mod moves_outage;
mod moves_reset;
mod moves_resume;
mod moves_rows;
mod moves_spoiled;
mod multi;
mod native;
mod own;
mod refuse;
mod replica;
mod replica_crash;
mod resume;
mod reverse;
mod reverse_doubt;
mod reverse_estate;
mod settings;
mod several;
mod shops;
mod tenant;
mod tenant_shared;
mod trio;
mod verify;
mod watched;
mod way;
mod world;

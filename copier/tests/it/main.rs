//! The copier against real servers.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what tests share may fail them"
)]

mod applying;
mod barrier;
mod bed;
mod chunks;
mod contract;
mod copying;
mod faults;
mod indexes;
mod pair;
mod refusals;
mod shapes;
mod tenant;
mod transfer;
mod transfer_faults;
mod values;

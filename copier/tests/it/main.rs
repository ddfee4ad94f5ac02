//! The copier against real servers.

mod applying;
mod bed;
mod chunks;
mod copying;
mod faults;
mod indexes;
mod values;

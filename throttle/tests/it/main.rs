//! What the throttles promise, against real servers.

mod contract;
mod pair;
mod real;

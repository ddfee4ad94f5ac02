//! When a copy must slow down: replica lag, load, a flag file or a person, in
//! one verdict.
//!
//! Gates decide: a [`LagGate`], a [`LoadGate`], a [`FlagFile`] and a
//! [`ByHand`] switch are told what was measured and say, as a [`Throttle`],
//! whether work may go on. [`All`] makes one of several. They hold no clock
//! and no connection.
//!
//! A [`Monitor`] measures for them on real servers, and a [`Pacer`] tells its
//! verdict to workers.
//!
//! # What it isn't
//!
//! It slows nothing down itself: who works asks before beginning anything new.
//!
//! # Example
//!
//! ```
//! use std::time::{Duration, Instant};
//! use oxferry_throttle::{LagGate, LagLimits, Throttle, Verdict};
//!
//! let now = Instant::now();
//! let mut gate = LagGate::new(LagLimits::new(Duration::from_secs(1)));
//! gate.watch("db2:3306", now);
//! assert!(gate.poll(now).reason().is_some());
//! gate.handle_sample("db2:3306", now, Duration::ZERO);
//! assert_eq!(gate.poll(now), Verdict::Proceed);
//! ```
//!
//! # Invariants
//!
//! - What isn't known is not taken for good: no sample, or an old one, holds.
//! - A gate never blocks: it says when to ask again.
//! - A failing measurement ends in an error, but only after a long while.

mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
mod discovery;
mod flag;
mod hand;
mod heartbeat;
mod lag;
mod link;
mod load;
mod monitor;
mod pacer;
mod replicas;
mod verdict;

pub use config::MonitorConfig;
pub use flag::FlagFile;
pub use hand::ByHand;
pub use heartbeat::Heartbeats;
pub use lag::{LagGate, LagLimits};
pub use link::ProbeError;
pub use load::LoadGate;
pub use monitor::{Monitor, MonitorError};
pub use pacer::{MonitorEnded, Pacer};
pub use verdict::{All, Reason, Throttle, Verdict, worst};

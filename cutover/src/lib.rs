//! Lets the target take the source's place, with no write lost.
//!
//! [`swap`] is the *migrate* cutover: on one session it locks the tables, lets
//! the caller's [`Finish`] apply and compare what is left, and renames.
//! [`switch`] is the *move* cutover: it shuts writers out of the source, lets the
//! caller's [`SwitchFinish`] bring the rest to the target, and has the operator's
//! [`Hooks`] send the application there. A
//! [`Sentinel`] postpones it until an operator drops a table. [`run_ddl`] lets the
//! server change a table by itself, within the same limits.
//!
//! # What it isn't
//!
//! It copies, applies and compares nothing itself, and it stores no
//! checkpoint.
//!
//! # Invariants
//!
//! - Nothing is renamed without a verifier's evidence, which the rename uses
//!   up (I9).
//! - The source is locked only here, and every wait for the lock and under it
//!   has a limit (I7). A session whose statement is given up is ended on the
//!   server, and seen to be gone, before anything else happens.
//! - A rename whose answer is lost is looked up, never sent again blindly. What
//!   a run left that was killed is ended first: see [`end_earlier`].

mod attach;
mod backoff;
mod blocker;
mod carry;
mod cleanup;
mod ddl;
mod earlier;
mod error;
mod finish;
mod hook;
mod lock;
mod outcome;
mod plan;
mod postpone;
mod rename;
mod sentinel;
mod session;
mod swap;
mod switch;
mod tables;

pub use backoff::Backoff;
pub use blocker::Blocker;
pub use carry::{complete, detach, hidden_children};
pub use cleanup::drop_old;
pub use ddl::{DdlPlan, DdlReport, DdlSeen, run_ddl};
pub use earlier::end_earlier;
pub use error::{CutoverError, FinishSource};
pub use finish::Finish;
pub use hook::{Direction, Hook, HookError, HookFailure, HookName, Hooks};
pub use outcome::{Outcome, TablesSeen, decide};
pub use plan::{KillBlockers, SwapPair, SwapPlan};
pub use postpone::Sentinel;
pub use sentinel::{SentinelSeen, SentinelStep, SentinelWait};
pub use swap::{SwapReport, swap};
pub use switch::{
    AfterSwitch, Aftermath, Claim, Leftover, LeftoverError, LockedSource, ReadOnly, SourceLock,
    SourceSeen, SwitchError, SwitchFinish, SwitchPlan, SwitchReport, SwitchStep, is_locking_rename,
    open_source, shut_source, switch, undo_leftover,
};

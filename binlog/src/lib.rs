//! Transactions and row changes out of a MySQL server's binary log.
//!
//! [`MysqlStream`] follows a server as a replica would and hands out
//! [`StreamEvent`]s: the rows of watched tables, and where each transaction
//! ends. [`ForeignWrites`] reports what others than the job itself did to the
//! tables that it writes. [`FilePosition`], [`Gtid`] and [`GtidSet`] say where in a log one
//! stands; [`ResumeTracker`] says from where to read again while transactions
//! are still being applied.
//!
//! # What it isn't
//!
//! It applies nothing, stores nothing and knows no checkpoint.
//!
//! # Invariants
//!
//! - A row change is handed out once, whole, in the log's order, or the
//!   stream ends with an error. Nothing is skipped.
//! - Reading goes on only where a transaction ended, and never on a server
//!   that lacks one that was handed out.
//! - No wait is without a deadline.

mod decode;
mod error;
mod event;
mod foreign;
mod group;
mod gtid;
mod gtid_set;
mod interval;
mod log;
mod mysql_stream;
mod place;
mod position;
mod prepared;
mod resume;
mod statement;
mod stream;
#[cfg(test)]
mod tables;
mod watched;

pub use decode::DecodeError;
pub use error::{StreamError, TransactionName};
pub use event::{RowChange, StreamEvent};
pub use foreign::{ForeignKind, ForeignWrite, ForeignWrites, Seen};
pub use gtid::{Gtid, GtidError};
pub use gtid_set::GtidSet;
pub use mysql_stream::{MysqlStream, StreamConfig};
pub use position::{FilePosition, Position, PositionError};
pub use resume::ResumeTracker;
pub use statement::is_own as is_own_statement;
pub use stream::ChangeStream;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

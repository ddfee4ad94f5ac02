//! Transactions and row changes out of a MySQL server's binary log.
//!
//! # What it isn't
//!
//! It applies nothing, stores nothing and knows no checkpoint.

mod decode;
mod error;
mod event;
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
pub use gtid::{Gtid, GtidError};
pub use gtid_set::GtidSet;
pub use mysql_stream::{MysqlStream, StreamConfig};
pub use position::{FilePosition, Position, PositionError};
pub use resume::ResumeTracker;
pub use stream::ChangeStream;

//! Transactions and row changes out of a MySQL server's binary log.
//!
//! # What it isn't
//!
//! It applies nothing, stores nothing and knows no checkpoint.

mod error;
mod event;
mod gtid;
mod gtid_set;
mod interval;
mod position;
mod stream;

pub use error::StreamError;
pub use event::{RowChange, StreamEvent};
pub use gtid::{Gtid, GtidError};
pub use gtid_set::GtidSet;
pub use position::{FilePosition, Position, PositionError};
pub use stream::ChangeStream;

//! The seam between a binary log and whoever follows it.

use std::future::Future;

use crate::{Gtid, StreamError, StreamEvent};

/// The changes of a server's watched tables, in the order of its binary log.
///
/// # Contract
///
/// - Events come in the log's order; none is left out and none comes twice,
///   also across reconnects, which are this trait's business: after one, the
///   stream goes on behind the last event that it handed out.
/// - Rows of a transaction come before its `Commit`; rows that were rolled
///   back never come.
/// - An error is final: no event follows it.
pub trait ChangeStream: Send {
    /// Waits for the next event.
    ///
    /// # Cancel safety
    ///
    /// A call may be dropped; no event is lost by it.
    ///
    /// # Errors
    ///
    /// [`StreamError`] when the log can't be followed any further.
    fn next(&mut self) -> impl Future<Output = Result<StreamEvent, StreamError>> + Send;

    /// Returns the GTID of the transaction whose rows were handed out last and
    /// whose `Commit` was not; `None` between transactions, and where the
    /// server gives none.
    fn under_way(&self) -> Option<Gtid> {
        None
    }
}

//! What the copy does for its own cutover.

use std::time::Duration;

use mysql_async::Conn;
use oxferry_binlog::FilePosition;
use oxferry_schema::Remedy;
use oxferry_verifier::Verified;

/// The caller's part of a swap: the workers' rest, and what is left.
///
/// # Contract
///
/// - For each attempt `quiesce` is called first, then perhaps `finish`. When
///   the attempt fails, `release` is called once, also after a failed
///   `quiesce`; when it succeeds, or its outcome is not known, or its session
///   or an earlier run's couldn't be seen to end, nothing is.
/// - `finish` may be dropped before it ends, when it takes too long. Its
///   session is ended, and gone, before `release` is called, so none of its
///   statements works on when the workers do.
/// - Under the table lock `START TRANSACTION`, `LOCK TABLES`, `UNLOCK TABLES`
///   and DDL let the lock go: don't use them. For a transaction use
///   `SET autocommit = 0` and `COMMIT`; both keep it. Source: MySQL 9.7
///   manual, "Interaction of Table Locking and Transactions". A lock that is
///   gone is noticed before the rename and fails the swap.
/// - Only the sources and the shadows of the plan may be used, under their own
///   names, without an alias. `information_schema` and `performance_schema`
///   can be read all the same; seen on MySQL 9.7.4.
/// - `finish` must not release the session's user-level locks: they tell
///   whether the session still lives.
pub trait Finish: Send {
    /// What can go wrong.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Says what to do about an error. [`Remedy::Retry`] and
    /// [`Remedy::Unreachable`] lead to another attempt.
    fn remedy(error: &Self::Error) -> Remedy;

    /// Stops the workers, before the lock is asked for.
    ///
    /// Returns when none of their statements is in flight, and little is left
    /// to apply and to compare. Must be cancel-safe.
    fn quiesce(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Applies on `conn` what is left up to `through`, and compares on `conn`
    /// what is not compared yet, under the lock.
    ///
    /// What is applied and not committed is committed by the rename, and
    /// rolled back when the attempt fails before it.
    ///
    /// `through` was read under the lock: behind it, no change to the tables
    /// is in the source's binary log.
    fn finish(
        &mut self,
        conn: &mut Conn,
        through: &FilePosition,
    ) -> impl Future<Output = Result<Verified, Self::Error>> + Send;

    /// Lets the workers go on: the attempt has failed.
    fn release(&mut self) -> impl Future<Output = ()> + Send;

    /// Waits between two attempts, half a minute at most; the workers work.
    ///
    /// May return early. To end the swap then, let the next `quiesce` fail with
    /// [`Remedy::Interrupted`].
    fn pause(&mut self, wait: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(wait)
    }
}

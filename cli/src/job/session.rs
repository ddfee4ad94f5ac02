//! A session that is needed now and then.

use std::{io, time::Duration};

use mysql_async::{Conn, Error as DriverError, IoError, Opts, prelude::Queryable};
use oxferry_schema::CONNECT_DEADLINE;

/// How long a server may take to answer a question.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Keeps a session between two questions. One that has gone meanwhile, since it
/// was quiet for too long, is opened anew.
#[derive(Debug)]
pub(crate) struct Occasional {
    opts: Opts,
    conn: Option<Conn>,
}

impl Occasional {
    /// Opens none yet.
    pub(crate) const fn new(opts: Opts) -> Self {
        Self { opts, conn: None }
    }

    /// Returns a session that answers. Whoever has got his answer gives it back to
    /// [`keep`](Self::keep); one whose question was given up must not be used again.
    ///
    /// # Errors
    ///
    /// The driver's, when the server can't be reached in time.
    pub(crate) async fn take(&mut self) -> Result<Conn, DriverError> {
        if let Some(mut conn) = self.conn.take()
            && answered(conn.ping()).await.is_ok()
        {
            return Ok(conn);
        }
        within(CONNECT_DEADLINE, Conn::new(self.opts.clone())).await
    }

    /// Keeps a session for the next question.
    pub(crate) fn keep(&mut self, conn: Conn) {
        self.conn = Some(conn);
    }
}

/// Waits for the answer to a question, within the time that a server may take.
///
/// # Errors
///
/// The driver's; that of a connection whose other side is silent, if it is late.
pub(crate) async fn answered<T>(
    asking: impl Future<Output = Result<T, DriverError>>,
) -> Result<T, DriverError> {
    within(ANSWER_MAX, asking).await
}

async fn within<T>(
    limit: Duration,
    asking: impl Future<Output = Result<T, DriverError>>,
) -> Result<T, DriverError> {
    match tokio::time::timeout(limit, asking).await {
        Ok(answer) => answer,
        Err(late) => {
            let late = io::Error::new(io::ErrorKind::TimedOut, late);
            Err(DriverError::Io(IoError::Io(late)))
        }
    }
}

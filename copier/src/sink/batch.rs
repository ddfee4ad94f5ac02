//! Applying changes to the target.

use std::time::Duration;

use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_schema::{Key, Row, TableName};

use super::{
    Applied,
    decide::Write,
    writer::{APPLY_BYTES_MAX, Writer},
};
use crate::{
    Batch, WorkLimits,
    connections::{Named, Session, Unit},
    error::Task,
    plan::Meeting,
};

/// One batch's transaction.
pub(crate) struct ApplyUnit<'a> {
    pub(crate) writer: &'a Writer,
    pub(crate) batch: &'a Batch,
    /// Whether there are no rows of the keys yet: nothing is removed, and a
    /// row that is there is an error.
    pub(crate) fresh: bool,
}

impl ApplyUnit<'_> {
    /// Removes what has to be removed, all of it before anything is written:
    /// rows may exchange their unique values, and a key that is gone may be the
    /// same to the server as one that is written.
    ///
    /// Of the rows, only the first `rows_max` are written.
    pub(crate) async fn write(
        &self,
        conn: &mut Conn,
        (bytes, rows_max): (usize, usize),
    ) -> Result<Applied, DriverError> {
        let changes = &self.batch.changes;
        let keys = changes.iter().map(|change| &change.key);
        let gone = changes.iter().filter(|change| change.image.is_none());
        let gone: Vec<&Key> = gone.map(|change| &change.key).collect();
        let rows = changes.iter().filter_map(|c| c.image.as_ref());
        let rows: Vec<&Row> = rows.take(rows_max).collect();
        let how = match self.writer.meeting() {
            _ if self.fresh => Write::Insert,
            Meeting::Replaces => {
                self.writer.remove(conn, &gone, bytes).await?;
                Write::Replace
            }
            Meeting::RemovedFirst => {
                self.writer
                    .remove(conn, &keys.collect::<Vec<_>>(), bytes)
                    .await?;
                Write::Replace
            }
            Meeting::Exclusive => {
                self.writer
                    .remove(conn, &keys.collect::<Vec<_>>(), bytes)
                    .await?;
                Write::Insert
            }
        };
        self.writer.write_rows(conn, &rows, (bytes, how)).await?;
        Ok(Applied {
            upserts: rows.len(),
            deletes: gone.len(),
        })
    }

    /// Returns how many bytes a statement may have.
    pub(crate) fn bytes(&self, session: &Session) -> usize {
        (session.packet_bytes / 2).min(APPLY_BYTES_MAX)
    }

    /// Makes sure that each row finds room in one packet.
    pub(crate) fn check_sizes(&self, packet_bytes: usize) -> Result<(), DriverError> {
        let rows = self.batch.changes.iter().filter_map(|c| c.image.as_ref());
        self.writer.check_sizes(rows, packet_bytes)
    }
}

impl Named for ApplyUnit<'_> {
    fn task(&self) -> Task {
        let changes = &self.batch.changes;
        Task::Apply {
            first: changes.first().map(|change| change.key.clone()),
            last: changes.last().map(|change| change.key.clone()),
            count: changes.len(),
        }
    }

    fn table(&self) -> &TableName {
        self.writer.plan.target()
    }
}

impl Unit for ApplyUnit<'_> {
    type Output = Applied;

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<Applied, DriverError> {
        self.check_sizes(session.packet_bytes)?;
        let bytes = self.bytes(session);
        self.writer.begin(session).await?;
        let applied = self.write(&mut session.conn, (bytes, usize::MAX)).await?;
        session.conn.query_drop("COMMIT").await?;
        Ok(applied)
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

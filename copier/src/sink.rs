//! Writing rows and changes to the target.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_schema::{Key, KeyRange, Predicate, Row, TableName};

use crate::{
    Batch, Connections, CopyError, CopyPlan, WorkLimits,
    connections::{Named, Session, Unit},
    engine::Mode,
    error::Task,
    param,
    pieces::{PieceLimits, pieces},
    statement::Statements,
};

/// Writes rows and changes to a target table.
///
/// # Contract
///
/// - `copy` reads the range in one consistent snapshot that is taken after the
///   call began, takes no locks on source rows, and returns when the rows are
///   committed on the target. With `again`, the target's rows of the range are
///   removed in the same transaction. With `again`, and in *ordered* mode, a
///   row replaces every row that it shares a unique value with.
/// - That holds for a plan in *ranged* mode, too, after the target has got its
///   unique indexes: the engine then copies with `again` only, and changes that
///   were dispatched before may put rows into the range meanwhile.
/// - `apply` brings every key of the batch to its image, in one transaction,
///   and returns when it is committed. Applying a batch again changes nothing.
/// - Both are all or nothing, and are repeated by the sink itself after a
///   deadlock, a lock wait timeout or a lost connection.
/// - When an error is returned, or the future is dropped, the work may or may
///   not have been done: repeat it, `copy` with `again`.
/// - No row is ever left out to avoid an error.
pub trait RowSink: Send + Sync {
    /// Copies the rows of a range.
    fn copy(
        &self,
        range: &KeyRange,
        again: bool,
    ) -> impl Future<Output = Result<CopiedRows, CopyError>> + Send;

    /// Applies changes.
    fn apply(&self, batch: &Batch) -> impl Future<Output = Result<Applied, CopyError>> + Send;
}

/// What a chunk held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a chunk's count")]
pub struct CopiedRows {
    /// The rows read from the source.
    pub rows: u64,
}

/// What a batch held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a batch's counts")]
pub struct Applied {
    /// The keys whose row was written.
    pub upserts: usize,
    /// The keys whose row was removed, whether it was there or not.
    pub deletes: usize,
}

/// A [`RowSink`] for a target beside its source on one server: rows never
/// leave it.
#[derive(Debug)]
pub struct SelectSink {
    connections: Arc<Connections>,
    plan: CopyPlan,
    statements: Statements,
    /// Whether a written row may take no other row's place.
    exclusive: AtomicBool,
}

impl SelectSink {
    /// Prepares to write by `plan`, in sessions of `connections`.
    #[must_use]
    pub fn new(connections: Arc<Connections>, plan: CopyPlan) -> Self {
        let statements = Statements::new(&plan);
        Self {
            connections,
            plan,
            statements,
            exclusive: AtomicBool::new(false),
        }
    }

    /// From now on a row that meets another one over a unique index is an
    /// error, where it has taken the other one's place up to now.
    ///
    /// To be called once the target has a unique index that no unique index of
    /// the source implies: the source may hold two rows for it, of which one
    /// would vanish. Batches must then be applied one after the other. A value
    /// that travels from row to row over more than one batch is refused too.
    pub fn set_exclusive(&self) {
        self.exclusive.store(true, Ordering::Relaxed);
    }

    fn is_exclusive(&self) -> bool {
        self.exclusive.load(Ordering::Relaxed)
    }

    /// Applies changes on a connection of the caller's, which may hold
    /// `LOCK TABLES` on the target: they stay.
    ///
    /// Not repeated: on an error the transaction is rolled back, and the caller
    /// decides. Not cancel-safe: drop the connection with the future.
    ///
    /// # Errors
    ///
    /// [`CopyError`] as [`RowSink::apply`], and when it takes longer than a
    /// statement may.
    pub async fn apply_on(&self, conn: &mut Conn, batch: &Batch) -> Result<Applied, CopyError> {
        let limit = self.connections.limits().statement;
        let task = || Box::new(self.batch(batch).task());
        let table = self.plan.target();
        match tokio::time::timeout(limit, self.apply_under_lock(conn, batch)).await {
            Ok(done) => done.map_err(|source| CopyError::Server {
                task: task(),
                table: table.clone(),
                attempts: 1,
                source,
            }),
            Err(_) => Err(CopyError::Deadline {
                task: task(),
                table: table.clone(),
                limit,
            }),
        }
    }

    /// `START TRANSACTION` would free the table locks; `autocommit` does not.
    /// Source: MySQL 9.7 manual, "LOCK TABLES and UNLOCK TABLES".
    async fn apply_under_lock(
        &self,
        conn: &mut Conn,
        batch: &Batch,
    ) -> Result<Applied, DriverError> {
        let packet: Option<usize> = conn.query_first("SELECT @@max_allowed_packet").await?;
        let bytes = APPLY_BYTES_MAX.min(packet.unwrap_or(APPLY_BYTES_MAX) / 2);
        conn.query_drop("SET autocommit = 0").await?;
        let done = match self.batch(batch).write(conn, bytes).await {
            Ok(applied) => conn.query_drop("COMMIT").await.map(|()| applied),
            Err(error) => {
                conn.query_drop("ROLLBACK").await?;
                Err(error)
            }
        };
        conn.query_drop("SET autocommit = 1").await?;
        done
    }

    const fn batch<'a>(&'a self, batch: &'a Batch) -> ApplyUnit<'a> {
        ApplyUnit { sink: self, batch }
    }
}

impl RowSink for SelectSink {
    async fn copy(&self, range: &KeyRange, again: bool) -> Result<CopiedRows, CopyError> {
        let unit = CopyUnit {
            sink: self,
            range,
            again,
        };
        self.connections.run(&unit).await
    }

    async fn apply(&self, batch: &Batch) -> Result<Applied, CopyError> {
        if batch.changes.is_empty() {
            return Ok(Applied::default());
        }
        self.connections.run(&self.batch(batch)).await
    }
}

/// How a copied row meets one that is there.
#[derive(Clone, Copy)]
enum Write {
    /// None may be there.
    Insert,
    /// It takes the place of every row that it shares a unique value with.
    Replace,
}

/// One chunk's transaction.
struct CopyUnit<'a> {
    sink: &'a SelectSink,
    range: &'a KeyRange,
    again: bool,
}

impl CopyUnit<'_> {
    async fn copy(&self, conn: &mut Conn, how: Write) -> Result<CopiedRows, DriverError> {
        let range = Predicate::range(self.range, self.sink.plan.source_side());
        let sql = match how {
            Write::Insert => self.sink.statements.insert_select(&range),
            Write::Replace => self.sink.statements.replace_select(&range),
        };
        conn.exec_drop(sql, range.into_params()).await?;
        let rows = records(&conn.info()).unwrap_or_else(|| conn.affected_rows());
        Ok(CopiedRows { rows })
    }

    /// Emptying and copying are one transaction: nobody sees the range empty,
    /// and a crash in between leaves it as it was.
    async fn empty_and_copy(&self, conn: &mut Conn) -> Result<CopiedRows, DriverError> {
        conn.query_drop("START TRANSACTION").await?;
        let range = Predicate::range(self.range, self.sink.plan.target_side());
        let sql = self.sink.statements.empty(&range);
        conn.exec_drop(sql, range.into_params()).await?;
        let how = if self.sink.is_exclusive() {
            Write::Insert
        } else {
            Write::Replace
        };
        let copied = self.copy(conn, how).await?;
        conn.query_drop("COMMIT").await?;
        Ok(copied)
    }
}

impl Named for CopyUnit<'_> {
    fn task(&self) -> Task {
        Task::Copy(self.range.clone())
    }

    fn table(&self) -> &TableName {
        &self.sink.plan.source().name
    }
}

impl Unit for CopyUnit<'_> {
    type Output = CopiedRows;

    async fn run(&self, session: &mut Session, unsure: bool) -> Result<CopiedRows, DriverError> {
        let conn = &mut session.conn;
        match self.sink.plan.mode() {
            Mode::Ranged | Mode::Ordered if self.again => self.empty_and_copy(conn).await,
            // The rows of the earlier attempt may be there.
            Mode::Ranged if unsure => self.empty_and_copy(conn).await,
            // One statement is a transaction of its own.
            Mode::Ranged => self.copy(conn, Write::Insert).await,
            Mode::Ordered => self.copy(conn, Write::Replace).await,
        }
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

/// One batch's transaction.
struct ApplyUnit<'a> {
    sink: &'a SelectSink,
    batch: &'a Batch,
}

impl ApplyUnit<'_> {
    async fn write(&self, conn: &mut Conn, bytes: usize) -> Result<Applied, DriverError> {
        let changes = &self.batch.changes;
        let gone: Vec<&Key> = changes
            .iter()
            .filter_map(|change| change.image.is_none().then_some(&change.key))
            .collect();
        let rows: Vec<&Row> = changes.iter().filter_map(|c| c.image.as_ref()).collect();
        if self.sink.is_exclusive() {
            // All keys first, so that rows may exchange their unique values.
            let keys: Vec<&Key> = changes.iter().map(|change| &change.key).collect();
            self.delete(conn, &keys, bytes).await?;
            self.write_rows(conn, &rows, (bytes, Write::Insert)).await?;
        } else {
            self.delete(conn, &gone, bytes).await?;
            self.write_rows(conn, &rows, (bytes, Write::Replace))
                .await?;
        }
        Ok(Applied {
            upserts: rows.len(),
            deletes: gone.len(),
        })
    }

    async fn delete(
        &self,
        conn: &mut Conn,
        keys: &[&Key],
        bytes: usize,
    ) -> Result<(), DriverError> {
        let sizes: Vec<usize> = keys.iter().map(|key| key.size_bytes()).collect();
        let row_places = self.sink.plan.target_key().len();
        for piece in pieces(&sizes, PieceLimits { row_places, bytes }) {
            let keys = keys.get(piece).unwrap_or_default();
            let side = self.sink.plan.target_side();
            let params = Predicate::keys_params(keys.iter().copied(), side);
            conn.exec_drop(self.sink.statements.delete(keys.len()), params)
                .await?;
        }
        Ok(())
    }

    async fn write_rows(
        &self,
        conn: &mut Conn,
        rows: &[&Row],
        (bytes, how): (usize, Write),
    ) -> Result<(), DriverError> {
        let sizes: Vec<usize> = rows.iter().map(|row| row.size_bytes()).collect();
        let row_places = self.sink.plan.pairs().count();
        for piece in pieces(&sizes, PieceLimits { row_places, bytes }) {
            let rows = rows.get(piece).unwrap_or_default();
            let mut params = Vec::with_capacity(rows.len() * row_places);
            for row in rows {
                for (ordinal, _, _) in self.sink.plan.pairs() {
                    let value = row.values().get(ordinal).ok_or_else(short_row)?;
                    params.push(param::parameter(value));
                }
            }
            let sql = match how {
                Write::Insert => self.sink.statements.insert(rows.len()),
                Write::Replace => self.sink.statements.replace(rows.len()),
            };
            conn.exec_drop(sql, params).await?;
        }
        Ok(())
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
        self.sink.plan.target()
    }
}

impl Unit for ApplyUnit<'_> {
    type Output = Applied;

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<Applied, DriverError> {
        let bytes = (session.packet_bytes / 2).min(APPLY_BYTES_MAX);
        session.conn.query_drop("START TRANSACTION").await?;
        let applied = self.write(&mut session.conn, bytes).await?;
        session.conn.query_drop("COMMIT").await?;
        Ok(applied)
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

/// Reads `Records: 5  Duplicates: 1  Warnings: 0`: with REPLACE, the number of
/// affected rows counts the replaced ones too.
/// Source: MySQL 9.7 C API manual, "mysql_info".
fn records(info: &str) -> Option<u64> {
    let rest = info.strip_prefix("Records: ")?;
    rest.split(' ').next()?.parse().ok()
}

/// A row with fewer values than its table has columns, which the stream must
/// not produce.
fn short_row() -> DriverError {
    DriverError::Other("a changed row has fewer values than the plan has columns".into())
}

/// Large enough that statements are few, small enough for any server.
const APPLY_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_summary_tells_how_many_rows_were_read() {
        assert_eq!(records("Records: 5  Duplicates: 1  Warnings: 0"), Some(5));
        assert_eq!(records(""), None);
    }
}

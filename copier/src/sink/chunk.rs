//! Copying rows from the source to the target, on one server.

use std::time::Duration;

use mysql_async::{Conn, Error as DriverError, Row, prelude::Queryable};
use oxferry_schema::{Key, KeyRange, Predicate, TableName, Value, server_code};

use super::{APPLY_BYTES_MAX, CopiedRows, SelectSink};
use crate::{
    WorkLimits,
    connections::{Named, Session, Unit},
    engine::Mode,
    error::Task,
    pieces::{PieceLimits, pieces},
    plan::Meeting,
};

/// How a written row meets one that is there.
#[derive(Clone, Copy)]
pub(super) enum Write {
    /// None may be there.
    Insert,
    /// It takes the place of every row that it shares a unique value with.
    Replace,
}

/// One chunk's transaction.
pub(super) struct CopyUnit<'a> {
    pub(super) sink: &'a SelectSink,
    pub(super) range: &'a KeyRange,
    pub(super) again: bool,
}

/// What goes before rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Nothing.
    Nothing,
    /// The target's rows of the range are removed.
    Emptied,
    /// The target's rows of the keys that the source has in the range are
    /// removed, where the range means nothing on the target.
    KeysRemoved,
}

impl CopyUnit<'_> {
    /// Copies the range, or its first rows, in a transaction of its own, but
    /// for its commit.
    pub(super) async fn write(
        &self,
        conn: &mut Conn,
        (unsure, rows_max): (bool, Option<u64>),
    ) -> Result<CopiedRows, DriverError> {
        let range = Predicate::range(self.range, self.sink.plan.source_side());
        match self.before(unsure) {
            Before::Nothing => conn.query_drop("START TRANSACTION").await?,
            Before::Emptied => {
                conn.query_drop("START TRANSACTION").await?;
                let range = Predicate::range(self.range, self.sink.plan.target_side());
                let sql = self.sink.statements.empty(&range);
                conn.exec_drop(sql, range.into_params()).await?;
            }
            Before::KeysRemoved => {
                let keys = self.sink.keys_of(conn, &range).await?;
                conn.query_drop("START TRANSACTION").await?;
                self.sink.remove(conn, &keys, APPLY_BYTES_MAX).await?;
            }
        }
        let how = match (self.sink.plan.mode(), self.sink.meeting()) {
            (_, Meeting::Exclusive) => Write::Insert,
            (Mode::Ranged, _) if !self.again && !unsure => Write::Insert,
            _ => Write::Replace,
        };
        self.sink.select(conn, (range, rows_max), how).await
    }

    fn before(&self, unsure: bool) -> Before {
        let plan = &self.sink.plan;
        let is_clear = match plan.mode() {
            // The rows of an earlier attempt may be there.
            Mode::Ranged => !unsure,
            Mode::Ordered => self.sink.meeting() == Meeting::Replaces,
        };
        match self.again || !is_clear {
            false => Before::Nothing,
            true if plan.target_side().keeps_order() => Before::Emptied,
            true => Before::KeysRemoved,
        }
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

    /// Emptying and copying are one transaction: nobody sees the range empty,
    /// and a crash in between leaves it as it was.
    async fn run(&self, session: &mut Session, unsure: bool) -> Result<CopiedRows, DriverError> {
        let conn = &mut session.conn;
        let mut reads = Reads::left(self.before(unsure) == Before::KeysRemoved);
        loop {
            let done = self.write(conn, (unsure, None)).await;
            if let Some(copied) = reads.end(conn, done).await? {
                return Ok(copied);
            }
        }
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

/// How often the keys to remove may be read again, before their rows are
/// copied: a key may come back in between.
struct Reads(u32);

impl Reads {
    /// Begins work that reads keys, or doesn't.
    const fn left(reads_keys: bool) -> Self {
        Self(if reads_keys { READS_MAX - 1 } else { 0 })
    }

    /// Commits what was done; `None` where it was taken back, to be done again.
    async fn end(
        &mut self,
        conn: &mut Conn,
        done: Result<CopiedRows, DriverError>,
    ) -> Result<Option<CopiedRows>, DriverError> {
        match done {
            Err(error) if server_code(&error) == Some(ER_DUP_ENTRY) && self.0 > 0 => {
                self.0 -= 1;
                conn.query_drop("ROLLBACK").await?;
                Ok(None)
            }
            done => {
                let copied = done?;
                conn.query_drop("COMMIT").await?;
                Ok(Some(copied))
            }
        }
    }
}

/// A repair of some keys.
pub(super) struct KeysUnit<'a> {
    pub(super) sink: &'a SelectSink,
    pub(super) keys: &'a [Key],
}

impl KeysUnit<'_> {
    /// Removes and copies in a transaction of its own, but for its commit.
    pub(super) async fn write(&self, conn: &mut Conn) -> Result<CopiedRows, DriverError> {
        let rows = self.rows();
        let mut keys = self.keys.to_vec();
        if self.reads_keys() {
            for rows in &rows {
                keys.extend(self.sink.keys_of(conn, rows).await?);
            }
        }
        conn.query_drop("START TRANSACTION").await?;
        self.sink.remove(conn, &keys, APPLY_BYTES_MAX).await?;
        let how = match self.sink.meeting() {
            Meeting::Exclusive => Write::Insert,
            Meeting::Replaces | Meeting::RemovedFirst => Write::Replace,
        };
        let mut copied = CopiedRows::default();
        for rows in rows {
            copied.rows += self.sink.select(conn, (rows, None), how).await?.rows;
        }
        Ok(copied)
    }

    /// Returns which rows of the source have the keys.
    fn rows(&self) -> Vec<Predicate> {
        let side = self.sink.plan.source_side();
        let sizes: Vec<usize> = self.keys.iter().map(Key::size_bytes).collect();
        let limits = PieceLimits {
            row_places: side.len(),
            bytes: APPLY_BYTES_MAX,
        };
        let piece = |piece| Predicate::keys(self.keys.get(piece).unwrap_or_default(), side);
        pieces(&sizes, limits).into_iter().map(piece).collect()
    }

    /// Returns whether the keys of the rows to copy are looked up first, to be
    /// removed too: the source may take a key for another one that the target
    /// tells from it, `'A'` for `'a'`, and nothing replaces the row of that one.
    fn reads_keys(&self) -> bool {
        self.sink.meeting() != Meeting::Replaces && !self.sink.plan.target_side().keeps_order()
    }
}

impl Named for KeysUnit<'_> {
    fn task(&self) -> Task {
        Task::CopyKeys {
            first: self.keys.first().cloned(),
            count: self.keys.len(),
        }
    }

    fn table(&self) -> &TableName {
        &self.sink.plan.source().name
    }
}

impl Unit for KeysUnit<'_> {
    type Output = CopiedRows;

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<CopiedRows, DriverError> {
        let conn = &mut session.conn;
        let mut reads = Reads::left(self.reads_keys());
        loop {
            let done = self.write(conn).await;
            if let Some(copied) = reads.end(conn, done).await? {
                return Ok(copied);
            }
        }
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

impl SelectSink {
    /// Copies the rows that `rows`, over the source's key, selects, or only the
    /// first of them in key order.
    async fn select(
        &self,
        conn: &mut Conn,
        (rows, rows_max): (Predicate, Option<u64>),
        how: Write,
    ) -> Result<CopiedRows, DriverError> {
        let mut sql = match how {
            Write::Insert => self.statements.insert_select(&rows),
            Write::Replace => self.statements.replace_select(&rows),
        };
        let mut params = rows.into_params();
        if let Some(rows_max) = rows_max {
            let order = self.plan.source_side().order_by();
            sql.push_str(&format!(" ORDER BY {order} LIMIT ?"));
            params.push(Value::UInt(rows_max));
        }
        conn.exec_drop(sql, params).await?;
        let rows = records(&conn.info()).unwrap_or_else(|| conn.affected_rows());
        Ok(CopiedRows { rows })
    }

    /// Reads the keys of the source's rows in a range.
    async fn keys_of(&self, conn: &mut Conn, range: &Predicate) -> Result<Vec<Key>, DriverError> {
        let sql = self.statements.keys(range);
        let rows: Vec<Row> = conn.exec(sql, range.params().to_vec()).await?;
        let side = self.plan.source_side();
        let keys = rows.into_iter().map(|row| side.read(&row.unwrap()));
        keys.collect::<Option<_>>()
            .ok_or_else(|| DriverError::Other("the server sent no usable key of a row".into()))
    }

    /// Removes the target's rows of some keys.
    pub(super) async fn remove<K: std::borrow::Borrow<Key>>(
        &self,
        conn: &mut Conn,
        keys: &[K],
        bytes: usize,
    ) -> Result<(), DriverError> {
        let sizes: Vec<usize> = keys.iter().map(|key| key.borrow().size_bytes()).collect();
        let side = self.plan.target_side();
        let row_places = side.len();
        for piece in pieces(&sizes, PieceLimits { row_places, bytes }) {
            let keys = keys.get(piece).unwrap_or_default();
            let params = Predicate::keys_params(keys.iter().map(std::borrow::Borrow::borrow), side);
            conn.exec_drop(self.statements.delete(keys.len()), params)
                .await?;
        }
        Ok(())
    }
}

/// Reads `Records: 5  Duplicates: 1  Warnings: 0`: with REPLACE, the number of
/// affected rows counts the replaced ones too.
/// Source: MySQL 9.7 C API manual, "mysql_info".
fn records(info: &str) -> Option<u64> {
    let rest = info.strip_prefix("Records: ")?;
    rest.split(' ').next()?.parse().ok()
}

/// Source: MySQL 9.7 "Server Error Message Reference".
const ER_DUP_ENTRY: u16 = 1062;

/// How often a chunk's keys are read when one of them came back meanwhile.
const READS_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_summary_tells_how_many_rows_were_read() {
        assert_eq!(records("Records: 5  Duplicates: 1  Warnings: 0"), Some(5));
        assert_eq!(records(""), None);
    }
}

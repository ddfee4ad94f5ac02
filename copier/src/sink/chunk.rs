//! Copying rows from the source to the target, on one server.

use std::time::Duration;

use mysql_async::{Conn, Error as DriverError, Row, prelude::Queryable};
use oxferry_schema::{Key, KeyRange, Predicate, TableName, Value};

use super::{
    CopiedRows,
    decide::{Before, Decision, KeysDecision, Reads, Write},
    writer::{APPLY_BYTES_MAX, Writer},
};
use crate::{
    WorkLimits,
    connections::{Named, Session, Unit},
    error::Task,
};

/// One chunk's transaction.
pub(crate) struct CopyUnit<'a> {
    pub(crate) writer: &'a Writer,
    pub(crate) range: &'a KeyRange,
    pub(crate) again: bool,
}

impl CopyUnit<'_> {
    /// Copies the range, or its first rows, in a transaction of its own, but
    /// for its commit.
    pub(crate) async fn write(
        &self,
        conn: &mut Conn,
        (unsure, rows_max): (bool, Option<u64>),
    ) -> Result<CopiedRows, DriverError> {
        let range = Predicate::range(self.range, self.writer.plan.source_side());
        let Decision { before, how } = self.decision(unsure);
        match before {
            Before::Nothing => conn.query_drop("START TRANSACTION").await?,
            Before::Emptied => {
                conn.query_drop("START TRANSACTION").await?;
                let range = Predicate::range(self.range, self.writer.plan.target_side());
                let sql = self.writer.statements.empty(&range);
                conn.exec_drop(sql, self.writer.target_params(range))
                    .await?;
            }
            Before::KeysRemoved => {
                let keys = self.writer.keys_of(conn, &range).await?;
                conn.query_drop("START TRANSACTION").await?;
                self.writer.remove(conn, &keys, APPLY_BYTES_MAX).await?;
            }
        }
        self.writer.select(conn, (range, rows_max), how).await
    }

    fn decision(&self, unsure: bool) -> Decision {
        let writer = self.writer;
        Decision::of_range(&writer.plan, writer.meeting(), (self.again, unsure))
    }
}

impl Named for CopyUnit<'_> {
    fn task(&self) -> Task {
        Task::Copy(self.range.clone())
    }

    fn table(&self) -> &TableName {
        &self.writer.plan.source().name
    }
}

impl Unit for CopyUnit<'_> {
    type Output = CopiedRows;

    /// Emptying and copying are one transaction: nobody sees the range empty,
    /// and a crash in between leaves it as it was.
    async fn run(&self, session: &mut Session, unsure: bool) -> Result<CopiedRows, DriverError> {
        let conn = &mut session.conn;
        let mut reads = Reads::left(self.decision(unsure).before == Before::KeysRemoved);
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

/// A repair of some keys.
pub(crate) struct KeysUnit<'a> {
    pub(crate) writer: &'a Writer,
    pub(crate) keys: &'a [Key],
}

impl KeysUnit<'_> {
    /// Removes and copies in a transaction of its own, but for its commit.
    pub(crate) async fn write(&self, conn: &mut Conn) -> Result<CopiedRows, DriverError> {
        let rows = self.writer.rows_of(self.keys);
        let mut keys = self.keys.to_vec();
        let KeysDecision { reads_keys, how } = self.decision();
        if reads_keys {
            for rows in &rows {
                keys.extend(self.writer.keys_of(conn, rows).await?);
            }
        }
        conn.query_drop("START TRANSACTION").await?;
        self.writer.remove(conn, &keys, APPLY_BYTES_MAX).await?;
        let mut copied = CopiedRows::default();
        for rows in rows {
            copied.rows += self.writer.select(conn, (rows, None), how).await?.rows;
        }
        Ok(copied)
    }

    fn decision(&self) -> KeysDecision {
        KeysDecision::of(&self.writer.plan, self.writer.meeting())
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
        &self.writer.plan.source().name
    }
}

impl Unit for KeysUnit<'_> {
    type Output = CopiedRows;

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<CopiedRows, DriverError> {
        let conn = &mut session.conn;
        let mut reads = Reads::left(self.decision().reads_keys);
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

impl Writer {
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
        let mut params = self.source_params(rows);
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
    pub(crate) async fn keys_of(
        &self,
        conn: &mut Conn,
        range: &Predicate,
    ) -> Result<Vec<Key>, DriverError> {
        let sql = self.statements.keys(range);
        let rows: Vec<Row> = conn.exec(sql, self.source_params(range.clone())).await?;
        let side = self.plan.source_side();
        let keys = rows.into_iter().map(|row| side.read(&row.unwrap()));
        keys.collect::<Option<_>>()
            .ok_or_else(|| DriverError::Other("the server sent no usable key of a row".into()))
    }
}

/// Reads `Records: 5  Duplicates: 1  Warnings: 0`: with REPLACE, the number of
/// affected rows counts the replaced ones too.
/// Source: MySQL 9.7 C API manual, "mysql_info".
fn records(info: &str) -> Option<u64> {
    let rest = info.strip_prefix("Records: ")?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_summary_tells_how_many_rows_were_read() {
        assert_eq!(records("Records: 5  Duplicates: 1  Warnings: 0"), Some(5));
        assert_eq!(records(""), None);
    }
}

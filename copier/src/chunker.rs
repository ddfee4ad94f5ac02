//! Where chunks begin and end.

use std::{future::Future, sync::Arc, time::Duration};

use mysql_async::{Error as DriverError, Value, prelude::Queryable};
use oxferry_schema::{Ident, Key, KeyRange, KeySide, Predicate, TableName};

use crate::{
    Connections, CopyError, RowFilter, WorkLimits,
    connections::{Named, Session, Unit},
    error::Task,
    filter::Access,
};

/// Cuts a table into ranges, in key order.
///
/// # Contract
///
/// Executable with the feature `conformance`.
///
/// - The ranges that `next` returns, one after the other, partition what the
///   chunker was made for: no gap, no overlap, in key order within each part.
/// - A range's end depends only on rows that were there when it was looked
///   for; rows that come later fall into whichever range covers their key.
/// - After an error, and after a future was dropped, nothing has changed: the
///   next call looks for the same range again.
pub trait Chunker: Send {
    /// Returns the next range, with about `rows` rows, or `None` at the end.
    fn next(
        &mut self,
        rows: u64,
    ) -> impl Future<Output = Result<Option<KeyRange>, CopyError>> + Send;
}

/// A [`Chunker`] that asks the server where the next range ends.
///
/// It counts rows and not values, so gaps between the keys cost nothing.
#[derive(Debug)]
pub struct TableChunker {
    connections: Arc<Connections>,
    table: TableName,
    index: Ident,
    side: KeySide,
    /// Which rows alone count.
    filter: Option<RowFilter>,
    /// What is left, the next part last.
    left: Vec<KeyRange>,
}

impl TableChunker {
    /// Cuts `within`, ranges of the key `side` in key order, by the table's
    /// `index` over it: the whole table, or after an interruption what
    /// [`gaps`](crate::gaps) returns.
    #[must_use]
    pub fn new(
        connections: Arc<Connections>,
        table: &TableName,
        index: Ident,
        side: KeySide,
        within: Vec<KeyRange>,
    ) -> Self {
        let mut left = within;
        left.reverse();
        Self {
            connections,
            table: table.clone(),
            index,
            side,
            filter: None,
            left,
        }
    }

    /// Counts only the source's rows that `filter` selects, read as it says.
    #[must_use]
    pub fn with_filter(mut self, filter: Option<RowFilter>) -> Self {
        self.filter = filter;
        self
    }
}

impl Chunker for TableChunker {
    async fn next(&mut self, rows: u64) -> Result<Option<KeyRange>, CopyError> {
        let Some(range) = self.left.last() else {
            return Ok(None);
        };
        let look = Boundary {
            table: &self.table,
            index: &self.index,
            side: &self.side,
            filter: self.filter.as_ref(),
            range,
            rows: rows.max(1),
        };
        let boundary = self.connections.run(&look).await?;
        let Some(range) = self.left.pop() else {
            return Ok(None);
        };
        let Some(boundary) = boundary else {
            return Ok(Some(range));
        };
        self.left.push(KeyRange {
            lower: Some(boundary.clone()),
            upper: range.upper,
        });
        Ok(Some(KeyRange {
            lower: range.lower,
            upper: Some(boundary),
        }))
    }
}

/// Looks for the key of the row that `rows` rows of the range stand before.
struct Boundary<'a> {
    table: &'a TableName,
    index: &'a Ident,
    side: &'a KeySide,
    filter: Option<&'a RowFilter>,
    range: &'a KeyRange,
    rows: u64,
}

impl Boundary<'_> {
    fn sql(&self, within: &Predicate) -> String {
        let own = Access::Index(self.index.clone());
        let access = self.filter.map_or(&own, RowFilter::access);
        format!(
            "SELECT {} FROM {}{} WHERE {}{} ORDER BY {} LIMIT 1 OFFSET ?",
            self.side.select_list(),
            self.table,
            access.sql(),
            within.sql(),
            self.filter.map(RowFilter::source_sql).unwrap_or_default(),
            self.side.order_by()
        )
    }
}

impl Named for Boundary<'_> {
    fn task(&self) -> Task {
        Task::Boundary(self.range.clone())
    }

    fn table(&self) -> &TableName {
        self.table
    }
}

impl Unit for Boundary<'_> {
    type Output = Option<Key>;

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<Option<Key>, DriverError> {
        let within = Predicate::range(self.range, self.side);
        let sql = self.sql(&within);
        let mut params = within.into_params();
        params.extend(self.filter.into_iter().flat_map(RowFilter::source_params));
        params.push(Value::UInt(self.rows));
        let row: Option<mysql_async::Row> = session.conn.exec_first(sql, params).await?;
        row.map(|row| key_of(&row.unwrap(), self.side)).transpose()
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

/// Reads a key out of the key columns' values.
fn key_of(values: &[Value], side: &KeySide) -> Result<Key, DriverError> {
    side.read(values)
        .ok_or_else(|| DriverError::Other("the server sent no usable key of a row".into()))
}

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
///
/// Behind the row that was the last one when it came to a part without an end,
/// ranges have twice as many rows each time, up to 64 times as many: a table
/// that grows while it is cut is caught up with.
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
    end: End,
}

/// What is known of the end of a part that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It may be in the first range.
    New,
    /// It isn't.
    Far,
    /// What is behind the row that was the last one is a part of its own, of
    /// which so many ranges were cut.
    Parted(u32),
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
            end: End::New,
        }
    }

    /// Counts only the source's rows that `filter` selects, read as it says.
    #[must_use]
    pub fn with_filter(mut self, filter: Option<RowFilter>) -> Self {
        self.filter = filter;
        self
    }

    fn look<'a>(&'a self, range: &'a KeyRange, place: Place) -> Boundary<'a> {
        Boundary {
            table: &self.table,
            index: &self.index,
            side: &self.side,
            filter: self.filter.as_ref(),
            range,
            place,
        }
    }

    /// Makes what is behind the last row a part of its own.
    async fn part_behind_last(&mut self) -> Result<(), CopyError> {
        let Some(range) = self.left.last().filter(|range| range.upper.is_none()) else {
            return Ok(());
        };
        if self.end != End::Far {
            return Ok(());
        }
        // The last row of all: whose it is would cost more to find out.
        let look = self.look(range, Place::Last).with_all_rows();
        let last = self.connections.run(&look).await?;
        self.end = End::Parted(0);
        if last.is_none() || last == range.lower {
            return Ok(());
        }
        if let Some(KeyRange { lower, upper }) = self.left.pop() {
            let (behind, before) = (last.clone(), last);
            self.left.push(KeyRange {
                lower: behind,
                upper,
            });
            self.left.push(KeyRange {
                lower,
                upper: before,
            });
        }
        Ok(())
    }
}

/// How often ranges behind the last row are doubled.
const DOUBLINGS_MAX: u32 = 6;

impl Chunker for TableChunker {
    async fn next(&mut self, rows: u64) -> Result<Option<KeyRange>, CopyError> {
        self.part_behind_last().await?;
        let Some(range) = self.left.last() else {
            return Ok(None);
        };
        let has_end = range.upper.is_some();
        let doublings = match self.end {
            End::Parted(cut) if !has_end => cut.min(DOUBLINGS_MAX),
            _ => 0,
        };
        let rows = rows.max(1).saturating_mul(1 << doublings);
        let look = self.look(range, Place::Behind(rows));
        let boundary = self.connections.run(&look).await?;
        let Some(range) = self.left.pop() else {
            return Ok(None);
        };
        let Some(boundary) = boundary else {
            return Ok(Some(range));
        };
        self.end = match self.end {
            end if has_end => end,
            End::New | End::Far => End::Far,
            End::Parted(cut) => End::Parted(cut.saturating_add(1)),
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

/// Looks for the key of one row of a range.
struct Boundary<'a> {
    table: &'a TableName,
    index: &'a Ident,
    side: &'a KeySide,
    filter: Option<&'a RowFilter>,
    range: &'a KeyRange,
    place: Place,
}

/// Which row of a range.
#[derive(Clone, Copy)]
enum Place {
    /// The one that so many rows stand before.
    Behind(u64),
    /// The last one.
    Last,
}

impl Boundary<'_> {
    /// Counts everybody's rows.
    fn with_all_rows(self) -> Self {
        Self {
            filter: None,
            ..self
        }
    }

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
            match self.place {
                Place::Behind(_) => self.side.order_by(),
                Place::Last => self.side.order_by_descending(),
            }
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
        params.push(Value::UInt(match self.place {
            Place::Behind(rows) => rows,
            Place::Last => 0,
        }));
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

//! Which row it is that the target refuses.

use std::time::Duration;

use mysql_async::Error as DriverError;
use oxferry_schema::{ErrorClass, Key, KeyRange, Predicate, Row, TableName, classify};
use tokio::time::timeout;

use super::{
    TransferSink,
    read::{Outlet, Read},
    unit::{TransferUnit, What},
};
use crate::{
    Batch, CopyError, KeyedChange, WorkLimits,
    connections::{Named, Session, Side, Unit},
    error::{Place, Task},
    sink::{
        batch::ApplyUnit,
        fault::{self, Fault},
    },
};

/// Says what the matter is with the data, where it is that.
pub(super) async fn explain(
    unit: &TransferUnit<'_>,
    (side, failed): (Side, CopyError),
) -> CopyError {
    let CopyError::Server {
        task,
        table,
        attempts,
        source,
    } = failed
    else {
        return failed;
    };
    if let Some(error) = fault::too_large(&source, &table) {
        return error;
    }
    if side == Side::Source || classify(&source) != ErrorClass::DataRefused {
        return CopyError::Server {
            task,
            table,
            attempts,
            source,
        };
    }
    let found = timeout(fault::SEARCH_MAX, search(unit, &source)).await;
    let (key, source) = match found {
        Ok(Ok(Some(fault))) => (Some(fault.key), fault.source),
        Ok(Ok(None)) | Err(_) => (None, source),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the row at fault was not found");
            (None, source)
        }
    };
    let column = fault::column(&source);
    CopyError::Refused {
        task,
        table,
        place: Box::new(Place { key, column }),
        source,
    }
}

/// Tries the range's rows a page at a time, as batches that are never
/// committed.
async fn search(unit: &TransferUnit<'_>, source: &DriverError) -> Result<Option<Fault>, CopyError> {
    let What::Range(range, _) = unit.what else {
        return Ok(None);
    };
    let sink = unit.sink;
    let mut last: Option<Key> = None;
    loop {
        let page = Page {
            sink,
            range: KeyRange {
                lower: last.clone().or_else(|| range.lower.clone()),
                upper: range.upper.clone(),
            },
        };
        let mut batch = sink.source.run(&page).await?;
        let next = batch.changes.last().map(|change| change.key.clone());
        batch
            .changes
            .retain(|change| Some(&change.key) != last.as_ref());
        if batch.changes.is_empty() {
            return Ok(None);
        }
        let trial = ApplyUnit {
            writer: &sink.writer,
            batch: &batch,
            fresh: unit.is_fresh(),
        };
        if let Some(fault) = fault::find(&sink.target, &trial, source).await? {
            return Ok(Some(fault));
        }
        last = next;
    }
}

/// Reads the first rows of a range, in key order.
struct Page<'a> {
    sink: &'a TransferSink,
    range: KeyRange,
}

impl Named for Page<'_> {
    fn task(&self) -> Task {
        Task::Copy(self.range.clone())
    }

    fn table(&self) -> &TableName {
        &self.sink.writer.plan.source().name
    }
}

impl Unit for Page<'_> {
    type Output = Batch;

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<Batch, DriverError> {
        let reader = &self.sink.reader;
        let rows = Predicate::range(&self.range, reader.side());
        let mut found = Found {
            sink: self.sink,
            rows: Vec::new(),
            bytes: 0,
        };
        let rows = (rows, Some(PAGE_ROWS));
        reader.read(&mut session.conn, rows, &mut found).await?;
        let key = |row: &Row| self.sink.writer.plan.key().key_of(row);
        let changes = found.rows.into_iter().filter_map(|row| {
            let key = key(&row)?;
            let image = Some(row);
            Some(KeyedChange { key, image })
        });
        Ok(Batch {
            changes: changes.collect(),
        })
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

/// Rows that are kept.
struct Found<'a> {
    sink: &'a TransferSink,
    rows: Vec<Row>,
    bytes: usize,
}

impl Outlet for Found<'_> {
    async fn take(&mut self, row: Read) -> Result<bool, DriverError> {
        if let Read::Values(values) = row {
            let row = self.sink.reader.row(values);
            self.bytes += row.size_bytes();
            self.rows.push(row);
        }
        Ok(self.rows.len() < 2 || self.bytes < PAGE_BYTES)
    }
}

const PAGE_ROWS: u64 = 10_000;
const PAGE_BYTES: usize = 32 << 20;

//! Changes of other tenants, dropped before anything is made of them.

use oxferry_binlog::{ChangeStream, Gtid, RowChange, StreamError, StreamEvent};
use oxferry_schema::{Row, RowKey, Value};

use super::{
    Job,
    rows::{Own, Rows},
    spellings::Spellings,
};

/// A stream that shows the changes of a job's rows alone.
///
/// A row's tenant is the one of its image. The end of a transaction is shown
/// whatever it holds, so that the resume position follows.
#[derive(Debug)]
pub(crate) struct Sieved<S> {
    inner: S,
    sieve: Option<Sieve>,
    /// An event whose tenants are being asked for: kept when a call is dropped.
    waiting: Option<StreamEvent>,
}

/// Tells the job's rows from others'.
#[derive(Debug)]
struct Sieve {
    tables: Vec<Option<Sorted>>,
    spellings: Spellings,
}

/// A table that holds rows of several tenants.
#[derive(Debug)]
struct Sorted {
    name: String,
    key: RowKey,
    own: Own,
    /// Whether even the tenant's rows are passed over: they are read later.
    passed: bool,
}

impl<S> Sieved<S> {
    /// Shows the changes of `inner` that `job` is about.
    pub(crate) fn new(inner: S, job: &Job) -> Self {
        let tables = job.tables.iter().map(|table| {
            let sorted = |own: &Own, passed| Sorted {
                name: table.source.name.plain(),
                key: table.key.clone(),
                own: own.clone(),
                passed,
            };
            match &table.rows {
                Rows::All | Rows::Joined(_) => None,
                Rows::Own(own) => Some(sorted(own, false)),
                Rows::Last(own) => Some(sorted(own, true)),
            }
        });
        let tables: Vec<_> = tables.collect();
        let sieve = tables.iter().any(Option::is_some).then(|| Sieve {
            tables,
            spellings: Spellings::new(job.source.opts("tenant")),
        });
        Self {
            inner,
            sieve,
            waiting: None,
        }
    }
}

impl<S: ChangeStream> ChangeStream for Sieved<S> {
    async fn next(&mut self) -> Result<StreamEvent, StreamError> {
        let Some(sieve) = &mut self.sieve else {
            return self.inner.next().await;
        };
        loop {
            let event = match self.waiting.take() {
                Some(event) => event,
                None => self.inner.next().await?,
            };
            sieve.learn(self.waiting.insert(event)).await?;
            let Some(event) = self.waiting.take() else {
                continue;
            };
            if let Some(event) = sieve.sift(event)? {
                return Ok(event);
            }
        }
    }

    fn under_way(&self) -> Option<Gtid> {
        self.inner.under_way()
    }
}

impl Sieve {
    fn sorted(&self, table: usize) -> Option<&Sorted> {
        self.tables.get(table).and_then(Option::as_ref)
    }

    /// Asks the server for the spellings of an event that aren't known yet.
    async fn learn(&mut self, event: &StreamEvent) -> Result<(), StreamError> {
        let StreamEvent::Rows { table, changes } = event else {
            return Ok(());
        };
        let Some(sorted) = self.tables.get(*table).and_then(Option::as_ref) else {
            return Ok(());
        };
        self.spellings.learn(&sorted.own, changes).await
    }

    /// Drops others' changes; `None` where nothing is left.
    fn sift(&self, event: StreamEvent) -> Result<Option<StreamEvent>, StreamError> {
        let StreamEvent::Rows { table, changes } = event else {
            return Ok(Some(event));
        };
        let Some(sorted) = self.sorted(table) else {
            return Ok(Some(StreamEvent::Rows { table, changes }));
        };
        let mut kept = Vec::new();
        for change in changes {
            if self.keeps(sorted, &change)? {
                kept.push(change);
            }
        }
        let changes = kept;
        Ok((!changes.is_empty()).then_some(StreamEvent::Rows { table, changes }))
    }

    fn keeps(&self, sorted: &Sorted, change: &RowChange) -> Result<bool, StreamError> {
        let is_ours = |row: &Row| self.spellings.is_ours(&sorted.own, row);
        match (&change.before, &change.after) {
            (Some(before), Some(after)) if is_ours(before) != is_ours(after) => {
                Err(sorted.changed(before, after))
            }
            (Some(row), _) | (None, Some(row)) => Ok(is_ours(row) && !sorted.passed),
            (None, None) => Ok(false),
        }
    }
}

impl Sorted {
    fn changed(&self, before: &Row, after: &Row) -> StreamError {
        let key = self.key.key_of(before).map(|key| key.to_string());
        let tenant = |row: &Row| {
            let value = row.values().get(self.own.ordinal);
            let value = match value {
                Some(Value::Bytes(text)) => format!("{:?}", String::from_utf8_lossy(text)),
                Some(Value::Int(number)) => number.to_string(),
                Some(Value::UInt(number)) => number.to_string(),
                _ => "NULL".to_owned(),
            };
            format!("{} = {value}", self.own.column.as_str())
        };
        StreamError::TenantChanged {
            table: self.name.clone(),
            key: key.unwrap_or_default(),
            before: tenant(before),
            after: tenant(after),
        }
    }
}

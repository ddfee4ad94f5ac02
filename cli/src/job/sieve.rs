//! Changes of other tenants, dropped before anything is made of them.

use std::collections::HashMap;

use mysql_async::{Conn, Opts, Row as Answer, prelude::Queryable};
use oxferry_binlog::{ChangeStream, Gtid, RowChange, StreamError, StreamEvent};
use oxferry_schema::{Row, RowKey, Value};

use super::{
    Job,
    rows::{Own, Rows, TenantValue},
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

/// Which texts the server takes for the tenant's.
#[derive(Debug)]
struct Spellings {
    opts: Opts,
    conn: Option<Conn>,
    /// By collation, then by the bytes.
    known: HashMap<String, HashMap<Vec<u8>, bool>>,
}

/// Spellings that are remembered, at most, before all are forgotten.
const KNOWN_MAX: usize = 50_000;

/// Spellings that are asked for at once.
const ASKED_MAX: usize = 500;

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
            spellings: Spellings {
                opts: job.source.opts("tenant"),
                conn: None,
                known: HashMap::new(),
            },
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
        let own = &sorted.own;
        let unknown = self.spellings.unknown(own, changes);
        self.spellings.learn(&own.value, &unknown).await
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
        let is_ours = |row: &Row| self.is_ours(&sorted.own, row);
        match (&change.before, &change.after) {
            (Some(before), Some(after)) if is_ours(before) != is_ours(after) => {
                Err(sorted.changed(before, after))
            }
            (Some(row), _) | (None, Some(row)) => Ok(is_ours(row) && !sorted.passed),
            (None, None) => Ok(false),
        }
    }

    fn is_ours(&self, own: &Own, row: &Row) -> bool {
        let value = row.values().get(own.ordinal);
        match &own.value {
            TenantValue::Int(tenant) => match value {
                Some(Value::Int(number)) => i128::from(*number) == *tenant,
                Some(Value::UInt(number)) => i128::from(*number) == *tenant,
                _ => false,
            },
            TenantValue::Text { collation, .. } => {
                text_of(row, own).is_some_and(|text| self.spellings.is_tenants(collation, text))
            }
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

fn text_of<'a>(row: &'a Row, own: &Own) -> Option<&'a [u8]> {
    match row.values().get(own.ordinal) {
        Some(Value::Bytes(text)) => Some(text),
        _ => None,
    }
}

impl Spellings {
    fn is_tenants(&self, collation: &str, text: &[u8]) -> bool {
        let known = self.known.get(collation);
        known.and_then(|known| known.get(text)).copied() == Some(true)
    }

    /// Returns the texts among the changes' images that were never compared;
    /// from here on, all others of them are known.
    fn unknown(&mut self, own: &Own, changes: &[RowChange]) -> Vec<Vec<u8>> {
        let TenantValue::Text { collation, .. } = &own.value else {
            return Vec::new();
        };
        let known = self.known.entry(collation.clone()).or_default();
        if known.len() > KNOWN_MAX {
            known.clear();
        }
        let mut unknown = Vec::new();
        for change in changes {
            for image in [&change.before, &change.after].into_iter().flatten() {
                let text = text_of(image, own);
                unknown.extend(text.filter(|text| !known.contains_key(*text)));
            }
        }
        unknown.sort_unstable();
        unknown.dedup();
        unknown.into_iter().map(<[u8]>::to_vec).collect()
    }

    async fn learn(&mut self, value: &TenantValue, texts: &[Vec<u8>]) -> Result<(), StreamError> {
        let TenantValue::Text { collation, .. } = value else {
            return Ok(());
        };
        for texts in texts.chunks(ASKED_MAX) {
            let answers = self.ask(value, texts).await?;
            let known = self.known.entry(collation.clone()).or_default();
            known.extend(texts.iter().cloned().zip(answers));
        }
        Ok(())
    }

    /// An idle session may be gone: a second one is tried.
    async fn ask(
        &mut self,
        value: &TenantValue,
        texts: &[Vec<u8>],
    ) -> Result<Vec<bool>, StreamError> {
        if let Some(mut conn) = self.conn.take()
            && let Ok(answers) = compare(&mut conn, value, texts).await
        {
            self.conn = Some(conn);
            return Ok(answers);
        }
        let opened = Conn::new(self.opts.clone()).await;
        let mut conn = opened.map_err(StreamError::Connection)?;
        let answers = compare(&mut conn, value, texts).await;
        let answers = answers.map_err(StreamError::Connection)?;
        self.conn = Some(conn);
        Ok(answers)
    }
}

/// Compares texts with the tenant's, as a column of its collation would be.
async fn compare(
    conn: &mut Conn,
    value: &TenantValue,
    texts: &[Vec<u8>],
) -> Result<Vec<bool>, mysql_async::Error> {
    let TenantValue::Text {
        text: tenant,
        charset,
        collation,
    } = value
    else {
        return Ok(vec![false; texts.len()]);
    };
    let one = format!(
        "CONVERT(? USING {charset}) COLLATE {collation} = CONVERT(? USING {charset}) COLLATE {collation}"
    );
    let sql = format!("SELECT {}", vec![one; texts.len()].join(","));
    let params = texts.iter().flat_map(|text| {
        let text = Value::Bytes(text.clone());
        [text, Value::from(tenant.as_str())]
    });
    let params: Vec<Value> = params.collect();
    let answer: Option<Answer> = conn.exec_first(sql, params).await?;
    let values = answer.map(Answer::unwrap).unwrap_or_default();
    if values.len() != texts.len() {
        return Err(mysql_async::Error::Other(
            "the server did not say whether all texts are equal".into(),
        ));
    }
    let equal = |value: &Value| matches!(value, Value::Int(1) | Value::UInt(1));
    Ok(values.iter().map(equal).collect())
}

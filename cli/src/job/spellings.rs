//! Which rows are a tenant's, by what the server takes for its name.

use std::collections::HashMap;

use mysql_async::{Conn, Opts, Row as Answer, prelude::Queryable};
use oxferry_binlog::{RowChange, StreamError};
use oxferry_schema::{Row, Value};

use super::{
    rows::{Own, TenantValue},
    session::{Occasional, answered},
};

/// Which texts a server takes for a tenant's name: it is asked once for each.
#[derive(Debug)]
pub(crate) struct Spellings {
    session: Occasional,
    /// By collation, then by the bytes.
    known: HashMap<String, HashMap<Vec<u8>, bool>>,
}

/// Spellings that are remembered, at most, before all are forgotten.
const KNOWN_MAX: usize = 50_000;

/// Spellings that are asked for at once.
const ASKED_MAX: usize = 500;

fn text_of<'a>(row: &'a Row, own: &Own) -> Option<&'a [u8]> {
    match row.values().get(own.ordinal) {
        Some(Value::Bytes(text)) => Some(text),
        _ => None,
    }
}

impl Spellings {
    /// Knows nothing yet; `opts` are those of the server that is asked.
    pub(crate) fn new(opts: Opts) -> Self {
        Self {
            session: Occasional::new(opts),
            known: HashMap::new(),
        }
    }

    /// Asks the server for the spellings among some changes that aren't known yet.
    ///
    /// # Errors
    ///
    /// [`StreamError::Connection`] when it can't be asked.
    pub(crate) async fn learn(
        &mut self,
        own: &Own,
        changes: &[RowChange],
    ) -> Result<(), StreamError> {
        let unknown = self.unknown(own, changes);
        self.ask_for(&own.value, &unknown).await
    }

    /// Returns whether an image is that of a row of the tenant's; its change must
    /// have been given to [`learn`](Self::learn) before.
    pub(crate) fn is_ours(&self, own: &Own, row: &Row) -> bool {
        let value = row.values().get(own.ordinal);
        match &own.value {
            TenantValue::Int(tenant) => match value {
                Some(Value::Int(number)) => i128::from(*number) == *tenant,
                Some(Value::UInt(number)) => i128::from(*number) == *tenant,
                _ => false,
            },
            TenantValue::Text { collation, .. } => {
                text_of(row, own).is_some_and(|text| self.is_tenants(collation, text))
            }
        }
    }

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
            for image in change.images() {
                let text = text_of(image, own);
                unknown.extend(text.filter(|text| !known.contains_key(*text)));
            }
        }
        unknown.sort_unstable();
        unknown.dedup();
        unknown.into_iter().map(<[u8]>::to_vec).collect()
    }

    async fn ask_for(&mut self, value: &TenantValue, texts: &[Vec<u8>]) -> Result<(), StreamError> {
        let TenantValue::Text { collation, .. } = value else {
            return Ok(());
        };
        for texts in texts.chunks(ASKED_MAX) {
            let mut conn = self.session.take().await.map_err(StreamError::Connection)?;
            let answers = answered(compare(&mut conn, value, texts)).await;
            let answers = answers.map_err(StreamError::Connection)?;
            self.session.keep(conn);
            let known = self.known.entry(collation.clone()).or_default();
            known.extend(texts.iter().cloned().zip(answers));
        }
        Ok(())
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

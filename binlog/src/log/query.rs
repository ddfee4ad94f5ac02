//! Statements as the log holds them.

use crate::decode::{DecodeError, Reader};

/// A statement in the log.
#[derive(Debug)]
pub(super) struct Query<'a> {
    pub(super) schema: &'a [u8],
    pub(super) sql: &'a [u8],
}

impl<'a> Query<'a> {
    /// Source: MySQL 9.7, `libs/mysql/binlog/event/statement_events.h`, `Query_event`.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        reader.take(8, "thread and time of a statement")?;
        let schema_length = reader.little(1, "length of the default database")?;
        reader.take(2, "error code of a statement")?;
        let variables_length = reader.little(2, "length of the status variables")?;
        reader.take(variables_length, "status variables")?;
        let schema = reader.take(schema_length, "default database")?;
        reader.take(1, "end of the default database")?;
        Ok(Self {
            schema,
            sql: reader.rest(),
        })
    }
}

/// A statement, shortened to a readable length.
pub(super) fn shortened(sql: &[u8]) -> String {
    const CHARACTERS_MAX: usize = 200;
    let text = String::from_utf8_lossy(sql);
    let mut short: String = text.chars().take(CHARACTERS_MAX).collect();
    if short.len() < text.len() {
        short.push('\u{2026}');
    }
    short
}

//! Which row it is that the server refuses.

use std::{future::Future, time::Duration};

use mysql_async::{Conn, Error as DriverError, Value, prelude::Queryable};
use oxferry_schema::{ErrorClass, Key, Predicate, TableName, classify, server_code};

use super::{
    batch::ApplyUnit,
    chunk::{CopyUnit, KeysUnit},
    rows::RowTooLarge,
};
use crate::{
    Connections, CopyError, WorkLimits,
    connections::{Named, Session, Unit},
    error::{Place, Task},
};

/// Work that can be done in part, row after row, in an order of its own.
pub(crate) trait Trial: Unit {
    /// Does the work with the first `rows` rows alone, in a transaction that
    /// the caller rolls back; returns how many there were.
    fn attempt(
        &self,
        session: &mut Session,
        rows: u64,
    ) -> impl Future<Output = Result<u64, DriverError>> + Send;

    /// Does the work with the row of `key` alone, likewise; `None` where rows
    /// don't come and go, so that a row's number is enough.
    fn attempt_key(
        &self,
        session: &mut Session,
        key: &Key,
    ) -> impl Future<Output = Option<Result<u64, DriverError>>> + Send;

    /// Returns the key of row number `index`, from 0.
    fn key_at(
        &self,
        conn: &mut Conn,
        index: u64,
    ) -> impl Future<Output = Result<Option<Key>, DriverError>> + Send;
}

/// Does `unit`, and where the server refuses its data, finds the row.
pub(crate) async fn run<U: Trial>(
    connections: &Connections,
    unit: &U,
) -> Result<U::Output, CopyError> {
    let failed = match connections.run(unit).await {
        Ok(done) => return Ok(done),
        Err(failed) => failed,
    };
    let CopyError::Server {
        task,
        table,
        attempts,
        source,
    } = failed
    else {
        return Err(failed);
    };
    if let Some(error) = too_large(&source, &table) {
        return Err(error);
    }
    if classify(&source) != ErrorClass::DataRefused {
        return Err(CopyError::Server {
            task,
            table,
            attempts,
            source,
        });
    }
    let (key, source) = match find(connections, unit, &source).await {
        Ok(Some(fault)) => (Some(fault.key), fault.source),
        Ok(None) => (None, source),
        Err(error) => {
            tracing::debug!(%error, "the row at fault was not found");
            (None, source)
        }
    };
    Err(CopyError::Refused {
        task,
        table,
        place: Box::new(Place {
            key,
            column: column(&source),
        }),
        source,
    })
}

/// Says which row no packet has room for, where that is the matter.
pub(crate) fn too_large(source: &DriverError, table: &TableName) -> Option<CopyError> {
    let DriverError::Other(inner) = source else {
        return None;
    };
    let row = inner.downcast_ref::<RowTooLarge>()?;
    Some(CopyError::RowTooLarge {
        table: table.clone(),
        key: row.key.clone(),
        bytes: row.bytes,
        limit: row.limit,
    })
}

/// Looks for the row that made the server say `source`.
pub(crate) async fn find<U: Trial>(
    connections: &Connections,
    unit: &U,
    source: &DriverError,
) -> Result<Option<Fault>, CopyError> {
    let hint = row_number(source);
    connections.run(&Search { unit, hint }).await
}

/// The first row that is refused, with the server's words for it.
pub(crate) struct Fault {
    pub(crate) key: Key,
    pub(crate) source: DriverError,
}

/// Does a piece of work in part, more and more of it, and never for good.
struct Search<'a, U> {
    unit: &'a U,
    /// The row that the server named, from 1, counted as the work does.
    hint: Option<u64>,
}

impl<U: Trial> Search<'_, U> {
    /// Returns what the server says of the first `rows` rows: how many there
    /// are, or why it refuses them.
    async fn look(
        &self,
        session: &mut Session,
        rows: u64,
    ) -> Result<Result<u64, DriverError>, DriverError> {
        session.conn.query_drop("START TRANSACTION").await?;
        let done = self.unit.attempt(session, rows).await;
        let refused = match done {
            Err(error) if classify(&error) != ErrorClass::DataRefused => return Err(error),
            done => done,
        };
        session.conn.query_drop("ROLLBACK").await?;
        Ok(refused)
    }

    /// Returns what the server says of one row; `None` where there is no need
    /// to ask.
    async fn alone(
        &self,
        session: &mut Session,
        key: &Key,
    ) -> Result<Option<Result<u64, DriverError>>, DriverError> {
        session.conn.query_drop("START TRANSACTION").await?;
        let said = self.unit.attempt_key(session, key).await;
        let said = match said {
            Some(Err(error)) if classify(&error) != ErrorClass::DataRefused => return Err(error),
            said => said,
        };
        session.conn.query_drop("ROLLBACK").await?;
        Ok(said)
    }

    /// Returns how many of the first rows pass, and what is said of one more.
    async fn first(
        &self,
        session: &mut Session,
    ) -> Result<Option<(u64, DriverError)>, DriverError> {
        let (mut good, mut bad) = (0, None);
        let begin = self.hint.filter(|hint| *hint > 1).map(|hint| hint - 1);
        let mut next = begin.unwrap_or(1);
        while bad.is_none() {
            match self.look(session, next).await? {
                Ok(count) if count < next => return Ok(None),
                Ok(_) => {
                    good = next;
                    // The row that the server named comes right behind.
                    let step = if Some(next) == begin {
                        1
                    } else {
                        next.saturating_mul(7)
                    };
                    next = next.saturating_add(step);
                }
                Err(error) => bad = Some((next, error)),
            }
        }
        let Some((mut bad, mut error)) = bad else {
            return Ok(None);
        };
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            match self.look(session, middle).await? {
                Ok(_) => good = middle,
                Err(refused) => (bad, error) = (middle, refused),
            }
        }
        Ok(Some((good, error)))
    }
}

impl<U: Trial> Named for Search<'_, U> {
    fn task(&self) -> Task {
        self.unit.task()
    }

    fn table(&self) -> &TableName {
        self.unit.table()
    }
}

impl<U: Trial> Unit for Search<'_, U> {
    type Output = Option<Fault>;

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<Self::Output, DriverError> {
        for _ in 0..SEARCHES_MAX {
            let Some((index, source)) = self.first(session).await? else {
                return Ok(None);
            };
            let Some(key) = self.unit.key_at(&mut session.conn, index).await? else {
                continue;
            };
            // A duplicate takes two rows: alone, each of them passes.
            if server_code(&source) == Some(ER_DUP_ENTRY) {
                return Ok(Some(Fault { key, source }));
            }
            match self.alone(session, &key).await? {
                None => return Ok(Some(Fault { key, source })),
                Some(Err(source)) => return Ok(Some(Fault { key, source })),
                // Rows before it came or went since it was counted.
                Some(Ok(_)) => {}
            }
        }
        Ok(None)
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement.min(SEARCH_MAX)
    }
}

impl Trial for CopyUnit<'_> {
    async fn attempt(&self, session: &mut Session, rows: u64) -> Result<u64, DriverError> {
        let copied = self.write(&mut session.conn, (false, Some(rows))).await?;
        Ok(copied.rows)
    }

    async fn attempt_key(
        &self,
        session: &mut Session,
        key: &Key,
    ) -> Option<Result<u64, DriverError>> {
        let unit = KeysUnit {
            writer: self.writer,
            keys: std::slice::from_ref(key),
        };
        let copied = unit.write(&mut session.conn).await;
        Some(copied.map(|copied| copied.rows))
    }

    async fn key_at(&self, conn: &mut Conn, index: u64) -> Result<Option<Key>, DriverError> {
        let side = self.writer.plan.source_side();
        let range = Predicate::range(self.range, side);
        let sql = format!(
            "{} ORDER BY {} LIMIT 1 OFFSET ?",
            self.writer.statements.keys(&range),
            side.order_by()
        );
        let mut params = self.writer.source_params(range);
        params.push(Value::UInt(index));
        let row: Option<mysql_async::Row> = conn.exec_first(sql, params).await?;
        Ok(row.and_then(|row| side.read(&row.unwrap())))
    }
}

impl Trial for ApplyUnit<'_> {
    async fn attempt(&self, session: &mut Session, rows: u64) -> Result<u64, DriverError> {
        let rows_max = usize::try_from(rows).unwrap_or(usize::MAX);
        let bytes = self.bytes(session);
        let applied = self.write(&mut session.conn, (bytes, rows_max)).await?;
        Ok(u64::try_from(applied.upserts).unwrap_or(u64::MAX))
    }

    /// A batch's rows are the same whenever they are written.
    async fn attempt_key(
        &self,
        _session: &mut Session,
        _key: &Key,
    ) -> Option<Result<u64, DriverError>> {
        None
    }

    async fn key_at(&self, _conn: &mut Conn, index: u64) -> Result<Option<Key>, DriverError> {
        let mut written = self.batch.changes.iter().filter(|c| c.image.is_some());
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Ok(written.nth(index).map(|change| change.key.clone()))
    }
}

/// Reads the column that the server names: `Data too long for column 'v' at
/// row 3`, `Column 'v' cannot be null`. Source: MySQL 9.7 "Server Error Message
/// Reference".
pub(crate) fn column(error: &DriverError) -> Option<String> {
    let DriverError::Server(error) = error else {
        return None;
    };
    let text = error.message.as_str();
    let at = text.find("olumn '")?;
    let (_, rest) = text.split_at_checked(at + "olumn '".len())?;
    // A name may hold the quote itself: what follows a name is told apart.
    let end = ["' at row", "' cannot be null", "' doesn't have"]
        .iter()
        .filter_map(|behind| rest.find(behind))
        .min()
        .or_else(|| rest.find('\''))?;
    let name = rest.get(..end)?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Reads the row that the server names, from 1.
fn row_number(error: &DriverError) -> Option<u64> {
    let DriverError::Server(error) = error else {
        return None;
    };
    let (_, number) = error.message.rsplit_once(" at row ")?;
    number.parse().ok().filter(|number| *number > 0)
}

/// How often a row is looked for among others that come and go.
const SEARCHES_MAX: u32 = 20;

const ER_DUP_ENTRY: u16 = 1062;

/// How long the row at fault is looked for.
pub(crate) const SEARCH_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn said(message: &str) -> DriverError {
        DriverError::Server(mysql_async::ServerError {
            code: 1406,
            message: message.to_owned(),
            state: "22001".to_owned(),
        })
    }

    #[test]
    fn the_servers_words_name_column_and_row() {
        for (message, expected) in [
            (
                "Data too long for column 'v' at row 3",
                (Some("v"), Some(3)),
            ),
            ("Column 'it''s' cannot be null", (Some("it''s"), None)),
            (
                "Incorrect integer value: 'b' for column 'n' at row 1",
                (Some("n"), Some(1)),
            ),
            ("Duplicate entry '7' for key 'n.u'", (None, None)),
            (
                "Incorrect DECIMAL value: '0' for column '' at row -1",
                (None, None),
            ),
        ] {
            let error = said(message);
            let found = (column(&error), row_number(&error));
            let expected = (expected.0.map(str::to_owned), expected.1);
            assert_eq!(found, expected, "{message}");
        }
    }
}

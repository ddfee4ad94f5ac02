//! A MySQL table's fingerprints, computed by its server.

use std::{num::NonZeroUsize, time::Duration};

use mysql_async::{Conn, Pool, Row, prelude::Queryable};
use oxferry_schema::{Ident, Key, KeyRange, KeySide, Predicate, TableName, Value};

use crate::{
    expression::SideRow,
    fingerprint::{
        ColumnFingerprint, Fingerprint, FingerprintError, Fingerprints, KeyedFingerprint, Summary,
    },
};

/// One side of a comparison: a table on a MySQL server, 8.0.17 or later.
///
/// Reads are plain consistent reads, one statement each; they lock no row.
/// Time zone and SQL mode are set per statement, the connections' character
/// set must be utf8mb4. A range is read through the key's index alone.
#[derive(Clone, Debug)]
pub struct TableSide {
    pool: Pool,
    table: SideTable,
    statements: Statements,
}

/// Which table, and how its rows are found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain names")]
pub struct SideTable {
    /// The table.
    pub name: TableName,
    /// How the key stands on this side.
    pub key: KeySide,
    /// The index over exactly these columns, if this side has one.
    pub index: Option<Ident>,
}

/// A [`TableSide`] read through one connection: the one that holds the lock.
#[derive(Debug)]
pub struct LockedSide<'a> {
    side: &'a TableSide,
    conn: &'a tokio::sync::Mutex<&'a mut Conn>,
}

#[derive(Clone, Debug)]
struct Statements {
    summary: String,
    rows: String,
    order: String,
    columns: String,
    /// Each compared column's name and type.
    labels: Vec<(String, String)>,
}

impl TableSide {
    /// Reads `table` through `pool`, each row as `row` says (one side of a
    /// [`RowExpressions`](crate::RowExpressions)), no statement longer than
    /// `limit`.
    #[must_use]
    pub fn new(pool: Pool, table: SideTable, row: &SideRow, limit: Duration) -> Self {
        let (key, order) = (table.key.select_list(), table.key.order_by());
        let index = table.index.as_ref();
        let index = index.map_or_else(String::new, |name| format!(" FORCE INDEX ({name})"));
        let from = format!("FROM {}{index} WHERE ", table.name);
        let hint = format!(
            "/*+ SET_VAR(time_zone='+00:00') SET_VAR(sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES') \
             MAX_EXECUTION_TIME({}) */",
            limit.as_millis().clamp(1, u128::from(u32::MAX))
        );
        let columns = row.columns().iter();
        let hashes: Vec<String> = columns.map(|c| format!(",UNHEX({})", c.hash())).collect();
        let labels = row.columns().iter().map(|c| c.label()).collect();
        let row = row.sql();
        // BIT_XOR passes over NULL; a row without a fingerprint must not go
        // unseen, so it gets one that no other row has.
        let sum = format!("BIT_XOR(UNHEX(IFNULL({row},SHA2(UUID(),256))))");
        Self {
            pool,
            statements: Statements {
                summary: format!("SELECT {hint} COUNT(*),{sum} {from}"),
                rows: format!("SELECT {hint} {key},UNHEX({row}) {from}"),
                order: format!(" ORDER BY {order}"),
                columns: format!("SELECT {hint} {key}{} {from}", hashes.concat()),
                labels,
            },
            table,
        }
    }

    /// Reads through `conn` instead, which may hold the table's lock.
    #[must_use]
    pub const fn locked<'a>(
        &'a self,
        conn: &'a tokio::sync::Mutex<&'a mut Conn>,
    ) -> LockedSide<'a> {
        LockedSide { side: self, conn }
    }

    async fn conn(&self) -> Result<Conn, FingerprintError> {
        self.pool.get_conn().await.map_err(|e| self.query_error(e))
    }

    async fn summary_on(
        &self,
        conn: &mut Conn,
        range: &KeyRange,
    ) -> Result<Summary, FingerprintError> {
        let predicate = Predicate::range(range, &self.table.key);
        let sql = format!("{}{}", self.statements.summary, predicate.sql());
        let row: Option<(u64, Vec<u8>)> = conn
            .exec_first(sql, params(predicate))
            .await
            .map_err(|e| self.query_error(e))?;
        let (rows, digest) = row.ok_or_else(|| self.unreadable("summary"))?;
        if rows == 0 {
            // Without rows the server's digest has another length.
            return Ok(Summary::default());
        }
        let digest = digest.try_into().map_err(|_| self.unreadable("digest"))?;
        Ok(Summary { rows, digest })
    }

    async fn page_on(
        &self,
        conn: &mut Conn,
        range: &KeyRange,
        limit: NonZeroUsize,
    ) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        let predicate = Predicate::range_in_its_order(range, &self.table.key);
        let Statements { rows, order, .. } = &self.statements;
        let sql = format!("{rows}{}{order} LIMIT {limit}", predicate.sql());
        self.rows_on(conn, sql, predicate).await
    }

    async fn by_keys_on(
        &self,
        conn: &mut Conn,
        keys: &[Key],
    ) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        let mut found = Vec::new();
        for keys in keys.chunks(KEYS_MAX) {
            let predicate = Predicate::keys(keys, &self.table.key);
            let Statements { rows, order, .. } = &self.statements;
            let sql = format!("{rows}{}{order}", predicate.sql());
            found.extend(self.rows_on(conn, sql, predicate).await?);
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    async fn columns_on(
        &self,
        conn: &mut Conn,
        key: &Key,
    ) -> Result<Vec<ColumnFingerprint>, FingerprintError> {
        let predicate = Predicate::keys([key], &self.table.key);
        let sql = format!("{}{}", self.statements.columns, predicate.sql());
        let rows: Vec<Row> = conn
            .exec(sql, params(predicate))
            .await
            .map_err(|e| self.query_error(e))?;
        let mut alike = Vec::new();
        for row in rows {
            let mut values = row.unwrap();
            let hashes = values.split_off(self.table.key.len().min(values.len()));
            if self.table.key.read(&values).as_ref() == Some(key) {
                return self.labelled(hashes);
            }
            alike = hashes;
        }
        self.labelled(alike)
    }

    fn labelled(&self, hashes: Vec<Value>) -> Result<Vec<ColumnFingerprint>, FingerprintError> {
        let labels = self.statements.labels.iter().cloned();
        let columns = labels.zip(hashes).map(|((column, column_type), hash)| {
            let bytes = match hash {
                Value::Bytes(bytes) => bytes.try_into().ok(),
                _ => None,
            };
            let bytes = bytes.ok_or_else(|| self.unreadable("column"))?;
            Ok(ColumnFingerprint {
                column,
                column_type,
                value: Fingerprint::new(bytes),
            })
        });
        columns.collect()
    }

    async fn rows_on(
        &self,
        conn: &mut Conn,
        sql: String,
        predicate: Predicate,
    ) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        let rows: Vec<Row> = conn
            .exec(sql, params(predicate))
            .await
            .map_err(|e| self.query_error(e))?;
        rows.into_iter().map(|row| self.keyed(row)).collect()
    }

    fn keyed(&self, row: Row) -> Result<KeyedFingerprint, FingerprintError> {
        let mut values = row.unwrap();
        let Some(Value::Bytes(hash)) = values.pop() else {
            return Err(self.unreadable("fingerprint"));
        };
        let hash = hash.try_into();
        let hash = hash.map_err(|_| self.unreadable("fingerprint"))?;
        let key = self.table.key.read(&values);
        let key = key.ok_or_else(|| self.unreadable("key"))?;
        Ok((key, Fingerprint::new(hash)))
    }

    fn query_error(&self, source: mysql_async::Error) -> FingerprintError {
        let table = self.table.name.plain();
        FingerprintError::Query { table, source }
    }

    fn unreadable(&self, what: &'static str) -> FingerprintError {
        let table = self.table.name.plain();
        FingerprintError::Unreadable { table, what }
    }
}

impl Fingerprints for TableSide {
    fn name(&self) -> String {
        self.table.name.plain()
    }

    async fn columns(&self, key: &Key) -> Result<Vec<ColumnFingerprint>, FingerprintError> {
        self.columns_on(&mut self.conn().await?, key).await
    }

    async fn summary(&self, range: &KeyRange) -> Result<Summary, FingerprintError> {
        self.summary_on(&mut self.conn().await?, range).await
    }

    async fn page(
        &self,
        range: &KeyRange,
        limit: NonZeroUsize,
    ) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        self.page_on(&mut self.conn().await?, range, limit).await
    }

    async fn by_keys(&self, keys: &[Key]) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        self.by_keys_on(&mut self.conn().await?, keys).await
    }
}

impl Fingerprints for LockedSide<'_> {
    fn name(&self) -> String {
        self.side.name()
    }

    async fn columns(&self, key: &Key) -> Result<Vec<ColumnFingerprint>, FingerprintError> {
        let mut conn = self.conn.lock().await;
        self.side.columns_on(&mut conn, key).await
    }

    async fn summary(&self, range: &KeyRange) -> Result<Summary, FingerprintError> {
        let mut conn = self.conn.lock().await;
        self.side.summary_on(&mut conn, range).await
    }

    async fn page(
        &self,
        range: &KeyRange,
        limit: NonZeroUsize,
    ) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        let mut conn = self.conn.lock().await;
        self.side.page_on(&mut conn, range, limit).await
    }

    async fn by_keys(&self, keys: &[Key]) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        let mut conn = self.conn.lock().await;
        self.side.by_keys_on(&mut conn, keys).await
    }
}

fn params(predicate: Predicate) -> mysql_async::Params {
    let params = predicate.into_params();
    if params.is_empty() {
        mysql_async::Params::Empty
    } else {
        mysql_async::Params::Positional(params)
    }
}

/// Keys in one statement: even with ten columns far below the 65,535
/// parameters that a prepared statement takes.
const KEYS_MAX: usize = 1000;

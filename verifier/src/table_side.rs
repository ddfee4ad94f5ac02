//! A MySQL table's fingerprints, computed by its server.

use std::{num::NonZeroUsize, time::Duration};

use mysql_async::{Conn, Pool, Row, prelude::Queryable};
use oxferry_schema::{Ident, Key, KeyRange, KeySide, Predicate, TableName, Value};
use sha2::{Digest, Sha256};

use crate::{
    codec::Codec,
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
    packed: Vec<(Ident, Codec)>,
    only: SideFilter,
}

/// Which of a side's rows alone are compared: conditions that stand behind
/// another one, ` AND (…)`, each with its parameters.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "two conditions")]
pub struct SideFilter {
    /// Among the rows of a range.
    pub in_ranges: (String, Vec<Value>),
    /// Among the rows of some keys.
    pub by_keys: (String, Vec<Value>),
}

/// Which table, and how its rows are found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain names")]
pub struct SideTable {
    /// The table.
    pub name: TableName,
    /// How the key stands on this side.
    pub key: KeySide,
    /// The index that rows are found by: over exactly these columns, or one
    /// that a [`SideFilter`]'s rows come out of in key order; `None` to let the
    /// server choose.
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
    /// Up to and with `WHERE`, as the others.
    summary: String,
    /// Up to the select list's end.
    rows: String,
    /// Up to the select list's end.
    columns: String,
    /// From behind the select list up to and with `WHERE`.
    from: String,
    order: String,
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
        let from = format!(" FROM {}{index} WHERE ", table.name);
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
                summary: format!("SELECT {hint} COUNT(*),{sum}{from}"),
                rows: format!("SELECT {hint} {key},UNHEX({row})"),
                columns: format!("SELECT {hint} {key}{}", hashes.concat()),
                from,
                order: format!(" ORDER BY {order}"),
                labels,
            },
            table,
            packed: Vec::new(),
            only: SideFilter::default(),
        }
    }

    /// Compares only the rows that `filter` selects; others are as good as not
    /// there.
    #[must_use]
    pub fn with_filter(mut self, filter: SideFilter) -> Self {
        self.only = filter;
        self
    }

    /// Compares these columns, too, which `row` must leave out, by what their
    /// values hold once they are decompressed.
    ///
    /// The server can't do that: a range's values are then read, one row at a
    /// time, and hashed here. They must be of binary types.
    #[must_use]
    pub fn with_compressed(mut self, columns: Vec<(Ident, Codec)>) -> Self {
        for (column, codec) in &columns {
            let select = format!(",{column}");
            self.statements.rows.push_str(&select);
            self.statements.columns.push_str(&select);
            let label = (column.as_str().to_owned(), codec.to_string());
            self.statements.labels.push(label);
        }
        self.packed = columns;
        self
    }

    /// Reads through `conn` instead, which may hold the table's lock.
    #[must_use]
    pub const fn locked<'a>(
        &'a self,
        conn: &'a tokio::sync::Mutex<&'a mut Conn>,
    ) -> LockedSide<'a> {
        LockedSide { side: self, conn }
    }

    /// Returns the key of the row that `rows` rows of `range` stand before, in
    /// this side's order; `None` where there are no more than these.
    ///
    /// # Errors
    ///
    /// [`FingerprintError`] when the table can't be read.
    pub async fn boundary(
        &self,
        range: &KeyRange,
        rows: NonZeroUsize,
    ) -> Result<Option<Key>, FingerprintError> {
        let rows_of = Predicate::range_in_its_order(range, &self.table.key);
        let found = Where::new(rows_of, &self.only.in_ranges);
        let (key, Statements { from, order, .. }) =
            (self.table.key.select_list(), &self.statements);
        let sql = format!(
            "SELECT {key}{from}{}{order} LIMIT 1 OFFSET {rows}",
            found.sql
        );
        let found = self.conn().await?.exec_first(sql, found.params()).await;
        let found: Option<Row> = found.map_err(|e| self.query_error(e))?;
        let read = |row: Row| self.table.key.read(&row.unwrap());
        let key = found.map(|row| read(row).ok_or_else(|| self.unreadable("key")));
        key.transpose()
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
        let found = Where::new(predicate, &self.only.in_ranges);
        if !self.packed.is_empty() {
            return self.summary_here(conn, found).await;
        }
        let sql = format!("{}{}", self.statements.summary, found.sql);
        let row: Option<(u64, Vec<u8>)> = conn
            .exec_first(sql, found.params())
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

    /// Makes the summary here, out of the rows.
    async fn summary_here(
        &self,
        conn: &mut Conn,
        found: Where,
    ) -> Result<Summary, FingerprintError> {
        let Statements { rows, from, .. } = &self.statements;
        let sql = format!("{rows}{from}{}", found.sql);
        let result = conn.exec_iter(sql, found.params()).await;
        let mut result = result.map_err(|e| self.query_error(e))?;
        let mut summary = Summary::default();
        while let Some(row) = result.next().await.map_err(|e| self.query_error(e))? {
            summary.add(&self.keyed(row)?.1);
        }
        Ok(summary)
    }

    async fn page_on(
        &self,
        conn: &mut Conn,
        range: &KeyRange,
        limit: NonZeroUsize,
    ) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        let predicate = Predicate::range_in_its_order(range, &self.table.key);
        let found = Where::new(predicate, &self.only.in_ranges);
        let Statements {
            rows, from, order, ..
        } = &self.statements;
        let sql = format!("{rows}{from}{}{order} LIMIT {limit}", found.sql);
        self.rows_on(conn, sql, found).await
    }

    async fn by_keys_on(
        &self,
        conn: &mut Conn,
        keys: &[Key],
    ) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        let mut found = Vec::new();
        for keys in keys.chunks(KEYS_MAX) {
            let predicate = Predicate::keys(keys, &self.table.key);
            let looked = Where::new(predicate, &self.only.by_keys);
            let Statements {
                rows, from, order, ..
            } = &self.statements;
            let sql = format!("{rows}{from}{}{order}", looked.sql);
            found.extend(self.rows_on(conn, sql, looked).await?);
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
        let found = Where::new(predicate, &self.only.by_keys);
        let Statements { columns, from, .. } = &self.statements;
        let sql = format!("{columns}{from}{}", found.sql);
        let rows: Vec<Row> = conn
            .exec(sql, found.params())
            .await
            .map_err(|e| self.query_error(e))?;
        let mut alike = Vec::new();
        for row in rows {
            let mut values = row.unwrap();
            let packed = self.packed_of(&mut values);
            let mut hashes = values.split_off(self.table.key.len().min(values.len()));
            let packed = self.unpack(&packed, key)?.into_iter();
            hashes.extend(packed.map(|digest| Value::from(digest.to_vec())));
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
        found: Where,
    ) -> Result<Vec<KeyedFingerprint>, FingerprintError> {
        let rows: Vec<Row> = conn
            .exec(sql, found.params())
            .await
            .map_err(|e| self.query_error(e))?;
        rows.into_iter().map(|row| self.keyed(row)).collect()
    }

    fn keyed(&self, row: Row) -> Result<KeyedFingerprint, FingerprintError> {
        let mut values = row.unwrap();
        let packed = self.packed_of(&mut values);
        let Some(Value::Bytes(hash)) = values.pop() else {
            return Err(self.unreadable("fingerprint"));
        };
        let hash: [u8; 32] = hash
            .try_into()
            .map_err(|_| self.unreadable("fingerprint"))?;
        let key = self.table.key.read(&values);
        let key = key.ok_or_else(|| self.unreadable("key"))?;
        if packed.is_empty() {
            return Ok((key, Fingerprint::new(hash)));
        }
        let mut whole = Sha256::new_with_prefix(hash);
        for digest in self.unpack(&packed, &key)? {
            whole.update(digest);
        }
        Ok((key, Fingerprint::new(whole.finalize().into())))
    }

    /// Takes the compressed columns' values from the end of a row's.
    fn packed_of(&self, values: &mut Vec<Value>) -> Vec<Value> {
        values.split_off(values.len().saturating_sub(self.packed.len()))
    }

    /// Returns what the values hold, NULL as zeros, which no digest is.
    fn unpack(&self, values: &[Value], key: &Key) -> Result<Vec<[u8; 32]>, FingerprintError> {
        let columns = self.packed.iter().zip(values);
        let digests = columns.map(|((column, codec), value)| match value {
            Value::NULL => Ok([0; 32]),
            Value::Bytes(bytes) => {
                codec
                    .digest(bytes)
                    .map_err(|source| FingerprintError::Compressed {
                        table: self.table.name.plain(),
                        column: column.as_str().to_owned(),
                        key: key.clone(),
                        source,
                    })
            }
            _ => Err(self.unreadable("compressed column")),
        });
        digests.collect()
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

/// Which rows a statement is about, and the parameters of that.
struct Where {
    sql: String,
    params: Vec<Value>,
}

impl Where {
    fn new(rows: Predicate, (only, only_params): &(String, Vec<Value>)) -> Self {
        let sql = format!("{}{only}", rows.sql());
        let mut params = rows.into_params();
        params.extend(only_params.iter().cloned());
        Self { sql, params }
    }

    fn params(self) -> mysql_async::Params {
        if self.params.is_empty() {
            mysql_async::Params::Empty
        } else {
            mysql_async::Params::Positional(self.params)
        }
    }
}

/// Keys in one statement: even with ten columns far below the 65,535
/// parameters that a prepared statement takes.
const KEYS_MAX: usize = 1000;

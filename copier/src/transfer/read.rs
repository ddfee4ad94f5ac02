//! Reading whole rows from the source.

use std::future::Future;

use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_schema::{Column, Key, KeySide, Predicate, Row, Value};

use crate::{CopyPlan, statement};

use super::documents;

/// Reads a table's rows as a plan wants them, typed.
#[derive(Debug)]
pub(super) struct Reader {
    /// Up to and with `WHERE`.
    select: String,
    filter: String,
    filter_params: Vec<Value>,
    /// The place of each column that is read, and whether it is a BIT.
    places: Vec<(usize, bool)>,
    /// How many columns the table has.
    columns: usize,
    side: KeySide,
    has_documents: bool,
}

/// Where rows go that are read.
pub(super) trait Outlet: Send {
    /// Takes a row; `false` where no more are wanted.
    fn take(&mut self, row: Read) -> impl Future<Output = Result<bool, DriverError>> + Send;
}

/// A row as it comes from the source.
pub(super) enum Read {
    /// Its values, of the columns that are read, in their order.
    Values(Vec<Value>),
    /// The key of a row with a document whose text isn't all that there is.
    Special(Key),
}

impl Reader {
    /// Prepares to read what `plan` writes, and the key.
    pub(super) fn new(plan: &CopyPlan) -> Self {
        let mut places: Vec<usize> = plan.pairs().map(|(ordinal, ..)| ordinal).collect();
        for ordinal in &plan.key().ordinals {
            if !places.contains(ordinal) {
                places.push(*ordinal);
            }
        }
        let columns = &plan.source().columns;
        let read: Vec<(usize, &Column)> = places
            .into_iter()
            .filter_map(|ordinal| Some((ordinal, columns.get(ordinal)?)))
            .collect();
        let mut list: Vec<String> = read.iter().map(|(_, column)| expression(column)).collect();
        let written = plan.pairs().map(|(_, from, _)| from);
        let documents: Vec<&Column> = written.filter(|c| c.data_type == "json").collect();
        if !documents.is_empty() {
            list.push(documents::is_special(&documents));
            list.push(plan.source_side().select_list());
        }
        let filter = plan.filter();
        Self {
            select: format!(
                "SELECT {} FROM {} WHERE ",
                list.join(", "),
                statement::source(plan)
            ),
            filter: filter.map(|f| f.source_sql()).unwrap_or_default(),
            filter_params: filter.map(|f| f.source_params()).unwrap_or_default(),
            places: read
                .iter()
                .map(|(ordinal, column)| (*ordinal, column.data_type == "bit"))
                .collect(),
            columns: columns.len(),
            side: plan.source_side().clone(),
            has_documents: !documents.is_empty(),
        }
    }

    /// Returns whether a row may have documents whose text isn't all that there
    /// is.
    pub(super) const fn has_documents(&self) -> bool {
        self.has_documents
    }

    /// Reads the rows that `rows` selects into `outlet`, in no order or in key
    /// order with at most `rows_max` of them.
    pub(super) async fn read(
        &self,
        conn: &mut Conn,
        (rows, rows_max): (Predicate, Option<u64>),
        outlet: &mut impl Outlet,
    ) -> Result<(), DriverError> {
        let mut sql = format!("{}{}{}", self.select, rows.sql(), self.filter);
        let mut params = rows.into_params();
        params.extend(self.filter_params.iter().cloned());
        if let Some(rows_max) = rows_max {
            sql.push_str(&format!(" ORDER BY {} LIMIT ?", self.side.order_by()));
            params.push(Value::UInt(rows_max));
        }
        let mut found = conn.exec_iter(sql, params).await?;
        while let Some(row) = found.next().await? {
            if !outlet.take(self.typed(row.unwrap())?).await? {
                break;
            }
        }
        Ok(())
    }

    fn typed(&self, mut values: Vec<Value>) -> Result<Read, DriverError> {
        if self.has_documents {
            let rest = values.split_off(self.places.len().min(values.len()));
            let (special, key) = rest.split_first().ok_or_else(short)?;
            if !matches!(special, Value::Int(0) | Value::UInt(0)) {
                return self.side.read(key).map(Read::Special).ok_or_else(short);
            }
        }
        Ok(Read::Values(self.plain(values)))
    }

    /// Brings values to the form of [`Row`]'s.
    fn plain(&self, mut values: Vec<Value>) -> Vec<Value> {
        for (value, (_, is_bit)) in values.iter_mut().zip(&self.places) {
            if let (true, Value::Bytes(bytes)) = (is_bit, &*value) {
                *value = Value::UInt(bytes.iter().fold(0, |v, b| v << 8 | u64::from(*b)));
            }
        }
        values
    }

    /// Makes a whole row of the values that were read.
    pub(super) fn row(&self, read: Vec<Value>) -> Row {
        let mut values = vec![Value::NULL; self.columns];
        for (value, (ordinal, _)) in read.into_iter().zip(&self.places) {
            if let Some(place) = values.get_mut(*ordinal) {
                *place = value;
            }
        }
        Row::new(values)
    }

    /// Reads whole rows by key, documents as their text alone.
    pub(super) async fn rows_by_key(
        &self,
        conn: &mut Conn,
        keys: &[Key],
    ) -> Result<Vec<Row>, DriverError> {
        let rows = Predicate::keys(keys, &self.side);
        let sql = format!("{}{}", self.select, rows.sql());
        let found: Vec<mysql_async::Row> = conn.exec(sql, rows.into_params()).await?;
        let whole = |found: mysql_async::Row| self.row(self.plain(found.unwrap()));
        Ok(found.into_iter().map(whole).collect())
    }

    pub(super) const fn side(&self) -> &KeySide {
        &self.side
    }
}

/// Returns what to select of a column, so that its values look as
/// [`Row`] says: text in its own character set.
///
/// utf8mb3 and ascii are part of utf8mb4, which the session speaks.
fn expression(column: &Column) -> String {
    let name = &column.name;
    let is_text = matches!(
        column.data_type.as_str(),
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext"
    );
    let is_spoken = matches!(
        column.charset.as_deref(),
        None | Some("utf8mb4" | "utf8mb3" | "utf8" | "ascii")
    );
    if (is_text && !is_spoken) || column.data_type == "vector" {
        return format!("CAST({name} AS BINARY)");
    }
    name.to_string()
}

/// A row with fewer values than were asked for, which no server sends.
fn short() -> DriverError {
    DriverError::Other("the source sent a row without the values that were asked for".into())
}

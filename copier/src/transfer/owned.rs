//! Rows of the source that name an owner; rows of the target that go at once.

use std::time::Duration;

use mysql_async::{Error as DriverError, Row, Value, prelude::Queryable};
use oxferry_schema::{Key, KeyRange, KeySide, Predicate, TableName};

use crate::{
    CopyPlan, WorkLimits,
    connections::{Named, Session, Unit},
    error::Task,
    sink::writer::Writer,
};

/// Looks for the keys of the rows that name one of some owners.
pub(super) struct OwnedKeys<'a> {
    pub(super) plan: &'a CopyPlan,
    /// How an owner's key stands in the rows.
    pub(super) side: &'a KeySide,
    pub(super) owners: &'a [Key],
    pub(super) from: Option<&'a Key>,
    pub(super) limit: usize,
}

impl Named for OwnedKeys<'_> {
    fn task(&self) -> Task {
        Task::Boundary(self.range())
    }

    fn table(&self) -> &TableName {
        &self.plan.source().name
    }
}

impl OwnedKeys<'_> {
    fn range(&self) -> KeyRange {
        KeyRange {
            lower: self.from.cloned(),
            upper: None,
        }
    }
}

impl Unit for OwnedKeys<'_> {
    type Output = Vec<Key>;

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<Vec<Key>, DriverError> {
        let key = self.plan.source_side();
        let owned = Predicate::keys(self.owners, self.side);
        let range = Predicate::range(&self.range(), key);
        let sql = format!(
            "SELECT {} FROM {} WHERE ({}) AND ({}) ORDER BY {} LIMIT ?",
            key.select_list(),
            self.plan.source().name,
            owned.sql(),
            range.sql(),
            key.order_by()
        );
        let mut params = owned.into_params();
        params.extend(range.into_params());
        params.push(Value::UInt(u64::try_from(self.limit).unwrap_or(u64::MAX)));
        let rows: Vec<Row> = session.conn.exec(sql, params).await?;
        let read = |row: Row| {
            let found = key.read(&row.unwrap());
            found.ok_or_else(|| DriverError::Other("the server sent no usable key of a row".into()))
        };
        rows.into_iter().map(read).collect()
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

/// Removes all of a plan's rows from the target.
pub(super) struct Removal<'a> {
    pub(super) writer: &'a Writer,
}

impl Named for Removal<'_> {
    fn task(&self) -> Task {
        Task::Copy(KeyRange::ALL)
    }

    fn table(&self) -> &TableName {
        self.writer.plan.target()
    }
}

impl Unit for Removal<'_> {
    type Output = ();

    async fn run(&self, session: &mut Session, _unsure: bool) -> Result<(), DriverError> {
        self.writer.begin(session).await?;
        let all = Predicate::range(&KeyRange::ALL, self.writer.plan.target_side());
        let sql = self.writer.statements.empty(&all);
        let params = self.writer.target_params(all);
        session.conn.exec_drop(sql, params).await?;
        session.conn.query_drop("COMMIT").await
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

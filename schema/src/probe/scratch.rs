//! The scratch table that a statement is tried on.

use mysql_async::{Conn, Row, prelude::Queryable};

use super::{ProbeError, marker};
use crate::{
    Algorithm, Alter, Column, ErrorClass, Ident, ShadowNames, Table, TableName,
    checks::{self, CheckNames},
    classify,
};

/// An empty copy of the source table, made anew for every try.
pub(crate) struct Scratch<'a> {
    pub(crate) conn: &'a mut Conn,
    pub(super) source: &'a Table,
    pub(crate) name: &'a TableName,
    alter: &'a Alter,
    /// What the checks of the copy that was made last are called.
    checks: CheckNames,
}

/// What stood in a row's columns before and after the statement, as text that
/// compares; `None` is NULL.
pub(super) struct Marks {
    /// In the source's columns that were marked.
    pub(super) before: Vec<Option<String>>,
    /// In the altered table's columns that were asked for.
    pub(super) after: Vec<Option<String>>,
}

const SRIDS: &str = "SELECT COLUMN_NAME, SRS_ID FROM information_schema.COLUMNS \
    WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND SRS_ID IS NOT NULL";

/// Lets a row in whose columns hold whatever the server falls back to.
const SQL_MODE_LENIENT: &str = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES";

impl<'a> Scratch<'a> {
    pub(crate) fn new(
        conn: &'a mut Conn,
        source: &'a Table,
        name: &'a TableName,
        alter: &'a Alter,
    ) -> Self {
        Self {
            conn,
            source,
            name,
            alter,
            checks: CheckNames::default(),
        }
    }

    /// Replaces the scratch table by a fresh copy of the source.
    pub(crate) async fn renew(&mut self) -> Result<(), ProbeError> {
        self.drop().await?;
        let like = format!("CREATE TABLE {} LIKE {}", self.name, self.source.name);
        self.run("create", like).await?;
        if checks::read(&self.source.create_statement).is_empty() {
            return Ok(());
        }
        // The same every time, but only the server knows how it names them.
        let made = self.read().await?.create_statement;
        self.checks = CheckNames::on_scratch(self.source, self.name, &made);
        Ok(())
    }

    /// Returns the user's statement as it is for the copy that was made last.
    fn statement(&self) -> String {
        self.alter.statement_on_copy(self.name, &self.checks)
    }

    /// Returns the same, with an algorithm that the server must take.
    pub(crate) fn statement_by(&self, algorithm: Algorithm) -> String {
        let clauses = self.alter.clauses_on_copy(&self.checks);
        format!(
            "ALTER TABLE {} {}, {clauses}",
            self.name,
            algorithm.clause()
        )
    }

    /// Runs the user's statement.
    pub(super) async fn alter(&mut self) -> Result<(), ProbeError> {
        let done = self.conn.query_drop(self.statement()).await;
        done.map_err(|source| ProbeError::Statement {
            table: self.source.name.plain(),
            source,
        })
    }

    pub(crate) async fn read(&mut self) -> Result<Table, ProbeError> {
        let read = Table::read(self.conn, self.name).await;
        let table = read.map_err(|source| ProbeError::Read {
            table: self.source.name.plain(),
            source: Box::new(source),
        })?;
        table.ok_or_else(|| ProbeError::Gone {
            scratch: self.name.plain(),
            table: self.source.name.plain(),
        })
    }

    pub(crate) async fn drop(&mut self) -> Result<(), ProbeError> {
        // One that an earlier run left may refer to the other.
        let other = ShadowNames::beside(&self.source.name).probe_other;
        let statement = format!("DROP TABLE IF EXISTS {}, {other}", self.name);
        self.run("drop", statement).await
    }

    /// Gives each of `columns` an index, runs the statement, and returns the
    /// columns that still exist with their new names; `None` when the server
    /// refuses the indexes, or the statement because of them.
    ///
    /// With `convert`, the columns are made short strings first: any type can
    /// be indexed then.
    pub(super) async fn follow_indexes(
        &mut self,
        columns: &[usize],
        convert: bool,
    ) -> Result<Option<Vec<(usize, Ident)>>, ProbeError> {
        self.renew().await?;
        if convert && !self.try_run(self.conversion(columns)).await? {
            return Ok(None);
        }
        if !self.try_run(self.tagging(columns, convert)).await? {
            return Ok(None);
        }
        if !self.try_run(self.statement()).await? {
            return Ok(None);
        }
        let table = self.read().await?;
        let tagged = |at: usize| {
            let tag = self.tag(at);
            let index = table
                .indexes
                .iter()
                .find(|index| index.name.as_str() == tag)?;
            let column = index.parts.first()?.column.clone()?;
            Some((at, column))
        };
        Ok(Some(columns.iter().filter_map(|at| tagged(*at)).collect()))
    }

    /// Puts a mark into each of `columns` of one row, runs the statement, and
    /// returns what stood where.
    pub(super) async fn follow_marks(
        &mut self,
        columns: &[usize],
        candidates: &[&Column],
    ) -> Result<Marks, ProbeError> {
        self.in_lenient_mode(async |scratch| scratch.carry_marks(columns, candidates).await)
            .await
    }

    pub(super) fn ambiguous(&self, column: usize) -> ProbeError {
        let name = self.source.columns.get(column).map(|c| c.name.as_str());
        ProbeError::Ambiguous {
            table: self.source.name.plain(),
            column: name.unwrap_or_default().to_owned(),
        }
    }

    async fn carry_marks(
        &mut self,
        columns: &[usize],
        candidates: &[&Column],
    ) -> Result<Marks, ProbeError> {
        let doubtful = columns.first().copied().unwrap_or_default();
        let marked: Vec<&Column> = columns
            .iter()
            .filter_map(|at| self.source.columns.get(*at))
            .collect();
        if !self.make_marked_row(columns).await? {
            return Err(self.ambiguous(doubtful));
        }
        let before = self.values(&marked).await?;
        if !self.try_run(self.statement()).await? {
            return Err(self.ambiguous(doubtful));
        }
        let after = self.values(candidates).await?;
        Ok(Marks { before, after })
    }

    /// Makes a fresh copy with one row, in which `columns` are marked; `false`
    /// when the server takes no such row.
    async fn make_marked_row(&mut self, columns: &[usize]) -> Result<bool, ProbeError> {
        self.renew().await?;
        self.loosen_checks().await?;
        let srids = self.srids().await?;
        self.try_run(self.marking(columns, &srids)).await
    }

    /// Makes a fresh copy with one row, and runs the statement on it; `false`
    /// when the server takes no such row, or refuses the statement because of it.
    pub(super) async fn make_changed_row(&mut self) -> Result<bool, ProbeError> {
        self.in_lenient_mode(async |scratch| {
            let made = scratch.make_marked_row(&[]).await?;
            Ok(made && scratch.try_run(scratch.statement()).await?)
        })
        .await
    }

    /// Does something in a mode that lets a row in whatever its columns hold.
    async fn in_lenient_mode<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, ProbeError>,
    ) -> Result<T, ProbeError> {
        let mode: Option<String> = self
            .conn
            .query_first("SELECT @@SESSION.sql_mode")
            .await
            .map_err(|e| self.failed("read sql_mode for", e))?;
        self.set_mode(SQL_MODE_LENIENT).await?;
        let done = work(self).await;
        self.set_mode(&mode.unwrap_or_default()).await?;
        done
    }

    /// Lets any row pass the table's CHECK constraints.
    async fn loosen_checks(&mut self) -> Result<(), ProbeError> {
        let names: Vec<String> = self
            .conn
            .exec(
                "SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS \
                 WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND CONSTRAINT_TYPE = 'CHECK'",
                (self.name.schema.as_str(), self.name.table.as_str()),
            )
            .await
            .map_err(|e| self.failed("read the checks of", e))?;
        let names: Vec<Ident> = names
            .into_iter()
            .filter_map(|name| Ident::new(name).ok())
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        let clauses: Vec<String> = names
            .iter()
            .map(|name| format!("ALTER CHECK {name} NOT ENFORCED"))
            .collect();
        let statement = format!("ALTER TABLE {} {}", self.name, clauses.join(", "));
        self.run("loosen the checks of", statement).await
    }

    async fn values(&mut self, columns: &[&Column]) -> Result<Vec<Option<String>>, ProbeError> {
        let list: Vec<String> = columns
            .iter()
            .map(|column| marker::expression(&column.name, column))
            .collect();
        let statement = format!("SELECT {} FROM {}", list.join(", "), self.name);
        let row: Option<Row> = self
            .conn
            .query_first(statement)
            .await
            .map_err(|e| self.failed("read", e))?;
        let value = |at: usize| {
            let row = row.as_ref()?;
            row.get_opt::<Option<String>, _>(at)
                .and_then(Result::ok)
                .flatten()
        };
        Ok((0..columns.len()).map(value).collect())
    }

    fn conversion(&self, columns: &[usize]) -> String {
        self.each(columns, |_, column| {
            format!("MODIFY {} VARCHAR(8)", column.name)
        })
    }

    fn tagging(&self, columns: &[usize], converted: bool) -> String {
        self.each(columns, |at, column| {
            format!(
                "ADD {} `{}` ({})",
                marker::index_kind(column, converted),
                self.tag(at),
                marker::index_part(column, converted)
            )
        })
    }

    /// Reads the spatial reference systems that columns are bound to.
    async fn srids(&mut self) -> Result<Vec<(String, u32)>, ProbeError> {
        let names = (self.name.schema.as_str(), self.name.table.as_str());
        let read = self.conn.exec(SRIDS, names).await;
        read.map_err(|e| self.failed("read the reference systems of", e))
    }

    fn marking(&self, columns: &[usize], srids: &[(String, u32)]) -> String {
        let all = self.source.columns.iter().enumerate();
        let marked: Vec<(String, String)> = all
            .filter(|(at, column)| columns.contains(at) || marker::needs_value(column))
            .filter_map(|(at, column)| {
                let bound = srids.iter().find(|(name, _)| name == column.name.as_str());
                let srid = bound.map_or(0, |(_, srid)| *srid);
                Some((column.name.to_string(), marker::literal(column, at, srid)?))
            })
            .collect();
        let (names, values): (Vec<String>, Vec<String>) = marked.into_iter().unzip();
        let (names, values) = (names.join(", "), values.join(", "));
        format!("INSERT INTO {} ({names}) VALUES ({values})", self.name)
    }

    fn each(&self, columns: &[usize], clause: impl Fn(usize, &Column) -> String) -> String {
        let clauses: Vec<String> = columns
            .iter()
            .filter_map(|at| Some(clause(*at, self.source.columns.get(*at)?)))
            .collect();
        format!("ALTER TABLE {} {}", self.name, clauses.join(", "))
    }

    /// The name of the index that marks a column: one that no index of the
    /// source has, and none that a user would think of.
    fn tag(&self, at: usize) -> String {
        let is_taken = |tag: &str| self.source.indexes.iter().any(|i| i.name.as_str() == tag);
        let mut tag = format!("oxprobe_{at}");
        while is_taken(&tag) {
            tag.push('_');
        }
        tag
    }

    async fn set_mode(&mut self, mode: &str) -> Result<(), ProbeError> {
        let done = self
            .conn
            .exec_drop("SET SESSION sql_mode = ?", (mode,))
            .await;
        done.map_err(|e| self.failed("set sql_mode for", e))
    }

    async fn run(&mut self, what: &'static str, statement: String) -> Result<(), ProbeError> {
        let done = self.conn.query_drop(statement).await;
        done.map_err(|e| self.failed(what, e))
    }

    /// Runs a statement that the server may refuse for what it says; `false`
    /// then. Anything else that goes wrong is an error.
    async fn try_run(&mut self, statement: String) -> Result<bool, ProbeError> {
        match self.conn.query_drop(statement).await {
            Ok(()) => Ok(true),
            Err(error) => match classify(&error) {
                ErrorClass::Fatal | ErrorClass::DataRefused => Ok(false),
                ErrorClass::RetryTransaction
                | ErrorClass::ConnectionLost
                | ErrorClass::Privileges
                | ErrorClass::Timeout => Err(self.failed("change", error)),
            },
        }
    }

    pub(crate) fn failed(&self, what: &'static str, source: mysql_async::Error) -> ProbeError {
        ProbeError::Scratch {
            what,
            scratch: self.name.plain(),
            source,
        }
    }
}

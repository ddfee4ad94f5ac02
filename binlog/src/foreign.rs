//! What others than the job itself do to the tables that it writes.

use std::fmt;

use oxferry_schema::{Key, RowKey, Table, TableName};

use crate::{
    FilePosition, Gtid, MysqlStream, Position, RowChange, StreamConfig, StreamError, StreamEvent,
    watched::Watched,
};

/// Follows the binary log of a server that a job writes to, and reports every
/// change of a watched table that isn't the job's own.
///
/// A transaction is the job's own when the first rows in it are those of the
/// *mark*: a table that the job, and nobody else, writes a row of at the
/// beginning of each of its transactions. Own transactions are passed over
/// without decoding their rows. A statement that changes a table's structure is
/// the job's own when `/* oxferry */` stands between its first words, as in
/// `ALTER TABLE /* oxferry */ t ADD INDEX (a)`.
///
/// # What it can't see
///
/// - What a trigger on a watched table does to watched tables *within an own
///   transaction*: a trigger's rows stand in the transaction that fired it.
/// - What a foreign key's `ON DELETE` and `ON UPDATE` actions do where the
///   storage engine carries them out, as servers before 9.6 do: it logs the
///   parent's row alone. Observed on 9.7.4: the children's rows are in the log,
///   but with `innodb_native_foreign_keys=ON` they aren't.
/// - What a session with `sql_log_bin=0` does, and what a replication filter
///   keeps out of the log.
///
/// A comparison of the rows finds all of these.
///
/// A change in an XA transaction is reported when it is prepared, also when it
/// is rolled back later.
#[derive(Debug)]
pub struct ForeignWrites {
    stream: MysqlStream,
    tables: Vec<(String, Option<RowKey>)>,
    /// A position reached that is still to be told.
    reached: Option<FilePosition>,
}

/// One step of [`ForeignWrites`].
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever reads on must handle either"
)]
pub enum Seen {
    /// Everything up to here has been looked at; never inside a transaction.
    Progress {
        /// The position reached.
        end: FilePosition,
    },
    /// Somebody else changed a watched table.
    Foreign(Box<ForeignWrite>),
}

/// A change of a watched table that isn't the job's own.
///
/// Writes itself as a line for a person, with table, key and position.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ForeignWrite {
    /// Which table, as an index into the list of watched tables.
    pub table: usize,
    /// The table's full name, unquoted.
    pub name: String,
    /// What was done.
    pub kind: ForeignKind,
    /// How many rows, as far as this event of the log tells; a statement may
    /// be logged as several. 0 where it isn't known.
    pub row_count: u64,
    /// These rows; none where they aren't known.
    pub changes: Vec<RowChange>,
    /// Their keys, in the same order; the row's former key where it changed.
    /// Empty where the table has no usable key.
    pub keys: Vec<Key>,
    /// The position right behind the event; behind the whole transaction where
    /// that is compressed.
    pub at: FilePosition,
    /// The transaction's GTID, where the server gives one.
    pub gtid: Option<Gtid>,
}

/// What somebody else did to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignKind {
    /// Rows were inserted.
    Insert,
    /// Rows were updated.
    Update,
    /// Rows were deleted.
    Delete,
    /// Rows were changed that can't be read, for this reason.
    Unread(String),
    /// Rows were changed by this statement, which was logged without them.
    Statement(String),
    /// This statement changed, renamed, emptied or dropped the table.
    Ddl(String),
}

impl ForeignWrites {
    /// Connects, and asks for the log from `start` on: by its GTIDs where it
    /// has some, else by its file position.
    ///
    /// # Errors
    ///
    /// [`StreamError`] when the first try fails: it isn't repeated.
    ///
    /// # Cancel safety
    ///
    /// A call may be dropped; its connection is closed then.
    pub async fn open(
        config: StreamConfig,
        start: Position,
        mark: TableName,
        tables: Vec<Table>,
    ) -> Result<Self, StreamError> {
        let known = tables
            .iter()
            .map(|table| (table.name.plain(), table.row_key().ok()));
        let known = known.collect();
        let watched = Watched::new(tables).with_mark(mark);
        Ok(Self {
            stream: MysqlStream::open_watched(config, start, watched).await?,
            tables: known,
            reached: None,
        })
    }

    /// Waits for the next step.
    ///
    /// It goes on after a change by somebody else, however it was logged.
    ///
    /// # Errors
    ///
    /// [`StreamError`] when the log can't be followed any further; it is final.
    ///
    /// # Cancel safety
    ///
    /// A call may be dropped; nothing is lost by it.
    pub async fn next(&mut self) -> Result<Seen, StreamError> {
        if let Some(end) = self.reached.take() {
            return Ok(Seen::Progress { end });
        }
        let seen = match self.stream.advance().await {
            Ok(StreamEvent::Rows { table, changes }) => Ok(self.rows(table, changes)),
            Ok(StreamEvent::Ddl {
                table,
                statement,
                end,
                gtid,
            }) => {
                let write = self.write(table, ForeignKind::Ddl(statement));
                self.reached = (self.boundary().file == end).then(|| end.clone());
                Ok(ForeignWrite {
                    at: end,
                    gtid,
                    ..write
                })
            }
            Ok(StreamEvent::Commit { end, .. } | StreamEvent::Progress { end }) => {
                return Ok(Seen::Progress { end });
            }
            Err(error) => self.unread(error),
        };
        match seen {
            Ok(write) => Ok(Seen::Foreign(Box::new(write))),
            Err(error) => {
                self.stream.end();
                Err(error)
            }
        }
    }

    /// The end of the last whole transaction that was looked at: where a later
    /// [`open`](Self::open) goes on.
    #[must_use]
    pub const fn boundary(&self) -> &Position {
        self.stream.boundary()
    }

    fn rows(&self, table: usize, changes: Vec<RowChange>) -> ForeignWrite {
        let kind = match changes.first() {
            Some(RowChange { before: None, .. }) => ForeignKind::Insert,
            Some(RowChange { after: None, .. }) => ForeignKind::Delete,
            _ => ForeignKind::Update,
        };
        let key = self.tables.get(table).and_then(|(_, key)| key.as_ref());
        let key_of = |change: &RowChange| {
            let row = change.before.as_ref().or(change.after.as_ref());
            key?.key_of(row?)
        };
        ForeignWrite {
            row_count: changes.len() as u64,
            // All or none: they stand beside the rows.
            keys: changes
                .iter()
                .map(key_of)
                .collect::<Option<_>>()
                .unwrap_or_default(),
            changes,
            ..self.write(table, kind)
        }
    }

    /// Changes whose rows are missing from the log or can't be read are
    /// somebody else's all the same: own ones aren't looked into.
    fn unread(&self, error: StreamError) -> Result<ForeignWrite, StreamError> {
        let reason = || {
            let source = std::error::Error::source(&error);
            source.map_or_else(|| error.to_string(), ToString::to_string)
        };
        let (table, kind) = match &error {
            StreamError::StatementFormat {
                table, statement, ..
            } => (table, ForeignKind::Statement(statement.clone())),
            StreamError::PartialImage { table, .. } => {
                let reason = "they were logged with a part of their columns only";
                (table, ForeignKind::Unread(reason.to_owned()))
            }
            StreamError::Decode { table, .. } => (table, ForeignKind::Unread(reason())),
            _ => return Err(error),
        };
        match self.tables.iter().position(|(name, _)| name == table) {
            Some(table) => Ok(self.write(table, kind)),
            None => Err(error),
        }
    }

    fn write(&self, table: usize, kind: ForeignKind) -> ForeignWrite {
        let log = self.stream.log();
        let name = self.tables.get(table).map(|(name, _)| name.clone());
        ForeignWrite {
            table,
            name: name.unwrap_or_default(),
            kind,
            row_count: 0,
            changes: Vec::new(),
            keys: Vec::new(),
            at: *log.at(),
            gtid: log.gtid(),
        }
    }
}

impl ForeignWrite {
    /// Returns it with those rows alone for which `keep` says so; `None` where
    /// that is none of them. A write whose rows aren't known stays as it is.
    #[must_use]
    pub fn only(mut self, keep: impl FnMut(&RowChange) -> bool) -> Option<Self> {
        if self.changes.is_empty() {
            return Some(self);
        }
        let kept: Vec<bool> = self.changes.iter().map(keep).collect();
        let mut each = kept.iter();
        self.keys.retain(|_| each.next() == Some(&true));
        let mut each = kept.iter();
        self.changes.retain(|_| each.next() == Some(&true));
        self.row_count = self.changes.len() as u64;
        (!self.changes.is_empty()).then_some(self)
    }

    /// Returns what tells of one of the rows alone: with its key, and without its
    /// images.
    #[must_use]
    pub fn row(&self, at: usize) -> Self {
        Self {
            row_count: 1,
            changes: Vec::new(),
            keys: self.keys.get(at).cloned().into_iter().collect(),
            name: self.name.clone(),
            kind: self.kind.clone(),
            at: self.at.clone(),
            gtid: self.gtid.clone(),
            ..*self
        }
    }
}

impl fmt::Display for ForeignWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = |done: &str, f: &mut fmt::Formatter<'_>| {
            let plural = if self.row_count == 1 {
                "row was"
            } else {
                "rows were"
            };
            write!(f, "{} {plural} {done} in {}", self.row_count, self.name)
        };
        match &self.kind {
            ForeignKind::Insert => rows("inserted", f),
            ForeignKind::Update => rows("updated", f),
            ForeignKind::Delete => rows("deleted", f),
            ForeignKind::Unread(reason) => {
                write!(f, "rows were changed in {} ({reason})", self.name)
            }
            ForeignKind::Statement(sql) => {
                write!(f, "rows were changed in {} by `{sql}`", self.name)
            }
            ForeignKind::Ddl(sql) => write!(f, "{} was changed by `{sql}`", self.name),
        }?;
        if let Some(key) = self.keys.first() {
            let first = if self.row_count > 1 {
                "first key"
            } else {
                "key"
            };
            write!(f, ", {first} {key}")?;
        }
        write!(f, ", before {}", self.at)?;
        match &self.gtid {
            Some(gtid) => write!(f, ", transaction {gtid}"),
            None => Ok(()),
        }
    }
}

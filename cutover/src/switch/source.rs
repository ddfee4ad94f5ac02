//! The ways to lock a source that the server itself offers.

use std::time::Duration;

use mysql_async::{Conn, Value, prelude::Queryable};
use oxferry_schema::{
    CONNECT_DEADLINE, ServerInfo, ServerPosition, TableName, current_position, prepared_xa,
    server_code,
};

use super::{Leftover, LockedSource, ReadOnly, SourceLock, SwitchError, names};
use crate::{CutoverError, session::answered};

/// What the server is asked for, and what stands in its way.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The statement; `None` where there is nothing to do.
    pub(super) statement: Option<String>,
    /// What picks the metadata locks that the statement must wait for.
    pub(super) held: String,
    /// The values in it.
    pub(super) values: Vec<Value>,
}

impl SourceLock {
    /// Returns what to ask the server for.
    ///
    /// `LOCK TABLES … READ` asks for SHARED_READ_ONLY, a rename for EXCLUSIVE; a
    /// read-only server waits for statements that write, for `LOCK TABLES …
    /// WRITE` and for commits, not for transactions that are idle. Source: the
    /// compatibility matrices in `sql/mdl.cc` of MySQL 9.7; MySQL 9.7 manual,
    /// "Server System Variables", `read_only`; observed on 9.7.4.
    pub(super) fn request(self, tables: &[TableName], before: ReadOnly) -> Request {
        let named = |picks: &str| {
            let one = "(m.OBJECT_SCHEMA = ? AND m.OBJECT_NAME = ?)";
            let any = vec![one; tables.len()].join(" OR ");
            format!("(m.OBJECT_TYPE = 'TABLE' AND {picks} AND ({any}))")
        };
        let writers = "m.LOCK_TYPE NOT IN ('SHARED', 'SHARED_HIGH_PRIO', 'SHARED_READ', \
                       'SHARED_UPGRADABLE', 'SHARED_READ_ONLY')";
        let names: Vec<_> = tables
            .iter()
            .flat_map(|name| [&name.schema, &name.table].map(|ident| Value::from(ident.as_str())))
            .collect();
        match self {
            Self::ReadOnly => Request {
                statement: (!before.super_read_only).then(|| SET_READ_ONLY.to_owned()),
                held: "(m.OBJECT_TYPE IN ('GLOBAL', 'COMMIT') \
                       AND m.LOCK_TYPE = 'INTENTION_EXCLUSIVE')"
                    .to_owned(),
                values: Vec::new(),
            },
            Self::Rename => Request {
                statement: Some(names::away(tables)),
                held: format!(
                    "(m.OBJECT_TYPE IN ('GLOBAL', 'BACKUP LOCK') AND m.LOCK_TYPE = 'SHARED') OR {}",
                    named("m.LOCK_TYPE IS NOT NULL")
                ),
                values: names,
            },
            Self::LockTables | Self::None | Self::Hook => {
                let locks: Vec<_> = tables.iter().map(|name| format!("{name} READ")).collect();
                let statement = format!("LOCK TABLES {}", locks.join(", "));
                Request {
                    statement: matches!(self, Self::LockTables).then_some(statement),
                    held: named(writers),
                    values: names,
                }
            }
        }
    }

    /// Returns what a run that dies under this lock leaves on a server that was
    /// `before`.
    pub(super) fn leftover(self, before: ReadOnly, hook: bool) -> Leftover {
        Leftover {
            hook,
            renamed: self == Self::Rename,
            announced: false,
            read_only: (self == Self::ReadOnly && !before.super_read_only).then_some(before),
        }
    }

    /// Returns the plan's tables, each with the name that it has under the lock.
    fn names(self, tables: &[TableName]) -> Vec<(TableName, TableName)> {
        let now = |table: &TableName| match self {
            Self::Rename => names::old_name(table),
            _ => table.clone(),
        };
        tables
            .iter()
            .map(|table| (table.clone(), now(table)))
            .collect()
    }

    /// Reads where the source's binary log ends, right after it was locked.
    pub(super) async fn locked(
        self,
        conn: &mut Conn,
        tables: &[TableName],
    ) -> Result<LockedSource, SwitchError> {
        let position = position(conn).await?;
        let through = oxferry_binlog::FilePosition::new(&position.file, position.offset_bytes)
            .map_err(|_unreadable| CutoverError::NoPosition {
                told: format!("{}:{}", position.file, position.offset_bytes),
            })?;
        Ok(LockedSource {
            through,
            executed_gtids: position.executed_gtids,
            names: self.names(tables),
        })
    }

    /// Sees that the lock still holds on the session that asked for it.
    ///
    /// A server that this run has set read-only writes nothing to its binary log,
    /// so a log that went on shows a write, whoever let it in.
    pub(super) async fn holds(
        self,
        conn: &mut Conn,
        locked: &LockedSource,
        leftover: &Leftover,
    ) -> Result<(), SwitchError> {
        match self {
            Self::None | Self::Hook => Ok(()),
            Self::LockTables => self.table_lock_holds(conn, locked).await,
            Self::Rename => {
                let tables: Vec<_> = locked
                    .names
                    .iter()
                    .map(|(table, _)| table.clone())
                    .collect();
                let seen = names::look(conn, &tables).await?;
                let back = |one: &names::SourceSeen| one.live || !one.old;
                match seen.into_iter().find(back) {
                    Some(odd) => Err(lost(odd.to_string())),
                    None => Ok(()),
                }
            }
            Self::ReadOnly => read_only_holds(conn, locked, leftover).await,
        }
    }

    /// Reads a table by an alias: under `LOCK TABLES` that is error 1100, as for
    /// any table that isn't locked. Source: MySQL 9.7 manual, "LOCK TABLES and
    /// UNLOCK TABLES Statements"; observed on 9.7.4, also for READ locks.
    async fn table_lock_holds(
        self,
        conn: &mut Conn,
        locked: &LockedSource,
    ) -> Result<(), SwitchError> {
        let Some((table, _)) = locked.names.first() else {
            return Ok(());
        };
        let probe = format!("SELECT 1 FROM {table} AS oxferry_probe LIMIT 0");
        let probing = conn.query_drop(probe);
        match answered("see that the source is locked", CONNECT_DEADLINE, probing).await {
            Err(CutoverError::Statement { source, .. })
                if server_code(&source) == Some(ER_TABLE_NOT_LOCKED) =>
            {
                Ok(())
            }
            Ok(()) => Err(lost("its table locks are gone".to_owned())),
            Err(error) => Err(error.into()),
        }
    }
}

async fn read_only_holds(
    conn: &mut Conn,
    locked: &LockedSource,
    leftover: &Leftover,
) -> Result<(), SwitchError> {
    if !read_only(conn).await?.super_read_only {
        return Err(lost("super_read_only was turned off".to_owned()));
    }
    let now = position(conn).await?;
    let moved =
        now.file != locked.through.file() || now.offset_bytes != locked.through.offset_bytes();
    if moved && leftover.read_only.is_some() {
        return Err(lost(format!(
            "its binary log went on to {}:{}; an XA transaction was committed, or it is a replica",
            now.file, now.offset_bytes
        )));
    }
    Ok(())
}

/// Refuses a read-only lock while somebody could commit under it.
pub(super) async fn expect_no_prepared(conn: &mut Conn) -> Result<(), SwitchError> {
    let xids = prepared_xa(conn).await?;
    if xids.is_empty() {
        return Ok(());
    }
    Err(SwitchError::PreparedXa { xids })
}

/// Reads the two settings.
pub(super) async fn read_only(conn: &mut Conn) -> Result<ReadOnly, SwitchError> {
    let asked =
        conn.query_first::<(bool, bool), _>("SELECT @@GLOBAL.read_only, @@GLOBAL.super_read_only");
    let told = answered(
        "see whether the source is read-only",
        CONNECT_DEADLINE,
        asked,
    )
    .await?;
    let (read_only, super_read_only) = told.unwrap_or_default();
    Ok(ReadOnly {
        read_only,
        super_read_only,
    })
}

async fn position(conn: &mut Conn) -> Result<ServerPosition, SwitchError> {
    let version = crate::tables::version(conn).await?;
    let asked = current_position(conn, &version);
    match tokio::time::timeout(CONNECT_DEADLINE, asked).await {
        Ok(told) => Ok(told?),
        Err(_) => Err(unanswered("read the source's binary log position")),
    }
}

/// Reads a server's settings within a deadline.
pub(super) async fn settings(conn: &mut Conn) -> Result<ServerInfo, SwitchError> {
    match tokio::time::timeout(CONNECT_DEADLINE, ServerInfo::read(conn)).await {
        Ok(info) => Ok(info?),
        Err(_) => Err(unanswered("read a server's settings")),
    }
}

fn unanswered(attempted: &'static str) -> SwitchError {
    SwitchError::Server(CutoverError::Unanswered {
        attempted,
        waited: CONNECT_DEADLINE,
    })
}

const fn lost(why: String) -> SwitchError {
    SwitchError::LockLost { why }
}

/// Sets `read_only` too. It returns when commits under way are over, and visible.
/// Source: MySQL 9.7 manual, "Server System Variables".
const SET_READ_ONLY: &str = "SET GLOBAL super_read_only = ON";
const ER_TABLE_NOT_LOCKED: u16 = 1100;
/// How often it is seen that a lock still holds.
pub(super) const HOLDS_EVERY: Duration = Duration::from_secs(1);

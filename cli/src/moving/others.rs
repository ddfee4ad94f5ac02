//! What others write to a target that holds the rows of several tenants: those
//! of other tenants are theirs to write.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_binlog::ForeignWrite;
use oxferry_schema::{Ident, Key, KeySide, Predicate, Remedy, Row, RowKey, TableName, Value};

use super::job::Move;
use crate::{
    failure::Failure,
    job::{
        Occasional, Own, Owned, Prepared, PreparedTable, Rows, Spellings, TenantValue, answered,
    },
};

/// Tells the writes of others that are none of the tenant's rows.
///
/// Whose a joined row is, its owner says, and that is looked up on the target,
/// for many rows at once. What an owner was before makes no difference: nobody
/// but the job makes, changes or deletes an owner of the tenant's unnoticed.
pub(super) struct Others {
    tables: Vec<Sorted>,
    spellings: Spellings,
    session: Occasional,
    /// The first write to a row of each owner that is to be looked up.
    unknown: BTreeMap<(usize, Key), ForeignWrite>,
    since: Option<Instant>,
}

/// How the rows of one table of the target are told apart.
enum Sorted {
    /// All are the move's.
    All,
    /// By a column of their own.
    Own(Own),
    /// By their owner.
    Owned(Box<Owner>),
}

struct Owner {
    /// What names the owner in an image.
    key: RowKey,
    table: TableName,
    /// How that stands among the owners' columns.
    side: KeySide,
    tenant: Ident,
    value: TenantValue,
}

/// Whom a row names as its owner.
enum Named {
    Nobody,
    Key(Key),
    /// Something that no owner's key looks like.
    Unreadable,
}

/// Owners that are looked up at once.
const OWNERS_MAX: usize = 1_000;

/// How long an owner waits for others to be looked up with.
const OWNERS_WAIT: Duration = Duration::from_millis(50);

impl Others {
    /// Prepares for a move whose target may hold other tenants; `None` where
    /// whatever somebody else writes is foreign.
    ///
    /// # Errors
    ///
    /// A failure when the target's tables are not as the move left them.
    pub(super) fn new(job: &Move, prepared: &Prepared) -> Result<Option<Self>, Failure> {
        if !job.shares_target() {
            return Ok(None);
        }
        let tables = prepared.of(&job.core).map(|(table, ready)| {
            let sorted = Sorted::new(&table.rows, ready, prepared);
            sorted.ok_or_else(|| column_is_gone(&table.target))
        });
        let site = &job.core.target;
        Ok(Some(Self {
            tables: tables.collect::<Result<_, _>>()?,
            spellings: Spellings::new(site.opts("tenant")),
            session: Occasional::new(site.opts("tenant")),
            unknown: BTreeMap::new(),
            since: None,
        }))
    }

    /// Returns what of a write is the tenant's for sure; owners that must be
    /// looked up first are kept for [`look_up`](Self::look_up).
    ///
    /// # Errors
    ///
    /// A failure when the target can't be asked.
    pub(super) async fn sort(
        &mut self,
        write: ForeignWrite,
    ) -> Result<Option<ForeignWrite>, Failure> {
        match self.tables.get(write.table) {
            None | Some(Sorted::All) => Ok(Some(write)),
            Some(Sorted::Own(own)) => {
                self.spellings.learn(own, &write.changes).await?;
                let is_ours = |row: &_| self.spellings.is_ours(own, row);
                Ok(write.only(|change| change.images().any(is_ours)))
            }
            // It isn't known which rows.
            Some(Sorted::Owned(_)) if write.changes.is_empty() => Ok(Some(write)),
            Some(Sorted::Owned(owner)) => {
                for (at, change) in write.changes.iter().enumerate() {
                    for row in change.images() {
                        match owner.named_by(row) {
                            Named::Nobody => {}
                            Named::Key(key) => {
                                let first = self.unknown.entry((write.table, key));
                                first.or_insert_with(|| write.row(at));
                                self.since.get_or_insert_with(Instant::now);
                            }
                            Named::Unreadable => return Ok(Some(write.row(at))),
                        }
                    }
                }
                Ok(None)
            }
        }
    }

    /// When the owners that wait are to be looked up, if any do.
    pub(super) fn due(&self) -> Option<Instant> {
        let since = self.since?;
        let full = self.unknown.len() >= OWNERS_MAX;
        Some(if full { since } else { since + OWNERS_WAIT })
    }

    /// Looks up, on the target, whose the owners are; returns what was done to a
    /// row of the tenant's.
    ///
    /// # Errors
    ///
    /// A failure when the target doesn't answer.
    pub(super) async fn look_up(&mut self) -> Result<Option<ForeignWrite>, Failure> {
        if self.since.take().is_none() {
            return Ok(None);
        }
        let unknown = std::mem::take(&mut self.unknown);
        let mut conn = self.session.take().await.map_err(not_looked_up)?;
        for (at, table) in self.tables.iter().enumerate() {
            let Sorted::Owned(owner) = table else {
                continue;
            };
            let keys: Vec<&Key> = unknown
                .keys()
                .filter_map(|(table, key)| (*table == at).then_some(key))
                .collect();
            for keys in keys.chunks(OWNERS_MAX) {
                let found = owner.first_of_tenant(&mut conn, keys);
                let Some(key) = answered(found).await.map_err(not_looked_up)? else {
                    continue;
                };
                // What the server takes for equal may be spelled otherwise here.
                let spelled = [Some(&key), keys.first().copied()].into_iter().flatten();
                let mut writes = spelled.filter_map(|key| unknown.get(&(at, key.clone())));
                return Ok(writes.next().cloned());
            }
        }
        self.session.keep(conn);
        Ok(None)
    }
}

impl Sorted {
    /// `None` where a column that tells is gone.
    fn new(rows: &Rows, ready: &PreparedTable, prepared: &Prepared) -> Option<Self> {
        Some(match rows {
            Rows::All => Self::All,
            Rows::Own(own) | Rows::Last(own) => Self::Own(Own {
                ordinal: ready.target.ordinal_of(own.column.as_str())?,
                ..own.clone()
            }),
            Rows::Joined(owned) => Self::Owned(Box::new(Owner::new(owned, ready, prepared)?)),
        })
    }
}

impl Owner {
    fn new(owned: &Owned, ready: &PreparedTable, prepared: &Prepared) -> Option<Self> {
        let owners = prepared.tables.get(owned.owner)?;
        let mut key = owned.owner_key.clone();
        let side = key.side_in(&owners.target, &key.columns).ok()?;
        key.ordinals = vec![ready.target.ordinal_of(owned.column.as_str())?];
        Some(Self {
            key,
            table: owned.owner_target.clone(),
            side,
            tenant: owned.owner_tenant.clone(),
            value: owned.value.clone(),
        })
    }

    fn named_by(&self, row: &Row) -> Named {
        let value = self.key.ordinals.first().map(|at| row.values().get(*at));
        match (self.key.key_of(row), value.flatten()) {
            (Some(key), _) => Named::Key(key),
            (None, Some(Value::NULL)) => Named::Nobody,
            (None, _) => Named::Unreadable,
        }
    }

    /// Returns the first of some owners that is the tenant's.
    async fn first_of_tenant(
        &self,
        conn: &mut Conn,
        keys: &[&Key],
    ) -> Result<Option<Key>, DriverError> {
        let rows = Predicate::keys(keys.iter().copied(), &self.side);
        let sql = format!(
            "SELECT {} FROM {} WHERE ({}) AND {} = ? LIMIT 1",
            self.side.select_list(),
            self.table,
            rows.sql(),
            self.tenant
        );
        let mut params = rows.into_params();
        params.push(self.value.param());
        let found: Option<mysql_async::Row> = conn.exec_first(sql, params).await?;
        Ok(found.and_then(|row| self.side.read(&row.unwrap())))
    }
}

fn not_looked_up(error: DriverError) -> Failure {
    Failure::new(Remedy::Retry, error).context("looking up whose rows somebody changed")
}

fn column_is_gone(table: &TableName) -> Failure {
    let why = anyhow::anyhow!(
        "a column of {} on the target that tells whose its rows are is gone: start anew with --fresh",
        table.plain()
    );
    Failure::new(Remedy::State, why)
}

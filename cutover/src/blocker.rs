//! Who keeps the lock from being granted.

use std::{fmt, time::Duration};

use mysql_async::{Conn, Params, Row, Value, prelude::Queryable};

use crate::{KillBlockers, SwapPlan};

/// A session that holds a lock which ours must wait for.
///
/// Names the session and never its statement: that may hold people's data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocker {
    /// The connection id, for `KILL`.
    pub id: u64,
    /// The account's user.
    pub user: String,
    /// Where the session comes from.
    pub host: String,
    /// What it does, in the server's words: `Query`, `Sleep`.
    pub command: String,
    /// Seconds since it began to do that.
    pub seconds: u64,
    /// Rows changed by its open transaction; `None` if that isn't known, which
    /// without the PROCESS privilege is always so.
    pub rows_modified: Option<u64>,
}

impl KillBlockers {
    /// Picks the sessions to end after the lock was waited for for `waited`.
    ///
    /// A session whose changes are not known, or too many, is left alone, and
    /// so are the server's own: replication and scheduled events.
    pub fn victims<'a>(
        &self,
        waited: Duration,
        blockers: &'a [Blocker],
    ) -> impl Iterator<Item = &'a Blocker> {
        let rows_max = (waited >= self.after).then_some(self.rows_modified_max);
        blockers
            .iter()
            .filter(|blocker| !SERVER_USERS.contains(&blocker.user.as_str()))
            .filter(move |b| b.rows_modified.is_some_and(|rows| Some(rows) <= rows_max))
    }
}

impl fmt::Display for Blocker {
    /// Writes `session 7 (app@10.0.0.3, Sleep for 40 s)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "session {} ({}@{}, {} for {} s)",
            self.id, self.user, self.host, self.command, self.seconds
        )
    }
}

/// Finds the sessions whose metadata locks stand in the way of the plan's
/// lock, session `own` aside.
///
/// `LOCK TABLES … WRITE` asks for SHARED_NO_READ_WRITE, which goes with SHARED
/// and SHARED_HIGH_PRIO only; a global read lock stops it too. Source: the
/// compatibility matrices in `sql/mdl.cc` of MySQL 9.7.
///
/// # Errors
///
/// What the server answered; a missing PROCESS privilege is no error, see
/// [`Blocker::rows_modified`].
pub(crate) async fn blockers(
    conn: &mut Conn,
    plan: &SwapPlan,
    own: u32,
) -> Result<Vec<Blocker>, mysql_async::Error> {
    let others = plan.other_tables();
    let names: Vec<_> = plan
        .pairs
        .iter()
        .flat_map(|pair| [&pair.source, &pair.shadow])
        .chain(&others)
        .flat_map(|name| [&name.schema, &name.table].map(|ident| Value::from(ident.as_str())))
        .collect();
    let tables = vec!["(m.OBJECT_SCHEMA = ? AND m.OBJECT_NAME = ?)"; names.len() / 2];
    let held = format!(
        "(m.OBJECT_TYPE = 'GLOBAL' AND m.LOCK_TYPE = 'SHARED') OR \
         (m.OBJECT_TYPE = 'TABLE' AND m.LOCK_TYPE NOT IN ('SHARED', 'SHARED_HIGH_PRIO') \
         AND ({}))",
        tables.join(" OR ")
    );
    holders(conn, own, &held, names).await
}

/// Finds the sessions that have run `LOCK INSTANCE FOR BACKUP`, session `own`
/// aside.
///
/// They don't stop `LOCK TABLES`, but the rename after it; seen on 9.7.4.
///
/// # Errors
///
/// As [`blockers`].
pub(crate) async fn backups(conn: &mut Conn, own: u32) -> Result<Vec<Blocker>, mysql_async::Error> {
    let held = "m.OBJECT_TYPE = 'BACKUP LOCK' AND m.LOCK_TYPE = 'SHARED'";
    holders(conn, own, held, Vec::new()).await
}

/// Names the holders of the metadata locks that the condition `held` picks.
pub(crate) async fn holders(
    conn: &mut Conn,
    own: u32,
    held: &str,
    values: Vec<Value>,
) -> Result<Vec<Blocker>, mysql_async::Error> {
    let all = std::iter::once(Value::from(own)).chain(values);
    let params = Params::Positional(all.collect());
    let full = query(held, ROWS_JOIN, "COALESCE(MAX(x.trx_rows_modified), 0)");
    let rows: Vec<Row> = match conn.exec(full, params.clone()).await {
        Err(mysql_async::Error::Server(error)) if error.code == ER_SPECIFIC_ACCESS_DENIED => {
            conn.exec(query(held, "", "NULL"), params).await?
        }
        other => other?,
    };
    Ok(rows.into_iter().filter_map(from_row).collect())
}

fn query(held: &str, join: &str, rows: &str) -> String {
    format!(
        "SELECT t.PROCESSLIST_ID, MAX(t.PROCESSLIST_USER), MAX(t.PROCESSLIST_HOST), \
         MAX(t.PROCESSLIST_COMMAND), MAX(t.PROCESSLIST_TIME), {rows} \
         FROM performance_schema.metadata_locks m \
         JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID {join} \
         WHERE m.LOCK_STATUS = 'GRANTED' AND t.PROCESSLIST_ID <> ? AND ({held}) \
         GROUP BY t.PROCESSLIST_ID ORDER BY t.PROCESSLIST_ID LIMIT {BLOCKERS_MAX}"
    )
}

fn from_row(row: Row) -> Option<Blocker> {
    type Columns = (
        u64,
        Option<String>,
        Option<String>,
        Option<String>,
        Option<i64>,
        Option<u64>,
    );
    let (id, user, host, command, seconds, rows_modified) =
        mysql_async::from_row_opt::<Columns>(row).ok()?;
    Some(Blocker {
        id,
        user: user.unwrap_or_default(),
        host: host.unwrap_or_default(),
        command: command.unwrap_or_default(),
        seconds: seconds.and_then(|s| s.try_into().ok()).unwrap_or_default(),
        rows_modified,
    })
}

/// What the process list calls the server's own threads.
const SERVER_USERS: [&str; 3] = ["", "system user", "event_scheduler"];
/// Enough to act on; a longer list helps nobody.
const BLOCKERS_MAX: usize = 20;
const ROWS_JOIN: &str =
    "LEFT JOIN information_schema.INNODB_TRX x ON x.trx_mysql_thread_id = t.PROCESSLIST_ID";
const ER_SPECIFIC_ACCESS_DENIED: u16 = 1227;

#[cfg(test)]
mod tests {
    use super::*;

    fn blocker(id: u64, rows_modified: Option<u64>) -> Blocker {
        Blocker {
            id,
            user: "app".into(),
            host: "10.0.0.3".into(),
            command: "Sleep".into(),
            seconds: 40,
            rows_modified,
        }
    }

    const POLICY: KillBlockers = KillBlockers {
        after: Duration::from_secs(2),
        rows_modified_max: 100,
    };

    #[test]
    fn nobody_is_ended_before_the_delay() {
        let blockers = [blocker(1, Some(0))];
        assert_eq!(
            POLICY
                .victims(Duration::from_millis(1999), &blockers)
                .count(),
            0
        );
        assert_eq!(POLICY.victims(Duration::from_secs(2), &blockers).count(), 1);
    }

    #[test]
    fn a_huge_or_unknown_transaction_is_left_alone() {
        let blockers = [
            blocker(1, Some(100)),
            blocker(2, Some(101)),
            blocker(3, None),
        ];
        let victims: Vec<_> = POLICY
            .victims(Duration::from_secs(9), &blockers)
            .map(|b| b.id)
            .collect();
        assert_eq!(victims, [1]);
    }

    #[test]
    fn replication_is_never_ended() {
        let mut applier = blocker(1, Some(0));
        applier.user = "system user".into();
        assert_eq!(
            POLICY.victims(Duration::from_secs(9), &[applier]).count(),
            0
        );
    }

    #[test]
    fn a_blocker_is_named_without_its_statement() {
        assert_eq!(
            blocker(7, None).to_string(),
            "session 7 (app@10.0.0.3, Sleep for 40 s)"
        );
    }
}

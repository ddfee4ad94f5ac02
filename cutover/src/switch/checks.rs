//! What is looked at before the source is locked.

use mysql_async::{Conn, Opts, Value};
use oxferry_schema::Remedy;

use super::{ReadOnly, SourceLock, SwitchError, SwitchPlan, names, source};
use crate::{
    CutoverError,
    blocker::holders,
    lock::GRACE,
    session::{answered, close, connect},
};

/// Sees that source and target are fit for the switch; returns whether the
/// source is read-only already.
pub(super) async fn check(
    source: &Opts,
    target: &Opts,
    plan: &SwitchPlan,
) -> Result<ReadOnly, SwitchError> {
    let mut conn = connect(target).await?;
    let info = source::settings(&mut conn).await?;
    close(conn).await;
    let on = [
        (info.super_read_only, "super_read_only"),
        (info.read_only, "read_only"),
    ];
    let shut = on.into_iter().find(|(on, _)| *on);
    if let Some((_, setting)) = shut.filter(|_| !plan.target_is_shut) {
        return Err(SwitchError::TargetReadOnly { setting });
    }
    let mut conn = connect(source).await?;
    let info = source::settings(&mut conn).await?;
    let before = ReadOnly {
        read_only: info.read_only,
        super_read_only: info.super_read_only,
    };
    let seen = names::look(&mut conn, &plan.tables).await?;
    let renaming = plan.lock == SourceLock::Rename;
    let wrong = |one: &names::SourceSeen| !one.live || (renaming && one.old);
    let found: Vec<_> = seen.into_iter().filter(wrong).collect();
    if !found.is_empty() {
        return Err(SwitchError::Tables { found });
    }
    if plan.lock == SourceLock::ReadOnly {
        source::expect_no_prepared(&mut conn).await?;
    }
    expect_no_old_transaction(&mut conn, plan, before).await?;
    close(conn).await;
    Ok(before)
}

/// Waits for nobody under the lock that has held a table for long already.
async fn expect_no_old_transaction(
    conn: &mut Conn,
    plan: &SwitchPlan,
    before: ReadOnly,
) -> Result<(), SwitchError> {
    // Also a read-only server's open transactions would be lost: none of them
    // can commit.
    let lock = match plan.lock {
        SourceLock::ReadOnly => SourceLock::LockTables,
        other => other,
    };
    let mut request = lock.request(&plan.tables, before);
    let old = "EXISTS (SELECT 1 FROM information_schema.INNODB_TRX o \
               WHERE o.trx_mysql_thread_id = t.PROCESSLIST_ID \
               AND o.trx_started < NOW() - INTERVAL ? SECOND)";
    let held = format!("({}) AND {old}", request.held);
    request
        .values
        .push(Value::from(plan.transaction_age_max.as_secs()));
    let own = conn.id();
    let looking = holders(conn, own, &held, request.values);
    match answered("look for old transactions", GRACE, looking).await {
        Ok(sessions) if sessions.is_empty() => Ok(()),
        Ok(sessions) => Err(SwitchError::OldTransactions { sessions }),
        Err(CutoverError::Statement { source, .. })
            if oxferry_schema::classify(&source).remedy() == Remedy::Privileges =>
        {
            tracing::debug!(error = %source, "old transactions can't be seen");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

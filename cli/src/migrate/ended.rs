//! A job whose tables an earlier run has swapped: only the cleaning up is left.
//!
//! Nothing else is asked of the tables: what took over may well be unfit for a
//! copy, by its new key or for the triggers that it still lacks.

use mysql_async::Conn;
use oxferry_cutover::{Sentinel, complete, drop_old, end_earlier};
use oxferry_schema::{ServerUrl, ShadowNames, Table, TableName, connect};
use oxferry_state::{Checkpoint, JobIdentity, Phase};

use super::{EARLIER_MAX, attached, request::Rest, start};
use crate::{
    args::MigrateArgs,
    failure::Failure,
    job::{DROP_LOCK_WAIT, Holder, JobLock, Saver, Store, table_exists},
    source,
};

/// A job that an earlier run has brought behind the swap.
#[derive(Debug)]
pub(super) struct Ended {
    url: ServerUrl,
    conn: Conn,
    store: Store,
    checkpoint: Checkpoint,
    lock: JobLock,
}

/// Looks whether an earlier run has swapped the tables of the job asked for.
///
/// # Errors
///
/// A failure that says what can't be read, that another job works on the
/// tables, or that it was another job that swapped them.
pub(super) async fn look(args: &MigrateArgs, rest: &Rest) -> Result<Option<Ended>, Failure> {
    let url = source::source_url(&args.server)?;
    let mut conn = connect(&url, "preflight").await?;
    let url = url.settled(&conn);
    let (mut names, mut statements) = (Vec::new(), Vec::new());
    for request in &rest.requests {
        let Some(table) = Table::read(&mut conn, &request.table).await? else {
            return Ok(None);
        };
        statements.push(request.alter.statement_for(&table.name));
        names.push(table.name);
    }
    statements.extend(rest.done.iter().cloned());
    let asked = JobIdentity::migrate(names.clone(), statements);
    let Some(first) = names.first() else {
        return Ok(None);
    };
    let state = ShadowNames::beside(first).state;
    let file = args.run.state.as_ref();
    let store = Store::new(file, url.opts("checkpoint"), &state, &asked.name);
    if judge(&mut conn, &store, &names, &asked).await?.is_none() {
        return Ok(None);
    }
    let lock = JobLock::take(connect(&url, "lock").await?, &names).await?;
    for table in &names {
        // A rename that an earlier run sent may still be waiting to happen.
        end_earlier(&mut conn, table, EARLIER_MAX).await?;
    }
    let Some(checkpoint) = judge(&mut conn, &store, &names, &asked).await? else {
        lock.release().await;
        return Ok(None);
    };
    Ok(Some(Ended {
        url,
        conn,
        store,
        checkpoint,
        lock,
    }))
}

/// Returns the checkpoint if it, and what stands beside the tables, say so.
/// One that can't be read is told of by whoever wants to go on with it.
async fn judge(
    conn: &mut Conn,
    store: &Store,
    names: &[TableName],
    asked: &JobIdentity,
) -> Result<Option<Checkpoint>, Failure> {
    let Ok(Some(checkpoint)) = store.load().await else {
        return Ok(None);
    };
    let mut tables = Vec::with_capacity(names.len());
    for name in names {
        let beside = ShadowNames::beside(name);
        let shadow = table_exists(conn, &beside.shadow).await?;
        let old = table_exists(conn, &beside.old).await?;
        tables.push((name, shadow, old));
    }
    let ended = start::is_ended(&checkpoint, &tables, asked)?;
    Ok(ended.then_some(checkpoint))
}

impl Ended {
    /// Completes what the earlier run's cutover had begun, then drops what the
    /// job made.
    pub(super) async fn clean_up(self, args: &MigrateArgs) -> Result<(), Failure> {
        tracing::info!("an earlier run has swapped the tables; cleaning up after it");
        tracing::info!(phase = %Phase::Cleanup.as_str(), "begins");
        let Self {
            url,
            mut conn,
            store,
            checkpoint,
            lock,
        } = self;
        let names: Vec<ShadowNames> = checkpoint
            .job
            .tables
            .iter()
            .map(ShadowNames::beside)
            .collect();
        let keep_old = args.cutover.keep_old_table;
        let holder = lock.holder();
        let cleaned = async {
            holder.check(&mut conn).await?;
            let saver = Saver::new(store, checkpoint.clone());
            if checkpoint.phase == Phase::Cutover {
                complete(&url.opts("cutover"), &attached::plan_of(&checkpoint)?).await?;
                saver.enter(Phase::Cleanup).await?;
            }
            drop_all(&mut conn, &names, keep_old, (&saver, &holder)).await
        };
        let cleaned = cleaned.await;
        lock.release().await;
        cleaned
    }

    /// Lets the job's locks go, and leaves everything as it is.
    pub(super) async fn leave(self) {
        self.lock.release().await;
    }
}

/// Drops what a job made, the checkpoint last: until then a repeated call knows
/// that the tables are swapped. `names` are in the job's order.
pub(super) async fn drop_all(
    conn: &mut Conn,
    names: &[ShadowNames],
    keep_old: bool,
    (saver, lock): (&Saver, &Holder),
) -> Result<(), Failure> {
    lock.check(conn).await?;
    if let Some(first) = names.first() {
        Sentinel::new(first.sentinel.clone()).drop(conn).await?;
    }
    for ShadowNames { old, .. } in names {
        if keep_old {
            tracing::info!(table = %old.plain(), "the old table is kept");
        } else {
            lock.check(conn).await?;
            drop_old(conn, old, DROP_LOCK_WAIT).await?;
        }
    }
    lock.check(conn).await?;
    saver.clear().await
}

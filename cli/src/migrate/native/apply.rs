//! Letting the server make the changes.

use std::num::NonZeroU32;

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_cutover::{Backoff, CutoverError, DdlPlan, DdlReport, DdlSeen, KillBlockers, run_ddl};
use oxferry_schema::{Algorithm, connect};
use oxferry_state::{Phase, same_definition};

use super::{
    super::{request::Rest, takeover::KILL_ROWS_MAX},
    Decided, Native, outcome,
};
use crate::{
    args::CutoverArgs,
    failure::Failure,
    job::{Interrupt, JobLock, interrupted},
};

/// As many as the cutover's.
const ATTEMPTS_MAX: NonZeroU32 = NonZeroU32::new(10).expect("10 is not zero");

/// What ends the wait for another attempt.
type Guards<'a> = (&'a Interrupt, Option<&'a JobLock>);

impl Decided {
    /// Changes every table that the server changes at once; returns what is
    /// left to copy, with the tables that it refused after all.
    ///
    /// # Errors
    ///
    /// The first table's that could not be changed; those before it are
    /// changed, and the log says so.
    pub(in super::super) async fn apply(
        mut self,
        args: &CutoverArgs,
        interrupt: &Interrupt,
    ) -> Result<Rest, Failure> {
        if !self.natives.is_empty() {
            tracing::info!(phase = %Phase::NativeDdl.as_str(), "begins");
        }
        let opts = self.url.opts("native-ddl");
        for native in std::mem::take(&mut self.natives) {
            if interrupt.is_wanted() {
                return Err(interrupted());
            }
            let mut conn = connect(&self.url, "native-ddl").await?;
            if let Some(lock) = &self.lock {
                lock.holder().check(&mut conn).await?;
            }
            check_unchanged(&mut conn, &native).await?;
            let guards = (interrupt, self.lock.as_ref());
            if change(&opts, &native, args, guards).await? {
                self.done.push(native.statement());
            } else {
                self.copies.push((native.place, native.request));
            }
        }
        self.copies.sort_by_key(|(place, _)| *place);
        let rest = self.rest();
        if let Some(lock) = self.lock {
            lock.release().await;
        }
        Ok(rest)
    }
}

/// The server was asked about the table as it was: it must still be that.
async fn check_unchanged(conn: &mut Conn, native: &Native) -> Result<(), Failure> {
    let now = definition(conn, native).await.map_err(|error| {
        let table = native.table().plain();
        Failure::new(oxferry_schema::Remedy::Retry, error).context(format!("reading {table}"))
    })?;
    if now.is_some_and(|now| same_definition(&now, &native.before.create_statement)) {
        return Ok(());
    }
    let table = native.table().plain();
    Err(Failure::new(
        oxferry_schema::Remedy::Retry,
        anyhow::anyhow!("table {table} was changed by somebody at this very moment"),
    ))
}

async fn definition(
    conn: &mut Conn,
    native: &Native,
) -> Result<Option<String>, mysql_async::Error> {
    let row: Option<(String, String)> = conn
        .query_first(format!("SHOW CREATE TABLE {}", native.table()))
        .await?;
    Ok(row.map(|(_, create)| create))
}

/// Tries one algorithm after the other; `false` when the server refuses all.
async fn change(
    opts: &Opts,
    native: &Native,
    args: &CutoverArgs,
    guards: Guards<'_>,
) -> Result<bool, Failure> {
    for algorithm in &native.ways {
        match attempts(opts, native, *algorithm, (args, guards)).await? {
            Ok(report) => {
                tracing::info!(
                    table = %native.table().plain(), %algorithm,
                    took_ms = u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
                    looked_up = report.looked_up,
                    "changed by the server at once; nothing was copied"
                );
                return Ok(true);
            }
            Err(refusal) => tracing::info!(
                table = %native.table().plain(), %algorithm,
                "the server refuses on the live table: {refusal}"
            ),
        }
    }
    tracing::info!(table = %native.table().plain(), "is copied instead");
    Ok(false)
}

/// Sends the statement until its locks are granted, or the attempts are used
/// up; the inner error is the server's refusal.
async fn attempts(
    opts: &Opts,
    native: &Native,
    algorithm: Algorithm,
    (args, (interrupt, lock)): (&CutoverArgs, Guards<'_>),
) -> Result<Result<DdlReport, String>, Failure> {
    let statement = native.alter().native_statement(native.table(), algorithm);
    let kill = args.kill_blockers_after.map(|after| KillBlockers {
        after,
        rows_modified_max: KILL_ROWS_MAX,
    });
    let plan = DdlPlan::new(native.table().clone(), statement, args.lock_wait, kill);
    let seen = async |conn: &mut Conn| -> Result<DdlSeen, mysql_async::Error> {
        let now = definition(conn, native).await?.unwrap_or_default();
        Ok(outcome::became(native, &now))
    };
    let mut backoff = Backoff::new(ATTEMPTS_MAX);
    loop {
        let error = match run_ddl(opts, &plan, &seen).await {
            Ok(report) => return Ok(Ok(report)),
            Err(error) => error,
        };
        if let Some(refusal) = error.refusal() {
            return Ok(Err(refusal.to_owned()));
        }
        let pause = error
            .is_passing()
            .then(|| backoff.handle_failure(fastrand::f64()))
            .flatten();
        let Some(pause) = pause else {
            return Err(not_changed(native, error));
        };
        let cause: &(dyn std::error::Error + 'static) = &error;
        tracing::warn!(
            error = cause,
            failed = backoff.failed(),
            ?pause,
            "the change is put off"
        );
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            interrupted = interrupt.wanted() => return Err(interrupted),
            lost = lost(lock) => return Err(lost),
        }
    }
}

/// Waits until the lock, if there is one, is lost.
async fn lost(lock: Option<&JobLock>) -> Failure {
    match lock {
        Some(lock) => lock.lost().await,
        None => std::future::pending().await,
    }
}

fn not_changed(native: &Native, error: CutoverError) -> Failure {
    let table = native.table().plain();
    Failure::from(error).context(format!("changing {table} at once"))
}

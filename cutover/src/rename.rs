//! The rename itself, and what became of it.

use std::time::Duration;

use mysql_async::{Opts, prelude::Queryable};
use oxferry_verifier::Verified;

use crate::{
    CutoverError, Outcome, SwapPlan, TablesSeen, carry, decide,
    session::{Session, answered, connect},
    swap::END_LIMIT,
    tables,
};

/// Renames every pair on the locking session; returns whether the outcome had
/// to be looked up.
///
/// Takes the evidence for good: one verification, one rename (I9).
///
/// # Errors
///
/// [`CutoverError::Ambiguous`] when nobody knows; [`CutoverError::Incomplete`]
/// when all is renamed and something is left to do. With every other error
/// nothing is renamed.
pub(crate) async fn rename(
    evidence: Verified,
    session: &mut Session,
    opts: &Opts,
    plan: &SwapPlan,
) -> Result<bool, CutoverError> {
    tracing::info!(
        rows_compared = evidence.rows_compared(),
        waived = evidence.is_waived(),
        "renaming"
    );
    let limit = Duration::from_secs(plan.lock_wait_seconds()).saturating_add(RENAME_GRACE);
    let packet = packet(session, plan).await?;
    let sent = session.conn.query_drop(packet);
    let Err(error) = answered(ATTEMPTED, limit, sent).await else {
        return finish(session, opts, plan).await.map(|()| false);
    };
    // Even a server's refusal is looked up: KILL and shutdown cross answers.
    let error = match session.token.end(opts, END_LIMIT, error).await {
        Ok(error) => error,
        Err(stuck) => return Err(ambiguous(Vec::new(), plan, stuck)),
    };
    let seen = match look(opts, plan).await {
        Ok(seen) => seen,
        Err(unseen) => {
            tracing::error!(error = %unseen, "the outcome of the rename can't be looked up");
            return Err(ambiguous(Vec::new(), plan, error));
        }
    };
    match decide(&seen) {
        Outcome::Renamed => carry::complete(opts, plan).await.map(|()| true),
        Outcome::NotRenamed => Err(error),
        Outcome::Ambiguous => Err(ambiguous(seen, plan, error)),
    }
}

/// The rename, and behind it in one packet what foreign keys need at once: the
/// server runs it even when this program is gone.
async fn packet(session: &mut Session, plan: &SwapPlan) -> Result<String, CutoverError> {
    let mut statements = vec![plan.rename_statement()];
    if plan.carries() {
        let after = carry::statements_after_rename(&mut session.conn, plan).await?;
        statements.extend(after);
    }
    Ok(statements.join("; "))
}

/// Completes what hangs on the new tables, still under the lock if it can be.
async fn finish(session: &mut Session, opts: &Opts, plan: &SwapPlan) -> Result<(), CutoverError> {
    if !plan.carries() {
        return Ok(());
    }
    let Err(error) = carry::finish_on(&mut session.conn, plan).await else {
        return Ok(());
    };
    tracing::warn!(%error, "the tables are swapped, and something is left to carry over");
    let incomplete = |source| CutoverError::Incomplete {
        source: Box::new(source),
    };
    match session.token.end(opts, END_LIMIT, error).await {
        Ok(_) => carry::complete(opts, plan).await,
        Err(stuck) => Err(incomplete(stuck)),
    }
}

async fn look(opts: &Opts, plan: &SwapPlan) -> Result<Vec<TablesSeen>, CutoverError> {
    let mut conn = connect(opts).await?;
    tables::seen(&mut conn, plan).await
}

fn ambiguous(seen: Vec<TablesSeen>, plan: &SwapPlan, cause: CutoverError) -> CutoverError {
    let names = plan.pairs.iter().map(|pair| pair.source.clone());
    CutoverError::Ambiguous {
        seen: names.zip(seen).collect(),
        source: Some(Box::new(cause)),
    }
}

const ATTEMPTED: &str = "rename the tables";
/// The rename waits for no row; a server busy with its disks may take a while.
const RENAME_GRACE: Duration = Duration::from_secs(30);

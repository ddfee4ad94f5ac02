//! Taking a lock back from the source, also one of a run that has died.

use std::time::Duration;

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_schema::{Remedy, TableName};
use tokio::time::{Instant, sleep};

use super::{
    Claim, HookName, Leftover, ReadOnly, SwitchError, SwitchPlan, error::RENAMED, names, source,
};
use crate::{
    CutoverError,
    session::{Token, answered, close, connect},
};

/// What is to be undone on a source, and how to get there. Decides by what it
/// sees, so it may be done twice.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    pub(super) source: Opts,
    pub(super) tables: Vec<TableName>,
    pub(super) leftover: Leftover,
    /// The session that locked, if this run knows it.
    pub(super) token: Option<Token>,
}

/// Undoes what a run that died has left on the source: its rename, its read-only
/// setting, the application that its hook had stop writing.
///
/// `leftover` is what that run gave to
/// [`SwitchFinish::remember`](crate::SwitchFinish::remember). Call it before the
/// copy goes on; the source is locked until then. Doing so twice is harmless.
///
/// # Errors
///
/// [`SwitchError::AnnouncedEarlier`] when that run may have sent the application
/// to the target: nothing is undone then. Or why it couldn't be undone.
pub async fn undo_leftover(
    source: &Opts,
    plan: &SwitchPlan,
    leftover: &Leftover,
) -> Result<(), SwitchError> {
    if leftover.announced {
        return Err(SwitchError::AnnouncedEarlier);
    }
    let undo = Undo {
        source: source.clone(),
        tables: plan.tables.clone(),
        leftover: *leftover,
        token: None,
    };
    undo.run().await?;
    match &plan.hooks.unlock_source {
        Some(hook) if leftover.hook => Ok(hook.run(HookName::UnlockSource).await?),
        _ => Ok(()),
    }
}

impl Undo {
    /// Ends the session that locked, and takes its lock back; tries again as long
    /// as the server can't be reached, within a limit.
    pub(super) async fn run(&self) -> Result<(), SwitchError> {
        let began = Instant::now();
        loop {
            let Err(error) = self.once().await else {
                return Ok(());
            };
            let waited = began.elapsed();
            let may_pass = matches!(error.remedy(), Remedy::Retry | Remedy::Unreachable);
            if !may_pass || waited >= LIMIT {
                return Err(SwitchError::NotUndone {
                    waited,
                    by_hand: self.by_hand(),
                    cause: Box::new(error),
                });
            }
            tracing::warn!(%error, "the source is still locked, unlocking it again");
            sleep(AGAIN).await;
        }
    }

    /// As [`Undo::run`], where another run may have gone on in this one's place: the
    /// session is ended in any case, the rest undone once `claim` says whose it is.
    pub(super) async fn run_claimed(
        &self,
        claim: impl Future<Output = Result<Claim, SwitchError>>,
    ) -> Result<(), SwitchError> {
        if !self.outlives_session() {
            return self.run().await;
        }
        match claim.await {
            Ok(_kept) => self.run().await,
            Err(error) => {
                self.end_session().await?;
                Err(error)
            }
        }
    }

    /// Its statement may still run, or wait, and lock afterwards.
    async fn end_session(&self) -> Result<(), SwitchError> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let ended = token.see_end(&self.source, AGAIN).await;
        Ok(ended.map_err(|waited| CutoverError::SessionStuck {
            id: token.id,
            waited,
            cause: Box::new(CutoverError::Unanswered {
                attempted: "end the session that locked the source",
                waited,
            }),
        })?)
    }

    async fn once(&self) -> Result<(), SwitchError> {
        self.end_session().await?;
        if !self.outlives_session() {
            return Ok(());
        }
        let mut conn = connect(&self.source).await?;
        if let Some(before) = self.leftover.read_only {
            restore(&mut conn, before).await?;
        }
        if self.leftover.renamed {
            self.rename_back(&mut conn).await?;
        }
        close(conn).await;
        Ok(())
    }

    async fn rename_back(&self, conn: &mut Conn) -> Result<(), SwitchError> {
        let seen = names::look(conn, &self.tables).await?;
        if seen.iter().all(|one| one.live && !one.old) {
            return Ok(());
        }
        if !seen.iter().all(|one| !one.live && one.old) {
            return Err(SwitchError::Tables { found: seen });
        }
        let renaming = conn.query_drop(names::back(&self.tables));
        Ok(answered("rename the source tables back", RENAME_LIMIT, renaming).await?)
    }

    /// Returns whether there is more to undo than a session to end.
    const fn outlives_session(&self) -> bool {
        self.leftover.renamed || self.leftover.read_only.is_some()
    }

    fn by_hand(&self) -> String {
        let mut statements = Vec::new();
        if let Some(before) = self.leftover.read_only {
            statements.extend(settings(before).map(str::to_owned));
        }
        if self.leftover.renamed {
            statements.push(names::back(&self.tables));
        }
        match (statements.is_empty(), &self.token) {
            (true, Some(token)) => format!("end session {} on it", token.id),
            (true, None) => "look whether it is locked".to_owned(),
            _ => format!("see that it is needed, and run {}", statements.join("; ")),
        }
    }

    /// Names what there may be to undo.
    pub(super) fn what(&self) -> &'static str {
        if self.leftover.renamed {
            RENAMED
        } else if self.leftover.read_only.is_some() {
            "source set read-only"
        } else {
            "source locked"
        }
    }
}

/// Gives the two settings the values that they had.
pub(super) async fn restore(conn: &mut Conn, before: ReadOnly) -> Result<(), SwitchError> {
    for statement in settings(before) {
        let setting = conn.query_drop(statement);
        answered("turn read-only off on the source", LIMIT, setting).await?;
    }
    let now = source::read_only(conn).await?;
    if (now.super_read_only && !before.super_read_only) || (now.read_only && !before.read_only) {
        return Err(SwitchError::LockLost {
            why: "somebody else sets it read-only".to_owned(),
        });
    }
    Ok(())
}

/// Turning `read_only` off turns `super_read_only` off, too. Source: MySQL 9.7
/// manual, "Server System Variables".
fn settings(before: ReadOnly) -> impl Iterator<Item = &'static str> {
    let super_off = (!before.super_read_only).then_some(SUPER_OFF);
    let off = (!before.read_only).then_some("SET GLOBAL read_only = OFF");
    super_off.into_iter().chain(off)
}

pub(super) const SUPER_OFF: &str = "SET GLOBAL super_read_only = OFF";
/// How long a source that can't be reached is tried to be unlocked.
const LIMIT: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_secs(1);
/// A rename waits for readers of the old name at most.
const RENAME_LIMIT: Duration = Duration::from_secs(60);

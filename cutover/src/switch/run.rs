//! One switch under way: does what the course says.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_schema::{CONNECT_DEADLINE, ErrorClass, classify};
use tokio::time::{sleep, timeout};

use super::{
    AfterSwitch, Aftermath, Claim, Course, Leftover, LockedSource, ReadOnly, SourceLock,
    SwitchError, SwitchFinish, SwitchPlan, SwitchStep,
    acquire::acquire,
    checks::check,
    report::Blocked,
    source::{self, HOLDS_EVERY},
    undo::{SUPER_OFF, Undo, restore},
};
use crate::{
    CutoverError, HookName,
    session::{Session, answered, close, connect, limits},
};

/// A switch under way. Dropped, it undoes what it did to the source.
pub(super) struct Run<'a, F: SwitchFinish> {
    pub(super) source: &'a Opts,
    target: &'a Opts,
    pub(super) plan: &'a SwitchPlan,
    pub(super) finish: &'a mut F,
    pub(super) course: Course,
    /// What the source was like before this attempt.
    pub(super) before: ReadOnly,
    leftover: Leftover,
    session: Option<Session>,
    /// How to undo the lock that was asked for.
    pub(super) undo: Option<Undo>,
    locked: Option<LockedSource>,
    pub(super) lock_wait: Duration,
    pub(super) blocked: Blocked,
    /// The failure that the attempt, and perhaps the switch, ends with.
    pub(super) failure: Option<(SwitchStep, SwitchError)>,
    pub(super) aftermath: Aftermath,
    pub(super) afterwards: Vec<SwitchError>,
}

/// A step that failed.
pub(super) struct Failed {
    pub(super) error: SwitchError,
    /// Whether it may have had its effect all the same.
    pub(super) maybe: bool,
}

impl<E: Into<SwitchError>> From<E> for Failed {
    /// Of a step that has had no effect.
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            maybe: false,
        }
    }
}

impl<'a, F: SwitchFinish> Run<'a, F> {
    pub(super) fn new(
        (source, target): (&'a Opts, &'a Opts),
        plan: &'a SwitchPlan,
        finish: &'a mut F,
        course: Course,
    ) -> Self {
        Self {
            source,
            target,
            plan,
            finish,
            course,
            before: ReadOnly::default(),
            leftover: Leftover::default(),
            session: None,
            undo: None,
            locked: None,
            lock_wait: Duration::ZERO,
            blocked: Blocked::default(),
            failure: None,
            aftermath: Aftermath::default(),
            afterwards: Vec::new(),
        }
    }

    /// Does one step. Those that may be broken off end when the operator wants
    /// the job to end.
    pub(super) async fn step(&mut self, step: SwitchStep) -> Result<(), Failed> {
        use SwitchStep as S;
        let interrupted = self.finish.interrupted();
        let breakable = matches!(
            step,
            S::Quiesce | S::Check | S::LockHook | S::Lock | S::Finish
        );
        if !breakable {
            return self.do_step(step).await;
        }
        tokio::select! {
            biased;
            done = self.do_step(step) => done,
            () = interrupted => Err(Failed { error: SwitchError::Interrupted, maybe: true }),
        }
    }

    async fn do_step(&mut self, step: SwitchStep) -> Result<(), Failed> {
        use SwitchStep as S;
        tracing::debug!(?step, "switch");
        match step {
            S::Quiesce => self.quiesce().await,
            S::Check => self.check().await,
            S::Remember => self.remember(Some(self.leftover)).await,
            S::RememberAnnounced => {
                self.leftover.announced = true;
                self.remember(Some(self.leftover)).await
            }
            S::RememberUnannounced => {
                self.leftover.announced = false;
                self.remember(Some(self.leftover)).await
            }
            S::Forget => self.forget().await,
            S::LockHook => {
                self.blocked.begin();
                self.hook(HookName::LockSource).await
            }
            S::Lock => self.lock().await,
            S::Finish => self.finish().await,
            S::Holds | S::Held => self.holds(step).await,
            S::Announce => self.announce().await,
            S::LetGo => self.let_go().await,
            S::Unlock => self.unlock().await,
            S::UnlockHook => {
                let _claim = self.claim().await?;
                self.hook(HookName::UnlockSource).await
            }
            S::Release => {
                self.blocked.end();
                self.finish.release().await;
                Ok(())
            }
            S::Pause(pause) => {
                self.put_off(pause);
                self.finish.pause(pause).await;
                Ok(())
            }
        }
    }

    async fn quiesce(&mut self) -> Result<(), Failed> {
        let attempted = "bring the copy to rest";
        let waited = self.plan.quiesce_wait;
        match timeout(waited, self.finish.quiesce()).await {
            Ok(rest) => Ok(rest.map_err(caller::<F>(attempted))?),
            Err(_) => Err(SwitchError::TookTooLong { attempted, waited }.into()),
        }
    }

    async fn check(&mut self) -> Result<(), Failed> {
        // Where the server locks nothing, the last attempt's is still here; what
        // was written since lies behind it.
        self.locked = None;
        self.before = check(self.source, self.target, self.plan).await?;
        if self.before.read_only && self.plan.lock == SourceLock::ReadOnly {
            tracing::warn!(
                super_read_only = self.before.super_read_only,
                "the source is read-only already, and will be afterwards"
            );
        }
        let by_hook = self.plan.hooks.lock_source.is_some();
        self.leftover = self.plan.lock.leftover(self.before, by_hook);
        Ok(())
    }

    async fn remember(&mut self, leftover: Option<Leftover>) -> Result<(), Failed> {
        let stored = self.finish.remember(leftover.as_ref()).await;
        let attempted = "store what a crash would leave on the source";
        stored.map_err(|error| Failed {
            error: caller::<F>(attempted)(error),
            maybe: true,
        })
    }

    async fn forget(&mut self) -> Result<(), Failed> {
        if !self.course.is_switched() {
            return self.remember(None).await;
        }
        let stored = self.finish.taken_over().await;
        let attempted = "store that the target has taken over";
        stored.map_err(|error| Failed {
            error: caller::<F>(attempted)(error),
            maybe: true,
        })
    }

    async fn hook(&self, name: HookName) -> Result<(), Failed> {
        let hooks = &self.plan.hooks;
        let hook = match name {
            HookName::LockSource => &hooks.lock_source,
            HookName::Switched => &hooks.switched,
            HookName::UnlockSource => &hooks.unlock_source,
            // The job's own, which no switch calls.
            HookName::Progress | HookName::Error => &None,
        };
        let Some(hook) = hook else { return Ok(()) };
        tracing::info!(hook = %name, call = %hook, "calling");
        hook.run(name).await.map_err(|error| Failed {
            // Where it said no, half of it may be done, and unlocking helps; an
            // announcement that was refused was not made.
            maybe: match name {
                HookName::Switched => error.may_be_done,
                _ => error.may_be_done || error.source.was_heard(),
            },
            error: error.into(),
        })
    }

    /// Asks the server for the lock, and reads the position under it.
    async fn lock(&mut self) -> Result<(), Failed> {
        let plan = self.plan;
        let silence = limits(plan.lock_wait_seconds(), HOLDS_EVERY);
        let tables = plan.tables.iter();
        let session = Session::open_for(self.source, &silence, tables).await?;
        let observer = connect(self.source).await?;
        self.undo = Some(Undo {
            source: self.source.clone(),
            tables: plan.tables.clone(),
            leftover: self.leftover,
            token: Some(session.token.clone()),
        });
        let session = self.session.insert(session);
        let request = plan.lock.request(&plan.tables, self.before);
        self.blocked.begin();
        let maybe = |error: SwitchError| Failed { error, maybe: true };
        let acquired = acquire(session, observer, &request, plan).await;
        self.lock_wait = acquired.map_err(|error| maybe(error.into()))?;
        if plan.lock == SourceLock::ReadOnly {
            let none_prepared = source::expect_no_prepared(&mut session.conn).await;
            none_prepared.map_err(maybe)?;
        }
        self.locked = Some(position(plan, &mut session.conn).await.map_err(maybe)?);
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Failed> {
        if self.locked.is_none() {
            let mut conn = connect(self.source).await?;
            self.locked = Some(position(self.plan, &mut conn).await?);
            close(conn).await;
        }
        let Some(locked) = &self.locked else {
            return Ok(());
        };
        let attempted = "apply and compare what is left";
        let waited = self.plan.finish_max;
        let mut working = pin!(timeout(waited, self.finish.finish(locked)));
        let held = Held {
            session: self.session.as_mut(),
            lock: self.plan.lock,
            locked,
            leftover: &self.leftover,
        };
        let evidence = match held.beside(working.as_mut()).await {
            Beside::Done(Ok(evidence)) => evidence.map_err(caller::<F>(attempted))?,
            Beside::Done(Err(_)) => {
                return Err(SwitchError::TookTooLong { attempted, waited }.into());
            }
            Beside::Lost(lost) => return Err(lost.into()),
        };
        // Used up here: one verification, one switch (I9).
        tracing::info!(
            rows_compared = evidence.rows_compared(),
            waived = evidence.is_waived(),
            at_rest = evidence.is_at_rest(),
            "switching"
        );
        Ok(())
    }

    async fn holds(&mut self, step: SwitchStep) -> Result<(), Failed> {
        let (Some(session), Some(locked)) = (self.session.as_mut(), &self.locked) else {
            return Ok(());
        };
        let lock = self.plan.lock;
        let seen = lock.holds(&mut session.conn, locked, &self.leftover).await;
        let Err(error) = seen else { return Ok(()) };
        // A lock of the whole server outlives the session that asked for it.
        let again = step == SwitchStep::Held
            && lock != SourceLock::LockTables
            && is_connection_lost(&error);
        if !again {
            return Err(error.into());
        }
        let mut conn = connect(self.source).await?;
        lock.holds(&mut conn, locked, &self.leftover).await?;
        close(conn).await;
        Ok(())
    }

    /// Calls the hook `switched`, and keeps the lock's session awake meanwhile.
    async fn announce(&mut self) -> Result<(), Failed> {
        let Some(locked) = self.locked.clone() else {
            return self.hook(HookName::Switched).await;
        };
        let mut session = self.session.take();
        let called = {
            let mut calling = pin!(self.hook(HookName::Switched));
            let held = Held {
                session: session.as_mut(),
                lock: self.plan.lock,
                locked: &locked,
                leftover: &self.leftover,
            };
            match held.beside(calling.as_mut()).await {
                Beside::Done(called) => called,
                Beside::Lost(lost) => {
                    tracing::error!(error = %lost, "the source's lock is gone while hook switched runs");
                    calling.await
                }
            }
        };
        self.session = session;
        called
    }

    /// After a switch: the lock ends, or stays, as planned.
    async fn let_go(&mut self) -> Result<(), Failed> {
        if let Some(session) = self.session.take() {
            end_session(session).await;
        }
        let Some(undo) = self.undo.take() else {
            return Ok(());
        };
        let changed = undo.leftover.read_only;
        if let (Some(before), false) = (changed, self.plan.after == AfterSwitch::Keep) {
            let mut conn = connect(self.source).await?;
            if self.plan.after == AfterSwitch::Restore {
                restore(&mut conn, before).await?;
            } else {
                let lowering = conn.query_drop(SUPER_OFF);
                answered("turn super_read_only off", CONNECT_DEADLINE, lowering).await?;
            }
            close(conn).await;
        }
        // What remains is meant to; only the session must be gone.
        let rest = Undo {
            leftover: Leftover::default(),
            ..undo
        };
        Ok(rest.run().await?)
    }

    async fn unlock(&mut self) -> Result<(), Failed> {
        if let Some(session) = self.session.take() {
            end_session(session).await;
        }
        self.locked = None;
        let Some(undo) = &self.undo else {
            return Ok(());
        };
        undo.run_claimed(self.claim()).await?;
        self.undo = None;
        Ok(())
    }

    /// Makes sure, before a failed attempt is undone, that it is this run's to undo.
    async fn claim(&self) -> Result<Claim, SwitchError> {
        if self.course.is_switched() {
            return Ok(Claim::default());
        }
        claimed(self.finish.claim()).await
    }
}

/// Waits for a claim, within a limit.
pub(super) async fn claimed<E: std::error::Error + Send + Sync + 'static>(
    claim: impl Future<Output = Result<Claim, E>>,
) -> Result<Claim, SwitchError> {
    match timeout(CLAIM_MAX, claim).await {
        Ok(claim) => claim.map_err(|error| SwitchError::NotOurs(Box::new(error))),
        Err(late) => Err(SwitchError::NotOurs(Box::new(late))),
    }
}

/// How long it may take to see whether a source is still this run's to open.
const CLAIM_MAX: Duration = Duration::from_secs(30);

/// A lock that is looked after.
struct Held<'a> {
    session: Option<&'a mut Session>,
    lock: SourceLock,
    locked: &'a LockedSource,
    leftover: &'a Leftover,
}

/// How work beside a lock ended.
enum Beside<T> {
    Done(T),
    /// The lock is gone, and the work isn't done.
    Lost(SwitchError),
}

impl Held<'_> {
    /// Does `work`, and looks every second whether the lock holds.
    ///
    /// A look that is under way when the work is done is waited for: an answer
    /// that nobody reads would be taken for that of the session's next statement.
    async fn beside<W: Future>(self, mut work: Pin<&mut W>) -> Beside<W::Output> {
        let Some(session) = self.session else {
            return Beside::Done(work.await);
        };
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Beside::Done(done),
                () = sleep(HOLDS_EVERY) => {}
            }
            let look = self
                .lock
                .holds(&mut session.conn, self.locked, self.leftover);
            let mut look = pin!(look);
            tokio::select! {
                biased;
                done = &mut work => {
                    // Whoever looks next sees what this one would have said.
                    if let Err(error) = look.await {
                        tracing::debug!(%error, "the source's lock");
                    }
                    return Beside::Done(done);
                }
                seen = &mut look => {
                    if let Err(lost) = seen {
                        return Beside::Lost(lost);
                    }
                }
            }
        }
    }
}

async fn position(plan: &SwitchPlan, conn: &mut Conn) -> Result<LockedSource, SwitchError> {
    plan.lock.locked(conn, &plan.tables).await
}

/// Lets the locks go by word, if the session is in a state to hear it; or else
/// it is ended by whoever undoes the lock.
async fn end_session(mut session: Session) {
    match session.let_go().await {
        Ok(()) => close(session.conn).await,
        Err(error) => tracing::debug!(%error, "the locking session is ended from outside"),
    }
}

fn caller<F: SwitchFinish>(attempted: &'static str) -> impl Fn(F::Error) -> SwitchError {
    move |error| SwitchError::Caller {
        attempted,
        remedy: F::remedy(&error),
        source: Box::new(error),
    }
}

fn is_connection_lost(error: &SwitchError) -> bool {
    match error {
        SwitchError::Server(CutoverError::Statement { source, .. }) => {
            classify(source) == ErrorClass::ConnectionLost
        }
        SwitchError::Server(error) => error.is_passing(),
        SwitchError::Settings(_) => true,
        _ => false,
    }
}

//! Work that takes a session on each of two servers.

use std::{future::Future, time::Duration};

use mysql_async::Error as DriverError;
use oxferry_schema::{Backoff, ErrorClass, TableName, classify};
use tokio::time::{Instant, sleep, timeout};

use super::{Connections, Failure, Lease, Named, Session};
use crate::{CopyError, WorkLimits, error::Task};

/// Which of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Target,
}

/// What a server or its connection said, and which one.
#[derive(Debug)]
pub(crate) struct SideError {
    pub(crate) side: Side,
    pub(crate) error: DriverError,
}

impl SideError {
    pub(crate) const fn source(error: DriverError) -> Self {
        let side = Side::Source;
        Self { side, error }
    }

    pub(crate) const fn target(error: DriverError) -> Self {
        let side = Side::Target;
        Self { side, error }
    }
}

/// Work with a session on each server: one transaction on the target, the same
/// when it is repeated, and reads on the source.
pub(crate) trait PairUnit: Sync {
    /// What it yields.
    type Output: Send;

    /// Names the work.
    fn task(&self) -> Task;

    /// Names the table of one side.
    fn table(&self, side: Side) -> &TableName;

    /// Does the work and commits it. `unsure` says that an earlier attempt may
    /// have been committed.
    fn run(
        &self,
        sessions: (&mut Session, &mut Session),
        unsure: bool,
    ) -> impl Future<Output = Result<Self::Output, SideError>> + Send;

    /// Returns how long one attempt may take.
    fn limit(&self, limits: &WorkLimits) -> Duration;
}

/// Sessions on both servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) source: &'a Connections,
    pub(crate) target: &'a Connections,
}

/// How an attempt failed, and where.
#[derive(Debug)]
struct SideFailure {
    side: Side,
    failure: Failure,
}

impl Pair<'_> {
    /// Does a unit of work, repeating it while that may help, as
    /// [`Connections::run`] does; the target's limits count.
    ///
    /// Also says which side an error is of.
    pub(crate) async fn run<U: PairUnit>(&self, unit: &U) -> Result<U::Output, (Side, CopyError)> {
        let mut backoff = None;
        let mut unsure = false;
        let mut attempts = 0;
        // Whoever needs both takes the target's first: nobody waits in a ring.
        let mut target = self.target.lease().await;
        let mut source = self.source.lease().await;
        loop {
            attempts += 1;
            let leases = (&mut source, &mut target);
            let failed = match self.attempt(leases, unit, &mut unsure).await {
                Ok(output) => return Ok(output),
                Err(failed) => failed,
            };
            let now = Instant::now().into_std();
            let retry = self.target.limits.retry;
            let wait = backoff
                .get_or_insert_with(|| Backoff::new(now, retry, fastrand::u64(..)))
                .next(now);
            let SideFailure { side, failure } = failed;
            let (true, Some(wait)) = (failure.may_pass(), wait) else {
                let connections = match side {
                    Side::Source => self.source,
                    Side::Target => self.target,
                };
                let named = OneSide { unit, side };
                return Err((side, connections.error(failure, &named, attempts)));
            };
            tracing::debug!(attempts, task = %unit.task(), ?side, ?failure, "work is repeated");
            sleep(wait).await;
        }
    }

    async fn attempt<U: PairUnit>(
        &self,
        (source_lease, target_lease): (&mut Lease<'_>, &mut Lease<'_>),
        unit: &U,
        unsure: &mut bool,
    ) -> Result<U::Output, SideFailure> {
        ready(source_lease, Side::Source).await?;
        ready(target_lease, Side::Target).await?;
        let (Some(mut source), Some(mut target)) =
            (source_lease.session.take(), target_lease.session.take())
        else {
            unreachable!("both are ready");
        };
        let limit = unit.limit(&self.target.limits);
        match timeout(limit, unit.run((&mut source, &mut target), *unsure)).await {
            Ok(Ok(output)) => {
                source_lease.session = Some(source);
                target_lease.session = Some(target);
                Ok(output)
            }
            Ok(Err(SideError { side, error })) => {
                let is_lost = |of| side == of && classify(&error) == ErrorClass::ConnectionLost;
                if !is_lost(Side::Source) && self.source.roll_back(&mut source).await {
                    source_lease.session = Some(source);
                }
                // Where not even a rollback gets through, nobody knows.
                if !is_lost(Side::Target) && self.target.roll_back(&mut target).await {
                    target_lease.session = Some(target);
                } else {
                    *unsure = true;
                }
                let failure = Failure::Statement(error);
                Err(SideFailure { side, failure })
            }
            Err(_) => {
                // The next sessions of these numbers end those that hang.
                drop((source, target));
                ready(source_lease, Side::Source).await?;
                ready(target_lease, Side::Target).await?;
                (source_lease.session, target_lease.session) = (None, None);
                let failure = Failure::Deadline(limit);
                let side = Side::Target;
                Err(SideFailure { side, failure })
            }
        }
    }
}

/// Opens the lease's session unless it is open.
async fn ready(lease: &mut Lease<'_>, side: Side) -> Result<(), SideFailure> {
    if lease.session.is_none() {
        let started = lease.connections.start(lease.number).await;
        let session = started.map_err(|failure| SideFailure { side, failure })?;
        lease.session = Some(session);
    }
    Ok(())
}

/// One side of a unit, for errors.
struct OneSide<'a, U> {
    unit: &'a U,
    side: Side,
}

impl<U: PairUnit> Named for OneSide<'_, U> {
    fn task(&self) -> Task {
        self.unit.task()
    }

    fn table(&self) -> &TableName {
        self.unit.table(self.side)
    }
}

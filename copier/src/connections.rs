//! The sessions that copying and applying run in.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_schema::{
    Backoff, ConnectError, ErrorClass, Remedy, ServerUrl, TableName, classify, connect,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
};

use crate::{CopyError, error::Task};

mod lock;
mod pair;

pub(crate) use pair::{Pair, PairUnit, Side, SideError};

use lock::{LOCKS_AT_ONCE, each, end_holder, lock_name, owner_name, take_lock};

/// How long the pieces of a job may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain settings with a default")]
pub struct WorkLimits {
    /// The longest that one transaction may take; it is killed then.
    pub statement: Duration,
    /// The longest that building a table's indexes may take.
    pub index: Duration,
    /// How long work is repeated after deadlocks, lock wait timeouts and lost
    /// connections before the job fails.
    pub retry: Duration,
    /// The longest that connecting may take, and that a lost connection's
    /// session is waited for.
    pub connect: Duration,
}

impl Default for WorkLimits {
    /// 10 minutes; a day; 2 minutes, a server's restart; 30 seconds.
    fn default() -> Self {
        Self {
            statement: Duration::from_secs(600),
            index: Duration::from_secs(86_400),
            retry: Duration::from_secs(120),
            connect: Duration::from_secs(30),
        }
    }
}

/// A bounded set of sessions on one server, for work that may be repeated.
///
/// Each session holds a named server lock, so that whoever repeats the work of
/// a session whose connection is gone can first make sure that the server has
/// ended it: a statement that goes on running by itself and commits later
/// would write old rows over new ones. The locks' names depend only on an
/// owner's name and the session's number, and a session that works for several
/// owners holds one for each. So the next run that has one of these owners
/// finds, and ends, what a killed run left behind.
pub struct Connections {
    server: ServerUrl,
    owners: Vec<String>,
    limits: WorkLimits,
    setup: &'static [&'static str],
    permits: Arc<Semaphore>,
    slots: Mutex<Vec<Slot>>,
}

/// A session, or the place for one.
struct Slot {
    number: usize,
    session: Option<Session>,
}

/// An open session and what it was told.
pub(crate) struct Session {
    pub(crate) conn: Conn,
    /// The server's `max_allowed_packet`.
    pub(crate) packet_bytes: usize,
    /// The session's place in its set.
    pub(crate) number: usize,
}

/// Work that errors can name.
pub(crate) trait Named: Sync {
    /// Names the work.
    fn task(&self) -> Task;

    /// Names the table that it is done to.
    fn table(&self) -> &TableName;
}

/// Work for one session: one transaction, the same when it is repeated.
pub(crate) trait Unit: Named {
    /// What it yields.
    type Output: Send;

    /// Does the work and commits it. `unsure` says that an earlier attempt may
    /// have been committed.
    fn run(
        &self,
        session: &mut Session,
        unsure: bool,
    ) -> impl Future<Output = Result<Self::Output, DriverError>> + Send;

    /// Returns how long one attempt may take.
    fn limit(&self, limits: &WorkLimits) -> Duration;
}

/// A slot in use; goes back when dropped, without its session unless that was
/// put back, so that work dropped half-way leaves nothing half-done behind.
struct Lease<'a> {
    connections: &'a Connections,
    number: usize,
    session: Option<Session>,
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    /// The most sessions that a set may have.
    pub const SIZE_MAX: usize = 64;

    /// Makes a set of at most `size` sessions for the work of `owner`, a name
    /// that no other running job has, such as the target table's.
    ///
    /// Sessions that an earlier run of the same owner left on the server are
    /// ended first.
    ///
    /// # Errors
    ///
    /// [`CopyError`] when the server can't be reached, or a session of an
    /// earlier run can't be ended.
    pub async fn open(
        server: ServerUrl,
        owner: &TableName,
        size: usize,
        limits: WorkLimits,
    ) -> Result<Arc<Self>, CopyError> {
        Self::open_for(server, std::slice::from_ref(owner), size, limits).await
    }

    /// As [`Connections::open`], for the work of several owners together: at
    /// most `size` sessions in all.
    ///
    /// # Errors
    ///
    /// As [`Connections::open`].
    pub async fn open_for(
        server: ServerUrl,
        owners: &[TableName],
        size: usize,
        limits: WorkLimits,
    ) -> Result<Arc<Self>, CopyError> {
        Self::open_with(server, owners, size, (limits, &[])).await
    }

    /// As [`Connections::open_for`], where each session begins with some
    /// statements of the caller's, such as `SET SESSION foreign_key_checks = 0`.
    ///
    /// # Errors
    ///
    /// As [`Connections::open`].
    pub async fn open_with(
        server: ServerUrl,
        owners: &[TableName],
        size: usize,
        (limits, setup): (WorkLimits, &'static [&'static str]),
    ) -> Result<Arc<Self>, CopyError> {
        let size = size.clamp(1, Self::SIZE_MAX);
        let slots = (0..size).map(|number| Slot {
            number,
            session: None,
        });
        let set = Self {
            server,
            owners: owners.iter().map(owner_name).collect(),
            limits,
            setup,
            permits: Arc::new(Semaphore::new(size)),
            slots: Mutex::new(slots.collect()),
        };
        if let Some(first) = owners.first() {
            set.end_earlier_sessions(first).await?;
        }
        Ok(Arc::new(set))
    }

    /// Returns the limits that the set was made with.
    #[must_use]
    pub const fn limits(&self) -> WorkLimits {
        self.limits
    }

    /// Does a unit of work, repeating it while that may help.
    ///
    /// Dropping the future leaves the server to end the statement by itself;
    /// the next use of its place waits for that.
    pub(crate) async fn run<U: Unit>(&self, unit: &U) -> Result<U::Output, CopyError> {
        let mut backoff = None;
        let mut unsure = false;
        let mut attempts = 0;
        let mut lease = self.lease().await;
        loop {
            attempts += 1;
            let failure = match self.attempt(&mut lease, unit, &mut unsure).await {
                Ok(output) => return Ok(output),
                Err(failure) => failure,
            };
            // The budget begins with the first failure: the work itself may
            // take longer than that.
            let now = Instant::now().into_std();
            let wait = backoff
                .get_or_insert_with(|| Backoff::new(now, self.limits.retry, fastrand::u64(..)))
                .next(now);
            let (true, Some(wait)) = (failure.may_pass(), wait) else {
                return Err(self.error(failure, unit, attempts));
            };
            tracing::debug!(attempts, task = %unit.task(), ?failure, "work is repeated");
            sleep(wait).await;
        }
    }

    async fn attempt<U: Unit>(
        &self,
        lease: &mut Lease<'_>,
        unit: &U,
        unsure: &mut bool,
    ) -> Result<U::Output, Failure> {
        let mut session = match lease.session.take() {
            Some(session) => session,
            None => self.start(lease.number).await?,
        };
        match timeout(unit.limit(&self.limits), unit.run(&mut session, *unsure)).await {
            Ok(Ok(output)) => {
                lease.session = Some(session);
                Ok(output)
            }
            Ok(Err(error)) => {
                // Where not even a rollback gets through, nobody knows.
                if classify(&error) != ErrorClass::ConnectionLost
                    && self.roll_back(&mut session).await
                {
                    lease.session = Some(session);
                } else {
                    *unsure = true;
                }
                Err(Failure::Statement(error))
            }
            Err(_) => {
                // The next session of this number ends the one that hangs.
                drop(session);
                self.start(lease.number).await.map(drop)?;
                Err(Failure::Deadline(unit.limit(&self.limits)))
            }
        }
    }

    async fn roll_back(&self, session: &mut Session) -> bool {
        let done = session.conn.query_drop("ROLLBACK");
        matches!(timeout(self.limits.connect, done).await, Ok(Ok(())))
    }

    async fn lease(&self) -> Lease<'_> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.pop().expect("there are as many slots as permits");
        Lease {
            connections: self,
            number: slot.number,
            session: slot.session,
            _permit: permit,
        }
    }

    /// Opens the session number `number`, after the end of the last one.
    async fn start(&self, number: usize) -> Result<Session, Failure> {
        timeout(self.limits.connect, self.connect(number))
            .await
            .unwrap_or(Err(Failure::Lingers))
    }

    async fn connect(&self, number: usize) -> Result<Session, Failure> {
        let mut conn = connect(&self.server, PURPOSE)
            .await
            .map_err(|error| Failure::Connect(Box::new(error)))?;
        let names = self.owners.iter().map(|owner| lock_name(owner, number));
        let names: Vec<String> = names.collect();
        for names in names.chunks(LOCKS_AT_ONCE) {
            let taken: Vec<Option<i64>> = each(&mut conn, "GET_LOCK(?, 0)", names).await?;
            let held = names
                .iter()
                .zip(taken)
                .filter(|(_, taken)| *taken != Some(1));
            for (name, _) in held {
                while !take_lock(&mut conn, name).await? {
                    end_holder(&mut conn, name).await?;
                }
            }
        }
        for statement in self.setup {
            conn.query_drop(*statement).await?;
        }
        let packet: Option<usize> = conn.query_first("SELECT @@max_allowed_packet").await?;
        Ok(Session {
            conn,
            packet_bytes: packet.unwrap_or(PACKET_BYTES_SAFE),
            number,
        })
    }

    /// Waits, for each place that any run may have used, for its session's end.
    async fn end_earlier_sessions(&self, first: &TableName) -> Result<(), CopyError> {
        let all = async {
            let mut conn = connect(&self.server, PURPOSE)
                .await
                .map_err(|error| Failure::Connect(Box::new(error)))?;
            let numbers = |owner| (0..Self::SIZE_MAX).map(move |number| lock_name(owner, number));
            let names: Vec<String> = self.owners.iter().flat_map(|o| numbers(o)).collect();
            for names in names.chunks(LOCKS_AT_ONCE) {
                let holders: Vec<Option<u64>> = each(&mut conn, "IS_USED_LOCK(?)", names).await?;
                let held = names
                    .iter()
                    .zip(holders)
                    .filter(|(_, holder)| holder.is_some());
                for (name, _) in held {
                    while end_holder(&mut conn, name).await? {
                        sleep(END_POLL).await;
                    }
                }
            }
            conn.disconnect().await.map_err(Failure::Statement)
        };
        // As many tables as a server has take more than one connection's time.
        let limit = self.limits.connect.saturating_mul(2);
        timeout(limit, all)
            .await
            .unwrap_or(Err(Failure::Lingers))
            .map_err(|failure| self.error(failure, &Opening(first), 1))
    }

    /// Says which work failed.
    fn error(&self, failure: Failure, unit: &impl Named, attempts: u32) -> CopyError {
        let task = Box::new(unit.task());
        let table = unit.table().clone();
        match failure {
            Failure::Statement(source) => CopyError::Server {
                task,
                table,
                attempts,
                source,
            },
            Failure::Connect(source) => CopyError::Connect {
                task,
                table,
                attempts,
                source,
            },
            Failure::Deadline(limit) => CopyError::Deadline { task, table, limit },
            Failure::Lingers => CopyError::SessionLingers {
                task,
                table,
                waited: self.limits.connect,
            },
        }
    }
}

impl fmt::Debug for Connections {
    /// Says nothing of the options: they hold the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("owners", &self.owners)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let slots = &self.connections.slots;
        let mut slots = slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.push(Slot {
            number: self.number,
            session: self.session.take(),
        });
    }
}

/// How an attempt failed.
#[derive(Debug)]
enum Failure {
    /// A statement did.
    Statement(DriverError),
    /// No session could be opened.
    Connect(Box<ConnectError>),
    /// The work took too long, and was ended.
    Deadline(Duration),
    /// A session of before would not end.
    Lingers,
}

impl Failure {
    /// Returns whether the same work may succeed the next time.
    fn may_pass(&self) -> bool {
        match self {
            Self::Statement(error) => match classify(error) {
                ErrorClass::RetryTransaction | ErrorClass::ConnectionLost => true,
                ErrorClass::DataRefused
                | ErrorClass::Privileges
                | ErrorClass::Timeout
                | ErrorClass::Fatal => false,
            },
            Self::Connect(error) => error.remedy() == Remedy::Unreachable,
            Self::Deadline(_) | Self::Lingers => false,
        }
    }
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        Self::Statement(error)
    }
}

/// The opening of a set, for errors.
struct Opening<'a>(&'a TableName);

impl Named for Opening<'_> {
    fn task(&self) -> Task {
        Task::Connect
    }

    fn table(&self) -> &TableName {
        self.0
    }
}

/// What the server shows as the reason for a session.
const PURPOSE: &str = "copy";

/// Short beside what a session takes to roll back.
const END_POLL: Duration = Duration::from_millis(20);

/// Accepted by every server: the smallest default of any supported one.
const PACKET_BYTES_SAFE: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_leave_room_for_a_servers_restart() {
        let limits = WorkLimits::default();
        assert!(limits.retry >= Duration::from_secs(60));
        assert!(limits.statement > limits.retry);
    }
}

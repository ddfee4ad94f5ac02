//! What to switch, how its source is locked, and how long anything may take.

use std::{num::NonZeroU32, time::Duration};

use oxferry_schema::TableName;

use super::course::Shape;
use crate::{Direction, Hook, Hooks, KillBlockers, SwitchError};

/// How the source's tables are shut to writers.
///
/// Whatever is chosen, [`Hooks::lock_source`] is called before and
/// [`Hooks::unlock_source`] after, where they are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an option of the command line each"
)]
pub enum SourceLock {
    /// Not at all: nobody writes, as the operator knows. A write that comes in
    /// all the same is not noticed.
    None,
    /// The whole server: `super_read_only`, which shuts out administrators too.
    /// It stays on afterwards, see [`AfterSwitch`].
    ///
    /// Prepared XA transactions could still be committed (observed on 9.7.4): a
    /// server that has some is refused.
    ReadOnly,
    /// `LOCK TABLES … READ` on a session that stays open: others may read. The
    /// lock ends with the session, so with this program too.
    LockTables,
    /// The tables get the names of old tables (`_t_oxold`) in one `RENAME TABLE`,
    /// and keep them.
    Rename,
    /// By the hooks alone; both must be given.
    Hook,
}

/// What becomes of a read-only source after the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the three states of a server")]
pub enum AfterSwitch {
    /// `super_read_only` stays on: a straggler's write would be lost.
    #[default]
    Keep,
    /// `read_only` alone stays on: whoever has CONNECTION_ADMIN may write, such
    /// as a reverse job.
    AdminsWrite,
    /// Both get the values that they had before.
    Restore,
}

/// A switch of one or several tables, all at once or none.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SwitchPlan {
    /// The live tables on the source; never empty.
    pub(crate) tables: Vec<TableName>,
    /// How writers are shut out.
    pub lock: SourceLock,
    /// What else is called.
    pub hooks: Hooks,
    /// What becomes of a read-only source afterwards.
    pub after: AfterSwitch,
    /// Attempts before the switch is given up.
    pub attempts_max: NonZeroU32,
    /// How long one attempt waits for a lock of the server's, in whole seconds,
    /// rounded up, at least one; statements that write wait behind it.
    pub lock_wait: Duration,
    /// How long [`SwitchFinish::quiesce`](crate::SwitchFinish::quiesce) may take.
    pub quiesce_wait: Duration,
    /// How long [`SwitchFinish::finish`](crate::SwitchFinish::finish) may take,
    /// with the source locked.
    pub finish_max: Duration,
    /// Transactions on the source that are older, and hold one of its tables,
    /// are waited for before the lock is asked for.
    pub transaction_age_max: Duration,
    /// Whether and whom to end when a lock is not granted.
    pub kill: Option<KillBlockers>,
    /// Whether the target may be read-only until
    /// [`SwitchFinish::finish`](crate::SwitchFinish::finish) opens it.
    pub target_is_shut: bool,
}

impl SwitchPlan {
    /// Switches one table, with the default limits: ten attempts, 3 s for a
    /// lock, ten minutes to come to rest, two minutes with the source locked,
    /// 10 s of lag, transactions of 10 s.
    #[must_use]
    pub fn new(first: TableName, lock: SourceLock) -> Self {
        Self {
            tables: vec![first],
            lock,
            hooks: Hooks::default(),
            after: AfterSwitch::default(),
            attempts_max: ATTEMPTS_DEFAULT,
            lock_wait: Duration::from_secs(3),
            quiesce_wait: Duration::from_secs(600),
            finish_max: Duration::from_secs(120),
            transaction_age_max: Duration::from_secs(10),
            kill: None,
            target_is_shut: false,
        }
    }

    /// Adds a table that is switched at the same moment.
    #[must_use]
    pub fn with_table(mut self, table: TableName) -> Self {
        self.tables.push(table);
        self
    }

    /// Has these commands and addresses called.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// Sets what becomes of a read-only source afterwards.
    #[must_use]
    pub const fn with_after(mut self, after: AfterSwitch) -> Self {
        self.after = after;
        self
    }

    /// Sets how often the switch is tried.
    #[must_use]
    pub const fn with_attempts_max(mut self, attempts_max: NonZeroU32) -> Self {
        self.attempts_max = attempts_max;
        self
    }

    /// Sets how long one attempt waits for a lock.
    #[must_use]
    pub const fn with_lock_wait(mut self, lock_wait: Duration) -> Self {
        self.lock_wait = lock_wait;
        self
    }

    /// Sets how long the source may be locked for what is left.
    #[must_use]
    pub const fn with_finish_max(mut self, finish_max: Duration) -> Self {
        self.finish_max = finish_max;
        self
    }

    /// Sets how long the copy may take to come to rest.
    #[must_use]
    pub const fn with_quiesce_wait(mut self, quiesce_wait: Duration) -> Self {
        self.quiesce_wait = quiesce_wait;
        self
    }

    /// Ends sessions that keep the lock from being granted.
    #[must_use]
    pub const fn with_kill(mut self, kill: KillBlockers) -> Self {
        self.kill = Some(kill);
        self
    }

    /// Makes it the way back of a move: the target may be shut until
    /// [`SwitchFinish::finish`](crate::SwitchFinish::finish) opens it, and the
    /// hooks are told.
    #[must_use]
    pub fn taking_back(mut self) -> Self {
        self.target_is_shut = true;
        let turn = |hook: Option<Hook>| hook.map(|hook| hook.with_direction(Direction::Reverse));
        let Hooks {
            lock_source,
            switched,
            unlock_source,
        } = self.hooks;
        self.hooks = Hooks {
            lock_source: turn(lock_source),
            switched: turn(switched),
            unlock_source: turn(unlock_source),
        };
        self
    }

    /// Sees that the plan doesn't contradict itself; [`switch`](crate::switch)
    /// does so too.
    ///
    /// # Errors
    ///
    /// [`SwitchError::Plan`] with what is wrong.
    pub const fn check(&self) -> Result<(), SwitchError> {
        let Hooks {
            lock_source,
            unlock_source,
            ..
        } = &self.hooks;
        let why = match (self.lock, lock_source, unlock_source) {
            (SourceLock::Hook, None, _) => "to lock the source by a hook, give hook lock-source",
            (_, Some(_), None) => {
                "a source that hook lock-source has locked would stay so after a failure: give hook unlock-source too"
            }
            _ => return Ok(()),
        };
        Err(SwitchError::Plan { why })
    }

    /// Returns what a switch by this plan goes through.
    pub(crate) const fn shape(&self) -> Shape {
        Shape {
            lock_hook: self.hooks.lock_source.is_some(),
            lock: !matches!(self.lock, SourceLock::None | SourceLock::Hook),
            announce: self.hooks.switched.is_some(),
            unlock_hook: self.hooks.unlock_source.is_some(),
        }
    }

    /// Returns the tables to switch.
    #[must_use]
    pub fn tables(&self) -> &[TableName] {
        &self.tables
    }

    /// Returns the lock wait in the server's unit: whole seconds, at least one.
    pub(crate) fn lock_wait_seconds(&self) -> u64 {
        whole_seconds(self.lock_wait)
    }
}

/// Rounds up to whole seconds, at least one, as the server counts lock waits.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    let up = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(up).max(1)
}

const ATTEMPTS_DEFAULT: NonZeroU32 = NonZeroU32::new(10).expect("10 is not zero");

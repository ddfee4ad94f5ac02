//! What to swap, and how long anything may take.

use std::{num::NonZeroU32, time::Duration};

use oxferry_schema::{Attached, TableName};

/// One table and what takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a swap has these three names")]
pub struct SwapPair {
    /// The live table.
    pub source: TableName,
    /// The table that takes its name.
    pub shadow: TableName,
    /// The name that the live table gets; no table may have it before.
    pub old: TableName,
}

/// Whom to end when the lock is not granted. Off unless asked for.
///
/// Picks by the locks they hold: a session with a global read lock, such as
/// some backups take for a moment, is one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "two limits are the policy")]
pub struct KillBlockers {
    /// How long the lock is waited for first. Not below the lock wait: nobody
    /// is ever ended.
    pub after: Duration,
    /// Sessions whose transaction changed more rows are left alone: rolling
    /// them back may take longer than waiting for them.
    pub rows_modified_max: u64,
}

/// A swap of one or several tables, all at once or none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SwapPlan {
    /// The tables; never empty.
    pub(crate) pairs: Vec<SwapPair>,
    /// What hangs on each of them, in the same order.
    pub(crate) attached: Vec<Attached>,
    /// How long one attempt waits for the lock; see [`SwapPlan::with_lock_wait`].
    pub lock_wait: Duration,
    /// How long the lock may be held before the rename.
    pub lock_hold: Duration,
    /// How long [`Finish::quiesce`](crate::Finish::quiesce) may take.
    pub quiesce_wait: Duration,
    /// Attempts before the swap is given up.
    pub attempts_max: NonZeroU32,
    /// Whether and whom to end when the lock is not granted.
    pub kill: Option<KillBlockers>,
}

impl SwapPlan {
    /// Swaps one pair, with the default limits: 3 s for the lock, 10 s under
    /// it, 60 s for the workers to come to rest, ten attempts, nobody killed.
    #[must_use]
    pub fn new(first: SwapPair) -> Self {
        Self {
            pairs: vec![first],
            attached: vec![Attached::default()],
            lock_wait: Duration::from_secs(3),
            lock_hold: Duration::from_secs(10),
            quiesce_wait: Duration::from_secs(60),
            attempts_max: ATTEMPTS_DEFAULT,
            kill: None,
        }
    }

    /// Adds a pair that is swapped in the same statement.
    #[must_use]
    pub fn with_pair(mut self, pair: SwapPair) -> Self {
        self.pairs.push(pair);
        self.attached.push(Attached::default());
        self
    }

    /// Carries over what hangs on the last pair's live table, and has the keys
    /// of its children refer to the new one. The children that are tables of
    /// the plan themselves must be left out.
    ///
    /// Without this the table must have no trigger and no foreign key, and no
    /// other may refer to it.
    #[must_use]
    pub fn with_attached(mut self, attached: Attached) -> Self {
        if let Some(last) = self.attached.last_mut() {
            *last = attached;
        }
        self
    }

    /// Sets how long one attempt waits for the lock.
    ///
    /// Every new statement on the tables waits behind it for as long. The
    /// server counts whole seconds, at least one: fractions are rounded up.
    #[must_use]
    pub const fn with_lock_wait(mut self, lock_wait: Duration) -> Self {
        self.lock_wait = lock_wait;
        self
    }

    /// Sets how long the lock may be held before the rename is sent; then it
    /// is let go, and tried again later.
    #[must_use]
    pub const fn with_lock_hold(mut self, lock_hold: Duration) -> Self {
        self.lock_hold = lock_hold;
        self
    }

    /// Sets how long the workers may take to come to rest.
    #[must_use]
    pub const fn with_quiesce_wait(mut self, quiesce_wait: Duration) -> Self {
        self.quiesce_wait = quiesce_wait;
        self
    }

    /// Sets how often the swap is tried.
    #[must_use]
    pub const fn with_attempts_max(mut self, attempts_max: NonZeroU32) -> Self {
        self.attempts_max = attempts_max;
        self
    }

    /// Ends sessions that keep the lock from being granted.
    #[must_use]
    pub const fn with_kill(mut self, kill: KillBlockers) -> Self {
        self.kill = Some(kill);
        self
    }

    /// Returns the tables to swap.
    #[must_use]
    pub fn pairs(&self) -> &[SwapPair] {
        &self.pairs
    }

    /// Returns the lock wait in the server's unit: whole seconds, at least one.
    #[must_use]
    pub fn lock_wait_seconds(&self) -> u64 {
        let up = u64::from(self.lock_wait.subsec_nanos() > 0);
        self.lock_wait.as_secs().saturating_add(up).max(1)
    }

    /// Returns the statement that shuts every other session out.
    pub(crate) fn lock_statement(&self) -> String {
        let pairs = self.pairs.iter().map(|pair| (&pair.source, &pair.shadow));
        let own = pairs.map(|(source, shadow)| format!("{source} WRITE, {shadow} WRITE"));
        let others = self.other_tables().into_iter();
        let locks: Vec<_> = own
            .chain(others.map(|other| format!("{other} WRITE")))
            .collect();
        format!("LOCK TABLES {}", locks.join(", "))
    }

    /// Returns the one statement that swaps every pair.
    pub(crate) fn rename_statement(&self) -> String {
        let renames: Vec<_> = self.pairs.iter().map(rename_of).collect();
        format!("RENAME TABLE {}", renames.join(", "))
    }

    /// Returns a statement that works only without a table lock.
    ///
    /// Under `LOCK TABLES` a table can be read only by an alias that was
    /// locked too, or error 1100 says so. Source: MySQL 9.7 manual, "LOCK
    /// TABLES and UNLOCK TABLES Statements"; seen on 9.7.4.
    pub(crate) fn lock_probe(&self) -> Option<String> {
        let source = &self.pairs.first()?.source;
        Some(format!("SELECT 1 FROM {source} AS oxferry_probe LIMIT 0"))
    }
}

fn rename_of(pair: &SwapPair) -> String {
    let SwapPair {
        source,
        shadow,
        old,
    } = pair;
    format!("{source} TO {old}, {shadow} TO {source}")
}

const ATTEMPTS_DEFAULT: NonZeroU32 = NonZeroU32::new(10).expect("10 is not zero");

#[cfg(test)]
pub(crate) mod tests {
    use oxferry_schema::Ident;

    use super::*;

    pub(crate) fn pair(table: &str) -> SwapPair {
        let name =
            |table: String| TableName::new(Ident::new("app").unwrap(), Ident::new(table).unwrap());
        SwapPair {
            source: name(table.into()),
            shadow: name(format!("_{table}_oxnew")),
            old: name(format!("_{table}_oxold")),
        }
    }

    #[test]
    fn every_pair_is_locked_and_renamed_in_one_statement() {
        let plan = SwapPlan::new(pair("a")).with_pair(pair("b"));
        assert_eq!(
            plan.lock_statement(),
            "LOCK TABLES `app`.`a` WRITE, `app`.`_a_oxnew` WRITE, \
             `app`.`b` WRITE, `app`.`_b_oxnew` WRITE"
        );
        assert_eq!(
            plan.rename_statement(),
            "RENAME TABLE `app`.`a` TO `app`.`_a_oxold`, `app`.`_a_oxnew` TO `app`.`a`, \
             `app`.`b` TO `app`.`_b_oxold`, `app`.`_b_oxnew` TO `app`.`b`"
        );
    }

    #[test]
    fn the_lock_wait_is_whole_seconds_and_never_zero() {
        let seconds = |millis| {
            SwapPlan::new(pair("a"))
                .with_lock_wait(Duration::from_millis(millis))
                .lock_wait_seconds()
        };
        assert_eq!([0, 1, 1000, 1001].map(seconds), [1, 1, 1, 2]);
    }

    #[test]
    fn the_lock_probe_reads_by_an_alias_that_is_not_locked() {
        assert_eq!(
            SwapPlan::new(pair("a")).lock_probe().unwrap(),
            "SELECT 1 FROM `app`.`a` AS oxferry_probe LIMIT 0"
        );
    }
}

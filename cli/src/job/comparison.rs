//! The verifier, put to work on a job's tables and their targets.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mysql_async::{Conn, OptsBuilder, Pool, PoolConstraints, PoolOpts};
use oxferry_copier::{Access, RowFilter};
use oxferry_schema::{Ident, KeyRange, Remedy, Table, TableName};
use oxferry_verifier::{
    Clean, CompareError, ExpressionError, FingerprintError, Fingerprints, FixedRanges,
    RowExpressions, SideFilter, SideTable, TableSide, Verified, Verify, VerifyConfig, spots_agree,
};

use super::{
    Job, JobTable, Kind, Prepared, PreparedTable, Script, Site,
    feed::JobFeed,
    ranges::{Copied, Following, JobRanges},
    rows::{Rows, no_rows, side_filters},
};
use crate::{
    args::VerifyMode,
    comparing::{Comparing, check_compressed, existing, is_among, same},
    failure::{Failure, remedied},
};

remedied!(CompareError, ExpressionError);

/// Rows at the table's begin, and rows spread over it, that are compared once
/// more under the lock: a few milliseconds' worth.
const SPOTS: NonZeroUsize = NonZeroUsize::new(100).expect("100 is not zero");

/// How long one of the verifier's statements may take.
const STATEMENT_MAX: Duration = Duration::from_secs(600);

type JobVerify = Verify<TableSide, TableSide, Arc<JobFeed>>;

/// A job's comparison; `None` inside where the operator wants none.
#[derive(Debug)]
pub(crate) struct Comparison {
    mode: VerifyMode,
    verify: Option<JobVerify>,
    feed: Arc<JobFeed>,
    config: VerifyConfig,
    ranges: tokio::sync::Mutex<JobRanges>,
    /// What is compared while nobody can write, where that is everything.
    all: tokio::sync::Mutex<Option<FixedRanges>>,
    clean: tokio::sync::Mutex<Option<Clean>>,
    copied: Vec<Copied>,
    /// The source's tables, for whoever reads of rows that differ.
    names: Vec<TableName>,
    /// Rows that were compared while nobody could write.
    rows_at_rest: AtomicU64,
    /// Whether the copy can be followed: it begins now, and takes whole tables.
    /// Rows of a tenant may change without a change of their own.
    can_follow: bool,
}

impl Comparison {
    /// Prepares to compare; nothing is read yet.
    pub(crate) fn new(
        job: &Job,
        prepared: &Prepared,
        feed: JobFeed,
        copied: Vec<Copied>,
    ) -> Result<Self, Failure> {
        let touched = feed.touched();
        let threads = job.settings.copy.threads;
        let mode = job.settings.copy.verify;
        let sides = match mode {
            VerifyMode::Off => None,
            VerifyMode::Iterative | VerifyMode::Inline | VerifyMode::Checksum => {
                Some(all_sides(job, prepared, Clone::clone)?)
            }
        };
        let feed = Arc::new(feed);
        let config = VerifyConfig {
            threads,
            ..VerifyConfig::default()
        };
        let verify = sides.map(|sides| Verify::new(sides, Arc::clone(&feed), touched, config));
        let ranges = JobRanges::new(job, prepared, &copied);
        let mut tables = job.tables.iter();
        let whole = tables.all(|table| matches!(table.rows, Rows::All));
        Ok(Self {
            mode,
            verify,
            feed,
            config,
            ranges: tokio::sync::Mutex::new(ranges),
            all: tokio::sync::Mutex::new(None),
            clean: tokio::sync::Mutex::new(None),
            names: job.sources(),
            copied,
            rows_at_rest: AtomicU64::new(0),
            can_follow: !prepared.resumed && whole,
        })
    }

    /// Returns how many rows the pass under way has compared.
    pub(crate) fn rows_compared(&self) -> u64 {
        self.verify
            .as_ref()
            .map_or(0, |verify| verify.progress().rows_compared())
    }

    /// Compares a few rows from all over a table under the lock: a shadow that
    /// somebody emptied or replaced since it was compared doesn't take over.
    async fn spot_check(
        &self,
        copied: &Copied,
        source: &impl Fingerprints,
        target: &impl Fingerprints,
    ) -> Result<(), Failure> {
        let keys = copied.sample(SPOTS.get());
        let agree = spots_agree(source, target, SPOTS, &keys).await;
        if agree.map_err(|error| Failure::new(error.remedy(), error))? {
            return Ok(());
        }
        Err(Failure::new(
            Remedy::State,
            anyhow::anyhow!(
                "the new table doesn't hold what was compared: somebody else wrote to it; start anew \
                 with --fresh"
            ),
        ))
    }

    /// Returns how many rows were compared, over all passes.
    pub(crate) async fn rows_compared_in_all(&self) -> u64 {
        let clean = self.clean.lock().await;
        let before = clean.as_ref().map_or(0, Clean::rows_compared);
        before + self.rows_at_rest.load(Ordering::Relaxed)
    }

    /// Returns how many differences were found, and how many rows repaired.
    pub(crate) fn found(&self) -> (u64, u64) {
        self.verify.as_ref().map_or((0, 0), |verify| {
            let progress = verify.progress();
            (progress.mismatches(), progress.repaired())
        })
    }

    /// Compares each range as soon as it is copied, where that is wanted, and
    /// what changes meanwhile: ends when the last one is compared.
    ///
    /// What differs is left as it is: while rows are copied, nothing is mended.
    /// [`Comparison::run`] compares everything once more then.
    pub(crate) async fn follow_copy(&self) -> Result<(), Failure> {
        let Some(verify) = self.verify.as_ref() else {
            return Ok(());
        };
        if self.mode != VerifyMode::Inline || !self.can_follow {
            return Ok(());
        }
        let mut following = Following::new(self.copied.clone());
        match verify.run_once(&mut following).await {
            Ok(clean) => *self.clean.lock().await = Some(clean),
            Err(
                error @ (CompareError::Differs { .. }
                | CompareError::NeverSettles { .. }
                | CompareError::Uncovered { .. }),
            ) => tracing::warn!(
                "comparing while copying is not enough, everything is compared afterwards: {}",
                self.told(error).line()
            ),
            Err(error) => return Err(self.told(error)),
        }
        Ok(())
    }

    /// Compares everything, until a full pass finds no difference; or what is
    /// left of it, where rows were compared as they were copied.
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let Some(verify) = &self.verify else {
            tracing::warn!("nothing is verified: --verify off");
            return Ok(());
        };
        if self.mode == VerifyMode::Checksum {
            tracing::info!("rows are compared while nobody can write to them: --verify checksum");
            return Ok(());
        }
        if self.mode == VerifyMode::Inline && self.clean.lock().await.is_some() {
            return self.catch_up().await;
        }
        let clean = verify.run(&mut *self.ranges.lock().await).await;
        let clean = clean.map_err(|error| self.told(error))?;
        *self.clean.lock().await = Some(clean);
        Ok(())
    }

    /// Compares again what has changed since, until little is left; finds out
    /// what there will be to compare, where that is everything.
    pub(crate) async fn catch_up(&self) -> Result<(), Failure> {
        if self.mode == VerifyMode::Checksum {
            let mut all = self.all.lock().await;
            if all.is_none() {
                let cut = self.ranges.lock().await.all().await;
                *all = Some(cut.map_err(CompareError::from)?);
            }
            return Ok(());
        }
        if let (Some(verify), Some(clean)) = (&self.verify, self.clean.lock().await.as_mut()) {
            let trimmed = verify.trim(clean, &mut *self.ranges.lock().await).await;
            trimmed.map_err(|error| self.told(error))?;
        }
        Ok(())
    }

    /// Tells of an error by the names of the tables.
    fn told(&self, error: CompareError) -> Failure {
        error.naming(&self.names).into()
    }

    /// Compares the rest on the connection that holds the lock.
    pub(crate) async fn finish(&self, conn: &mut Conn) -> Result<Verified, Failure> {
        let Some(verify) = &self.verify else {
            return Ok(Verified::waived());
        };
        let conn = tokio::sync::Mutex::new(conn);
        let sides = || {
            let sides = verify.sides().iter();
            let locked = sides.map(|(source, target)| (source.locked(&conn), target.locked(&conn)));
            locked.collect::<Vec<_>>()
        };
        if self.mode == VerifyMode::Checksum {
            return self.compare_all(sides()).await;
        }
        self.finish_with(verify, &sides()).await
    }

    /// Compares the rest while nobody can write to the source, whose tables
    /// `name_of` finds by the names that they have now.
    pub(crate) async fn finish_at_rest<K: Kind>(
        &self,
        script: &Script<'_, K>,
        name_of: impl Fn(&TableName) -> TableName,
    ) -> Result<Verified, Failure> {
        let Some(verify) = &self.verify else {
            return Ok(Verified::waived());
        };
        let sides = all_sides(script.job, script.prepared, name_of)?;
        if self.mode == VerifyMode::Checksum {
            return self.compare_all(sides).await;
        }
        self.finish_with(verify, &sides).await
    }

    /// Compares the rows that the target gets last, once it has them.
    ///
    /// # Errors
    ///
    /// A failure that names the table.
    pub(crate) async fn check_last_rows<K: Kind>(
        &self,
        script: &Script<'_, K>,
        name_of: impl Fn(&TableName) -> TableName,
    ) -> Result<(), Failure> {
        if self.verify.is_none() {
            return Ok(());
        }
        let pools = (pool(&script.job.source, 1), pool(&script.job.target, 1));
        let comparing = &script.job.settings.comparing;
        for (table, prepared) in script.prepared.of(script.job) {
            if !table.rows.are_last() {
                continue;
            }
            let only = side_filters(table.filter(&name_of).as_ref());
            let pools = (&pools.0, &pools.1);
            let (source, target) = sides_of((table, &name_of), prepared, comparing, (pools, only))?;
            let unread = |error: FingerprintError| Failure::new(error.remedy(), error);
            let source = source.summary(&KeyRange::ALL).await.map_err(unread)?;
            let target = target.summary(&KeyRange::ALL).await.map_err(unread)?;
            if source != target {
                let why = anyhow::anyhow!(
                    "the tenant's own rows of {} are not the same on the target",
                    table.source.name.plain()
                );
                return Err(Failure::new(Remedy::Data, why));
            }
        }
        Ok(())
    }

    /// Compares everything while nobody can write; repairs nothing.
    async fn compare_all<S: Fingerprints, T: Fingerprints>(
        &self,
        sides: Vec<(S, T)>,
    ) -> Result<Verified, Failure> {
        let mut all = self.all.lock().await;
        let ranges = all.as_mut().ok_or_else(|| {
            let error = anyhow::anyhow!("what there is to compare under the lock isn't known");
            Failure::new(Remedy::Bug, error)
        })?;
        let (feed, touched) = (Arc::clone(&self.feed), self.feed.touched());
        let verify = Verify::new(sides, feed, touched, self.config);
        let evidence = verify.run_at_rest(ranges).await;
        let evidence = evidence.map_err(|error| self.told(error))?;
        self.rows_at_rest
            .store(evidence.rows_compared(), Ordering::Relaxed);
        Ok(evidence)
    }

    async fn finish_with<S: Fingerprints, T: Fingerprints>(
        &self,
        verify: &JobVerify,
        sides: &[(S, T)],
    ) -> Result<Verified, Failure> {
        let clean = self.clean.lock().await;
        let clean = clean.as_ref().ok_or_else(|| {
            Failure::new(
                Remedy::Bug,
                anyhow::anyhow!("the cutover came before a full comparison"),
            )
        })?;
        let evidence =
            verify
                .finish(clean, sides)
                .await
                .map_err(|error| match error.naming(&self.names) {
                    // The next attempt compares anew, and copies again what differs.
                    error @ (CompareError::Diverged { .. } | CompareError::Outdated) => {
                        Failure::new(Remedy::Retry, error)
                    }
                    error => error.into(),
                })?;
        for ((source, target), copied) in sides.iter().zip(&self.copied) {
            self.spot_check(copied, source, target).await?;
        }
        Ok(evidence)
    }
}

/// The two sides of every table, in the job's order; they share their sessions.
fn all_sides(
    job: &Job,
    prepared: &Prepared,
    name_of: impl Fn(&TableName) -> TableName,
) -> Result<Vec<(TableSide, TableSide)>, Failure> {
    let sessions = job.settings.copy.threads.get() * 2;
    let source = pool(&job.source, sessions);
    let target = if job.source.url == job.target.url {
        source.clone()
    } else {
        pool(&job.target, sessions)
    };
    let tables = prepared.of(job);
    let comparing = &job.settings.comparing;
    tables
        .map(|(table, prepared)| sides((table, &name_of), prepared, comparing, (&source, &target)))
        .collect()
}

fn pool(site: &Site, sessions: usize) -> Pool {
    let constraints = PoolConstraints::new(1, sessions).unwrap_or_default();
    let pool_opts = PoolOpts::default().with_constraints(constraints);
    Pool::new(OptsBuilder::from_opts(site.opts("verify")).pool_opts(pool_opts))
}

fn sides(
    (table, name_of): (&JobTable, &dyn Fn(&TableName) -> TableName),
    prepared: &PreparedTable,
    comparing: &Comparing,
    pools: (&Pool, &Pool),
) -> Result<(TableSide, TableSide), Failure> {
    let only = if table.rows.are_last() {
        (no_rows(), no_rows())
    } else {
        side_filters(table.filter(name_of).as_ref())
    };
    sides_of((table, name_of), prepared, comparing, (pools, only))
}

/// Both sides' pools of sessions, and which rows of each side are compared.
type Pools<'a> = ((&'a Pool, &'a Pool), (SideFilter, SideFilter));

fn sides_of(
    (table, name_of): (&JobTable, &dyn Fn(&TableName) -> TableName),
    prepared: &PreparedTable,
    comparing: &Comparing,
    ((source_pool, target_pool), (source_only, target_only)): Pools<'_>,
) -> Result<(TableSide, TableSide), Failure> {
    let (compressed, forced) = (
        comparing.compressed(&table.source.name),
        comparing.forced(&table.source.name),
    );
    let mut pairs = prepared.pairs.clone();
    let ignored = comparing.ignored(&table.source.name);
    pairs.retain(|pair| !is_among(ignored, &pair.source.name));
    check_compressed(&pairs, compressed)?;
    let left_out: Vec<Ident> = compressed.iter().map(|(name, _)| name.clone()).collect();
    let row = RowExpressions::new(&pairs, &table.key.columns, &left_out)?;
    let filter = table.filter(name_of);
    let source = SideTable {
        name: name_of(&table.source.name),
        key: prepared.plan.source_side().clone(),
        index: match (forced, filter.as_ref().map(RowFilter::access)) {
            (Some(index), _) => Some(existing(&table.source, index, "source")?),
            (None, None) => Some(table.key.index.clone()),
            (None, Some(Access::Index(index))) => Some(index.clone()),
            (None, Some(Access::Any)) => None,
        },
    };
    let key = prepared.plan.target_side().clone();
    let index = match (forced, &filter) {
        (Some(index), _) => Some(index_named(prepared, index)?),
        (None, None) => index_over(&prepared.target, key.columns()),
        // The index of a tenant's rows may be still to come on the target.
        (None, Some(_)) => None,
    };
    let target = SideTable {
        name: table.target.clone(),
        key,
        index,
    };
    let side = |pool: &Pool, table, row| {
        let side = TableSide::new(pool.clone(), table, row, STATEMENT_MAX);
        side.with_compressed(compressed.to_vec())
    };
    Ok((
        side(source_pool, source, row.source()).with_filter(source_only),
        side(target_pool, target, row.target()).with_filter(target_only),
    ))
}

/// The target's index of this name, which may be still to be built: that
/// happens before anything is compared.
fn index_named(prepared: &PreparedTable, index: &Ident) -> Result<Ident, Failure> {
    let mut later = prepared.deferred.names();
    match later.find(|name| same(name, index)) {
        Some(name) => Ok(name.clone()),
        None => existing(&prepared.target, index, "target"),
    }
}

/// The unique index over exactly these columns, which finds the target's rows.
fn index_over(table: &Table, key: &[Ident]) -> Option<Ident> {
    let covers = |index: &&oxferry_schema::Index| {
        let columns = index.parts.iter().map(|part| part.column.as_ref());
        index.unique && columns.eq(key.iter().map(Some))
    };
    table
        .indexes
        .iter()
        .find(covers)
        .map(|index| index.name.clone())
}

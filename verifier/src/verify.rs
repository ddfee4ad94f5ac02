//! Drives passes against real sides.

mod reading;
mod under_lock;

use std::{
    future::Future,
    num::{NonZeroU32, NonZeroUsize},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use oxferry_schema::{Key, KeyRange};

use self::reading::{backward, keys_of};
use crate::{
    Backward, Clean, CompareError, Comparison, Feed, Fingerprints, Mismatches, Outcome, Pass,
    PassLimits, Progress, Ranges, Repair, Step, Touched, Verified, What,
    fingerprint::{KeyedFingerprint, Summary},
    touched::WindowId,
};

/// How a verification is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain settings")]
pub struct VerifyConfig {
    /// Comparisons at once; each reads both sides at once.
    pub threads: NonZeroUsize,
    /// Full passes, the first one included, before differences are final.
    pub passes_max: NonZeroU32,
    /// The sizes of a pass.
    pub limits: PassLimits,
    /// The longest that one wait may take: for the changes to be applied, for
    /// one statement, for the stream, for one repair.
    pub step_within: Duration,
}

/// Compares a job's sources with their targets while both are written to.
///
/// One future drives it all; nothing is spawned. A call of `run` or `trim` may
/// be dropped at any await: nothing is lost but its work, the next call takes
/// up what it had in its hands.
#[derive(Debug)]
pub struct Verify<S, T, F> {
    sides: Vec<(S, T)>,
    feed: F,
    touched: Arc<Mutex<Touched>>,
    config: VerifyConfig,
    progress: Arc<Progress>,
    /// Whether nobody can write, and everything is applied: then every key is at
    /// rest, and nothing of the job is waited for.
    at_rest: bool,
}

impl Default for VerifyConfig {
    /// Four threads, three passes, ten minutes a step.
    fn default() -> Self {
        Self {
            threads: NonZeroUsize::new(4).expect("4 is not zero"),
            passes_max: NonZeroU32::new(3).expect("3 is not zero"),
            limits: PassLimits::default(),
            step_within: Duration::from_secs(600),
        }
    }
}

enum Wake<P> {
    Compared(WindowId, Answer),
    Repaired(Repair),
    Found(P, Option<(usize, KeyRange)>),
    MayCompare,
}

enum Answer {
    Summaries(Summary, Summary),
    Rows(Vec<KeyedFingerprint>, Vec<KeyedFingerprint>),
    Backward(Backward),
}

#[derive(Clone, Copy, PartialEq)]
enum Gate {
    Closed,
    Asked,
    Open,
}

impl<S: Fingerprints, T: Fingerprints, F: Feed> Verify<S, T, F> {
    /// Compares `sides`, source and target of table 0, 1 and so on; `touched`
    /// is the one that the job's stream feeds, made for as many tables.
    #[must_use]
    pub fn new(
        sides: Vec<(S, T)>,
        feed: F,
        touched: Arc<Mutex<Touched>>,
        config: VerifyConfig,
    ) -> Self {
        Self {
            sides,
            feed,
            touched,
            config,
            progress: Arc::new(Progress::default()),
            at_rest: false,
        }
    }

    /// Returns the sides, source and target of each table: for
    /// [`Verify::finish`], through the connection that holds the lock.
    #[must_use]
    pub fn sides(&self) -> &[(S, T)] {
        &self.sides
    }

    /// Returns the counters for a status line.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Runs full passes, with repairs between, until one finds no difference.
    ///
    /// # Errors
    ///
    /// [`CompareError::Different`] when the last pass still found some;
    /// otherwise when something failed or never came to an end.
    pub async fn run<R: Ranges>(&self, ranges: &mut R) -> Result<Clean, CompareError> {
        let (mut rows, mut repaired) = (0, 0);
        let mut found = Mismatches::default();
        for earlier in 0..self.config.passes_max.get() {
            ranges.restart();
            self.progress.start_pass();
            let pass = Pass::full(self.config.limits, &mut self.touched());
            let pass = self.drive(pass, ranges).await?;
            if let Some(mut clean) = self.evidence(&pass) {
                clean.add(rows, repaired, earlier);
                return Ok(clean);
            }
            rows += pass.rows_compared();
            repaired += pass.repaired_count();
            found = pass.found().clone();
        }
        Err(CompareError::Different {
            passes: self.config.passes_max.get(),
            found,
        })
    }

    /// Runs one full pass that repairs nothing: for ranges that are still being
    /// copied, as they come, or where nothing may be written.
    ///
    /// # Errors
    ///
    /// [`CompareError::Differs`] when it found differences; otherwise when
    /// something failed or never came to an end.
    pub async fn run_once<R: Ranges>(&self, ranges: &mut R) -> Result<Clean, CompareError> {
        ranges.restart();
        self.progress.start_pass();
        let pass = Pass::full(self.config.limits, &mut self.touched()).without_repairs();
        let pass = self.drive(pass, ranges).await?;
        self.evidence(&pass).ok_or_else(|| CompareError::Differs {
            found: pass.found().clone(),
        })
    }

    /// Compares everything in one pass, and makes the evidence.
    ///
    /// To be called when nobody can write to source or target and every change
    /// is dispatched and applied. Asks nothing of [`Feed`], whose stream may rest.
    ///
    /// # Errors
    ///
    /// As [`Verify::run_once`] and [`Verify::finish`].
    pub async fn run_at_rest<R: Ranges>(
        mut self,
        ranges: &mut R,
    ) -> Result<Verified, CompareError> {
        self.at_rest = true;
        let clean = self.run_once(ranges).await?.at_rest();
        self.finish(&clean, &self.sides).await
    }

    /// Compares what has changed since, until little is left to compare under
    /// the lock; where that shows a difference, repairs it and runs anew.
    ///
    /// # Errors
    ///
    /// As [`Verify::run`]; `clean` stays as it was.
    pub async fn trim<R: Ranges>(
        &self,
        clean: &mut Clean,
        ranges: &mut R,
    ) -> Result<(), CompareError> {
        let pass = Pass::changed(self.config.limits, &mut self.touched());
        let pass = self.drive(pass, ranges).await?;
        let (rows, repaired) = (pass.rows_compared(), pass.repaired_count());
        if self.evidence(&pass).is_some() {
            clean.add(rows, repaired, 0);
            return Ok(());
        }
        let mut renewed = self.run(ranges).await?;
        let (rows, repaired) = (
            rows + clean.rows_compared(),
            repaired + clean.repaired_count(),
        );
        renewed.add(rows, repaired, clean.passes());
        *clean = renewed;
        Ok(())
    }

    /// Compares the rest through `sides`, and makes the evidence.
    ///
    /// To be called when nobody can write to source or target and every change
    /// is dispatched and applied.
    ///
    /// # Errors
    ///
    /// [`CompareError::Diverged`] when rows differ: nothing may be swapped
    /// then. [`CompareError::TooMuchLeft`] when `trim` must be called first.
    pub async fn finish<A: Fingerprints, B: Fingerprints>(
        &self,
        clean: &Clean,
        sides: &[(A, B)],
    ) -> Result<Verified, CompareError> {
        // Under the lock a few more are cheaper than to let go and start again.
        let most = self
            .config
            .limits
            .remaining_max
            .saturating_mul(LOCKED_FACTOR);
        let rest = clean.remaining(&self.touched(), most)?;
        let mut tables = Vec::with_capacity(rest.len());
        for (table, keys) in rest.iter().enumerate() {
            let side = sides
                .get(table)
                .ok_or(CompareError::UnknownTable { table })?;
            let source = self.within("reading the source's rows", side.0.by_keys(keys));
            let source = source.await??;
            let target = self.within("reading the target's rows", side.1.by_keys(keys));
            tables.push((source, target.await??));
        }
        clean.judge(&mut self.touched(), &tables)
    }

    async fn drive<R: Ranges>(&self, pass: Pass, ranges: &mut R) -> Result<Pass, CompareError> {
        let mut pass = pass;
        let mut ranges = Some(ranges);
        let mut gate = Gate::Closed;
        let mut tasks: FuturesUnordered<BoxFuture<'_, Result<Wake<&mut R>, CompareError>>> =
            FuturesUnordered::new();
        loop {
            if gate == Gate::Closed {
                gate = Gate::Asked;
                tasks.push(Box::pin(self.pause()));
            }
            let is_free = gate == Gate::Open && tasks.len() < self.config.threads.get();
            let step = if is_free {
                self.poll(&mut pass)
            } else {
                Step::Wait
            };
            match (step, ranges.take()) {
                (Step::Compare(order), rest) => {
                    gate = Gate::Closed;
                    ranges = rest;
                    tasks.push(Box::pin(self.compare(order)));
                }
                (Step::Repair(repair), rest) => {
                    ranges = rest;
                    tasks.push(Box::pin(self.repair(repair)));
                }
                (Step::FindRange, Some(rest)) => tasks.push(Box::pin(self.find(rest))),
                (Step::FindRange | Step::Wait, rest) => {
                    ranges = rest;
                    let wake = tasks.next().await;
                    match wake.expect("a pass waits for steps that are under way")? {
                        Wake::MayCompare => gate = Gate::Open,
                        Wake::Found(rest, range) => {
                            ranges = Some(rest);
                            self.take_range(&mut pass, range);
                        }
                        Wake::Repaired(repair) => self.take_repair(&mut pass, &repair),
                        Wake::Compared(window, answer) => {
                            self.take_answer(&mut pass, window, &answer);
                        }
                    }
                }
                (Step::Done(outcome), _) => {
                    self.report(&pass);
                    return match outcome {
                        Outcome::Clean | Outcome::Repaired => Ok(pass),
                        Outcome::NotMended(found) => Err(self.not_mended(found).await),
                        Outcome::Foreign { table, key } => Err(self.foreign(table, key)),
                        Outcome::Uncovered { table } => Err(CompareError::Uncovered { table }),
                        Outcome::NeverSettles { remaining, rounds } => {
                            Err(CompareError::NeverSettles { remaining, rounds })
                        }
                    };
                }
            }
        }
    }

    /// One comparison, in the order that [`Pass`] asks for.
    async fn compare<P>(&self, order: Comparison) -> Result<Wake<P>, CompareError> {
        let table = order.table;
        let (source, target) = self
            .sides
            .get(table)
            .ok_or(CompareError::UnknownTable { table })?;
        if !self.at_rest {
            self.within("waiting for changes to be applied", self.feed.settle())
                .await??;
        }
        let answer = self.within("reading fingerprints", async {
            Ok::<_, CompareError>(match &order.what {
                What::Summary(range) => {
                    let both = futures::try_join!(source.summary(range), target.summary(range))?;
                    Answer::Summaries(both.0, both.1)
                }
                What::Page { range, limit } => {
                    let (s, t) = (source.page(range, *limit), target.page(range, *limit));
                    let both = futures::try_join!(s, t)?;
                    Answer::Rows(both.0, both.1)
                }
                What::Forward { range, limit } => {
                    let page = source.page(range, *limit).await?;
                    let rows = target.by_keys(&keys_of(&page)).await?;
                    Answer::Rows(page, rows)
                }
                What::Backward { range, limit } => {
                    Answer::Backward(backward(source, target, range, *limit).await?)
                }
                What::Keys(keys) => {
                    let both = futures::try_join!(source.by_keys(keys), target.by_keys(keys))?;
                    Answer::Rows(both.0, both.1)
                }
            })
        });
        let answer = answer.await??;
        if self.at_rest {
            return Ok(Wake::Compared(order.window, answer));
        }
        let position = self.within("reading the binlog position", self.feed.source_position());
        let position = position.await??;
        self.within("waiting for the stream", self.feed.reach(&position))
            .await??;
        Ok(Wake::Compared(order.window, answer))
    }

    /// Finds out which column of a row stays different.
    async fn not_mended(&self, found: Mismatches) -> CompareError {
        let first = found.listed().first().cloned();
        let Some((mismatch, sides)) =
            first.and_then(|first| Some((first.clone(), self.sides.get(first.table)?)))
        else {
            return CompareError::Outdated;
        };
        let table = sides.0.name();
        let key = &mismatch.key;
        let both = async { futures::try_join!(sides.0.columns(key), sides.1.columns(key)) };
        let (source, target) = match self.within("reading the columns", both).await {
            Ok(Ok(both)) => both,
            Ok(Err(error)) => return error.into(),
            Err(error) => return error,
        };
        let mut pairs = source.into_iter().zip(target);
        match pairs.find(|(s, t)| s.value != t.value && s.column_type != t.column_type) {
            Some((source, target)) => CompareError::Lossy {
                table,
                key: mismatch.key,
                column: source.column,
                from: source.column_type,
                to: target.column_type,
                more: found.count() - 1,
            },
            None => CompareError::NotMended { table, mismatch },
        }
    }

    fn foreign(&self, table: usize, key: Key) -> CompareError {
        match self.sides.get(table) {
            Some((_, target)) => CompareError::Foreign {
                table: target.name(),
                key,
            },
            None => CompareError::UnknownTable { table },
        }
    }

    async fn repair<P>(&self, repair: Repair) -> Result<Wake<P>, CompareError> {
        self.within("repairing a range", self.feed.repair(&repair))
            .await??;
        Ok(Wake::Repaired(repair))
    }

    async fn find<'r, R: Ranges>(
        &self,
        ranges: &'r mut R,
    ) -> Result<Wake<&'r mut R>, CompareError> {
        let range = if ranges.may_take_long() {
            ranges.next().await?
        } else {
            self.within("finding the next range", ranges.next())
                .await??
        };
        Ok(Wake::Found(ranges, range))
    }

    async fn pause<P>(&self) -> Result<Wake<P>, CompareError> {
        if !self.at_rest {
            self.feed.pause_point().await;
        }
        Ok(Wake::MayCompare)
    }

    async fn within<O>(
        &self,
        what: &'static str,
        work: impl Future<Output = O>,
    ) -> Result<O, CompareError> {
        let limit = self.config.step_within;
        let done = tokio::time::timeout(limit, work).await;
        done.map_err(|_| CompareError::Deadline { what, limit })
    }

    fn take_range(&self, pass: &mut Pass, range: Option<(usize, KeyRange)>) {
        match range {
            Some((table, range)) => pass.handle_range(&mut self.touched(), table, range),
            None => pass.handle_ranges_end(),
        }
    }

    fn take_answer(&self, pass: &mut Pass, window: WindowId, answer: &Answer) {
        let mut touched = self.touched();
        let before = pass.found().count();
        match answer {
            Answer::Summaries(source, target) => {
                pass.handle_summaries(window, &mut touched, *source, *target);
            }
            Answer::Rows(source, target) => {
                pass.handle_fingerprints(window, &mut touched, source, target);
            }
            Answer::Backward(read) => pass.handle_backward(window, &mut touched, read),
        }
        self.progress.add_mismatches(pass.found().count() - before);
        let keys_left = touched.remaining();
        self.progress
            .add_comparison(pass.rows_compared(), keys_left);
    }

    fn report(&self, pass: &Pass) {
        for mismatch in pass.found().listed().iter().take(LOGGED_MAX) {
            let side = self.sides.get(mismatch.table);
            let table = side.map_or_else(String::new, |(source, _)| source.name());
            if pass.mends() {
                tracing::warn!(%table, %mismatch, "a row differed, and is copied again");
            } else {
                tracing::warn!(%table, %mismatch, "a row differs");
            }
        }
        let (rows, mismatches) = (pass.rows_compared(), pass.found().count());
        if rows == 0 && mismatches == 0 {
            // Only rows that had changed were compared again: a matter of course.
            tracing::debug!("changed rows compared again");
        } else {
            tracing::info!(rows, mismatches, "verification pass ended");
        }
    }

    fn take_repair(&self, pass: &mut Pass, repair: &Repair) {
        pass.handle_repaired(repair);
        self.progress.add_repaired(repair.row_count);
    }

    fn poll(&self, pass: &mut Pass) -> Step {
        pass.poll(&mut self.touched())
    }

    fn evidence(&self, pass: &Pass) -> Option<Clean> {
        pass.clean(&self.touched())
    }

    fn touched(&self) -> MutexGuard<'_, Touched> {
        let touched = self.touched.lock();
        touched.expect("a change that was lost in a panic would make evidence worthless")
    }
}

/// Differing rows of a pass that are logged one by one.
const LOGGED_MAX: usize = 10;

/// How many times the keys that end a pass may be left when the lock is held:
/// the lock is waited for, and rows change meanwhile.
const LOCKED_FACTOR: usize = 10;

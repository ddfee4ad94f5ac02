//! `cargo xtask simulate`: the copy engine between simulated servers.

use std::{
    panic,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use clap::Args;
use oxferry_testkit::sim::{self, Faults, Stats};

use crate::report::{complain, say, seconds};

/// Failing seeds beyond these are counted, not printed.
const PRINTED_MAX: usize = 20;

/// Which seeds are run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many seeds
    #[arg(long, value_name = "N", default_value = "2000")]
    seeds: u64,
    /// The first one
    #[arg(long, value_name = "SEED", default_value = "0")]
    start: u64,
    /// Seeds at once; as many as there are processors if left out
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// What one thread, or all of them, have seen.
#[derive(Debug, Default)]
struct Seen {
    stats: Stats,
    failures: Vec<(u64, String)>,
}

/// Runs the seeds and prints those that fail, with the command that replays
/// each.
pub(crate) fn run(options: Options) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let threads = match options.threads {
        Some(threads) => threads.max(1),
        None => thread::available_parallelism()?.get(),
    };
    let end = options.start.saturating_add(options.seeds);
    let next = AtomicU64::new(options.start);
    let seen = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| take_seeds(&next, end)))
            .collect();
        workers
            .into_iter()
            .try_fold(Seen::default(), |mut all, worker| {
                let one = worker
                    .join()
                    .map_err(|_| anyhow::anyhow!("a simulation thread ended early"))?;
                all.stats.add(&one.stats);
                all.failures.extend(one.failures);
                anyhow::Ok(all)
            })
    })?;
    Ok(report(seen, options.seeds, begun))
}

/// Runs one seed after the other until all are taken.
fn take_seeds(next: &AtomicU64, end: u64) -> Seen {
    let mut seen = Seen::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return seen;
        }
        match panic::catch_unwind(|| sim::run(seed, Faults::NONE)) {
            Ok(Ok(stats)) => seen.stats.add(&stats),
            Ok(Err(failure)) => seen.failures.push((seed, failure.to_string())),
            Err(_) => seen
                .failures
                .push((seed, "the engine stopped itself".into())),
        }
    }
}

fn report(mut seen: Seen, seeds: u64, begun: Instant) -> ExitCode {
    seen.failures.sort_unstable();
    for (seed, failure) in seen.failures.iter().take(PRINTED_MAX) {
        complain(&format!(
            "seed {seed}: {failure}; replay: cargo xtask simulate --start {seed} --seeds 1"
        ));
    }
    say(&seen.stats.to_string());
    let failed = seen.failures.len();
    say(&format!(
        "{seeds} seeds, {failed} failed, {}",
        seconds(begun.elapsed())
    ));
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_taken_once() {
        let next = AtomicU64::new(5);
        let seen = take_seeds(&next, 8);
        assert!(seen.failures.is_empty(), "{:?}", seen.failures);
        assert!(seen.stats.steps > 0);
        assert!(next.load(Ordering::Relaxed) >= 8);
    }
}

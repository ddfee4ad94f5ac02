//! `cargo xtask fuzz-migrate`: random tables, changes and writes.

use std::{
    fmt,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use futures::{StreamExt, future, stream};
use oxferry_testkit::{
    fuzz,
    server::{Server, ServerOptions},
    trial::{Change, Outcome, Report, TrialError},
};

use crate::{
    cargo,
    report::{complain, say, seconds},
};

/// How long one seed may take.
const LIMIT: Duration = Duration::from_secs(300);
/// Failing seeds beyond these are counted, not printed.
const PRINTED_MAX: u64 = 10;
/// Of the seeds that the server migrates, so many of a hundred the program
/// must migrate as well: refusing everything is no way to pass.
const MIGRATED_MIN: u64 = 80;

/// Which seeds are run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many seeds
    #[arg(long, value_name = "N", default_value = "200")]
    seeds: u64,
    /// The first one
    #[arg(long, value_name = "SEED", default_value = "1")]
    first: u64,
    /// Begin no further seed after so many minutes
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Seeds at once
    #[arg(long, value_name = "N", default_value = "3")]
    threads: usize,
    /// Print each seed's statements
    #[arg(long)]
    show: bool,
}

/// What the seeds came to.
#[derive(Debug, Default)]
struct Counts {
    migrated: u64,
    refused_by_both: u64,
    refused_alone: u64,
    rows: usize,
    writes: u64,
    failed: u64,
}

/// Runs the seeds; a failing one is printed with its statements.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let program = cargo::build_oxferry(false)?;
    let server = ServerOptions::new().max_binlog_size(64 << 10);
    let server = Arc::new(Server::start(server).await?);
    let begun = Instant::now();
    let limit = options
        .minutes
        .map(|minutes| Duration::from_secs(60 * minutes));
    let late = || limit.is_some_and(|limit| begun.elapsed() > limit);
    let end = options.first.saturating_add(options.seeds);
    let mut counts = Counts::default();
    let runs = stream::iter(options.first..end)
        .take_while(|_| future::ready(!late()))
        .map(|seed| attempt(seed, options.show, (&server, &program)))
        .buffer_unordered(options.threads.max(1));
    let mut runs = std::pin::pin!(runs);
    while let Some((seed, result)) = runs.next().await {
        counts.note(seed, result);
        if counts.seeds().is_multiple_of(20) {
            say(&counts.to_string());
        }
    }
    Ok(report(&counts, begun.elapsed()))
}

async fn attempt(
    seed: u64,
    show: bool,
    (server, program): (&Arc<Server>, &PathBuf),
) -> (u64, Result<Report, TrialError>) {
    let trial = fuzz::draw(seed);
    if show {
        say(&fuzz::describe(&trial));
    }
    let run = trial.run(Arc::clone(server), program.clone());
    let late = |_| Err(TrialError::Setup(format!("it didn't end within {LIMIT:?}")));
    let result = tokio::time::timeout(LIMIT, run).await;
    (seed, result.unwrap_or_else(late))
}

impl Counts {
    const fn seeds(&self) -> u64 {
        self.migrated + self.refused_by_both + self.refused_alone + self.failed
    }

    fn note(&mut self, seed: u64, result: Result<Report, TrialError>) {
        let failure = match result {
            Ok(report) => match report.outcome {
                Outcome::Migrated => {
                    self.migrated += 1;
                    self.rows += report.rows;
                    self.writes += report.written.iter().sum::<u64>();
                    return;
                }
                Outcome::Refused => {
                    self.refused_by_both += 1;
                    return;
                }
                Outcome::RefusedAlone(line) if fuzz::may_refuse(&line) => {
                    self.refused_alone += 1;
                    return;
                }
                Outcome::RefusedAlone(line) => format!("the program alone refuses: {line}"),
            },
            Err(error) => error.to_string(),
        };
        self.failed += 1;
        if self.failed > PRINTED_MAX {
            return;
        }
        let change = match fuzz::draw(seed).change {
            Change::Clauses(clauses) => clauses,
            Change::Statements(statements) => statements.join("; "),
        };
        complain(&format!(
            "seed {seed}: ALTER TABLE t {change}\n{failure}\n\
             replay: cargo xtask fuzz-migrate --first {seed} --seeds 1 --show\n"
        ));
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} seeds: {} migrated ({} rows compared, {} writes), {} refused as by the server, \
             {} refused alone, {} failed",
            self.seeds(),
            self.migrated,
            self.rows,
            self.writes,
            self.refused_by_both,
            self.refused_alone,
            self.failed
        )
    }
}

fn report(counts: &Counts, took: Duration) -> ExitCode {
    say(&format!("{counts}, {}", seconds(took)));
    let could = counts.migrated + counts.refused_alone;
    let enough = counts.migrated * 100 >= could * MIGRATED_MIN;
    if !enough {
        complain(&format!(
            "of {could} seeds that the server migrates the program refused {}",
            counts.refused_alone
        ));
    }
    if counts.failed == 0 && enough && counts.migrated > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusing_too_much_is_a_failure() {
        let counts = |migrated, refused_alone| Counts {
            migrated,
            refused_alone,
            ..Counts::default()
        };
        let code = |counts| format!("{:?}", report(&counts, Duration::ZERO));
        let failure = format!("{:?}", ExitCode::FAILURE);
        assert_ne!(code(counts(80, 20)), failure);
        assert_eq!(code(counts(79, 21)), failure);
        assert_eq!(code(counts(0, 0)), failure);
    }
}

//! `cargo xtask integration`: every test there is, and the closing counts.

use std::{
    io::{BufRead, BufReader},
    process::{ExitCode, Stdio},
};

use anyhow::Context;
use oxferry_testkit::{provision, tool};

use crate::{cargo, report::say};

/// What the test programs reported, summed up.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Runs all tests and prints `N passed, N failed` as the last line.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let installation = provision::installation()?;
    say(&format!("MySQL {} is there", installation.mysqld.version()));
    let program = cargo::build_oxferry(false)?;
    let mut tests = cargo::command(&["test", "--workspace", "--no-fail-fast"]);
    tests.env(tool::PROGRAM_VARIABLE, &program);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        tests.env("RUST_TEST_THREADS", threads().to_string());
    }
    let mut tests = tests
        .stdout(Stdio::piped())
        .spawn()
        .context("running cargo test failed")?;
    let mut counts = Counts::default();
    let output = tests.stdout.take().context("cargo test has no output")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("reading the output of cargo test failed")?;
        let line = String::from_utf8_lossy(&line);
        say(&line);
        counts.add(&line);
    }
    let status = tests.wait().context("waiting for cargo test failed")?;
    counts.add_one(xtask_passes(&["simulate"])?);
    counts.add_one(xtask_passes(&FUZZ)?);
    let fine = status.success() && counts.failed == 0 && counts.passed > 0 && counts.ignored == 0;
    if counts.ignored > 0 {
        say(&format!(
            "{} tests were skipped, which counts as a failure",
            counts.ignored
        ));
    } else if !status.success() && counts.failed == 0 {
        say(&format!("cargo test ended with {status}"));
    }
    say(&format!(
        "{} passed, {} failed",
        counts.passed, counts.failed
    ));
    Ok(if fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Random tables, changes and writes: three to five minutes on two cores.
const FUZZ: [&str; 3] = ["fuzz-migrate", "--seeds", "200"];

/// Runs another of these commands, which prints its failures itself. Counts
/// as one test.
fn xtask_passes(words: &[&str]) -> anyhow::Result<bool> {
    let words = [&["run", "--quiet", "--package", "xtask", "--"], words].concat();
    let status = cargo::command(&words)
        .status()
        .with_context(|| format!("running cargo {} failed", words.join(" ")))?;
    Ok(status.success())
}

/// A server per test: more at once than the machine has cores makes all of them slow.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8))
}

impl Counts {
    fn add_one(&mut self, passed: bool) {
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    /// Adds a line such as
    /// `test result: ok. 29 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; …`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let (_, result) = result.split_once(". ").unwrap_or_default();
        for part in result.split(';') {
            let mut words = part.split_whitespace();
            let count = words
                .next()
                .and_then(|word| word.parse::<u64>().ok())
                .unwrap_or_default();
            match words.next() {
                Some("passed") => self.passed += count,
                Some("failed") => self.failed += count,
                Some("ignored") => self.ignored += count,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_all_programs_are_summed() {
        let mut counts = Counts::default();
        counts.add("test result: ok. 29 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        counts.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 5 filtered");
        counts.add("test a::b ... ok");
        assert_eq!(
            counts,
            Counts {
                passed: 32,
                failed: 2,
                ignored: 1
            }
        );
    }
}

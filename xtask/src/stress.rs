//! `cargo xtask stress`: one test many times in a row.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use anyhow::{Context, bail};
use clap::Args;
use oxferry_testkit::tool;

use crate::{
    cargo,
    report::{complain, say, seconds},
};

/// What is run, and how often.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The test's name, or a part of it: every test that has it is run
    #[arg(value_name = "NAME")]
    name: String,
    /// How many times
    #[arg(long, value_name = "N", default_value = "200")]
    times: u32,
    /// The package that has it; all of them are searched if this is left out
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// Tests at once
    #[arg(long, value_name = "N", default_value = "2")]
    threads: u32,
}

/// A test program that has tests to be run.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    path: PathBuf,
    /// Where Cargo would run it.
    folder: PathBuf,
    tests: usize,
}

/// Runs the tests, prints how often they failed, and keeps the output of each
/// failure in a file.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let oxferry = cargo::build_oxferry(false)?;
    let programs = programs(options)?;
    let tests: usize = programs.iter().map(|program| program.tests).sum();
    if tests == 0 {
        bail!("there is no test whose name has {:?} in it", options.name);
    }
    let logs = cargo::target_folder()?.join("stress");
    let mut failed = 0;
    for round in 1..=options.times {
        for program in &programs {
            if let Some(output) = failure(program, options, &oxferry)? {
                failed += 1;
                let log = keep(&logs, &options.name, round, &output)?;
                complain(&format!("round {round} failed: {}", log.display()));
            }
        }
        if round % 20 == 0 {
            say(&format!("{round} of {}, {failed} failed", options.times));
        }
    }
    say(&format!(
        "{}: {tests} tests, {} times, {failed} failed, {}",
        options.name,
        options.times,
        seconds(begun.elapsed())
    ));
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds the tests, and returns the programs that have some of the name.
fn programs(options: &Options) -> anyhow::Result<Vec<Program>> {
    let mut build = cargo::command(&["test", "--no-run", "--message-format", "json"]);
    match &options.package {
        Some(package) => build.args(["--package", package]),
        None => build.arg("--workspace"),
    };
    let mut build = build
        .stdout(Stdio::piped())
        .spawn()
        .context("running cargo test failed")?;
    let output = build.stdout.take().context("cargo test has no output")?;
    let mut found = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("reading the output of cargo test failed")?;
        if let Some((path, folder)) = test_program(&line) {
            found.push((path, folder));
        }
    }
    let status = build.wait().context("waiting for cargo test failed")?;
    if !status.success() {
        bail!("building the tests failed: cargo ended with {status}");
    }
    let mut programs = Vec::new();
    for (path, folder) in found {
        let tests = count(&path, &folder, &options.name)?;
        if tests > 0 {
            programs.push(Program {
                path,
                folder,
                tests,
            });
        }
    }
    Ok(programs)
}

/// Reads a message of Cargo's: the program of a test target, and its package's
/// folder.
fn test_program(message: &str) -> Option<(PathBuf, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    if !message.get("profile")?.get("test")?.as_bool()? {
        return None;
    }
    let path = message.get("executable")?.as_str()?;
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    Some((path.into(), manifest.parent()?.to_owned()))
}

/// Returns how many tests of a program have `name` in theirs; none, if it isn't
/// one that can be asked.
fn count(program: &Path, folder: &Path, name: &str) -> anyhow::Result<usize> {
    let asked = Command::new(program)
        .current_dir(folder)
        .args([name, "--list", "--format", "terse"])
        .output()
        .with_context(|| format!("running {} failed", program.display()))?;
    let listed = String::from_utf8_lossy(&asked.stdout);
    let is_test = |line: &&str| line.ends_with(": test") && line.contains(name);
    Ok(listed.lines().filter(is_test).count())
}

/// Runs the tests of a program once; returns what was printed if one failed.
fn failure(
    program: &Program,
    options: &Options,
    oxferry: &Path,
) -> anyhow::Result<Option<Vec<u8>>> {
    let run = Command::new(&program.path)
        .current_dir(&program.folder)
        .env(tool::PROGRAM_VARIABLE, oxferry)
        .args([
            &options.name,
            "--test-threads",
            &options.threads.to_string(),
        ])
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("running {} failed", program.path.display()))?;
    let output = [run.stdout, run.stderr].concat();
    Ok((!run.status.success()).then_some(output))
}

fn keep(folder: &Path, name: &str, round: u32, output: &[u8]) -> anyhow::Result<PathBuf> {
    let file = folder.join(format!("{}-{round}.log", name.replace("::", "-")));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&file, output))
        .with_context(|| format!("writing {} failed", file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_told_from_other_artifacts() {
        let message = |test, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/cli/Cargo.toml\",\
                 \"profile\":{{\"test\":{test}}},\"executable\":{executable}}}"
            )
        };
        let found = test_program(&message(true, "\"/t/it-1\""));
        assert_eq!(found, Some(("/t/it-1".into(), "/w/cli".into())));
        assert_eq!(test_program(&message(true, "null")), None);
        assert_eq!(test_program(&message(false, "\"/t/oxferry\"")), None);
        assert_eq!(test_program("running 3 tests"), None);
    }

    #[test]
    fn the_tests_of_a_name_are_counted_in_this_very_program() {
        let program = std::env::current_exe().unwrap();
        let folder = cargo::root();
        let name = "counted_in_this_very_program";
        assert_eq!(count(&program, &folder, name).unwrap(), 1);
        assert_eq!(count(&program, &folder, "no_such_test").unwrap(), 0);
    }

    #[test]
    fn the_output_of_a_failure_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let kept = keep(&folder.path().join("stress"), "a::b", 3, b"text").unwrap();
        assert!(kept.ends_with("stress/a-b-3.log"));
        assert_eq!(fs::read(kept).unwrap(), b"text");
    }
}

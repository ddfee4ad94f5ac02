//! A test per folder, as `cargo test` runs and filters them.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use oxferry_testkit::{
    server::shared,
    trial::{Report, TrialError},
};

use crate::case::Case;

/// Cases at once, if nobody says otherwise: each has a program, two writers
/// or so, and the server at work.
const PARALLEL: usize = 3;
/// How long one case may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// Set, it shows why pending cases fail.
const SHOW_PENDING: &str = "OXFERRY_SHOW_PENDING";

/// What `cargo test -- …` asks for.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    filters: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
    threads: Option<usize>,
}

impl Wanted {
    /// Reads the words after the program's name; unknown ones are ignored, as
    /// there are many that mean nothing here.
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Self {
        let mut wanted = Self::default();
        while let Some(word) = words.next() {
            match word.split_once('=').unwrap_or((&word, "")) {
                ("--exact", _) => wanted.exact = true,
                ("--list", _) => wanted.list = true,
                ("--skip", "") => wanted.skipped.extend(words.next()),
                ("--skip", name) => wanted.skipped.push(name.to_owned()),
                ("--test-threads", "") => {
                    wanted.threads = words.next().and_then(|n| n.parse().ok());
                }
                ("--test-threads", number) => wanted.threads = number.parse().ok(),
                ("--format" | "--color", "") => {
                    words.next();
                }
                (name, _) if !name.starts_with('-') => wanted.filters.push(word),
                _ => {}
            }
        }
        wanted
    }

    fn matches(&self, name: &str) -> bool {
        let fits = |filter: &String| {
            if self.exact {
                name == filter
            } else {
                name.contains(filter)
            }
        };
        (self.filters.is_empty() || self.filters.iter().any(fits)) && !self.skipped.iter().any(fits)
    }

    fn threads(&self) -> usize {
        let named = std::env::var("RUST_TEST_THREADS")
            .ok()
            .and_then(|n| n.parse().ok());
        self.threads.or(named).unwrap_or(PARALLEL).max(1)
    }
}

/// Runs the wanted cases, and prints what `libtest` would.
pub(crate) async fn run(cases: Vec<Case>, wanted: &Wanted) -> ExitCode {
    let all = cases.len();
    let cases: Vec<Case> = cases
        .into_iter()
        .filter(|case| wanted.matches(&case.name))
        .collect();
    if wanted.list {
        for case in &cases {
            say(&format!("{}: test", case.name));
        }
        return ExitCode::SUCCESS;
    }
    let filtered = all - cases.len();
    let begun = Instant::now();
    say(&format!("\nrunning {} tests", cases.len()));
    let runs = stream::iter(cases)
        .map(judged)
        .buffer_unordered(wanted.threads());
    let (mut passed, mut pending, mut failures) = (0_u32, 0_u32, Vec::new());
    let mut runs = std::pin::pin!(runs);
    while let Some((name, result)) = runs.next().await {
        match result {
            Ok(how) => {
                passed += 1;
                pending += u32::from(how.starts_with("pending"));
                say(&format!("test {name} ... ok ({how})"));
            }
            Err(why) => {
                say(&format!("test {name} ... FAILED"));
                failures.push((name, why));
            }
        }
    }
    if pending > 0 {
        say(&format!(
            "\n{pending} of them pending: they fail as is known"
        ));
    }
    report(passed, &failures, filtered, begun)
}

/// Runs one case; one that is pending must fail.
async fn judged(case: Case) -> (String, Result<String, String>) {
    let result = tokio::time::timeout(LIMIT, attempt(&case)).await;
    let late = || Err(TrialError::Setup(format!("it didn't end within {LIMIT:?}")));
    let result = result.unwrap_or_else(|_| late());
    let judged = match (result, case.pending) {
        (Ok(report), None) => Ok(told(&report)),
        (Err(why), Some(pending)) if why.is_programs() => {
            let why = why.to_string();
            if std::env::var_os(SHOW_PENDING).is_some() {
                say(&format!("---- {} ----\n{why}", case.name));
            }
            // Another failure than the known one is news.
            let (known, facts) = pending.split_once('\n').unwrap_or((&pending, ""));
            if facts.is_empty() || !facts.lines().all(|fact| why.contains(fact.trim())) {
                Err(format!("it fails, but not as `pending` says:\n{why}"))
            } else {
                Ok(format!("pending: {known}"))
            }
        }
        (Err(why), _) => Err(why.to_string()),
        (Ok(_), Some(_)) => Err("it succeeds now: remove the file `pending`".to_owned()),
    };
    (case.name, judged)
}

async fn attempt(case: &Case) -> Result<Report, TrialError> {
    let server = shared(case.server_options()).await?;
    let program = env!("CARGO_BIN_EXE_oxferry").into();
    case.trial.run(server, program).await
}

fn told(report: &Report) -> String {
    let [copy, deferred, after] = report.written;
    let took = report.took.as_secs_f64();
    format!(
        "{} rows, {copy}+{deferred}+{after} writes, {took:.1} s",
        report.rows
    )
}

fn report(passed: u32, failures: &[(String, String)], filtered: usize, begun: Instant) -> ExitCode {
    for (name, why) in failures {
        say(&format!("\n---- {name} ----\n{why}"));
    }
    let word = if failures.is_empty() { "ok" } else { "FAILED" };
    say(&format!(
        "\ntest result: {word}. {passed} passed; {} failed; 0 ignored; 0 measured; \
         {filtered} filtered out; finished in {:.2}s\n",
        failures.len(),
        begun.elapsed().as_secs_f64()
    ));
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(101)
    }
}

fn say(line: &str) {
    // A reader that has gone away is no reason to stop.
    let _ = writeln!(io::stdout(), "{line}");
}

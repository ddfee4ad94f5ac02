//! `cargo xtask bench move`: oxferry beside `mysqldump | mysql` and, where they
//! are installed, `mydumper` and `myloader`.
//!
//! All ways move the same table between the same two servers, by turns, so that
//! none has the warmer cache.

use std::{
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use clap::Args;
use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    server::{Server, ServerOptions},
    tables::TableSpec,
    tool::{Finished, Oxferry},
    writer::{WriterOptions, Writers},
};

use super::{
    LIMIT, Size, finishes,
    halves::{Half, halves},
    phases, succeeded,
};
use crate::{
    cargo,
    report::{mebibytes, median, say, seconds},
};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Writers on the source meanwhile, at 80 % of what they reach alone; only
    /// the move is measured then
    #[arg(long, value_name = "N", default_value = "0")]
    writers: u32,
    /// Give the source and its writers one half of the CPUs, and the target and
    /// oxferry the other, as on two machines
    #[arg(long, requires = "writers")]
    apart: bool,
}

/// Both servers.
struct Pair {
    source: Server,
    target: Server,
}

/// Measures, and prints all ways, their medians and the ratios.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let program = cargo::build_oxferry(true)?;
    let settings = || {
        ServerOptions::new()
            .buffer_pool(768 << 20)
            .redo_log(1 << 30)
            .arg("--local-infile=ON")
    };
    let pair = Pair {
        source: Server::start(settings()).await?,
        target: Server::start(settings()).await?,
    };
    let table = TableSpec::sysbench("bench", "sbtest1", options.size.rows);
    table
        .create(&mut pair.source.conn().await?, 1)
        .await
        .context("loading rows failed")?;
    let version = pair.source.version();
    say(&format!("MySQL {version}, {} rows", options.size.rows));
    if options.writers > 0 {
        return written(&pair, (&table, &program), &options).await;
    }
    let (mut dumps, mut others, mut moves) = (Vec::new(), Vec::new(), Vec::new());
    let mut memory = 0;
    for run in 1..=options.size.runs {
        let dump = pair.dump().await?;
        say(&format!("run {run}: mysqldump | mysql {}", seconds(dump)));
        dumps.push(dump);
        if let Some(other) = pair.mydumper().await? {
            say(&format!("run {run}: mydumper, myloader {}", seconds(other)));
            others.push(other);
        }
        let moved = pair.move_tables(&program, "lock-tables").await?;
        pair.check().await?;
        memory = memory.max(moved.memory_peak);
        say(&format!(
            "run {run}: oxferry move {}, {}",
            seconds(moved.took),
            mebibytes(moved.memory_peak)
        ));
        say(&phases(&moved));
        moves.push(moved.took);
    }
    let (dump, moved) = (median(&dumps), median(&moves));
    say(&format!(
        "median: mysqldump | mysql {}, oxferry move {}, ratio {:.2}, peak memory {}",
        seconds(dump),
        seconds(moved),
        moved.as_secs_f64() / dump.as_secs_f64().max(f64::EPSILON),
        mebibytes(memory),
    ));
    if !others.is_empty() {
        let other = median(&others);
        say(&format!(
            "median: mydumper, myloader {}, ratio {:.2}",
            seconds(other),
            moved.as_secs_f64() / other.as_secs_f64().max(f64::EPSILON)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures moves of a table that is written to: the copy, then the stream
/// alone, then what the switch has left to do.
async fn written(
    pair: &Pair,
    (table, program): (&TableSpec, &Path),
    options: &Options,
) -> anyhow::Result<ExitCode> {
    let apart = options.apart.then(halves).transpose()?;
    if let Some((here, there)) = &apart {
        here.hold(std::process::id())?;
        here.hold_server(&pair.source).await?;
        there.hold_server(&pair.target).await?;
        say(
            "the source and its writers have one half of the CPUs, the target and oxferry the other",
        );
    }
    let there = apart.map(|(_, there)| there);
    let url = pair.source.url();
    let alone = WriterOptions::new(options.writers, 1);
    let writers = Writers::start(&url, table, alone).await?;
    tokio::time::sleep(WINDOW).await;
    let alone = rate(writers.stop().await.transactions, WINDOW);
    let wanted = alone * 4 / 5;
    say(&format!(
        "alone, {} writers reach {alone} transactions/s; 80 % are {wanted}",
        options.writers
    ));
    for run in 1..=options.size.runs {
        let how = WriterOptions::new(options.writers, u64::from(run)).rate(wanted);
        let writers = Writers::start(&url, table, how).await?;
        let under = pair.move_under(&writers, program, there.as_ref()).await?;
        let report = writers.stop().await;
        ensure!(
            report.errors == 0,
            "a writer failed: {:?}",
            report.last_error
        );
        let back = "RENAME TABLE bench._sbtest1_oxold TO bench.sbtest1";
        pair.source.execute(&[back]).await?;
        pair.check().await?;
        say(&format!(
            "run {run}: oxferry move, until all rows are compared {}, {} transactions/s; \
             then {} transactions/s for {}; switched {} later; {}, longest write {}",
            seconds(under.copied),
            under.while_copied,
            under.while_streamed,
            seconds(WINDOW),
            seconds(under.switched),
            mebibytes(under.memory_peak),
            seconds(report.longest_wait)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What a move under writers took, and what it left them, in transactions per
/// second.
struct Under {
    /// Until every row is copied and compared.
    copied: Duration,
    while_copied: u32,
    while_streamed: u32,
    /// From the word to switch to the program's end.
    switched: Duration,
    memory_peak: u64,
}

/// How long the writers' speed is measured alone, and beside the stream.
const WINDOW: Duration = Duration::from_secs(15);

fn rate(transactions: u64, within: Duration) -> u32 {
    let per_second = u128::from(transactions) * 1000 / within.as_millis().max(1);
    u32::try_from(per_second).unwrap_or(u32::MAX)
}

impl Pair {
    /// Makes the target empty, and forgets its binary logs.
    async fn clear(&self) -> anyhow::Result<()> {
        let statements = [
            "DROP DATABASE IF EXISTS bench",
            "RESET BINARY LOGS AND GTIDS",
        ];
        Ok(self.target.execute(&statements).await?)
    }

    async fn dump(&self) -> anyhow::Result<Duration> {
        self.clear().await?;
        let tool = |server: &Server, name: &str| -> anyhow::Result<Command> {
            let mut tool = server
                .tool(name)
                .with_context(|| format!("there is no {name} beside mysqld"))?;
            let port = server.port().to_string();
            tool.args([
                "--no-defaults",
                "--protocol=tcp",
                "-h127.0.0.1",
                "-uroot",
                "-P",
                &port,
            ]);
            Ok(tool)
        };
        let mut dump = tool(&self.source, "mysqldump")?;
        dump.args([
            "--single-transaction",
            "--set-gtid-purged=OFF",
            "--databases",
            "bench",
        ]);
        let mut load = tool(&self.target, "mysql")?;
        let begun = Instant::now();
        let took = tokio::task::spawn_blocking(move || -> anyhow::Result<Duration> {
            let mut dump = dump.stdout(Stdio::piped()).spawn().context("mysqldump")?;
            let rows = dump.stdout.take().context("mysqldump has no output")?;
            let loaded = load.stdin(rows).status().context("mysql")?;
            let dumped = dump.wait().context("mysqldump")?;
            ensure!(dumped.success() && loaded.success(), "the dump failed");
            Ok(begun.elapsed())
        });
        let took = took.await??;
        self.check().await?;
        Ok(took)
    }

    /// Dumps into a folder with two threads, and loads that with two; nothing
    /// where the tools aren't installed.
    async fn mydumper(&self) -> anyhow::Result<Option<Duration>> {
        let installed = |tool: &str| {
            let version = Command::new(tool).arg("--version").output();
            version.is_ok_and(|output| output.status.success())
        };
        if !installed("mydumper") || !installed("myloader") {
            return Ok(None);
        }
        self.clear().await?;
        let folder = tempfile::tempdir().context("making a folder for the dump failed")?;
        let tool = |name: &str, server: &Server| {
            let mut tool = Command::new(name);
            let port = server.port().to_string();
            tool.args(["-h", "127.0.0.1", "-u", "root", "-t", "2", "-P", &port]);
            tool
        };
        let mut dump = tool("mydumper", &self.source);
        dump.args(["-B", "bench", "-r", "100000", "-o"])
            .arg(folder.path());
        let mut load = tool("myloader", &self.target);
        load.arg("-d").arg(folder.path());
        let took = tokio::task::spawn_blocking(move || -> anyhow::Result<Duration> {
            let begun = Instant::now();
            ensure!(
                dump.status().context("mydumper")?.success(),
                "mydumper failed"
            );
            ensure!(
                load.status().context("myloader")?.success(),
                "myloader failed"
            );
            Ok(begun.elapsed())
        });
        let took = took.await??;
        self.check().await?;
        Ok(Some(took))
    }

    async fn move_tables(&self, program: &Path, lock: &str) -> anyhow::Result<Finished> {
        self.clear().await?;
        finishes(self.call(program, lock)).await
    }

    fn call(&self, program: &Path, lock: &str) -> Oxferry {
        let (source, target) = (self.source.url(), self.target.url());
        let words = [
            "move",
            "--source",
            &source,
            "--target",
            &target,
            "--database",
            "bench",
        ];
        let call = Oxferry::new(words).program(program);
        let call = call.arg("--hook-switched").arg("true");
        call.arg("--lock-source").arg(lock)
    }

    /// Moves while others write; the switch waits for a word, which is given
    /// after a window of nothing but the stream.
    async fn move_under(
        &self,
        writers: &Writers,
        program: &Path,
        half: Option<&Half>,
    ) -> anyhow::Result<Under> {
        self.clear().await?;
        let call = self.call(program, "rename").arg("--cutover").arg("manual");
        let (begun, before) = (Instant::now(), writers.committed());
        let mut running = call.spawn()?;
        if let (Some(half), Some(process)) = (half, running.pid()) {
            half.hold(process)?;
        }
        running.wait_phase("deferred", LIMIT).await?;
        let (copied, at_stream) = (begun.elapsed(), writers.committed());
        tokio::time::sleep(WINDOW).await;
        let at_switch = writers.committed();
        let begun = Instant::now();
        let sentinel = "DROP TABLE bench._sbtest1_oxsentinel";
        self.target.execute(&[sentinel]).await?;
        let finished = succeeded(running.wait_exit(LIMIT).await?)?;
        Ok(Under {
            copied,
            while_copied: rate(at_stream - before, copied),
            while_streamed: rate(at_switch - at_stream, WINDOW),
            switched: begun.elapsed(),
            memory_peak: finished.memory_peak,
        })
    }

    /// Both ways must have brought all rows.
    async fn check(&self) -> anyhow::Result<()> {
        let count = "SELECT COUNT(*) FROM bench.sbtest1";
        let here: Option<u64> = self.source.conn().await?.query_first(count).await?;
        let there: Option<u64> = self.target.conn().await?.query_first(count).await?;
        ensure!(
            here == there,
            "{here:?} rows on the source, {there:?} on the target"
        );
        Ok(())
    }
}

//! `cargo xtask bench migrate`: oxferry beside the server's own table copy.
//!
//! Both rebuild the same table on the same server, by turns, so that neither
//! has the warmer cache.

mod halves;
pub(crate) mod moving;

use std::{
    path::Path,
    process::ExitCode,
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

use crate::{
    cargo,
    report::{mebibytes, median, say, seconds},
};

/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(3600);

/// How much is measured.
#[derive(Debug, Args)]
pub(crate) struct Size {
    /// Rows of the table
    #[arg(long, value_name = "N", default_value = "2000000")]
    rows: u64,
    /// How often each way is measured
    #[arg(long, value_name = "N", default_value = "3")]
    runs: u32,
}

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Writers at full speed meanwhile
    #[arg(long, value_name = "N", default_value = "0")]
    writers: u32,
    /// Transactions per second, all writers together; 0: as fast as they can
    #[arg(long, value_name = "N", default_value = "200")]
    rate: u32,
}

/// Measures, and prints both ways, their medians and the ratio.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let program = cargo::build_oxferry(true)?;
    let server = ServerOptions::new().buffer_pool(1 << 30).redo_log(2 << 30);
    let server = Server::start(server).await?;
    let table = TableSpec::sysbench("bench", "sbtest1", options.size.rows);
    table
        .create(&mut server.conn().await?, 1)
        .await
        .context("loading rows failed")?;
    say(&format!(
        "MySQL {}, {} rows, {} writers",
        server.version(),
        options.size.rows,
        options.writers
    ));

    let how = WriterOptions::new(options.writers, 1).rate(options.rate);
    let writers = Writers::start(&server.url(), &table, how).await?;
    let (mut copies, mut migrations, mut memory) = (Vec::new(), Vec::new(), 0);
    for run in 1..=options.size.runs {
        let copy = server_copy(&server, &table).await?;
        say(&format!("run {run}: ALGORITHM=COPY {}", seconds(copy)));
        copies.push(copy);
        let migration = migrate(&server, &table, &program).await?;
        memory = memory.max(migration.memory_peak);
        let peak = mebibytes(migration.memory_peak);
        say(&format!(
            "run {run}: oxferry migrate {}, {peak}",
            seconds(migration.took)
        ));
        say(&phases(&migration));
        migrations.push(migration.took);
    }
    let written = writers.stop().await;
    ensure!(
        written.errors == 0,
        "a writer failed: {:?}",
        written.last_error
    );
    let (copy, migration) = (median(&copies), median(&migrations));
    say(&format!(
        "median: ALGORITHM=COPY {}, oxferry migrate {}, ratio {:.2}, peak memory {}",
        seconds(copy),
        seconds(migration),
        migration.as_secs_f64() / copy.as_secs_f64().max(f64::EPSILON),
        mebibytes(memory),
    ));
    Ok(ExitCode::SUCCESS)
}

async fn server_copy(server: &Server, table: &TableSpec) -> anyhow::Result<Duration> {
    let mut conn = server.conn().await?;
    let begun = Instant::now();
    let alter = format!(
        "ALTER TABLE {} ENGINE=InnoDB, ALGORITHM=COPY",
        table.quoted()
    );
    conn.query_drop(alter)
        .await
        .context("the server's own copy failed")?;
    Ok(begun.elapsed())
}

async fn migrate(server: &Server, table: &TableSpec, program: &Path) -> anyhow::Result<Finished> {
    let url = server.url_for("root", "", &table.database);
    let words = ["migrate", "--source", &url, "--table", &table.name];
    let call = Oxferry::new(words).program(program);
    let call = call.arg("--alter").arg("ENGINE=InnoDB").arg("--yes");
    finishes(call).await
}

/// Runs the program, which must succeed.
async fn finishes(call: Oxferry) -> anyhow::Result<Finished> {
    succeeded(call.run(LIMIT).await?)
}

fn succeeded(finished: Finished) -> anyhow::Result<Finished> {
    ensure!(
        finished.code == Some(0),
        "oxferry ended with {:?}:\n{}",
        finished.code,
        finished.text()
    );
    Ok(finished)
}

/// How long each phase took, from its log line to the next one's.
fn phases(finished: &Finished) -> String {
    let phases = finished.phases();
    let ends = phases.iter().skip(1).map(|(_, at)| *at);
    let spans = phases.iter().zip(ends);
    let shown = spans.map(|((name, from), to)| format!("{name} {}", seconds(to - *from)));
    format!("       {}", shown.collect::<Vec<_>>().join(", "))
}

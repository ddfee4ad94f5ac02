//! `cargo xtask demo`: a million rows get a new schema under writers.
//!
//! How the result is checked: the writers go on across the swap, so old and
//! new table differ where something was written after it. Each writer owns
//! its keys and keeps a journal of the last image it has committed for each.
//! Every key that was ever written must look in the new table as the journal
//! says; every other key must be the same row in the old and the new table.
//! Together that is every row of both tables.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use clap::Args;
use oxferry_testkit::{
    compare::Comparison,
    server::{Server, ServerOptions},
    tables::TableSpec,
    writer::{WriterOptions, WriterReport, Writers},
};

use crate::{
    cargo,
    report::{say, seconds},
};

const ALTER: &str = "MODIFY COLUMN k BIGINT NOT NULL DEFAULT 0, \
                     ADD COLUMN note VARCHAR(100) NOT NULL DEFAULT ''";
/// Transactions that must still go through after the swap.
const AFTERWARDS: u64 = 200;

/// How big the demonstration is.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rows of the table
    #[arg(long, value_name = "N", default_value = "1000000")]
    rows: u64,
    /// Writers during the migration
    #[arg(long, value_name = "N", default_value = "4")]
    writers: u32,
    /// Transactions per second, all writers together; 0: as fast as they can
    #[arg(long, value_name = "N", default_value = "400")]
    rate: u32,
    /// What the random contents and writes start from
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

/// Runs the demonstration; fails when one row differs.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let program = cargo::build_oxferry(true)?;
    let server = ServerOptions::new()
        .buffer_pool(512 << 20)
        .redo_log(1 << 30);
    let server = Server::start(server).await?;
    say(&format!(
        "MySQL {} runs at {}",
        server.version(),
        server.url()
    ));

    let table = TableSpec::sysbench("demo", "sbtest1", options.rows);
    let begun = Instant::now();
    table
        .create(&mut server.conn().await?, options.seed)
        .await
        .context("loading rows failed")?;
    say(&format!(
        "{} rows loaded in {}",
        options.rows,
        seconds(begun.elapsed())
    ));

    let how = WriterOptions::new(options.writers, options.seed).rate(options.rate);
    let writers = Writers::start(&server.url(), &table, how).await?;
    say(&format!(
        "{} writers at work; now: ALTER TABLE sbtest1 {ALTER}",
        options.writers
    ));
    let begun = Instant::now();
    let status = tokio::process::Command::new(&program)
        .args([
            "migrate",
            "--source",
            &server.url_for("root", "", &table.database),
        ])
        .args([
            "--table",
            &table.name,
            "--alter",
            ALTER,
            "--keep-old-table",
            "--yes",
        ])
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| format!("running {} failed", program.display()))?;
    let took = begun.elapsed();
    ensure!(status.success(), "oxferry migrate ended with {status}");

    if options.writers > 0 {
        writers
            .wait_for_commits(AFTERWARDS, Duration::from_secs(120))
            .await?;
    }
    let written = writers.stop().await;
    ensure!(
        written.errors == 0,
        "a writer failed: {:?}",
        written.last_error
    );
    let compared = check(&server, &table, &written).await?;
    say(&summary(&written, compared, took));
    Ok(ExitCode::SUCCESS)
}

/// Compares the tables; returns how many rows nobody wrote.
async fn check(server: &Server, table: &TableSpec, written: &WriterReport) -> anyhow::Result<u64> {
    let mut conn = server.conn_to(&table.database).await?;
    written.journal.check(&mut conn, table).await?;
    written
        .journal
        .store_keys(&mut conn, "written_keys", table.key)
        .await?;
    let old = table.named(&format!("_{}_oxold", table.name)).quoted();
    let comparison = Comparison::new(&old, &table.quoted(), &[table.key], &table.column_names());
    Ok(comparison
        .except_keys_in("`written_keys`")
        .run(&mut conn)
        .await?)
}

fn summary(written: &WriterReport, compared: u64, took: Duration) -> String {
    format!(
        "\nthe migration took {took} under {transactions} transactions: {inserts} rows inserted, \
         {updates} updated, {moves} moved to another key, {deletes} deleted\n\
         longest time that a write waited: {wait} ({retries} transactions were begun anew)\n\
         rows compared: {compared} that nobody wrote, old against new; {keys} written keys, \
         against what was committed\nnot one row differs",
        took = seconds(took),
        transactions = written.transactions,
        inserts = written.inserts,
        updates = written.updates,
        moves = written.moves,
        deletes = written.deletes,
        wait = seconds(written.longest_wait),
        retries = written.retries,
        keys = written.journal.len(),
    )
}

//! Lets two writers at a table and checks that it holds what they committed.
//!
//! `cargo run -p oxferry-testkit --example write_and_compare`

use std::{error::Error, io::Write, time::Duration};

use oxferry_testkit::{
    server::{Server, ServerOptions},
    tables::TableSpec,
    writer::{WriterOptions, Writers},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start(ServerOptions::new()).await?;
    let mut conn = server.conn().await?;
    let table = TableSpec::sysbench("shop", "orders", 1000);
    table.create(&mut conn, 1).await?;

    let writers = Writers::start(&server.url(), &table, WriterOptions::new(2, 1)).await?;
    writers
        .wait_for_commits(500, Duration::from_secs(60))
        .await?;
    let report = writers.stop().await;

    report.journal.check(&mut conn, &table).await?;
    writeln!(
        std::io::stdout(),
        "{} transactions; the longest took {:?}; {} rows are as committed",
        report.transactions,
        report.longest_wait,
        report.journal.len()
    )?;
    Ok(())
}

//! Counts to ten, is interrupted at five, and goes on where it stopped.
//!
//! `cargo run -p oxferry-state --example resume`

use oxferry_schema::{Ident, TableName};
use oxferry_state::{
    Advanced, Checkpoint, CheckpointStore, CopyMode, FileStore, JobIdentity, TableProgress,
};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let path = std::env::temp_dir().join(format!("resume-{}.json", std::process::id()));
    let store = FileStore::new(path);
    for rows in [5, 10] {
        run_until(&store, rows).await?;
    }
    store.clear().await?;
    Ok(())
}

/// Goes on with the job, or begins it, and stops after `rows_max` rows.
async fn run_until(store: &FileStore, rows_max: u64) -> Result<(), Failure> {
    let source = TableName::new(Ident::new("shop")?, Ident::new("orders")?);
    let target = TableName::new(Ident::new("shop")?, Ident::new("_orders_oxnew")?);
    let statement = "ALTER TABLE shop.orders ADD note TEXT".to_owned();
    let job = JobIdentity::migrate(vec![source.clone()], vec![statement]);

    let mut checkpoint = match store.load().await? {
        Some(held) => {
            held.resumes(&job)?;
            held
        }
        None => {
            let mut new = Checkpoint::new(job, "1.0.0", "the-source's-uuid");
            new.tables = vec![TableProgress::new(source, target, CopyMode::Ranged)];
            new
        }
    };
    let progress = checkpoint.tables.first_mut().ok_or("no table")?;
    tracing::info!(rows = progress.rows_copied, "goes on");
    progress.rows_copied = rows_max;

    checkpoint.stamp("2026-01-31T12:00:00Z");
    match store.advance(&checkpoint).await? {
        Advanced::Durable => Ok(()),
        Advanced::Stale { held } => Err(format!("another run has saved number {held}").into()),
    }
}

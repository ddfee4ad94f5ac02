//! Gates a loop by the load and the replicas of the server named in `SOURCE`.
//!
//! `SOURCE=mysql://root@127.0.0.1:3306/shop cargo run -p oxferry-throttle --example gate_a_loop`

use std::time::Duration;

use mysql_async::Opts;
use oxferry_schema::{Ident, TableName};
use oxferry_state::TableStore;
use oxferry_throttle::{ByHand, Monitor, MonitorConfig, Pacer};
use tokio::sync::oneshot;

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let source = Opts::from_url(&std::env::var("SOURCE")?)?;
    let database = source.db_name().ok_or("SOURCE names no database")?;
    let table = TableName::new(Ident::new(database)?, Ident::new("_gate_oxstate")?);
    let deadline = Duration::from_secs(5);
    let store = TableStore::new(source.clone(), table.clone(), "example", deadline);
    store.create().await?;

    let mut config = MonitorConfig::default();
    config.threads_running_max = Some(50);
    config.flag_file = Some("/tmp/slow-down".into());
    let (monitor, pacer) = Monitor::new(source, table, config, &ByHand::new());
    let (finished, cancel) = oneshot::channel::<()>();
    let work = async {
        let result = work(pacer).await;
        drop(finished);
        result
    };
    let (measured, worked) = tokio::join!(monitor.run(async { drop(cancel.await) }), work);
    store.drop_table().await?;
    measured?;
    worked
}

/// Does a little at a time, and asks before each.
async fn work(mut pacer: Pacer) -> Result<(), Failure> {
    for chunk in 0..100_u32 {
        pacer.wait_until_proceed().await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        tracing::info!(chunk, "done");
    }
    Ok(())
}

//! Rehearses a swap with two small tables: `rehearse mysql://root@host/database`.

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_binlog::FilePosition;
use oxferry_cutover::{Finish, SwapPair, SwapPlan, drop_old, swap};
use oxferry_schema::{Ident, Remedy, TableName};
use oxferry_verifier::Verified;

/// Copies the whole table under the lock: fit for a rehearsal only.
struct CopyAll(SwapPair);

impl Finish for CopyAll {
    type Error = mysql_async::Error;

    fn remedy(_: &mysql_async::Error) -> Remedy {
        Remedy::Retry
    }

    async fn quiesce(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn finish(&mut self, conn: &mut Conn, _: &FilePosition) -> Result<Verified, Self::Error> {
        let SwapPair { source, shadow, .. } = &self.0;
        conn.query_drop(format!("INSERT INTO {shadow} SELECT * FROM {source}"))
            .await?;
        Ok(Verified::waived())
    }

    async fn release(&mut self) {}
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: rehearse URL")?;
    let opts = Opts::from_url(&url)?;
    let database = Ident::new(opts.db_name().ok_or("the URL names no database")?)?;
    let name = |table: &str| Ident::new(table).map(|t| TableName::new(database.clone(), t));
    let pair = SwapPair {
        source: name("rehearsal")?,
        shadow: name("_rehearsal_oxnew")?,
        old: name("_rehearsal_oxold")?,
    };
    let mut conn = Conn::new(opts.clone()).await?;
    for table in [&pair.source, &pair.shadow] {
        let create = format!("CREATE TABLE {table} (id INT PRIMARY KEY)");
        conn.query_drop(create).await?;
    }
    let plan = SwapPlan::new(pair.clone());
    let report = swap(&opts, &plan, &mut CopyAll(pair.clone())).await?;
    tracing::info!(?report, "swapped");
    drop_old(&mut conn, &pair.old, plan.lock_wait).await?;
    Ok(conn
        .query_drop(format!("DROP TABLE {}", pair.source))
        .await?)
}

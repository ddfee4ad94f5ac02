//! Compares two tables of one server that nobody writes to.
//!
//! `compare_two_tables mysql://user@host:3306 db.source db.target`

use std::sync::{Arc, Mutex};

use anyhow::Context;
use mysql_async::Pool;
use oxferry_binlog::FilePosition;
use oxferry_schema::{Ident, KeyRange, Table, TableName};
use oxferry_verifier::{
    ColumnPair, Feed, FeedError, FixedRanges, Repair, RowExpressions, SideTable, TableSide,
    Touched, TouchedLimits, Verify, VerifyConfig,
};

/// A job whose tables are at rest: nothing to wait for, and nothing repaired.
struct AtRest(FilePosition);

impl Feed for AtRest {
    async fn settle(&self) -> Result<(), FeedError> {
        Ok(())
    }
    async fn source_position(&self) -> Result<FilePosition, FeedError> {
        Ok(self.0.clone())
    }
    async fn reach(&self, _: &FilePosition) -> Result<(), FeedError> {
        Ok(())
    }
    async fn repair(&self, _: &Repair) -> Result<(), FeedError> {
        Ok(())
    }
    async fn pause_point(&self) {}
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let pool = Pool::from_url(args.next().context("a URL")?)?;
    let (mut tables, config) = (Vec::new(), VerifyConfig::default());
    for name in args {
        let (schema, table) = name.split_once('.').context("a name such as db.table")?;
        let name = TableName::new(Ident::new(schema)?, Ident::new(table)?);
        let table = Table::read(&mut pool.get_conn().await?, &name).await?;
        tables.push(table.context("no such table")?);
    }
    let [source, target] = <[Table; 2]>::try_from(tables).ok().context("two tables")?;
    let key = source.row_key()?;
    let pairs = source.columns.into_iter().zip(target.columns);
    let pairs: Vec<_> = pairs
        .map(|(source, target)| ColumnPair { source, target })
        .collect();
    let rows = RowExpressions::new(&pairs, &key.columns, &[])?;
    let side = |name, row: &str| {
        let (key, index) = (key.columns.clone(), Some(key.index.clone()));
        TableSide::new(
            pool.clone(),
            SideTable { name, key, index },
            row,
            config.step_within,
        )
    };
    let sides = vec![(
        side(source.name, rows.source()),
        side(target.name, rows.target()),
    )];
    let touched = Arc::new(Mutex::new(Touched::new(1, TouchedLimits::default())));
    let verify = Verify::new(sides, AtRest("binlog.000001:4".parse()?), touched, config);
    let clean = verify
        .run(&mut FixedRanges::new(vec![(0, KeyRange::ALL)]))
        .await?;
    anyhow::ensure!(clean.rows_compared() == verify.progress().rows_compared());
    pool.disconnect().await.context("closing the connections")
}

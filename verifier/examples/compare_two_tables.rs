//! Compares two tables of one server that nobody writes to.
//!
//! `compare_two_tables mysql://user@host:3306 db.source db.target`

use anyhow::{Context, ensure};
use mysql_async::Pool;
use oxferry_schema::{Ident, KeyRange, Table, TableName};
use oxferry_verifier::{
    ColumnPair, Fingerprints, RowExpressions, SideRow, SideTable, TableSide, VerifyConfig,
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let pool = Pool::from_url(args.next().context("a URL")?)?;
    let mut tables = Vec::new();
    for name in args {
        let (schema, table) = name.split_once('.').context("a name such as db.table")?;
        let name = TableName::new(Ident::new(schema)?, Ident::new(table)?);
        let table = Table::read(&mut pool.get_conn().await?, &name).await?;
        tables.push(table.context("no such table")?);
    }
    let [source, target] = <[Table; 2]>::try_from(tables).ok().context("two tables")?;

    // What each server shall compute of a row, so that equal rows look alike.
    let key = source.row_key()?;
    let key_sides = (key.side(&source)?, key.side_in(&target, &key.columns)?);
    let pairs = source.columns.into_iter().zip(target.columns);
    let pairs: Vec<_> = pairs
        .map(|(source, target)| ColumnPair { source, target })
        .collect();
    let rows = RowExpressions::new(&pairs, &key.columns, &[])?;
    let side = |name, side, row: &SideRow| {
        let (key, index) = (side, Some(key.index.clone()));
        let limit = VerifyConfig::default().step_within;
        TableSide::new(pool.clone(), SideTable { name, key, index }, row, limit)
    };
    let source = side(source.name, key_sides.0, rows.source());
    let target = side(target.name, key_sides.1, rows.target());

    // A job whose tables are written to lets `Verify` do this, chunk by chunk.
    let all = KeyRange::ALL;
    let (before, after) = tokio::try_join!(source.summary(&all), target.summary(&all))?;
    ensure!(
        before == after,
        "{} rows and {} rows differ",
        before.rows,
        after.rows
    );
    drop((source, target));
    pool.disconnect().await.context("closing the connections")
}

//! Copies a quiet table onto an empty one beside it, chunk by chunk.
//!
//! `cargo run --example copy_one_table -- mysql://user@host/database source target`
//!
//! It follows no changes: for a table that is written to, see the command line.

use std::{error::Error, sync::Arc, time::Instant};

use oxferry_copier::{
    ChunkLimits, ChunkSizer, Chunker, Connections, CopyPlan, RowSink, SelectSink, TableChunker,
    WorkLimits, engine::Mode,
};
use oxferry_schema::{Ident, KeyRange, ServerUrl, Table, TableName, connect};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, source, target] = arguments.as_slice() else {
        return Err("give a URL with a database, a source table and a target table".into());
    };
    let url = ServerUrl::parse(url, None)?;
    let database = url.database().ok_or("the URL names no database")?.clone();
    let mut conn = connect(&url, "example").await?;
    let mut tables = Vec::new();
    for name in [source, target] {
        let name = TableName::new(database.clone(), Ident::new(name.as_str())?);
        let table = Table::read(&mut conn, &name).await?;
        tables.push(table.ok_or_else(|| format!("there is no table {}", name.plain()))?);
    }
    let (Some(target), Some(source)) = (tables.pop(), tables.pop()) else {
        return Err("two tables were read".into());
    };
    let key = source.row_key()?;
    let columns = source.columns.iter().map(|c| c.name.clone()).enumerate();
    let columns: Vec<_> = columns.collect();
    let plan = CopyPlan::new(source.clone(), key.clone(), &target, columns, Mode::Ordered)?;
    let limits = WorkLimits::default();
    let connections = Connections::open(url, plan.target(), 2, limits).await?;
    let whole = vec![KeyRange::ALL];
    let mut chunker = TableChunker::new(
        Arc::clone(&connections),
        &source.name,
        key.index.clone(),
        key.side(&source)?,
        whole,
    );
    let sink = SelectSink::new(connections, plan);
    let mut sizer = ChunkSizer::new(ChunkLimits::default(), 0);
    let mut rows = 0;
    while let Some(range) = chunker.next(sizer.rows()).await? {
        let started = Instant::now();
        let copied = sink.copy(&range, false).await?.rows;
        sizer.handle_chunk(copied, started.elapsed());
        rows += copied;
    }
    #[expect(clippy::print_stdout, reason = "an example talks")]
    {
        println!("{rows} rows copied");
    }
    Ok(())
}

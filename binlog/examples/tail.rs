//! Prints what happens to a table from now on:
//! `tail mysql://user:password@host/ database table`.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;

use mysql_async::{Conn, Opts, Row, prelude::Queryable};
use oxferry_binlog::{
    ChangeStream, FilePosition, MysqlStream, Position, StreamConfig, StreamEvent,
};
use oxferry_schema::{Ident, Table, TableName};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let [url, schema, table] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "tail URL DATABASE TABLE")?;
    let opts = Opts::from_url(&url)?;
    let mut conn = Conn::new(opts.clone()).await?;
    let name = TableName::new(Ident::new(schema)?, Ident::new(table)?);
    let table = Table::read(&mut conn, &name).await?;
    let table = table.ok_or("there is no such table")?;
    let status: Option<Row> = conn.query_first("SHOW BINARY LOG STATUS").await?;
    let status = status.ok_or("the server writes no binary log")?;
    let text = |column| status.get::<String, _>(column).unwrap_or_default();
    let offset = status.get("Position").unwrap_or_default();
    let gtids = Some(text("Executed_Gtid_Set")).filter(|set| !set.is_empty());
    let from = Position {
        file: FilePosition::new(&text("File"), offset)?,
        gtids: gtids.map(|set| set.parse()).transpose()?,
    };
    println!("from {}", from.file);
    let mut stream = MysqlStream::open(StreamConfig::new(opts), from, vec![table]).await?;
    loop {
        match stream.next().await? {
            StreamEvent::Rows { changes, .. } => {
                for change in changes {
                    println!("{:?} -> {:?}", change.before, change.after);
                }
            }
            StreamEvent::Commit {
                end,
                gtid: Some(gtid),
            } => println!("committed {gtid} at {end}"),
            StreamEvent::Commit { end, gtid: None } => println!("committed at {end}"),
            StreamEvent::Progress { end } => println!("at {end}"),
            StreamEvent::Ddl { statement, .. } => println!("changed by {statement}"),
        }
    }
}

//! Prints what a table is: `cargo run --example read_a_table -- URL TABLE`.

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use oxferry_schema::{Ident, ServerUrl, Table, TableName, connect};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(table)) = (arguments.next(), arguments.next()) else {
        return Err("give a URL with a database, and a table".into());
    };
    let url = ServerUrl::parse(&url, None)?;
    let database = url.database().ok_or("the URL names no database")?.clone();
    let name = TableName::new(database, Ident::new(table)?);

    let mut conn = connect(&url, "example").await?;
    let Some(table) = Table::read(&mut conn, &name).await? else {
        return Err(format!("{url} has no table {}", name.plain()).into());
    };
    println!(
        "{} has about {} rows",
        table.name.plain(),
        table.row_estimate
    );
    for column in &table.columns {
        println!("  {} {}", column.name, column.column_type);
    }
    match table.row_key() {
        Ok(key) => println!("its rows are told apart by {}", key.index),
        Err(error) => println!("{error}"),
    }
    conn.disconnect().await?;
    Ok(())
}

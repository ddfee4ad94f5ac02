//! What the tests share: a server, a stream that follows it, and its events.

use std::time::Duration;

use mysql_async::{Conn, Opts, Row, prelude::Queryable};
use oxferry_binlog::{
    ChangeStream, FilePosition, MysqlStream, Position, RowChange, StreamConfig, StreamError,
    StreamEvent,
};
use oxferry_schema::{Ident, Table, TableName};
use oxferry_testkit::server::{Server, ServerOptions};

const LIMIT: Duration = Duration::from_secs(60);

/// A server with a database `shop`.
pub(crate) async fn server(options: ServerOptions) -> Server {
    let server = Server::start(options).await.unwrap();
    server.execute(&["CREATE DATABASE shop"]).await.unwrap();
    server
}

pub(crate) async fn run(conn: &mut Conn, statements: &[&str]) {
    for statement in statements {
        conn.query_drop(*statement).await.unwrap();
    }
}

/// Where the server's log ends.
pub(crate) async fn position(conn: &mut Conn) -> Position {
    let row: Option<Row> = conn.query_first("SHOW BINARY LOG STATUS").await.unwrap();
    let row = row.unwrap();
    let file: String = row.get("File").unwrap();
    let gtids: String = row.get("Executed_Gtid_Set").unwrap();
    let mode: Option<String> = conn.query_first("SELECT @@gtid_mode").await.unwrap();
    Position {
        file: FilePosition::new(&file, row.get("Position").unwrap()).unwrap(),
        gtids: (mode.unwrap() == "ON").then(|| gtids.parse().unwrap()),
    }
}

pub(crate) fn config(server: &Server) -> StreamConfig {
    StreamConfig::new(Opts::from_url(&server.url()).unwrap())
}

/// Follows a table from now on.
pub(crate) async fn follow(server: &Server, table: &str) -> MysqlStream {
    follow_as(server, table, config(server)).await
}

/// Follows a table of `server` from now on, over another connection.
pub(crate) async fn follow_as(server: &Server, table: &str, config: StreamConfig) -> MysqlStream {
    let mut conn = server.conn().await.unwrap();
    let name = TableName::new(Ident::new("shop").unwrap(), Ident::new(table).unwrap());
    let table = Table::read(&mut conn, &name).await.unwrap().unwrap();
    let from = position(&mut conn).await;
    MysqlStream::open(config, from, vec![table]).await.unwrap()
}

pub(crate) async fn next(stream: &mut MysqlStream) -> Result<StreamEvent, StreamError> {
    tokio::time::timeout(LIMIT, stream.next()).await.unwrap()
}

/// Reads up to the end of the server's log; returns every change on the way,
/// having checked that the positions only grow.
pub(crate) async fn drain(stream: &mut MysqlStream, conn: &mut Conn) -> Vec<RowChange> {
    let target = position(conn).await.file;
    let mut changes = Vec::new();
    let mut last = None;
    loop {
        let end = match next(stream).await.unwrap() {
            StreamEvent::Rows { changes: more, .. } => {
                changes.extend(more);
                continue;
            }
            StreamEvent::Commit { end, .. }
            | StreamEvent::Progress { end }
            | StreamEvent::Ddl { end, .. } => end,
        };
        assert!(
            last.as_ref().is_none_or(|last| *last < end),
            "{last:?} {end}"
        );
        if end >= target {
            return changes;
        }
        last = Some(end);
    }
}

/// Reads on until the stream ends; returns why.
pub(crate) async fn failure(stream: &mut MysqlStream) -> StreamError {
    loop {
        if let Err(error) = next(stream).await {
            return error;
        }
    }
}

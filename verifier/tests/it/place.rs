//! A server with tables to compare.

use std::time::Duration;

use mysql_async::{Conn, OptsBuilder, Pool, prelude::Queryable};
use oxferry_schema::{Ident, Key, KeyPart, KeySide, Table, TableName};
use oxferry_testkit::server::{Server, ServerOptions};
use oxferry_verifier::{ColumnPair, RowExpressions, SideRow, SideTable, TableSide};

pub(crate) struct Place {
    // After the pool: its connections end first.
    pub(crate) pool: Pool,
    _server: Server,
}

pub(crate) fn key(parts: &[i64]) -> Key {
    let parts = parts.iter().map(|n| KeyPart::Int((*n).into()));
    Key::new(parts.collect::<Vec<_>>())
}

fn ident(name: &str) -> Ident {
    Ident::new(name).unwrap()
}

impl Place {
    pub(crate) async fn start() -> Self {
        let server = Server::start(ServerOptions::default()).await.unwrap();
        let opts = mysql_async::Opts::from_url(&server.url()).unwrap();
        // No zero dates and padded CHARs: statements must not depend on it.
        let opts = OptsBuilder::from_opts(opts).setup(vec![
            "SET time_zone='+03:00', sql_mode='NO_ZERO_DATE,STRICT_TRANS_TABLES'",
        ]);
        let place = Self {
            pool: Pool::new(opts),
            _server: server,
        };
        place.run("CREATE DATABASE v").await;
        place
    }

    pub(crate) async fn conn(&self) -> Conn {
        let mut conn = self.pool.get_conn().await.unwrap();
        conn.query_drop("USE v").await.unwrap();
        conn
    }

    pub(crate) async fn run(&self, statement: &str) {
        let mut conn = self.pool.get_conn().await.unwrap();
        let done = async {
            if !statement.starts_with("CREATE DATABASE") {
                conn.query_drop("USE v").await?;
                conn.query_drop("SET sql_mode='NO_AUTO_VALUE_ON_ZERO', time_zone='+00:00'")
                    .await?;
            }
            conn.query_drop(statement).await
        };
        done.await.unwrap_or_else(|e| panic!("{statement}: {e}"));
    }

    /// Both sides of two tables whose columns have the same names.
    pub(crate) async fn sides(
        &self,
        source: &str,
        target: &str,
        keys: &[&str],
    ) -> (TableSide, TableSide) {
        let keys: Vec<Ident> = keys.iter().map(|name| ident(name)).collect();
        let (from, to) = (self.table(source).await, self.table(target).await);
        let pairs: Vec<ColumnPair> = from
            .columns
            .iter()
            .filter_map(|source| {
                let source = source.clone();
                let target = to.columns.iter().find(|c| c.name == source.name)?.clone();
                Some(ColumnPair { source, target })
            })
            .collect();
        let rows = RowExpressions::new(&pairs, &keys, &[]).unwrap();
        let row_key = from.row_key().unwrap();
        let side = |table: &Table, row: &SideRow| {
            let table = SideTable {
                name: table.name.clone(),
                key: row_key.side_in(table, &row_key.columns).unwrap(),
                index: Some(ident("PRIMARY")),
            };
            TableSide::new(self.pool.clone(), table, row, Duration::from_secs(60))
        };
        (side(&from, rows.source()), side(&to, rows.target()))
    }

    /// How the source's key stands in `s` and in `t`.
    pub(crate) async fn key_sides(&self) -> (KeySide, KeySide) {
        let (from, to) = (self.table("s").await, self.table("t").await);
        let key = from.row_key().unwrap();
        let target = key.side_in(&to, &key.columns).unwrap();
        (key.side(&from).unwrap(), target)
    }

    async fn table(&self, table: &str) -> Table {
        let name = TableName::new(ident("v"), ident(table));
        let table = Table::read(&mut self.conn().await, &name).await.unwrap();
        table.unwrap()
    }
}

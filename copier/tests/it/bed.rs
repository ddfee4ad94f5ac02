//! A source and a target in a database of their own.

use std::sync::Arc;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_copier::{
    Batch, Connections, CopyPlan, KeyedChange, SelectSink, WorkLimits, engine::Mode,
};
use oxferry_schema::{Ident, Key, KeyPart, Row, ServerUrl, Table, TableName, Value, connect};
use oxferry_testkit::server::{Schema, Server};

pub(crate) struct Bed {
    pub(crate) schema: Schema,
    pub(crate) url: ServerUrl,
    pub(crate) conn: Conn,
}

impl Bed {
    /// Makes a database and runs `statements` in it.
    pub(crate) async fn new(statements: &[&str]) -> Self {
        Self::on(Server::fresh_schema().await.unwrap(), statements).await
    }

    pub(crate) async fn on(schema: Schema, statements: &[&str]) -> Self {
        let url = ServerUrl::parse(&schema.url(), None).unwrap();
        let conn = connect(&url, "tests").await.unwrap();
        let mut bed = Self { schema, url, conn };
        for statement in statements {
            bed.run(statement).await;
        }
        bed
    }

    pub(crate) async fn run(&mut self, statement: &str) {
        let done = self.conn.query_drop(statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    pub(crate) fn name(&self, table: &str) -> TableName {
        TableName::new(ident(self.schema.name()), ident(table))
    }

    pub(crate) async fn table(&mut self, table: &str) -> Table {
        let name = self.name(table);
        Table::read(&mut self.conn, &name).await.unwrap().unwrap()
    }

    pub(crate) async fn connections(&self) -> Arc<Connections> {
        self.connections_with(WorkLimits::default()).await
    }

    pub(crate) async fn connections_with(&self, limits: WorkLimits) -> Arc<Connections> {
        Connections::open(self.url.clone(), &self.name("n"), 4, limits)
            .await
            .unwrap()
    }

    /// Plans to copy `t` onto `n`, columns of the same name onto each other.
    pub(crate) async fn plan(&mut self, mode: Mode) -> CopyPlan {
        let source = self.table("t").await;
        let target = self.table("n").await;
        let key = source.row_key().unwrap();
        let there = |name: &Ident| {
            let found = target.columns.iter().find(|c| c.name == *name);
            found.is_some_and(|c| c.generated.is_none())
        };
        let columns: Vec<_> = source
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| there(&column.name))
            .map(|(ordinal, column)| (ordinal, column.name.clone()))
            .collect();
        CopyPlan::new(source, key, &target, columns, mode).unwrap()
    }

    pub(crate) async fn sink(&mut self, mode: Mode) -> SelectSink {
        let plan = self.plan(mode).await;
        SelectSink::new(self.connections().await, plan)
    }

    pub(crate) async fn texts(&mut self, query: &str) -> Vec<String> {
        self.conn.query(query).await.unwrap()
    }

    /// Asserts that both tables hold the same rows.
    pub(crate) async fn assert_equal(&mut self) {
        let rows = "SELECT * FROM t ORDER BY 1";
        let source: Vec<mysql_async::Row> = self.conn.query(rows).await.unwrap();
        let target: Vec<mysql_async::Row> =
            self.conn.query("SELECT * FROM n ORDER BY 1").await.unwrap();
        let values = |rows: Vec<mysql_async::Row>| -> Vec<Vec<Value>> {
            rows.into_iter().map(mysql_async::Row::unwrap).collect()
        };
        assert_eq!(values(source), values(target));
    }
}

pub(crate) fn ident(name: &str) -> Ident {
    Ident::new(name).unwrap()
}

pub(crate) fn key(parts: &[i128]) -> Key {
    Key::new(parts.iter().copied().map(KeyPart::Int).collect::<Vec<_>>())
}

pub(crate) fn upsert(id: i64, rest: impl Into<Vec<Value>>) -> KeyedChange {
    let mut values = vec![Value::Int(id)];
    values.append(&mut rest.into());
    KeyedChange {
        key: key(&[id.into()]),
        image: Some(Row::new(values)),
    }
}

pub(crate) fn delete(id: i64) -> KeyedChange {
    KeyedChange {
        key: key(&[id.into()]),
        image: None,
    }
}

pub(crate) fn batch(changes: impl Into<Vec<KeyedChange>>) -> Batch {
    Batch {
        changes: changes.into(),
    }
}

//! A database of a test's own, with a session on it.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{
    Alter, Altered, Ident, ProbeError, ServerUrl, ShadowNames, Table, TableName, connect, probe,
};
use oxferry_testkit::server::{Schema, Server};

pub(crate) struct Place {
    pub(crate) schema: Schema,
    pub(crate) conn: Conn,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let schema = Server::fresh_schema().await.unwrap();
        let url = ServerUrl::parse(&schema.url(), None).unwrap();
        let conn = connect(&url, "tests").await.unwrap();
        Self { schema, conn }
    }

    pub(crate) fn name(&self, table: &str) -> TableName {
        let schema = Ident::new(self.schema.name()).unwrap();
        TableName::new(schema, Ident::new(table).unwrap())
    }

    pub(crate) async fn run(&mut self, statement: &str) {
        let done = self.conn.query_drop(statement).await;
        done.unwrap_or_else(|e| panic!("{statement}: {e}"));
    }

    pub(crate) async fn read(&mut self, table: &str) -> Table {
        let name = self.name(table);
        Table::read(&mut self.conn, &name).await.unwrap().unwrap()
    }

    /// Makes a table `t` and asks what the clauses do to it.
    pub(crate) async fn probe(
        &mut self,
        definition: &str,
        clauses: &str,
    ) -> Result<Altered, ProbeError> {
        self.run("DROP TABLE IF EXISTS t").await;
        self.run(&format!("CREATE TABLE t {definition}")).await;
        let source = self.read("t").await;
        let alter = Alter::clauses(clauses).unwrap();
        let altered = probe(&mut self.conn, &source, &alter).await;
        let scratch = ShadowNames::beside(&source.name).probe;
        assert_eq!(Table::read(&mut self.conn, &scratch).await.unwrap(), None);
        assert_eq!(self.read("t").await, source);
        altered
    }

    /// As [`Place::probe`], told as `a>b` for what travels, `-a` for what is
    /// dropped, `+b` for what is added and `=b` for what the server computes.
    pub(crate) async fn story(&mut self, definition: &str, clauses: &str) -> String {
        let altered = self.probe(definition, clauses).await.unwrap();
        let source = self.read("t").await;
        let from = |at: usize| source.columns[at].name.as_str().to_owned();
        let to = |at: usize| altered.table.columns[at].name.as_str().to_owned();
        let mapping = &altered.mapping;
        let mut story = Vec::new();
        story.extend(
            mapping
                .pairs
                .iter()
                .map(|p| format!("{}>{}", from(p.source), to(p.target))),
        );
        story.extend(mapping.dropped.iter().map(|at| format!("-{}", from(*at))));
        story.extend(mapping.added.iter().map(|at| format!("+{}", to(*at))));
        story.extend(mapping.generated.iter().map(|at| format!("={}", to(*at))));
        story.join(" ")
    }
}

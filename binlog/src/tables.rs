//! Tables for unit tests.

use oxferry_schema::{Column, Ident, Table, TableName};

use crate::watched::Watched;

/// A table of the name `schema.table` with columns of these whole types.
pub(crate) fn table(name: &str, types: &[&str]) -> Table {
    let (schema, table) = name.split_once('.').unwrap();
    let columns = types.iter().enumerate();
    Table {
        name: TableName::new(Ident::new(schema).unwrap(), Ident::new(table).unwrap()),
        columns: columns.map(|(at, whole)| column(at, whole)).collect(),
        indexes: Vec::new(),
        engine: "InnoDB".to_owned(),
        row_estimate: 0,
        size_bytes: 0,
        auto_increment: None,
        create_statement: String::new(),
    }
}

fn column(at: usize, whole: &str) -> Column {
    let end = whole.find(['(', ' ']).unwrap_or(whole.len());
    Column {
        name: Ident::new(format!("c{at}")).unwrap(),
        data_type: whole[..end].to_owned(),
        column_type: whole.to_owned(),
        charset: None,
        collation: None,
        nullable: true,
        generated: None,
        invisible: false,
        auto_increment: false,
        members: whole
            .split('\'')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect(),
    }
}

/// Watched tables of these names, each with one INT column.
pub(crate) fn watched(names: &[&str]) -> Watched {
    Watched::new(names.iter().map(|name| table(name, &["int"])).collect())
}

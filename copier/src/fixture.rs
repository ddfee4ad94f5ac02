//! Tables for unit tests.

use oxferry_schema::{Column, Ident, Index, IndexPart, KeyKind, RowKey, Table, TableName};

pub(crate) fn ident(name: &str) -> Ident {
    Ident::new(name).unwrap()
}

pub(crate) fn column(name: &str, column_type: &str) -> Column {
    let data_type = column_type.split(['(', ' ']).next().unwrap();
    Column {
        name: ident(name),
        data_type: data_type.to_owned(),
        column_type: column_type.to_owned(),
        charset: None,
        collation: None,
        nullable: true,
        generated: None,
        invisible: false,
        auto_increment: false,
        members: Vec::new(),
    }
}

pub(crate) fn index(name: &str, unique: bool, columns: &[&str]) -> Index {
    let part = |column: &&str| IndexPart {
        column: Some(ident(column)),
        prefix: None,
        nullable: false,
        descending: false,
    };
    Index {
        name: ident(name),
        unique,
        visible: true,
        kind: "BTREE".to_owned(),
        parts: columns.iter().map(part).collect(),
    }
}

pub(crate) fn key(index: &str, columns: &[(&str, usize)]) -> RowKey {
    RowKey {
        index: ident(index),
        columns: columns.iter().map(|(name, _)| ident(name)).collect(),
        ordinals: columns.iter().map(|(_, ordinal)| *ordinal).collect(),
        kinds: vec![KeyKind::Int { unsigned: false }; columns.len()],
    }
}

pub(crate) fn table(
    name: &str,
    columns: impl Into<Vec<Column>>,
    indexes: impl Into<Vec<Index>>,
) -> Table {
    Table {
        name: TableName::new(ident("d"), ident(name)),
        columns: columns.into(),
        indexes: indexes.into(),
        engine: "InnoDB".to_owned(),
        row_estimate: 0,
        size_bytes: 0,
        auto_increment: None,
        create_statement: String::new(),
    }
}

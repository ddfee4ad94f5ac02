//! Tables for unit tests.

use crate::{Column, Ident, Index, Table, TableName};

pub(crate) fn ident(name: &str) -> Ident {
    Ident::new(name).unwrap()
}

/// A NOT NULL column of this whole type, without a character set.
pub(crate) fn column(name: &str, column_type: &str) -> Column {
    let data_type = column_type.split(['(', ' ']).next().unwrap();
    Column {
        name: ident(name),
        data_type: data_type.to_owned(),
        column_type: column_type.to_owned(),
        charset: None,
        collation: None,
        nullable: false,
        invisible: false,
        generated: None,
        auto_increment: false,
        members: crate::members::members(column_type).unwrap_or_default(),
    }
}

/// The table `d`.`t`.
pub(crate) fn table(columns: impl Into<Vec<Column>>, indexes: impl Into<Vec<Index>>) -> Table {
    Table {
        name: TableName::new(ident("d"), ident("t")),
        columns: columns.into(),
        indexes: indexes.into(),
        engine: "InnoDB".to_owned(),
        row_estimate: 0,
        size_bytes: 0,
        auto_increment: None,
        create_statement: String::new(),
    }
}

//! Tables as the server describes them.

use serde::{Deserialize, Serialize};

use crate::{Ident, KeyKind, TableName};

/// A table as the server describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The table's full name, letter case as the server has it.
    pub name: TableName,
    /// Every column, generated and invisible ones too, in the table's order.
    pub columns: Vec<Column>,
    /// Every index, the primary key first, then in the server's own order.
    pub indexes: Vec<Index>,
    /// The storage engine, as the server spells it: `InnoDB`.
    pub engine: String,
    /// The server's estimate of the number of rows.
    pub row_estimate: u64,
    /// The server's estimate of the bytes that rows and indexes take.
    pub size_bytes: u64,
    /// The next automatic value, if the table has such a column.
    pub auto_increment: Option<u64>,
    /// What `SHOW CREATE TABLE` prints.
    pub create_statement: String,
}

/// A column as the server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The column's name.
    pub name: Ident,
    /// The type's bare name in lower case: `int`, `varchar`, `enum`.
    pub data_type: String,
    /// The whole type: `int unsigned`, `varchar(20)`, `enum('a','b')`.
    pub column_type: String,
    /// The character set of a character, ENUM or SET column.
    pub charset: Option<String>,
    /// The collation of a character, ENUM or SET column.
    pub collation: Option<String>,
    /// Whether the column takes NULL.
    pub nullable: bool,
    /// Whether `SELECT *` leaves the column out.
    pub invisible: bool,
    /// Whether and how the server computes the column.
    pub generated: Option<Generated>,
    /// Whether the column is `AUTO_INCREMENT`.
    pub auto_increment: bool,
    /// The members of an ENUM or SET column, in their order, in UTF-8.
    pub members: Vec<String>,
}

/// How a generated column is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "MySQL knows these two")]
pub enum Generated {
    /// Computed when it is read; a binlog row image holds it nevertheless.
    Virtual,
    /// Computed when the row is written.
    Stored,
}

/// An index as the server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The index's name; `PRIMARY` for the primary key.
    pub name: Ident,
    /// Whether two rows may not have the same values.
    pub unique: bool,
    /// Whether the optimizer may use it.
    pub visible: bool,
    /// `BTREE`, `FULLTEXT`, `SPATIAL` and so on, as the server spells it.
    pub kind: String,
    /// Its parts in order.
    pub parts: Vec<IndexPart>,
}

/// One part of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexPart {
    /// The column, or `None` where the part is an expression.
    pub column: Option<Ident>,
    /// How many characters or bytes are indexed, where not the whole column.
    pub prefix: Option<u32>,
    /// Whether the part may be NULL.
    pub nullable: bool,
    /// Whether the part is ordered from high to low.
    pub descending: bool,
}

/// The index that tells a table's rows apart.
///
/// Names the PRIMARY KEY, or else the first unique index whose columns are all
/// whole and NOT NULL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowKey {
    /// The index's name.
    pub index: Ident,
    /// The key's columns, in key order.
    pub columns: Vec<Ident>,
    /// Where each of them stands in [`Table::columns`].
    pub ordinals: Vec<usize>,
    /// The type of each of them.
    pub kinds: Vec<KeyKind>,
}

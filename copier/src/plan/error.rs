//! Why a table can't be copied onto its target.

use oxferry_schema::{Ident, KeyError, TableName};

/// Why a table can't be copied onto its target in this way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A mapping names a source column that isn't there.
    #[error("source table {} has no column number {ordinal}", table.plain())]
    NoSourceColumn {
        /// The source table.
        table: TableName,
        /// The column's place, from 0.
        ordinal: usize,
    },
    /// A mapping names a target column that isn't there.
    #[error("target table {} has no column {column}", table.plain())]
    NoTargetColumn {
        /// The target table.
        table: TableName,
        /// The column.
        column: Ident,
    },
    /// The server computes the target column; nothing may be written to it.
    #[error("column {column} of target table {} is generated and takes no values", table.plain())]
    Generated {
        /// The target table.
        table: TableName,
        /// The column.
        column: Ident,
    },
    /// A column of the source's key has no counterpart.
    #[error(
        "column {column} of the source's key {index} is not carried over to {}; keep it, or give the \
         source another key",
        table.plain()
    )]
    KeyNotMapped {
        /// The target table.
        table: TableName,
        /// The source's key.
        index: Ident,
        /// The column.
        column: Ident,
    },
    /// The client can't tell in which range a key lies, in *ranged* mode.
    #[error("key {index} of source table {} is not ordered here as on the target: copy it in ordered mode", table.plain())]
    KeyOrder {
        /// The source table.
        table: TableName,
        /// Its key.
        index: Ident,
    },
    /// The key's columns are there, with types that don't do.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Rows of the target couldn't be found by the source's key.
    #[error(
        "target table {} has no index that begins with {}, the source's key, by which rows are found \
         while they are copied: add one to the change, and drop it afterwards",
        table.plain(),
        names(columns)
    )]
    NoTargetKey {
        /// The target table.
        table: TableName,
        /// Its columns that hold the source's key.
        columns: Vec<Ident>,
    },
    /// A generated key column is computed in another way on the target.
    #[error(
        "column {column} of the source's key is generated, and {} computes it in another way, so \
         that rows can't be found by it while they are copied: give the source another key",
        table.plain()
    )]
    KeyComputed {
        /// The target table.
        table: TableName,
        /// Its column.
        column: Ident,
    },
    /// A unique index that is new, and that can't be built after the copy.
    #[error(
        "unique index {index} of target table {} is new or stricter, and can't be built after the \
         rows are copied, nor can another one that is not: rows that it forbids would vanish; add \
         it in a change of its own",
        table.plain()
    )]
    NewUnique {
        /// The target table.
        table: TableName,
        /// The index.
        index: Ident,
    },
    /// A second unique index, in *ranged* mode.
    #[error(
        "unique index {index} of target table {} must be built after the rows are copied",
        table.plain()
    )]
    UniqueInTheWay {
        /// The target table.
        table: TableName,
        /// The index.
        index: Ident,
    },
}

fn names(columns: &[Ident]) -> String {
    let names: Vec<&str> = columns.iter().map(Ident::as_str).collect();
    names.join(", ")
}

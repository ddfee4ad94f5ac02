//! Row images out of the bytes of rows events.
//!
//! Everything here is pure and reads with checks: bytes that make no sense
//! are an error, never a panic and never a guess.

mod decimal;
mod json;
mod kind;
mod plan;
mod reader;
mod rows;
mod table_map;
mod temporal;
mod value;

pub(crate) use plan::Plan;
pub(crate) use reader::Reader;
pub(crate) use rows::{RowsKind, table_id};
pub(crate) use table_map::TableMap;

/// Why the bytes of an event can't be read as changes of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The event ended before a field did.
    #[error("{field} needs {needed} bytes, only {left} are left")]
    Truncated {
        /// The field being read.
        field: &'static str,
        /// Bytes that the field takes.
        needed: u64,
        /// Bytes that remain.
        left: u64,
    },
    /// A field holds a value that no server writes there.
    #[error("{field} holds {value}, which no server writes there")]
    Invalid {
        /// The field being read.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The table has another number of columns than when it was described.
    #[error("the log has {logged} columns, the table as it was described has {described}")]
    ColumnCount {
        /// Columns in the log.
        logged: u64,
        /// Columns in the description.
        described: u64,
    },
    /// A column isn't of the type that it had when it was described.
    #[error("column {column} is {described:?}, but the log holds {logged}")]
    ColumnType {
        /// The column's name.
        column: String,
        /// Its whole type as it was described.
        described: String,
        /// What the log holds instead.
        logged: String,
    },
    /// A column's type is one that this program can't read.
    #[error("column {column} is of the type {data_type:?}, which can't be read from the log")]
    Unsupported {
        /// The column's name.
        column: String,
        /// The bare name of the type.
        data_type: String,
    },
    /// A column's value can't be read.
    #[error("the value of column {column} can't be read")]
    Value {
        /// The column's name.
        column: String,
        /// What is wrong with it.
        #[source]
        source: Box<Self>,
    },
    /// An image doesn't hold every column.
    #[error("the image holds {present} of {columns} columns")]
    PartialImage {
        /// Columns in the image.
        present: u64,
        /// Columns of the table.
        columns: u64,
    },
}

//! What a MySQL table is: its names, columns, keys and values.
//!
//! The types here are what the other crates speak in. Reading them from a
//! server and writing them in SQL happens here too, and nowhere else: a name
//! reaches a statement only as a [`TableName`] or an [`Ident`], whose
//! `Display` is already quoted, and values travel as parameters.
//!
//! This crate does not copy, stream or compare anything.

mod key;
mod name;
mod predicate;
mod range;
mod remedy;
mod row;
mod table;

pub use key::{Key, KeyPart};
pub use name::{Ident, NameError, TableName};
pub use predicate::Predicate;
pub use range::KeyRange;
pub use remedy::Remedy;
pub use row::Row;
pub use table::{Column, Generated, Index, IndexPart, RowKey, Table};

/// A value as it travels between a server and this program.
///
/// The library's own type: it is what parameters are made of.
pub use mysql_async::Value;

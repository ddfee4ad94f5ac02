//! What a MySQL table is: its names, columns, keys and values.
//!
//! The types here are what the other crates speak in. Reading them from a
//! server and writing them in SQL happens here too, and nowhere else: a name
//! reaches a statement only as a [`TableName`] or an [`Ident`], whose
//! `Display` is already quoted, and values travel as parameters.
//!
//! This crate does not copy, stream or compare anything.
//!
//! It reads tables ([`Table::read`]), opens sessions ([`connect`]), admits
//! statements ([`Alter`]) and asks the server what they do ([`probe`]).

mod attached;
mod backoff;
mod checks;
mod create;
mod estate;
#[cfg(test)]
mod fixture;
mod foreign_key;
mod hex;
mod json_leaf;
mod key;
mod key_kind;
mod key_side;
mod mapping;
mod members;
mod name;
mod native;
mod predicate;
mod probe;
mod range;
mod read;
mod remedy;
mod row;
mod row_key;
mod server;
mod server_error;
mod session;
mod shadow;
mod statement;
mod table;
mod trigger;
mod url;
mod xa;

pub use attached::{Attached, CarriedKey, LostColumn};
pub use backoff::Backoff;
pub use checks::renamed_checks;
pub use create::{ShadowError, create_shadow, set_auto_increment};
pub use estate::{
    Blueprint, Chosen, CreateError, Database, DatabaseBlueprint, EstateProblem, ExistingTable,
    FinishError, Found, LeftBehind, LeftOut, OWN_DDL_COMMENT, Orphan, Part, Place, PlaceError,
    Rename, Selection, Sides, TableBlueprint, TargetSide, TargetTables, Wanted, differences,
    next_auto_increment, raise_auto_increment, read_databases, read_found, same_partitions,
};
pub use foreign_key::ForeignKey;
pub use json_leaf::{JsonLeaf, JsonValue};
pub use key::{Key, KeyPart};
pub use key_kind::KeyKind;
pub use key_side::KeySide;
pub use mapping::{ColumnPair, Mapping};
pub use name::{Ident, NameError, TableName};
pub use native::{Algorithm, CopyReason, NativeError, NativePlan, native_plan};
pub use predicate::Predicate;
pub use probe::{Altered, Objection, ProbeError, probe, try_attached};
pub use range::KeyRange;
pub use read::ReadError;
pub use remedy::Remedy;
pub use row::Row;
pub use row_key::KeyError;
pub use server::{ServerInfo, ServerInfoError, ServerPosition, ServerVersion, current_position};
pub use server_error::{ErrorClass, classify, classify_code, server_code};
pub use session::{CHARSET_AND_MODE, CONNECT_DEADLINE, ConnectError, PACKET_BYTES_MAX, connect};
pub use shadow::{ShadowNames, temporary_name};
pub use statement::{Alter, LexError, Refusal, StatementError};
pub use table::{Column, Generated, Index, IndexPart, RowKey, Table};
pub use trigger::{Trigger, TriggerStatement};
pub use url::{ServerUrl, ServerUrlError, SslMode, Tls};
pub use xa::prepared_xa;

/// A value as it travels between a server and this program.
///
/// The library's own type: it is what parameters are made of.
pub use mysql_async::Value;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

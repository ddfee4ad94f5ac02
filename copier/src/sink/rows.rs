//! Writing whole rows to the target, as values of statements.

use std::collections::BTreeMap;

use mysql_async::{Conn, Error as DriverError, ServerError, prelude::Queryable};
use oxferry_schema::{Column, JsonLeaf, Key, Row, Value};

use super::{decide::Write, writer::Writer};
use crate::{
    document, param,
    pieces::{PieceLimits, pieces},
};

impl Writer {
    /// Makes sure that each row finds room in one packet: the server ends the
    /// connection of whoever sends a larger one. Source: MySQL 9.7 manual,
    /// "Packet Too Large".
    pub(crate) fn check_sizes<'r>(
        &self,
        rows: impl IntoIterator<Item = &'r Row>,
        packet_bytes: usize,
    ) -> Result<(), DriverError> {
        let written = self.plan.pairs().map(|(ordinal, ..)| ordinal);
        let written: Vec<usize> = written.collect();
        for row in rows {
            let size = |ordinal: &usize| match row.values().get(*ordinal) {
                Some(Value::Bytes(bytes)) => bytes.len() + VALUE_BYTES,
                _ => VALUE_BYTES,
            };
            let bytes = written.iter().map(size).sum::<usize>() + STATEMENT_BYTES;
            if bytes > packet_bytes {
                return Err(DriverError::Other(Box::new(RowTooLarge {
                    key: self.plan.key().key_of(row).ok_or_else(short_row)?,
                    bytes,
                    limit: packet_bytes,
                })));
            }
        }
        Ok(())
    }

    /// Writes whole rows, in statements of at most `bytes` of values.
    pub(crate) async fn write_rows(
        &self,
        conn: &mut Conn,
        rows: &[&Row],
        (bytes, how): (usize, Write),
    ) -> Result<(), DriverError> {
        let how = self.make_room(conn, rows, (bytes, how)).await?;
        let (special, plain): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| !row.leaves().is_empty());
        self.write_plain(conn, &plain, (bytes, how)).await?;
        for row in special {
            self.write_special(conn, row, how).await?;
        }
        Ok(())
    }

    /// Where others' rows must stay: removes the tenant's rows that stand in the
    /// way, so that what is still met is an error.
    async fn make_room(
        &self,
        conn: &mut Conn,
        rows: &[&Row],
        (bytes, how): (usize, Write),
    ) -> Result<Write, DriverError> {
        if self.plan.filter().is_none() || how == Write::Insert {
            return Ok(how);
        }
        let pairs: Vec<_> = self.plan.pairs().collect();
        for unique in self.plan.uniques() {
            let sizes: Vec<usize> = rows.iter().map(|row| row.size_bytes()).collect();
            let row_places = unique.len();
            for piece in pieces(&sizes, PieceLimits { row_places, bytes }) {
                let rows = rows.get(piece).unwrap_or_default();
                let mut params = Vec::new();
                for row in rows {
                    add_unique(row, &pairs, (unique, &mut params))?;
                }
                params.extend(self.filter_params());
                let sql = self.statements.delete_by(unique, rows.len());
                conn.exec_drop(sql, params).await?;
            }
        }
        Ok(Write::Insert)
    }

    /// Writes a row with JSON documents whose text isn't all that there is.
    async fn write_special(
        &self,
        conn: &mut Conn,
        row: &Row,
        how: Write,
    ) -> Result<(), DriverError> {
        let mut expressions = BTreeMap::new();
        let mut params = Vec::new();
        for (at, (ordinal, from, to)) in self.plan.pairs().enumerate() {
            let value = row.values().get(ordinal).ok_or_else(short_row)?;
            let leaves = row.leaves().iter().filter(|leaf| leaf.column == ordinal);
            let leaves: Vec<&JsonLeaf> = leaves.collect();
            if leaves.is_empty() {
                params.push(param::parameter(value, from, to));
            } else {
                expressions.insert(at, document::expression(&leaves));
                params.extend(document::params(value, &leaves));
            }
        }
        let replaces = matches!(how, Write::Replace);
        let sql = self.statements.special(replaces, &expressions);
        conn.exec_drop(sql, params).await
    }

    async fn write_plain(
        &self,
        conn: &mut Conn,
        rows: &[&Row],
        (bytes, how): (usize, Write),
    ) -> Result<(), DriverError> {
        let (plain, odd): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| self.no_members(row) == 0);
        let rows = plain;
        let sizes: Vec<usize> = rows.iter().map(|row| row.size_bytes()).collect();
        let row_places = self.plan.pairs().count();
        for piece in pieces(&sizes, PieceLimits { row_places, bytes }) {
            let rows = rows.get(piece).unwrap_or_default();
            let mut params = Vec::with_capacity(rows.len() * row_places);
            for row in rows {
                self.add_params(row, &mut params)?;
            }
            let sql = match how {
                Write::Insert => self.statements.insert(rows.len()),
                Write::Replace => self.statements.replace(rows.len()),
            };
            conn.exec_drop(sql, params).await?;
        }
        for row in odd {
            self.write_odd(conn, row, how).await?;
        }
        Ok(())
    }

    /// Writes a row that holds values of an ENUM that are no member, which only
    /// a statement that isn't strict writes: each gives one warning, and any
    /// further warning is the error that it would be in strict mode.
    async fn write_odd(&self, conn: &mut Conn, row: &Row, how: Write) -> Result<(), DriverError> {
        let mut params = Vec::new();
        self.add_params(row, &mut params)?;
        let verb = match how {
            Write::Insert => "INSERT",
            Write::Replace => "REPLACE",
        };
        let sql = self.statements.lenient(verb);
        conn.exec_drop(sql, params).await?;
        let expected = self.no_members(row);
        if usize::from(conn.get_warnings()) == expected {
            return Ok(());
        }
        let mut told: Vec<(String, u16, String)> = conn.query("SHOW WARNINGS").await?;
        // Spaces cut off at the end, which strict mode notes too.
        told.retain(|(level, ..)| level != "Note");
        if told.len() == expected {
            return Ok(());
        }
        let is_expected = |code: u16, message: &str| {
            let names = |column: &str| message.contains(&format!("'{column}'"));
            code == WARN_DATA_TRUNCATED && self.odd_columns(row).any(names)
        };
        let other = told
            .into_iter()
            .find(|(_, code, message)| !is_expected(*code, message));
        let (code, message) = other.map_or_else(
            || (WARN_DATA_TRUNCATED, NOT_AS_IT_IS.to_owned()),
            |(_, code, message)| (code, message),
        );
        let state = "01000".to_owned();
        Err(DriverError::Server(ServerError {
            code,
            message,
            state,
        }))
    }

    /// Returns how many of a row's values are no member of their ENUM.
    fn no_members(&self, row: &Row) -> usize {
        self.odd_columns(row).count()
    }

    /// Returns the target's columns that such values go to.
    fn odd_columns<'r>(&'r self, row: &'r Row) -> impl Iterator<Item = &'r str> {
        self.plan.pairs().filter_map(|(ordinal, from, to)| {
            let value = row.values().get(ordinal)?;
            param::is_no_member(value, from, to).then(|| to.name.as_str())
        })
    }

    fn add_params(&self, row: &Row, params: &mut Vec<Value>) -> Result<(), DriverError> {
        for (ordinal, from, to) in self.plan.pairs() {
            let value = row.values().get(ordinal).ok_or_else(short_row)?;
            params.push(param::parameter(value, from, to));
        }
        Ok(())
    }
}

/// Adds a row's values in the columns of a unique index, as places among the
/// written ones.
fn add_unique(
    row: &Row,
    pairs: &[(usize, &Column, &Column)],
    (unique, params): (&[usize], &mut Vec<Value>),
) -> Result<(), DriverError> {
    for place in unique {
        let (ordinal, from, to) = pairs.get(*place).ok_or_else(short_row)?;
        let value = row.values().get(*ordinal).ok_or_else(short_row)?;
        params.push(param::parameter(value, from, to));
    }
    Ok(())
}

/// Source: MySQL 9.7 "Server Error Message Reference".
const WARN_DATA_TRUNCATED: u16 = 1265;

/// Said where the server's warnings don't tell what else was wrong.
const NOT_AS_IT_IS: &str = "a row with an ENUM value that is no member was not written as it is";

/// A row that no packet has room for.
#[derive(Debug, thiserror::Error)]
#[error("the row with key {key} takes {bytes} bytes of a packet, and the server takes {limit}")]
pub(crate) struct RowTooLarge {
    pub(crate) key: Key,
    pub(crate) bytes: usize,
    pub(crate) limit: usize,
}

/// What a value takes of a packet beside its bytes: its type and length.
const VALUE_BYTES: usize = 13;

/// What a statement takes of a packet beside its values.
const STATEMENT_BYTES: usize = 64;

/// A row with fewer values than its table has columns, which the stream must
/// not produce.
fn short_row() -> DriverError {
    DriverError::Other("a changed row has fewer values than the plan has columns".into())
}

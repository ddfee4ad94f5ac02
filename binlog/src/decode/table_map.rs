//! Table map events: which table a number stands for, and its columns' types.

use super::{DecodeError, Reader};

/// A table map event, its names and types borrowed from the event's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableMap<'a> {
    /// The number that rows events name the table by.
    pub(crate) id: u64,
    /// The database's name.
    pub(crate) schema: &'a [u8],
    /// The table's name.
    pub(crate) table: &'a [u8],
    /// One type code for each column.
    pub(crate) types: &'a [u8],
    /// The columns' metadata, one after the other.
    pub(crate) metadata: &'a [u8],
}

impl<'a> TableMap<'a> {
    /// Reads the body of a table map event, without header and checksum.
    ///
    /// Source: MySQL 9.7, `libs/mysql/binlog/event/rows_event.h`, `Table_map_event`.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let id = reader.little(6, "table id")?;
        reader.little(2, "table map flags")?;
        let schema = Self::name(&mut reader, "database name")?;
        let table = Self::name(&mut reader, "table name")?;
        let columns = reader.length_encoded("number of columns")?;
        let types = reader.take(columns, "column types")?;
        let length = reader.length_encoded("length of the column metadata")?;
        let metadata = reader.take(length, "column metadata")?;
        Ok(Self {
            id,
            schema,
            table,
            types,
            metadata,
        })
    }

    /// Reads a name with its length in front and a zero byte behind.
    fn name(reader: &mut Reader<'a>, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let length = reader.length_encoded(field)?;
        let name = reader.take(length, field)?;
        reader.byte(field)?;
        Ok(name)
    }
}

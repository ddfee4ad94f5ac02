//! Rows events, and the table maps that say whose rows they hold.

use super::Log;
use crate::{
    StreamError, StreamEvent,
    decode::{DecodeError, Plan, RowsKind, TableMap, table_id},
};

/// Whose rows an event holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A watched table's.
    Watched(usize),
    /// The mark's.
    Mark,
    /// Any other table's.
    Other,
}

impl Log {
    pub(super) fn table_map(&mut self, body: &[u8]) -> Result<Option<StreamEvent>, StreamError> {
        let map = TableMap::parse(body).map_err(|error| self.unreadable(&error))?;
        let owner = match self.watched.find(map.schema, map.table) {
            Some(index) => Owner::Watched(index),
            None if self.watched.is_mark(map.schema, map.table) => Owner::Mark,
            None => Owner::Other,
        };
        self.tables.insert(map.id, owner);
        let marked = self.group.as_ref().and_then(|group| group.marked);
        let Owner::Watched(index) = owner else {
            return Ok(None);
        };
        let cached = self.plans.get(index).and_then(Option::as_ref);
        if marked == Some(true) || cached.is_some_and(|(known, _)| **known == *body) {
            return Ok(None);
        }
        if let (Some(table), Some(plan)) = (self.watched.table(index), self.plans.get_mut(index)) {
            let compiled = Plan::compile(&map, table);
            match compiled {
                Ok(compiled) => *plan = Some((body.into(), compiled)),
                Err(source) => return Err(self.undecodable(index, source)),
            }
        }
        Ok(None)
    }

    pub(super) fn rows(
        &mut self,
        kind: RowsKind,
        extended: bool,
        body: &[u8],
    ) -> Result<Option<StreamEvent>, StreamError> {
        let Some(table) = self.rows_table(body)? else {
            return Ok(None);
        };
        let Some(group) = &mut self.group else {
            return Err(self.damaged("rows stand outside of a transaction"));
        };
        if group.xid.is_some() && !self.watched.has_mark() {
            let table = self.watched.plain(table);
            return Err(self.xa(format!("changes {table}")));
        }
        if !group.count() {
            return Ok(None);
        }
        let Some((_, plan)) = self.plans.get(table).and_then(Option::as_ref) else {
            return Err(self.damaged("rows come without a table map"));
        };
        let changes = plan.changes(kind, extended, body);
        let changes = changes.map_err(|source| self.undecodable(table, source))?;
        Ok(Some(StreamEvent::Rows { table, changes }))
    }

    pub(super) fn partial_rows(&mut self, body: &[u8]) -> Result<Option<StreamEvent>, StreamError> {
        match self.rows_table(body)? {
            Some(table) => Err(self.undecodable(
                table,
                DecodeError::PartialImage {
                    present: 0,
                    columns: 0,
                },
            )),
            None => Ok(None),
        }
    }

    /// The watched table that a rows event is about; none, too, where the
    /// transaction is a marked one.
    fn rows_table(&mut self, body: &[u8]) -> Result<Option<usize>, StreamError> {
        let id = table_id(body).map_err(|error| self.unreadable(&error))?;
        let Some(owner) = self.tables.get(&id).copied() else {
            return Err(self.damaged("rows come without a table map"));
        };
        let marked = self
            .group
            .as_mut()
            .is_some_and(|group| *group.marked.get_or_insert(owner == Owner::Mark));
        Ok(match owner {
            Owner::Watched(table) if !marked => Some(table),
            _ => None,
        })
    }

    fn undecodable(&self, table: usize, source: DecodeError) -> StreamError {
        let (table, at) = (self.watched.plain(table), self.at());
        match source {
            DecodeError::PartialImage { .. } => StreamError::PartialImage { table, at },
            source => StreamError::Decode { table, at, source },
        }
    }
}

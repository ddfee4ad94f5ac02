//! What the events of a binary log mean, one after the other.
//!
//! Holds no connection and no clock: events in, steps of the stream out.

mod event_type;
mod payload;
mod query;
mod rows;

use std::collections::HashMap;

use event_type::EventType;
use mysql_common::binlog::{
    consts::BinlogChecksumAlg,
    events::{Event, ExecuteLoadQueryEvent, GtidEvent},
};
use payload::Payload;
use query::{Query, shortened};
use rows::Owner;

use crate::{
    FilePosition, Gtid, Position, StreamError, StreamEvent, TransactionName,
    decode::{DecodeError, Plan, Reader},
    group::{Group, Replayed},
    place::Place,
    prepared::Prepared,
    statement::{self, Meaning},
    watched::Watched,
};

/// What is known of the log, from event to event.
#[derive(Debug)]
pub(crate) struct Log {
    watched: Watched,
    /// For each watched table, the last table map's body and what it led to.
    plans: Vec<Option<(Box<[u8]>, Plan)>>,
    /// The tables of the present transaction by their number in the log.
    tables: HashMap<u64, Owner>,
    place: Place,
    /// Where reading goes on after a reconnect.
    boundary: Position,
    /// The last position handed out.
    reported: Option<FilePosition>,
    group: Option<Group>,
    replayed: Option<Replayed>,
    payload: Option<Payload>,
    /// Whether the server, asked by GTIDs, hasn't come to the first event that
    /// counts: its position may be before those handed out.
    searching: bool,
    /// Whether the connection has said how its events are checksummed.
    described: bool,
    prepared: Prepared,
}

impl Log {
    pub(crate) fn new(from: Position, watched: Watched) -> Self {
        Self {
            plans: vec![None; watched.len()],
            watched,
            tables: HashMap::new(),
            place: Place::new(from.file.clone()),
            searching: from.gtids.is_some(),
            boundary: from,
            reported: None,
            group: None,
            replayed: None,
            payload: None,
            described: false,
            prepared: Prepared::default(),
        }
    }

    /// The end of the last whole transaction, where reading can go on.
    pub(crate) const fn boundary(&self) -> &Position {
        &self.boundary
    }

    /// Where reading stands.
    pub(crate) fn at(&self) -> Box<FilePosition> {
        Box::new(self.place.position())
    }

    /// The GTID of the transaction that is open, where it has one.
    pub(crate) fn gtid(&self) -> Option<Gtid> {
        self.group.as_ref().and_then(Group::gtid)
    }

    /// Says whether the server has `lower_case_table_names` other than 0.
    pub(crate) const fn ignore_case(&mut self, ignore: bool) {
        self.watched.ignore_case(ignore);
    }

    /// Says that another server answers now: its file positions have nothing
    /// to do with those handed out before.
    pub(crate) fn handle_other_server(&mut self) {
        self.reported = None;
        self.prepared = Prepared::default();
    }

    /// Says that the connection broke. The next event is the first one
    /// behind the [boundary](Self::boundary).
    pub(crate) fn handle_disconnect(&mut self) {
        if let Some(group) = self.group.take() {
            self.replayed = group.into_replayed();
        }
        self.tables.clear();
        self.payload = None;
        self.described = false;
        self.searching = self.boundary.gtids.is_some();
    }

    /// Takes the next event.
    pub(crate) fn handle(&mut self, event: &Event) -> Result<Option<StreamEvent>, StreamError> {
        let header = event.header();
        let before = self.place.as_position().offset_bytes();
        if event.footer().get_checksum_enabled() {
            self.open_outer(event)?;
        } else if let Some(payload) = &mut self.payload {
            payload.count(header.event_size());
        }
        let kind = EventType::of(header.event_type_raw(), header.flags_raw());
        let body = event.data();
        match kind {
            EventType::Gtid => self.begin_untagged(body),
            EventType::GtidTagged => self.begin_tagged(event),
            EventType::AnonymousGtid => {
                let start = self.start(before);
                self.begin(start)
            }
            EventType::Query => self.query(body, before),
            EventType::Xid => self.commit().map(Some),
            EventType::TableMap => self.table_map(body),
            EventType::Rows { kind, extended } => self.rows(kind, extended, body),
            EventType::PartialUpdateRows => self.partial_rows(body),
            EventType::TransactionPayload => self.open_payload(event),
            EventType::XaPrepare => self.xa_prepare(body),
            EventType::ExecuteLoadQuery => self.load_query(event),
            EventType::Rotate => self.rotate(body),
            EventType::Heartbeat => Ok(self.heartbeat(header.log_pos())),
            EventType::FormatDescription => {
                self.described = true;
                Ok(self.progress())
            }
            EventType::Incident => Err(StreamError::Incident { at: self.at() }),
            EventType::NoChanges => Ok(self.progress()),
            EventType::Unknown(kind) => Err(StreamError::UnknownEvent {
                kind,
                at: self.at(),
            }),
        }
    }

    /// Checks an event that stands in the log itself, not in a payload, and
    /// goes to its end.
    fn open_outer(&mut self, event: &Event) -> Result<(), StreamError> {
        if let Some(payload) = self.payload.take()
            && !payload.is_complete()
        {
            return Err(self.damaged("a compressed transaction can't be decompressed"));
        }
        let header = event.header();
        let kind = header.event_type_raw();
        let describes = kind == event_type::FORMAT_DESCRIPTION;
        if self.described || describes {
            self.verify_checksum(event)?;
        }
        // An artificial event, made for this connection, has no end in the file.
        const ARTIFICIAL: u16 = 0x20;
        let artificial = header.flags_raw() & ARTIFICIAL != 0;
        if header.log_pos() != 0 && !artificial && !event_type::is_heartbeat(kind) {
            self.place.advance(header.log_pos());
        }
        Ok(())
    }

    fn verify_checksum(&self, event: &Event) -> Result<(), StreamError> {
        let algorithm = event.footer().get_checksum_alg();
        match algorithm {
            Ok(Some(algorithm @ BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32)) => {
                let found = event.checksum().map(u32::from_le_bytes);
                let computed = event.calc_checksum(algorithm);
                if found == Some(computed) {
                    return Ok(());
                }
                let found = found.unwrap_or_default();
                Err(self.damaged(format!(
                    "its checksum is {found:#010x}, its bytes give {computed:#010x}"
                )))
            }
            Ok(_) => Ok(()),
            Err(unknown) => Err(self.damaged(unknown.to_string())),
        }
    }

    fn damaged(&self, reason: impl Into<String>) -> StreamError {
        StreamError::Damaged {
            at: self.at(),
            reason: reason.into(),
        }
    }

    fn unreadable(&self, source: &DecodeError) -> StreamError {
        self.damaged(source.to_string())
    }

    /// Hands out the position reached, if no transaction is open and it is new.
    fn progress(&mut self) -> Option<StreamEvent> {
        let end = self.place.as_position();
        let between = self.group.is_none() && !self.searching;
        if !between || self.reported.as_ref().is_some_and(|last| last >= end) {
            return None;
        }
        let end = self.report();
        Some(StreamEvent::Progress { end })
    }

    /// Notes the position reached as handed out, and as a boundary.
    fn report(&mut self) -> FilePosition {
        let end = self.place.position();
        self.boundary.file = end.clone();
        self.reported = Some(end.clone());
        end
    }

    fn start(&self, offset: u64) -> TransactionName {
        TransactionName::Start(self.place.position_at(offset))
    }

    fn begin(&mut self, name: TransactionName) -> Result<Option<StreamEvent>, StreamError> {
        if self.group.is_some() {
            return Err(self.damaged("a transaction begins inside another one"));
        }
        self.tables.clear();
        self.searching = false;
        let group = Group::begin(name, self.replayed.take());
        self.group = Some(group.map_err(|expected| StreamError::LogChanged {
            at: self.at(),
            expected,
        })?);
        Ok(None)
    }

    /// Source: MySQL 9.7, `libs/mysql/binlog/event/control_events.h`, `Gtid_event`.
    fn begin_untagged(&mut self, body: &[u8]) -> Result<Option<StreamEvent>, StreamError> {
        let mut reader = Reader::new(body);
        let read = |reader: &mut Reader<'_>| {
            reader.byte("GTID flags")?;
            Ok((reader.array("GTID")?, reader.little(8, "GTID")?))
        };
        let (uuid, number) = read(&mut reader).map_err(|error| self.unreadable(&error))?;
        let gtid = Gtid::new(uuid, None, number);
        let gtid = gtid.map_err(|error| self.damaged(error.to_string()))?;
        self.begin(TransactionName::Gtid(gtid))
    }

    fn begin_tagged(&mut self, event: &Event) -> Result<Option<StreamEvent>, StreamError> {
        let read = event.read_event::<GtidEvent>();
        let read = read.map_err(|error| self.damaged(error.to_string()))?;
        let gtid = Gtid::new(read.sid(), read.tag().map(|tag| tag.as_str()), read.gno());
        let gtid = gtid.map_err(|error| self.damaged(error.to_string()))?;
        self.begin(TransactionName::Gtid(gtid))
    }

    /// The transaction that an event belongs to. A log without GTID events
    /// begins it here.
    fn group(&mut self, before: u64) -> Result<&mut Group, StreamError> {
        if self.group.is_none() {
            let start = self.start(before);
            self.begin(start)?;
        }
        let at = self.at();
        self.group.as_mut().ok_or_else(|| StreamError::Damaged {
            at,
            reason: "no transaction is open".to_owned(),
        })
    }

    fn open_payload(&mut self, event: &Event) -> Result<Option<StreamEvent>, StreamError> {
        let payload = Payload::open(event).map_err(|error| self.damaged(error.to_string()))?;
        self.payload = Some(payload);
        Ok(None)
    }

    fn query(&mut self, body: &[u8], before: u64) -> Result<Option<StreamEvent>, StreamError> {
        let query = Query::parse(body).map_err(|error| self.unreadable(&error))?;
        let meaning = match query.sql {
            b"BEGIN" => Meaning::Begin,
            _ => Meaning::of(query.sql, query.schema, &self.watched),
        };
        let own = self.watched.has_mark() && statement::is_own(query.sql);
        let group = self.group(before)?;
        match meaning {
            Meaning::Begin | Meaning::BeginCreating => group.open = true,
            Meaning::XaStart(xid) => {
                group.open = true;
                group.xid = Some(xid);
            }
            Meaning::Commit => return self.commit().map(Some),
            Meaning::Rollback | Meaning::RollbackTo if group.handed_out > 0 => {
                return Err(StreamError::RolledBack { at: self.at() });
            }
            Meaning::Rollback => return self.commit().map(Some),
            Meaning::XaEnd { xid, committed } => {
                if !self.prepared.take(&xid) && committed {
                    return Err(self.xa("was committed that was prepared before the log was read"));
                }
                return self.commit().map(Some);
            }
            Meaning::Ddl(table) if !own => return self.ddl(table, query.sql).map(Some),
            Meaning::RowChange(table) => {
                return Err(self.without_rows(table, query.sql));
            }
            Meaning::RollbackTo | Meaning::Ddl(_) | Meaning::Other if group.open => {}
            Meaning::RollbackTo | Meaning::Ddl(_) | Meaning::Other => {
                return self.commit().map(Some);
            }
        }
        Ok(None)
    }

    fn xa(&self, doing: impl Into<String>) -> StreamError {
        StreamError::Xa {
            doing: doing.into(),
            at: self.at(),
        }
    }

    fn ddl(&mut self, table: usize, sql: &[u8]) -> Result<StreamEvent, StreamError> {
        let statement = shortened(sql);
        let open = self.group.as_ref().is_some_and(|group| group.open);
        let (end, gtid) = if open {
            let gtid = self.group.as_ref().and_then(Group::gtid);
            (self.place.position(), gtid)
        } else {
            self.end_group()?
        };
        Ok(StreamEvent::Ddl {
            table,
            statement,
            end,
            gtid,
        })
    }

    fn commit(&mut self) -> Result<StreamEvent, StreamError> {
        let (end, gtid) = self.end_group()?;
        Ok(StreamEvent::Commit { end, gtid })
    }

    fn end_group(&mut self) -> Result<(FilePosition, Option<Gtid>), StreamError> {
        let Some(group) = self.group.take() else {
            return Err(self.damaged("a transaction ends that didn't begin"));
        };
        if group.seen < group.handed_out {
            return Err(StreamError::LogChanged {
                at: self.at(),
                expected: group.name,
            });
        }
        let gtid = group.gtid();
        if let (Some(gtids), Some(gtid)) = (&mut self.boundary.gtids, &gtid) {
            gtids.insert(gtid);
        }
        Ok((self.report(), gtid))
    }

    fn xa_prepare(&mut self, body: &[u8]) -> Result<Option<StreamEvent>, StreamError> {
        let one_phase = Reader::new(body).byte("XA one phase");
        let one_phase = one_phase.map_err(|error| self.unreadable(&error))?;
        let xid = self.group.as_mut().and_then(|group| group.xid.take());
        if one_phase == 0
            && let Some(xid) = xid
        {
            self.prepared.insert(xid);
        }
        self.commit().map(Some)
    }

    fn load_query(&self, event: &Event) -> Result<Option<StreamEvent>, StreamError> {
        let load = event.read_event::<ExecuteLoadQueryEvent<'_>>();
        let load = load.map_err(|error| self.damaged(error.to_string()))?;
        match Meaning::of(load.query_raw(), load.schema_raw(), &self.watched) {
            Meaning::RowChange(table) => Err(self.without_rows(table, load.query_raw())),
            _ => Ok(None),
        }
    }

    fn without_rows(&self, table: usize, sql: &[u8]) -> StreamError {
        StreamError::StatementFormat {
            table: self.watched.plain(table),
            at: self.at(),
            statement: shortened(sql),
        }
    }

    fn rotate(&mut self, body: &[u8]) -> Result<Option<StreamEvent>, StreamError> {
        let mut reader = Reader::new(body);
        let offset = reader.little(8, "position of the next file");
        let offset = offset.map_err(|error| self.unreadable(&error))?;
        let name = String::from_utf8_lossy(reader.rest());
        let moved = self.place.rotate(&name, offset);
        moved.map_err(|error| self.damaged(error.to_string()))?;
        Ok(self.progress())
    }

    /// A heartbeat says how far the server has read its own log, also past
    /// transactions that it didn't send. It stands between transactions.
    fn heartbeat(&mut self, low: u32) -> Option<StreamEvent> {
        if low != 0 && self.group.is_none() {
            self.place.advance(low);
        }
        self.searching = false;
        self.progress()
    }
}

#[cfg(test)]
mod tests;

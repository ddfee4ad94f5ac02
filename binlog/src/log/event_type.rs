//! The kinds of events, as far as they make a difference here.

use crate::decode::RowsKind;

/// The type code of a format description event.
pub(super) const FORMAT_DESCRIPTION: u8 = 15;

/// Whether this is a heartbeat of either version.
pub(super) const fn is_heartbeat(code: u8) -> bool {
    matches!(code, 27 | 41)
}

/// A kind of event, as far as it makes a difference here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventType {
    Query,
    Rotate,
    FormatDescription,
    Xid,
    ExecuteLoadQuery,
    TableMap,
    /// `extended` says that the head holds extra data, as since MySQL 5.6.
    Rows {
        kind: RowsKind,
        extended: bool,
    },
    PartialUpdateRows,
    Incident,
    Heartbeat,
    Gtid,
    GtidTagged,
    AnonymousGtid,
    XaPrepare,
    TransactionPayload,
    /// A known kind that carries no row changes, or one that its writer says
    /// may be ignored.
    NoChanges,
    /// Any other kind: it may carry changes.
    Unknown(u8),
}

impl EventType {
    /// Sorts an event by its type code and header flags.
    ///
    /// Source: MySQL 9.7, `libs/mysql/binlog/event/binlog_event.h`, `Log_event_type`.
    pub(super) const fn of(code: u8, flags: u16) -> Self {
        const IGNORABLE: u16 = 0x80;
        match code {
            2 => Self::Query,
            4 => Self::Rotate,
            FORMAT_DESCRIPTION => Self::FormatDescription,
            16 => Self::Xid,
            18 => Self::ExecuteLoadQuery,
            19 => Self::TableMap,
            23 => Self::rows(RowsKind::Write, false),
            24 => Self::rows(RowsKind::Update, false),
            25 => Self::rows(RowsKind::Delete, false),
            26 => Self::Incident,
            27 | 41 => Self::Heartbeat,
            30 => Self::rows(RowsKind::Write, true),
            31 => Self::rows(RowsKind::Update, true),
            32 => Self::rows(RowsKind::Delete, true),
            33 => Self::Gtid,
            34 => Self::AnonymousGtid,
            38 => Self::XaPrepare,
            39 => Self::PartialUpdateRows,
            40 => Self::TransactionPayload,
            42 => Self::GtidTagged,
            // Stop; the variables of a statement (an integer, a seed, a user
            // variable); blocks of a loaded file; ignorable; a statement's
            // text in front of its rows; previous GTIDs; what group
            // replication adds.
            3 | 5 | 9 | 11 | 13 | 14 | 17 | 28 | 29 | 35 | 36 | 37 => Self::NoChanges,
            _ if flags & IGNORABLE != 0 => Self::NoChanges,
            other => Self::Unknown(other),
        }
    }

    const fn rows(kind: RowsKind, extended: bool) -> Self {
        Self::Rows { kind, extended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_passes_only_if_its_writer_says_so() {
        assert_eq!(EventType::of(200, 0), EventType::Unknown(200));
        assert_eq!(EventType::of(200, 0x80), EventType::NoChanges);
    }
}

use mysql_common::binlog::{
    consts::BinlogVersion,
    events::{BinlogEventFooter, FormatDescriptionEvent},
};

use super::*;
use crate::tables::table;

const GTID: u8 = 33;
const XID: u8 = 16;
const QUERY: u8 = 2;
const TABLE_MAP: u8 = 19;
const WRITE_ROWS: u8 = 30;

/// An event of these bytes, with a right checksum, that ends at `end`.
fn event(code: u8, body: &[u8], end: u32) -> Event {
    let size = u32::try_from(19 + body.len() + 4).unwrap();
    let mut bytes = [0; 4].to_vec();
    bytes.push(code);
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(end.to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(body);
    bytes.extend([0; 4]);
    let sum = read(&bytes).calc_checksum(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32);
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&sum.to_le_bytes());
    read(&bytes)
}

fn read(bytes: &[u8]) -> Event {
    let footer = BinlogEventFooter::new(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32);
    let described = FormatDescriptionEvent::new(BinlogVersion::Version4).with_footer(footer);
    Event::read(&described, bytes).unwrap()
}

fn gtid(number: u64, end: u32) -> Event {
    let body = [&[1][..], &[7; 16], &number.to_le_bytes()].concat();
    event(GTID, &body, end)
}

fn begin(end: u32) -> Event {
    event(QUERY, &[&[0; 13][..], &[0], b"BEGIN"].concat(), end)
}

fn table_map(end: u32) -> Event {
    let body = [
        &[9, 0, 0, 0, 0, 0, 1, 0, 1][..],
        b"s\0",
        &[1],
        b"t\0",
        &[1, 3, 0, 1],
    ]
    .concat();
    event(TABLE_MAP, &body, end)
}

fn rows(value: u8, end: u32) -> Event {
    let body = [9, 0, 0, 0, 0, 0, 1, 0, 2, 0, 1, 0xFF, 0, value, 0, 0, 0];
    event(WRITE_ROWS, &body, end)
}

fn log() -> Log {
    let from = Position {
        file: "binlog.000001:4".parse().unwrap(),
        gtids: Some("".parse().unwrap()),
    };
    let mut log = Log::new(from, Watched::new(vec![table("s.t", &["int"])]));
    log.described = true;
    log
}

fn take(log: &mut Log, events: &[Event]) -> Vec<StreamEvent> {
    let taken = events.iter().map(|event| log.handle(event).unwrap());
    taken.flatten().collect()
}

#[test]
fn a_transaction_is_its_rows_and_its_commit() {
    let mut log = log();
    let xid = event(XID, &[0; 8], 600);
    let steps = take(
        &mut log,
        &[gtid(1, 100), begin(200), table_map(300), rows(5, 400), xid],
    );
    let [
        StreamEvent::Rows { table: 0, changes },
        StreamEvent::Commit { end, gtid },
    ] = &steps[..]
    else {
        unreachable!("{steps:?}");
    };
    assert_eq!(changes.len(), 1);
    assert_eq!(end.to_string(), "binlog.000001:600");
    assert_eq!(gtid.as_ref().map(Gtid::number), Some(1));
    assert_eq!(log.boundary().file, *end);
    assert_eq!(
        log.boundary().gtids.as_ref().map(crate::GtidSet::count),
        Some(1)
    );
}

#[test]
fn what_was_handed_out_before_a_break_does_not_come_again() {
    let mut log = log();
    let first = [gtid(1, 100), begin(200), table_map(300), rows(5, 400)];
    assert_eq!(take(&mut log, &first).len(), 1);
    log.handle_disconnect();
    assert_eq!(log.boundary().file.to_string(), "binlog.000001:4");
    assert_eq!(take(&mut log, &first).len(), 0);
    assert_eq!(
        take(&mut log, &[rows(6, 500), event(XID, &[0; 8], 600)]).len(),
        2
    );
}

#[test]
fn another_transaction_after_a_break_is_an_error() {
    let mut log = log();
    take(
        &mut log,
        &[gtid(1, 100), begin(200), table_map(300), rows(5, 400)],
    );
    log.handle_disconnect();
    let error = log.handle(&gtid(2, 100)).unwrap_err();
    assert!(matches!(error, StreamError::LogChanged { .. }), "{error:?}");
}

#[test]
fn a_transaction_that_is_shorter_after_a_break_is_an_error() {
    let mut log = log();
    take(
        &mut log,
        &[gtid(1, 100), begin(200), table_map(300), rows(5, 400)],
    );
    log.handle_disconnect();
    take(&mut log, &[gtid(1, 100), begin(200)]);
    let error = log.handle(&event(XID, &[0; 8], 600)).unwrap_err();
    assert!(matches!(error, StreamError::LogChanged { .. }), "{error:?}");
}

#[test]
fn a_wrong_checksum_is_an_error() {
    let mut log = log();
    let whole = event(XID, &[0; 8], 600);
    let mut bytes = Vec::new();
    whole.write(BinlogVersion::Version4, &mut bytes).unwrap();
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    let error = log.handle(&read(&bytes)).unwrap_err();
    assert!(matches!(error, StreamError::Damaged { .. }), "{error:?}");
}

#[test]
fn an_unknown_event_is_an_error() {
    let error = log().handle(&event(200, &[], 100)).unwrap_err();
    assert!(
        matches!(error, StreamError::UnknownEvent { kind: 200, .. }),
        "{error:?}"
    );
}

#[test]
fn rows_without_a_table_map_are_an_error() {
    let mut log = log();
    take(&mut log, &[gtid(1, 100), begin(200)]);
    let error = log.handle(&rows(5, 300)).unwrap_err();
    assert!(error.to_string().ends_with("rows come without a table map"));
}

#[test]
fn a_rollback_behind_rows_that_were_handed_out_is_an_error() {
    let mut log = log();
    take(
        &mut log,
        &[gtid(1, 100), begin(200), table_map(300), rows(5, 400)],
    );
    let rollback = event(QUERY, &[&[0; 13][..], &[0], b"ROLLBACK"].concat(), 500);
    let error = log.handle(&rollback).unwrap_err();
    assert!(matches!(error, StreamError::RolledBack { .. }), "{error:?}");
}

//! Bytes of the log that changed on the disk.

use std::{fs, ops::Range};

use mysql_async::Value;
use oxferry_binlog::{MysqlStream, StreamError, StreamEvent};
use oxferry_schema::{Ident, Table, TableName};
use oxferry_testkit::server::{Server, ServerOptions};

use crate::follow::{config, next, position, run, server};

const WRITE_ROWS: u8 = 30;
const TRANSACTION_PAYLOAD: u8 = 40;

/// Where the events of a type stand in a log file.
///
/// Source: MySQL 9.7 source documentation, "Binary Log Event Header".
fn events(log: &[u8], kind: u8) -> Vec<Range<usize>> {
    let (mut events, mut at) = (Vec::new(), 4);
    while let Some(size) = log.get(at + 9..at + 13) {
        let size = u32::from_le_bytes(size.try_into().unwrap());
        let end = at + usize::try_from(size).unwrap();
        if log[at + 4] == kind {
            events.push(at..end);
        }
        at = end;
    }
    events
}

/// The checksum of an event, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let out = crc & 1;
            crc >>= 1;
            if out == 1 {
                crc ^= 0xEDB8_8320;
            }
        }
    }
    !crc
}

fn seal(event: &mut [u8]) {
    let (bytes, checksum) = event.split_last_chunk_mut::<4>().unwrap();
    *checksum = crc32(bytes).to_le_bytes();
}

/// Flips a bit of the frame's first byte, which no decompression survives.
fn break_frame(event: &mut [u8]) {
    let mut places = event.windows(4);
    let frame = places.position(|four| four == [0x28, 0xB5, 0x2F, 0xFD]);
    event[frame.unwrap()] ^= 1;
}

/// Writes three transactions, damages the second one in the file, and reads
/// the log: returns the ids that were handed out, and the error.
async fn read(
    mut server: Server,
    compression: &str,
    damage: impl Fn(&mut [u8]),
) -> (Vec<Value>, StreamError) {
    let mut conn = server.conn().await.unwrap();
    let compress = format!("SET binlog_transaction_compression = {compression}");
    let create = "CREATE TABLE shop.t (id INT PRIMARY KEY, pad VARCHAR(100))";
    run(&mut conn, &[create, &compress]).await;
    let from = position(&mut conn).await;
    for id in 1..=3 {
        let insert = format!("INSERT INTO shop.t VALUES ({id}, REPEAT('x', 100))");
        run(&mut conn, &[&insert]).await;
    }
    // What is left open is read, and mended, when a server starts.
    run(&mut conn, &["FLUSH BINARY LOGS"]).await;
    server.stop().await.unwrap();

    let file = server.data_dir().join(from.file.file());
    let mut log = fs::read(&file).unwrap();
    let kind = match compression {
        "ON" => TRANSACTION_PAYLOAD,
        _ => WRITE_ROWS,
    };
    let found = events(&log, kind);
    assert_eq!(found.len(), 3);
    damage(&mut log[found[1].clone()]);
    fs::write(&file, log).unwrap();

    server.start_again().await.unwrap();
    let mut conn = server.conn().await.unwrap();
    let name = TableName::new(Ident::new("shop").unwrap(), Ident::new("t").unwrap());
    let table = Table::read(&mut conn, &name).await.unwrap().unwrap();
    let stream = MysqlStream::open(config(&server), from, vec![table]).await;
    let (mut stream, mut ids) = (stream.unwrap(), Vec::new());
    loop {
        match next(&mut stream).await {
            Ok(StreamEvent::Rows { changes, .. }) => {
                let rows = changes.into_iter().filter_map(|change| change.after);
                ids.extend(rows.map(|row| row.values()[0].clone()));
            }
            Ok(_) => {}
            Err(error) => return (ids, error),
        }
    }
}

#[track_caller]
fn check((ids, error): (Vec<Value>, StreamError), expected: &str) {
    let StreamError::Damaged { reason, .. } = error else {
        unreachable!("{error:?}");
    };
    assert!(reason.contains(expected), "{reason}");
    assert_eq!(ids, [Value::Int(1)]);
}

#[tokio::test]
async fn a_changed_byte_of_a_row_is_noticed_by_the_checksum() {
    let server = server(ServerOptions::new()).await;
    let damage = |event: &mut [u8]| event[40] ^= 1;
    check(read(server, "OFF", damage).await, "its checksum is");
}

#[tokio::test]
async fn a_changed_byte_of_a_compressed_transaction_is_noticed_by_the_checksum() {
    let server = server(ServerOptions::new()).await;
    let damage = |event: &mut [u8]| event[60] ^= 1;
    check(read(server, "ON", damage).await, "its checksum is");
}

#[tokio::test]
async fn a_compressed_transaction_that_does_not_come_out_is_never_skipped() {
    let server = server(ServerOptions::new()).await;
    let damage = |event: &mut [u8]| {
        break_frame(event);
        seal(event);
    };
    check(read(server, "ON", damage).await, "can't be decompressed");
}

#[tokio::test]
async fn a_compressed_transaction_is_never_skipped_without_checksums_either() {
    let server = server(ServerOptions::new().arg("--binlog-checksum=NONE")).await;
    check(
        read(server, "ON", break_frame).await,
        "can't be decompressed",
    );
}

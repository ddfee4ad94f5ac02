//! The rows as `mysql_common` itself decodes them.

use std::time::Duration;

use futures::StreamExt;
use mysql_async::{BinlogStreamRequest, Value, binlog::value::BinlogValue};
use mysql_common::binlog::{
    events::{EventData, RowsEventData},
    row::BinlogRow,
};
use oxferry_schema::Column;

use super::{Change, Stretch, json, member, members, padded, same_json, utc};
use crate::zoo::{Zoo, plain};

const LIMIT: Duration = Duration::from_secs(60);

type Theirs = BinlogValue<'static>;

async fn read(stretch: &Stretch) -> Vec<Change<Theirs>> {
    let conn = stretch.server.conn().await.unwrap();
    let request = BinlogStreamRequest::new(4_000_000_001)
        .with_non_blocking()
        .with_filename(stretch.from.file().as_bytes())
        .with_pos(stretch.from.offset_bytes());
    let mut stream = conn.get_binlog_stream(request).await.unwrap();
    let mut changes = Vec::new();
    while let Some(event) = tokio::time::timeout(LIMIT, stream.next()).await.unwrap() {
        if let Some(EventData::RowsEvent(rows)) = event.unwrap().read_data().unwrap() {
            let map = stream.get_tme(rows.table_id()).unwrap();
            changes.extend(rows.rows(map).map(|change| {
                let (before, after) = change.unwrap();
                Change {
                    before: before.map(BinlogRow::unwrap),
                    after: after.map(BinlogRow::unwrap),
                }
            }));
            assert!(!matches!(rows, RowsEventData::PartialUpdateRowsEvent(_)));
        }
    }
    changes
}

/// Their value in our form.
fn translated(column: &Column, theirs: &Value) -> Value {
    let Value::Bytes(bytes) = theirs else {
        return match (column.data_type.as_str(), plain(theirs)) {
            ("enum", Value::UInt(number)) => member(column, number),
            (_, value) => value,
        };
    };
    let text = || std::str::from_utf8(bytes).unwrap();
    let fold = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
    match column.data_type.as_str() {
        "bit" => Value::UInt(bytes.iter().fold(0, fold)),
        "set" => members(column, bytes.iter().rev().fold(0, fold)),
        "year" => Value::UInt(text().parse().unwrap()),
        "timestamp" => {
            let (seconds, micros) = text().split_once('.').unwrap_or_else(|| (text(), "0"));
            utc(seconds.parse().unwrap(), micros.parse().unwrap())
        }
        _ => padded(column, bytes.clone()),
    }
}

/// Our value with the library's faults put in: no sign extension of
/// MEDIUMINT, and 1900 for the year 0.
fn faulty(column: &Column, ours: &Value) -> Value {
    match (column.data_type.as_str(), plain(ours)) {
        ("mediumint", Value::Int(number)) => {
            let number = u64::try_from(number + (1 << 24));
            Value::UInt(number.unwrap())
        }
        ("year", Value::UInt(0)) => Value::UInt(1900),
        (_, value) => value,
    }
}

/// Their conversion makes texts of decimals.
fn same_scalar(ours: &serde_json::Value, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (serde_json::Value::Number(ours), serde_json::Value::String(theirs)) => {
            theirs.parse().ok() == ours.as_f64()
        }
        _ => ours == theirs,
    }
}

fn differs(column: &Column, ours: &Value, theirs: &Theirs) -> bool {
    match theirs {
        BinlogValue::Value(theirs) => translated(column, theirs) != faulty(column, ours),
        BinlogValue::Jsonb(document) => {
            let theirs = document.clone().parse().unwrap().into();
            !same_json(&json(ours), &theirs, same_scalar)
        }
        BinlogValue::JsonDiff(_) => true,
    }
}

async fn check(compression: &str) {
    // Its negative TIME(1) and TIME(2) with a fraction overflow.
    let zoo = Zoo::new().without(&["TIME(1)", "TIME(2)"]);
    let stretch = Stretch::new(&zoo, compression).await;
    let theirs = read(&stretch).await;
    stretch.compare(&theirs, differs);
}

#[tokio::test]
async fn values_equal_those_of_mysql_common() {
    check("OFF").await;
}

#[tokio::test]
async fn values_out_of_compressed_transactions_equal_those_of_mysql_common() {
    check("ON").await;
}

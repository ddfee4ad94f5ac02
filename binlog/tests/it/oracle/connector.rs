//! The rows as `mysql-binlog-connector-rust` decodes them.

use std::time::Duration;

use mysql_async::Value;
use mysql_binlog_connector_rust::{
    binlog_client::{BinlogClient, StartPosition},
    column::{column_value::ColumnValue, json::json_binary::JsonBinary},
    event::{event_data::EventData, row_event::RowEvent},
};
use oxferry_schema::Column;

use super::{Change, Stretch, json, member, members, padded, same_json, utc};
use crate::zoo::{Zoo, plain};

const LIMIT: Duration = Duration::from_secs(60);

/// It runs on a runtime of another kind, which brings its own threads: its
/// futures can be awaited here.
async fn read(stretch: &Stretch) -> Vec<Change<ColumnValue>> {
    // It can't log in without a password.
    let url = stretch.server.url_for("oracle", "secret", "");
    let offset = |offset: u64| u32::try_from(offset).unwrap();
    let from = offset(stretch.from.offset_bytes());
    let from = StartPosition::BinlogPosition(stretch.from.file().to_owned(), from);
    let until = offset(stretch.until.offset_bytes());
    let mut client = BinlogClient::new(&url, 4_000_000_002, from);
    let connected = tokio::time::timeout(LIMIT, client.connect()).await.unwrap();
    let mut stream = connected.unwrap();
    let mut changes = Vec::new();
    loop {
        let event = tokio::time::timeout(LIMIT, stream.read()).await.unwrap();
        let (header, event) = event.unwrap();
        collect(event, &mut changes);
        if header.next_event_position >= until {
            return changes;
        }
    }
}

fn collect(event: EventData, changes: &mut Vec<Change<ColumnValue>>) {
    let image = |row: RowEvent| Some(row.column_values);
    let change = |before, after| Change { before, after };
    match event {
        EventData::WriteRows(event) => {
            changes.extend(event.rows.into_iter().map(|row| change(None, image(row))));
        }
        EventData::UpdateRows(event) => {
            let pairs = event.rows.into_iter();
            changes.extend(pairs.map(|(before, after)| change(image(before), image(after))));
        }
        EventData::DeleteRows(event) => {
            changes.extend(event.rows.into_iter().map(|row| change(image(row), None)));
        }
        EventData::TransactionPayload(payload) => {
            for (_, event) in payload.uncompressed_events {
                collect(event, changes);
            }
        }
        _ => {}
    }
}

/// Numbers out of a text such as `-838:59:59.000000`, without its sign.
fn numbers<const COUNT: usize>(text: &str) -> [u32; COUNT] {
    let parts = text.split(|c: char| !c.is_ascii_digit());
    let parts = parts.filter(|part| !part.is_empty());
    let numbers: Vec<u32> = parts.map(|part| part.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// Their value in our form. Years that aren't padded don't matter here.
fn translated(column: &Column, theirs: &ColumnValue) -> Value {
    let small = |number: u32| u8::try_from(number).unwrap();
    match theirs {
        ColumnValue::None => Value::NULL,
        ColumnValue::Tiny(number) => int(column, (*number).into(), 8),
        ColumnValue::Short(number) => int(column, (*number).into(), 16),
        ColumnValue::Long(number) if column.data_type == "mediumint" => {
            int(column, (*number).into(), 24)
        }
        ColumnValue::Long(number) => int(column, (*number).into(), 32),
        ColumnValue::LongLong(number) => int(column, *number, 64),
        ColumnValue::Float(number) => plain(&Value::Float(*number)),
        ColumnValue::Double(number) => plain(&Value::Double(*number)),
        ColumnValue::Decimal(text) => Value::Bytes(text.clone().into()),
        ColumnValue::Time(text) => {
            let [hours, minutes, seconds, micros] = numbers(text);
            let (days, hours) = (hours / 24, small(hours % 24));
            let (minutes, seconds) = (small(minutes), small(seconds));
            Value::Time(text.starts_with('-'), days, hours, minutes, seconds, micros)
        }
        ColumnValue::Date(text) => {
            let [year, month, day] = numbers(text);
            date(year, [month, day, 0, 0, 0], 0)
        }
        ColumnValue::DateTime(text) => {
            let [year, month, day, hour, minute, second, micros] = numbers(text);
            date(year, [month, day, hour, minute, second], micros)
        }
        ColumnValue::Timestamp(micros) => {
            let fraction = u32::try_from(micros % 1_000_000).unwrap();
            utc(micros / 1_000_000, fraction)
        }
        ColumnValue::Year(year) => Value::UInt((*year).into()),
        ColumnValue::String(bytes) | ColumnValue::Blob(bytes) => padded(column, bytes.clone()),
        ColumnValue::Bit(bits) => Value::UInt(*bits),
        // It extends the sign of numbers that have none.
        ColumnValue::Enum(number) if column.members.len() < 256 => {
            member(column, u64::from(*number & 0xFF))
        }
        ColumnValue::Enum(number) => member(column, u64::from(*number & 0xFFFF)),
        ColumnValue::Set(bits) => {
            let sign = 64 - column.members.len();
            members(column, bits << sign >> sign)
        }
        ColumnValue::Json(document) => Value::Bytes(document.clone()),
    }
}

fn date(year: u32, [month, day, hour, minute, second]: [u32; 5], micros: u32) -> Value {
    let small = |number: u32| u8::try_from(number).unwrap();
    let year = u16::try_from(year).unwrap();
    let (month, day) = (small(month), small(day));
    Value::Date(
        year,
        month,
        day,
        small(hour),
        small(minute),
        small(second),
        micros,
    )
}

/// It reads every integer as a signed one, and says so.
fn int(column: &Column, number: i64, bits: u32) -> Value {
    if column.column_type.ends_with("unsigned") {
        let spare = 64 - bits;
        return Value::UInt(number.cast_unsigned() << spare >> spare);
    }
    plain(&Value::Int(number))
}

/// Our value with its fault put in: 1900 for the year 0.
fn faulty(column: &Column, ours: &Value) -> Value {
    match (column.data_type.as_str(), plain(ours)) {
        ("year", Value::UInt(0)) => Value::UInt(1900),
        (_, value) => value,
    }
}

/// Its doubles may become integers, its date and time lose a fraction of
/// zero, its opaque values their type; its times come out broken.
fn same_scalar(ours: &serde_json::Value, theirs: &serde_json::Value) -> bool {
    use serde_json::Value::{Number, String};
    match (ours, theirs) {
        (Number(ours), Number(theirs)) => ours.as_f64() == theirs.as_f64(),
        (String(ours), String(theirs)) => {
            let time = ours.len() < 18 && ours.split(':').count() == 3 && ours.contains('.');
            let opaque = ours.strip_prefix("base64:type");
            let opaque = opaque.and_then(|rest| rest.split_once(':'));
            let value = opaque.map_or(ours.as_str(), |(_, value)| value);
            time || value == theirs || value.strip_suffix(".000000") == Some(theirs)
        }
        _ => ours == theirs,
    }
}

fn differs(column: &Column, ours: &Value, theirs: &ColumnValue) -> bool {
    if let ColumnValue::Json(document) = theirs {
        let theirs = JsonBinary::parse_as_string(document).unwrap();
        let theirs = serde_json::from_str(&theirs).unwrap();
        return !same_json(&json(ours), &theirs, same_scalar);
    }
    translated(column, theirs) != faulty(column, ours)
}

async fn check(compression: &str) {
    let zoo = Zoo::new().without(&["VECTOR"]);
    let stretch = Stretch::new(&zoo, compression).await;
    let theirs = read(&stretch).await;
    stretch.compare(&theirs, differs);
}

#[tokio::test]
async fn values_equal_those_of_the_connector() {
    check("OFF").await;
}

#[tokio::test]
async fn values_out_of_compressed_transactions_equal_those_of_the_connector() {
    check("ON").await;
}

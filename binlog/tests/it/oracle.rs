//! Two other readers of the same log, compared with ours value by value.
//!
//! Each has known faults. A fault that leaves enough behind is undone or put
//! into the expectation, so that the rest of the value is still compared; only
//! what a reader can't read at all is left out of the table.

mod connector;
mod mysql_common;

use std::fmt::Debug;

use mysql_async::{Conn, Value};
use oxferry_binlog::{FilePosition, RowChange};
use oxferry_schema::{Column, Ident, Table, TableName};
use oxferry_testkit::server::{Server, ServerOptions};

use crate::{
    follow::{drain, follow, position, run, server},
    zoo::Zoo,
};

/// What another reader makes of one change: the images before and after.
struct Change<T> {
    before: Option<Vec<T>>,
    after: Option<Vec<T>>,
}

/// A stretch of log with inserts, updates and deletes of the zoo, as we read it.
struct Stretch {
    server: Server,
    from: FilePosition,
    until: FilePosition,
    table: Table,
    ours: Vec<RowChange>,
}

impl Stretch {
    async fn new(zoo: &Zoo, compression: &str) -> Self {
        let server = server(ServerOptions::new()).await;
        let mut conn = server.conn().await.unwrap();
        let user = "CREATE USER oracle IDENTIFIED BY 'secret'";
        let grant = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO oracle";
        let compress = format!("SET binlog_transaction_compression = {compression}");
        zoo.create(&mut conn).await;
        run(&mut conn, &[user, grant, &compress]).await;
        let table = read(&mut conn).await;
        let from = position(&mut conn).await.file;
        let mut stream = follow(&server, "zoo").await;
        zoo.insert(&mut conn).await;
        zoo.update(&mut conn).await;
        zoo.delete(&mut conn).await;
        let until = position(&mut conn).await.file;
        Self {
            from,
            until,
            table,
            ours: drain(&mut stream, &mut conn).await,
            server,
        }
    }

    /// Compares every value; `differs` says what is wrong with one of theirs.
    #[track_caller]
    fn compare<T: Debug>(
        &self,
        theirs: &[Change<T>],
        differs: impl Fn(&Column, &Value, &T) -> bool,
    ) {
        assert_eq!(self.ours.len(), theirs.len());
        assert!(!theirs.is_empty());
        let mut wrong = Vec::new();
        for (ours, theirs) in self.ours.iter().zip(theirs) {
            let pairs = [(&ours.before, &theirs.before), (&ours.after, &theirs.after)];
            for (ours, theirs) in pairs {
                assert_eq!(ours.is_some(), theirs.is_some());
                let ours = ours.iter().flat_map(|row| row.values());
                let theirs = theirs.iter().flatten();
                assert_eq!(ours.clone().count(), theirs.clone().count());
                for ((ours, theirs), column) in ours.zip(theirs).zip(&self.table.columns) {
                    if differs(column, ours, theirs) {
                        let both =
                            format!("{}: ours {ours:?}, theirs {theirs:?}", column.column_type);
                        wrong.push(both.chars().take(600).collect::<String>());
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

async fn read(conn: &mut Conn) -> Table {
    let name = TableName::new(Ident::new("shop").unwrap(), Ident::new("zoo").unwrap());
    Table::read(conn, &name).await.unwrap().unwrap()
}

/// The date and time that lies so long behind the start of 1970, which stands
/// for the zero TIMESTAMP itself.
fn utc(seconds: i64, micros: u32) -> Value {
    if seconds == 0 {
        return Value::Date(0, 0, 0, 0, 0, 0, 0);
    }
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut month) = (1970, 1);
    let leap = |year: i64| i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    while days >= 365 + leap(year) {
        days -= 365 + leap(year);
        year += 1;
    }
    for length in [31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let small = |number: i64| u8::try_from(number).unwrap();
    let (hour, minute) = (small(second / 3600), small(second / 60 % 60));
    let year = u16::try_from(year).unwrap();
    Value::Date(
        year,
        month,
        small(days + 1),
        hour,
        minute,
        small(second % 60),
        micros,
    )
}

/// The text of an ENUM's member.
fn member(column: &Column, number: u64) -> Value {
    let index = usize::try_from(number).unwrap().checked_sub(1);
    let text = index.map_or("", |index| &column.members[index]);
    Value::Bytes(text.into())
}

/// The texts of a SET's members.
fn members(column: &Column, bits: u64) -> Value {
    let chosen = column.members.iter().enumerate();
    let chosen = chosen.filter(|(at, _)| bits >> at & 1 == 1);
    let chosen: Vec<_> = chosen.map(|(_, member)| member.as_str()).collect();
    Value::Bytes(chosen.join(",").into())
}

/// A BINARY as long as it is declared: the log holds no trailing zeros.
fn padded(column: &Column, mut bytes: Vec<u8>) -> Value {
    if column.data_type == "binary" {
        let length = column
            .column_type
            .trim_matches(|c: char| !c.is_ascii_digit());
        bytes.resize(length.parse().unwrap(), 0);
    }
    Value::Bytes(bytes)
}

/// A JSON document as we read it.
fn json(ours: &Value) -> serde_json::Value {
    let Value::Bytes(text) = ours else {
        panic!("{ours:?} is no JSON document");
    };
    serde_json::from_slice(text).unwrap()
}

/// Compares two documents; `scalars` compares what is neither an array nor an
/// object.
fn same_json(
    ours: &serde_json::Value,
    theirs: &serde_json::Value,
    scalars: fn(&serde_json::Value, &serde_json::Value) -> bool,
) -> bool {
    use serde_json::Value::{Array, Object};
    match (ours, theirs) {
        (Array(ours), Array(theirs)) => {
            let mut pairs = ours.iter().zip(theirs);
            ours.len() == theirs.len()
                && pairs.all(|(ours, theirs)| same_json(ours, theirs, scalars))
        }
        (Object(ours), Object(theirs)) => {
            let same = |(key, ours)| {
                let theirs = theirs.get(key);
                theirs.is_some_and(|theirs| same_json(ours, theirs, scalars))
            };
            ours.len() == theirs.len() && ours.iter().all(same)
        }
        _ => scalars(ours, theirs),
    }
}

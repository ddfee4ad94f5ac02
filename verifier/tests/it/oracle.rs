//! The server's own copying `ALTER TABLE` as the judge of comparisons.

use mysql_async::prelude::Queryable;
use oxferry_schema::KeyRange;
use oxferry_verifier::Fingerprints;

use crate::place::Place;

/// A type, what it becomes, values that survive, and values that don't.
type Change = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const CHANGES: &[Change] = &[
    ("bit(8)", "varchar(20)", &["65", "NULL"], &[]),
    ("bit(16)", "varbinary(20)", &["65", "16705", "0"], &[]),
    (
        "varchar(9) charset latin1",
        "bit(16)",
        &["'0'", "'16705'", "NULL"],
        &[],
    ),
    ("bit(8)", "int", &["200"], &[]),
    ("int", "bit(8)", &["200"], &[]),
    ("year", "varchar(9)", &["2020"], &[]),
    ("float", "varchar(40)", &["0.1", "-1e20"], &[]),
    ("double", "varchar(40)", &["0.1", "1e100", "0"], &[]),
    ("enum('a','b')", "char(9)", &["'b'"], &[]),
    (
        "varchar(20)",
        "varchar(20) charset gbk",
        &["'中'", "'a '"],
        &[],
    ),
    ("timestamp", "bigint", &["'2020-01-02 03:04:05'"], &[]),
    ("enum('x','y','z')", "int", &["'x'", "'z'", "NULL"], &[]),
    ("enum('x','y','z')", "double", &["'x'", "'z'"], &[]),
    ("set('x','y','z')", "int", &["'x,z'", "''", "NULL"], &[]),
    ("int", "enum('x','y','z')", &["1", "3", "NULL"], &[]),
    ("int", "set('x','y','z')", &["0", "1", "7"], &[]),
    (
        "set('x','y','z')",
        "set('z','y','x','w')",
        &["'x,z'", "'y'", "''", "NULL"],
        &[],
    ),
    ("enum('x','y')", "set('y','x')", &["'x'", "'y'"], &[]),
    (
        "int(8) zerofill",
        "varchar(20)",
        &["5", "12345678", "NULL"],
        &[],
    ),
    (
        "datetime",
        "bigint",
        &["'2020-01-02 03:04:05'", "NULL"],
        &[],
    ),
    (
        "datetime(3)",
        "bigint",
        &["'2020-01-02 03:04:05'"],
        &["'2020-01-02 03:04:05.25'"],
    ),
    (
        "datetime(3)",
        "decimal(20,3)",
        &["'2020-01-02 03:04:05.678'"],
        &[],
    ),
    ("date", "int", &["'2020-01-02'", "NULL"], &[]),
    (
        "time(2)",
        "decimal(12,2)",
        &["'-100:00:01.25'", "'00:00:00'"],
        &[],
    ),
    (
        "bigint",
        "datetime",
        &["20200102030405", "20200102", "NULL"],
        &[],
    ),
    ("int", "date", &["20200102", "NULL"], &[]),
    ("int", "time", &["-1000001", "0", "235959"], &[]),
    (
        "varchar(20)",
        "char(20)",
        &["'a'", "''", "' a'", "NULL"],
        &["'a '"],
    ),
    ("int", "float", &["16777216", "-7", "0"], &["16777217"]),
    (
        "bigint",
        "double",
        &["9007199254740992"],
        &["9007199254740993"],
    ),
    (
        "decimal(10,2)",
        "float",
        &["0.10", "-1000.25"],
        &["1234567.89"],
    ),
    (
        "decimal(20,4)",
        "double",
        &["0.1", "-12345.6789"],
        &["1234567890123456.7891"],
    ),
    ("double", "float", &["0.5", "-3", "0"], &["0.1"]),
    (
        "double",
        "decimal(10,2)",
        &["0.1", "-12.25"],
        &["0.125", "0.1e0+0.2e0"],
    ),
    ("float", "decimal(20,4)", &["0.1", "-0.5"], &["0.00001"]),
    ("double", "double(10,2)", &["0.1", "2.25"], &["0.125"]),
    ("decimal(10,2)", "decimal(10,1)", &["1.50"], &["1.25"]),
    (
        "datetime(6)",
        "datetime",
        &["'2020-01-01'"],
        &["'2020-01-01 00:00:00.5'"],
    ),
    (
        "varchar(20) charset latin1",
        "varbinary(20)",
        &["'é'", "'a '"],
        &[],
    ),
    (
        "varbinary(20)",
        "varchar(20) charset latin1",
        &["x'e9'", "x'6120'"],
        &[],
    ),
    (
        "text",
        "json",
        &["'{\"b\": 1.0, \"a\": [1, null]}'", "'1'", "NULL"],
        &[],
    ),
    (
        "json",
        "longtext",
        &["'{\"b\": 1.0, \"a\": 0.12345678901234567}'", "'1'", "NULL"],
        &[],
    ),
    (
        "geometry not null",
        "point not null",
        &["ST_GeomFromText('POINT(1 2)', 4326)"],
        &[],
    ),
    (
        "vector(2)",
        "vector(5)",
        &["TO_VECTOR('[1,2]')", "NULL"],
        &[],
    ),
];

/// Changes a copy of the value's column; returns whether both look alike, or
/// why the server refuses the change.
async fn agrees(place: &Place, from: &str, to: &str, value: &str) -> Result<bool, String> {
    let what = format!("{value} from {from} to {to}");
    place.run("DROP TABLE IF EXISTS s, t").await;
    let create = format!("CREATE TABLE s (id INT PRIMARY KEY, v {from}) CHARSET utf8mb4");
    place.run(&create).await;
    place
        .run(&format!("INSERT INTO s VALUES (1, {value})"))
        .await;
    place.run("CREATE TABLE t LIKE s").await;
    place.run("INSERT INTO t SELECT * FROM s").await;
    let mut conn = place.conn().await;
    conn.query_drop("SET sql_mode='STRICT_ALL_TABLES', time_zone='+00:00'")
        .await
        .unwrap();
    let alter = format!("ALTER TABLE t MODIFY v {to}, ALGORITHM=COPY");
    if let Err(error) = conn.query_drop(alter).await {
        return Err(error.to_string());
    }
    let (source, target) = place.sides("s", "t", &["id"]).await;
    let all = 10.try_into().unwrap();
    let rows = source.page(&KeyRange::ALL, all).await;
    let rows = rows.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let changed = target.page(&KeyRange::ALL, all).await;
    Ok(rows == changed.unwrap_or_else(|error| panic!("{what}: {error:?}")))
}

#[tokio::test]
async fn what_the_servers_own_change_keeps_is_equal_and_what_it_loses_differs() {
    let place = Place::start().await;
    let mut wrong = Vec::new();
    for (from, to, kept, lost) in CHANGES {
        let kept = kept.iter().map(|value| (value, Ok(true)));
        let lost = lost.iter().map(|value| (value, Ok(false)));
        for (value, expected) in kept.chain(lost) {
            let seen = agrees(&place, from, to, value).await;
            if seen != expected {
                wrong.push(format!("{value} from {from} to {to}: {seen:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

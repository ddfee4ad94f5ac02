//! Every type, and every change of type, compared by the server.

use oxferry_schema::KeyRange;
use oxferry_verifier::Fingerprints;

use crate::place::Place;

/// A source type, a target type, and values that survive the change.
type Lossless = (&'static str, &'static str, &'static [&'static str]);

/// A source type and value, a target type and value that differ.
type Lossy = (&'static str, &'static str, &'static str, &'static str);

const SAME: &[(&str, &[&str])] = &[
    ("tinyint", &["-128", "0", "127", "NULL"]),
    ("mediumint unsigned", &["8388608", "16777215"]),
    ("bigint unsigned", &["18446744073709551615", "0"]),
    ("int(8) zerofill", &["5"]),
    ("bit(64)", &["b'1'", "18446744073709551615", "NULL"]),
    ("year", &["1901", "2155", "NULL"]),
    (
        "decimal(65,30)",
        &["-0.000000000000000000000000000001", "NULL"],
    ),
    ("float", &["0.1", "16777216", "-1e38", "NULL"]),
    (
        "double",
        &["0.1e0+0.2e0", "1.7976931348623157e308", "5e-324", "0"],
    ),
    (
        "date",
        &["'0000-00-00'", "'2020-00-10'", "'9999-12-31'", "NULL"],
    ),
    (
        "datetime(6)",
        &["'0000-00-00'", "'2020-01-01 00:00:00.000001'", "NULL"],
    ),
    ("timestamp(3) null", &["'2038-01-19 03:14:07.999'", "NULL"]),
    ("time(6)", &["'-838:59:59'", "'-00:00:00.000001'", "NULL"]),
    (
        "char(9) collate utf8mb4_bin",
        &["''", "'a'", "'NULL'", "NULL"],
    ),
    ("varchar(9) charset latin1", &["'é'", "'a '", "'a'", "NULL"]),
    ("varchar(9) charset gbk", &["'中'", "NULL"]),
    ("text charset ucs2", &["'中'", "''", "NULL"]),
    ("binary(4)", &["x'0000'", "x'00000001'", "x'ff'", "NULL"]),
    ("longblob", &["x'00'", "x''", "NULL"]),
    ("enum('b','a')", &["'a'", "'b'", "NULL"]),
    ("set('b','a')", &["'a'", "'b,a'", "''", "NULL"]),
    (
        "json",
        &["'null'", "'1.0'", "'1'", "'[0.12345678901234567]'", "NULL"],
    ),
    ("geometry", &["ST_GeomFromText('POINT(1 2)',4326)", "NULL"]),
    ("vector(3)", &["TO_VECTOR('[1,2,3]')", "NULL"]),
];

const LOSSLESS: &[Lossless] = &[
    ("int", "bigint unsigned", &["0", "7", "NULL"]),
    ("int(8) zerofill", "int", &["5", "12345678"]),
    ("int", "decimal(20,5)", &["-100", "0", "7"]),
    (
        "decimal(10,2)",
        "decimal(20,8)",
        &["1.50", "-100.00", "0.00"],
    ),
    ("decimal(10,2)", "int", &["1000.00", "0.00"]),
    ("float", "double", &["0.1", "3e38", "-0.0", "NULL"]),
    ("double", "float", &["0.25", "0.5"]),
    ("double", "decimal(20,4)", &["0.5", "-3.25"]),
    ("decimal(10,2)", "double", &["0.10", "1000.00"]),
    ("int", "varchar(20)", &["-5", "0"]),
    ("double", "varchar(40)", &["0.1", "1e100"]),
    ("varchar(20)", "int", &["'12'", "'-7'", "NULL"]),
    ("varchar(20)", "decimal(10,2)", &["'1.5'", "'012'"]),
    ("varchar(20)", "double", &["'0.1'", "'1e3'"]),
    (
        "varchar(20) charset latin1",
        "varchar(20)",
        &["'é'", "'a '", "''", "NULL"],
    ),
    ("varchar(20)", "varchar(20) charset ucs2", &["'中'"]),
    ("varchar(20) charset gbk", "text charset utf8mb3", &["'中'"]),
    ("varchar(20)", "char(20)", &["'a'"]),
    ("char(20)", "varchar(20)", &["'a'"]),
    ("binary(3)", "varbinary(9)", &["x'610000'", "x'000000'"]),
    ("varbinary(3)", "binary(9)", &["x'6100'"]),
    ("varbinary(9)", "mediumblob", &["x'6100'", "x''", "NULL"]),
    ("varchar(9) charset latin1", "varbinary(9)", &["'é'"]),
    ("enum('a','b')", "enum('b','x','a')", &["'a'", "'b'"]),
    ("enum('a','b')", "varchar(5)", &["'b'", "NULL"]),
    ("varchar(5)", "enum('a','b')", &["'b'", "NULL"]),
    ("enum('a','b')", "set('b','a')", &["'b'"]),
    ("enum('a','b')", "int", &["'b'"]),
    (
        "set('a','b') charset latin1",
        "set('a','b','c')",
        &["'a,b'", "''"],
    ),
    ("bit(8)", "int", &["5", "255"]),
    ("year", "int", &["2020"]),
    ("date", "datetime", &["'2020-01-02'", "NULL"]),
    ("datetime", "datetime(6)", &["'2020-01-02 03:04:05'"]),
    (
        "timestamp(3) null",
        "datetime(6)",
        &["'2020-01-02 03:04:05.678'", "NULL"],
    ),
    (
        "datetime(6)",
        "timestamp(6) null",
        &["'2020-01-02 03:04:05.678901'"],
    ),
    ("time", "time(3)", &["'-100:00:01'"]),
    ("varchar(30)", "datetime", &["'2020-01-02 03:04:05'"]),
    ("datetime(2)", "varchar(30)", &["'2020-01-02 03:04:05.67'"]),
    ("json", "longtext", &["'{\"b\": 1.0, \"a\": null}'", "NULL"]),
    ("text", "json", &["'{\"b\":1.0,\"a\":1}'", "NULL"]),
];

const LOSSY: &[Lossy] = &[
    ("int", "NULL", "int", "0"),
    ("varchar(9)", "NULL", "varchar(9)", "'NULL'"),
    ("varchar(9)", "NULL", "varchar(9)", "''"),
    ("varchar(9)", "NULL", "varchar(9)", "'N'"),
    ("varchar(9)", "'a '", "varchar(9)", "'a'"),
    ("varchar(9)", "'a'", "varchar(9)", "'A'"),
    ("varbinary(9)", "x'6100'", "varbinary(9)", "x'61'"),
    ("binary(4)", "x'01'", "binary(4)", "x'02'"),
    ("double", "0.1", "double", "0.10000000000000002"),
    ("float", "16777216", "float", "16777214"),
    ("float", "0.1", "double", "0.1"),
    ("json", "'null'", "json", "NULL"),
    ("json", "'1.0'", "json", "'1'"),
    (
        "datetime(6)",
        "'2020-01-01 00:00:00.000001'",
        "datetime",
        "'2020-01-01'",
    ),
    ("datetime", "'2020-01-01 00:00:01'", "date", "'2020-01-01'"),
    ("decimal(10,2)", "1.25", "decimal(10,1)", "1.3"),
    ("decimal(10,2)", "1000.00", "int", "1"),
    ("bigint", "3000000000", "int", "2147483647"),
    ("varchar(20)", "'b'", "int", "0"),
    ("varchar(20)", "'1.5'", "int", "2"),
    ("varchar(20)", "'é'", "varchar(20) charset ascii", "'?'"),
    ("enum('a','b')", "'a'", "enum('b','a')", "'b'"),
    ("set('a','b')", "'a'", "set('a','b')", "'a,b'"),
    (
        "bit(64)",
        "18446744073709551615",
        "bit(64)",
        "18446744073709551614",
    ),
    (
        "timestamp null",
        "'2020-01-01 00:00:00'",
        "datetime",
        "'2020-01-01 03:00:00'",
    ),
    ("time(6)", "'-00:00:00.5'", "time(6)", "'00:00:00.5'"),
    (
        "geometry",
        "ST_GeomFromText('POINT(1 2)',0)",
        "geometry",
        "ST_GeomFromText('POINT(2 1)',0)",
    ),
    (
        "geometry",
        "ST_GeomFromText('POINT(1 2)',0)",
        "geometry",
        "ST_GeomFromText('POINT(1 2)',4326)",
    ),
    (
        "vector(2)",
        "TO_VECTOR('[1,2]')",
        "vector(2)",
        "TO_VECTOR('[1,3]')",
    ),
];

async fn create(place: &Place, source: &str, target: &str) {
    place.run("DROP TABLE IF EXISTS s, t").await;
    let columns = |kind: &str| format!("(id INT PRIMARY KEY, v {kind}) CHARSET utf8mb4");
    place
        .run(&format!("CREATE TABLE s {}", columns(source)))
        .await;
    place
        .run(&format!("CREATE TABLE t {}", columns(target)))
        .await;
}

async fn agrees(place: &Place, what: &str) -> bool {
    let (source, target) = place.sides("s", "t", &["id"]).await;
    let read = |side: oxferry_verifier::TableSide| async move {
        let rows = side.page(&KeyRange::ALL, 100.try_into().unwrap()).await;
        rows.unwrap_or_else(|e| panic!("{what}: {e:?}"))
    };
    let (source, target) = (read(source).await, read(target).await);
    assert!(!source.is_empty(), "{what}");
    let mut different = source.clone();
    different.dedup_by(|a, b| a.1 == b.1);
    assert_eq!(different.len(), source.len(), "{what}: rows look alike");
    source == target
}

async fn check_copy(place: &Place, from: &str, to: &str, values: &[&str]) {
    create(place, from, to).await;
    for (id, value) in values.iter().enumerate() {
        place
            .run(&format!("INSERT INTO s VALUES ({id}, {value})"))
            .await;
    }
    place.run("INSERT INTO t SELECT * FROM s").await;
    let what = format!("{from} to {to} of {values:?}");
    assert!(agrees(place, &what).await, "{what} must be equal");
}

#[tokio::test]
async fn a_lossless_copy_is_equal_and_a_loss_is_a_difference() {
    let place = Place::start().await;
    for (kind, values) in SAME {
        check_copy(&place, kind, kind, values).await;
        // And with the column NOT NULL, which is encoded in another way.
        let given: Vec<&str> = values.iter().filter(|v| **v != "NULL").copied().collect();
        let strict = format!("{} not null", kind.trim_end_matches(" null"));
        check_copy(&place, &strict, &strict, &given).await;
    }
    for (from, to, values) in LOSSLESS {
        check_copy(&place, from, to, values).await;
    }
    for (from, value, to, other) in LOSSY {
        create(&place, from, to).await;
        place
            .run(&format!("INSERT INTO s VALUES (1, {value})"))
            .await;
        place
            .run(&format!("INSERT INTO t VALUES (1, {other})"))
            .await;
        let what = format!("{value} as {from} and {other} as {to}");
        assert!(!agrees(&place, &what).await, "{what} must differ");
    }
}

#[tokio::test]
async fn negative_zero_equals_zero() {
    let place = Place::start().await;
    for kind in ["float", "double"] {
        create(&place, kind, kind).await;
        place.run("INSERT INTO s VALUES (1, -0e0)").await;
        place.run("INSERT INTO t VALUES (1, 0)").await;
        assert!(agrees(&place, kind).await);
    }
}

#[tokio::test]
async fn columns_cannot_lend_each_other_a_part() {
    let place = Place::start().await;
    for (kind, row, other) in [
        ("varchar(9)", "'ab', 'c'", "'a', 'bc'"),
        ("varchar(9)", "NULL, 'a'", "'a', NULL"),
        ("varchar(9)", "'1:', 'a'", "'', '1:a'"),
        ("int", "1, 23", "12, 3"),
        ("text", "'N', NULL", "NULL, 'N'"),
    ] {
        place.run("DROP TABLE IF EXISTS s, t").await;
        for (table, values) in [("s", row), ("t", other)] {
            let columns = format!("id INT PRIMARY KEY, a {kind}, b {kind}");
            place
                .run(&format!("CREATE TABLE {table} ({columns})"))
                .await;
            place
                .run(&format!("INSERT INTO {table} VALUES (1, {values})"))
                .await;
        }
        assert!(!agrees(&place, kind).await, "{row} and {other} must differ");
    }
}

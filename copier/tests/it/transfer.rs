//! Rows between two servers.

use std::error::Error;

use mysql_async::prelude::Queryable;
use oxferry_copier::{CopyError, Load, Mark, RowSink, TransferSettings, engine::Mode};
use oxferry_schema::{KeyRange, Value};

use crate::{
    bed::{batch, delete, key, upsert},
    pair::{LOADS, Pair},
    values::images,
};

/// A column of each type, with values that are easily bent.
const COLUMNS: &[(&str, &[&str])] = &[
    ("BIGINT UNSIGNED", &["0", "18446744073709551615"]),
    ("BIGINT", &["-9223372036854775808"]),
    ("MEDIUMINT UNSIGNED ZEROFILL", &["8388608", "16777215"]),
    (
        "DECIMAL(65,30)",
        &["'-12345678901234567890123456789012345.123456789012345678901234567891'"],
    ),
    (
        "DOUBLE",
        &[
            "-0.0",
            "1.7976931348623157e308",
            "2.2250738585072014e-308",
            "0.1234567890123456789",
        ],
    ),
    (
        "FLOAT",
        &["-0.0", "0.1", "3.4028234e38", "16777216", "1.17549435e-38"],
    ),
    ("FLOAT(7,2)", &["1234.5", "0.1"]),
    (
        "BIT(64)",
        &["b'0'", "18446744073709551615", "0x0A095C004E5C0A09"],
    ),
    ("BIT(5)", &["b'10101'", "b'01010'", "b'01001'"]),
    ("YEAR", &["0", "1901", "2155", "2000"]),
    (
        "DATE",
        &[
            "'0000-00-00'",
            "'2020-00-15'",
            "'2021-02-31'",
            "'9999-12-31'",
        ],
    ),
    (
        "DATETIME(6)",
        &[
            "'0000-00-00'",
            "'1000-01-01 00:00:00.000001'",
            "'9999-12-31 23:59:59.999999'",
        ],
    ),
    ("DATETIME", &["'2020-01-15 23:59:59'"]),
    ("TIMESTAMP(6) NULL", &["'2038-01-19 03:14:07.999999'", "0"]),
    (
        "TIME(6)",
        &[
            "'-838:59:58.999999'",
            "'838:59:59'",
            "'00:00:00.000001'",
            "'-00:00:00.5'",
            "'30:00:00'",
        ],
    ),
    ("TIME", &["'-100:00:01'", "'00:00:01'"]),
    (
        "VARCHAR(40) CHARACTER SET utf8mb4",
        &["''", "'a '", "'NULL'", "'ü中😀 '", r"'\t\n\\N\0\r\Z'"],
    ),
    ("CHAR(40) CHARACTER SET utf8mb3", &["''", "'a '", "'ü中'"]),
    (
        "VARCHAR(40) CHARACTER SET latin1",
        &["'Grüße  '", r"'\\'", "'NULL'"],
    ),
    (
        "VARCHAR(40) CHARACTER SET gbk",
        &["'中文字符'", "_gbk x'8c5c9c5c'"],
    ),
    (
        "VARCHAR(40) CHARACTER SET sjis",
        &["'日本語'", "_sjis x'835c955c'"],
    ),
    (
        "VARCHAR(40) CHARACTER SET ucs2",
        &["'ü中'", "_ucs2 x'0a0a09095c5c0009000a'", "'a '"],
    ),
    (
        "VARCHAR(40) CHARACTER SET utf16",
        &["'ü中😀 '", "_utf16 x'0a095c00'"],
    ),
    (
        "VARCHAR(40) CHARACTER SET utf16le",
        &["'ü中😀 '", "_utf16le x'0a005c00'"],
    ),
    ("VARCHAR(40) CHARACTER SET utf32", &["'ü中😀 '", "'\t'"]),
    ("VARCHAR(40) CHARACTER SET cp1251", &["'Привет'"]),
    (
        "TEXT CHARACTER SET latin1",
        &["'ü'", "''", "REPEAT('ü', 60000)"],
    ),
    (
        "LONGTEXT CHARACTER SET utf8mb4",
        &["REPEAT('ü\\n', 100000)"],
    ),
    (
        "BINARY(4)",
        &["'a'", "x'FF00FE00'", "''", "x'090a5c00'", "'a   '"],
    ),
    (
        "VARBINARY(40)",
        &["x'FFFE00'", "''", "x'C3'", "'a '", r"'\\N'"],
    ),
    ("BLOB", &["x'80'", "REPEAT(x'FF0a', 30000)", "''"]),
    (
        "GEOMETRY",
        &[
            "ST_GeomFromText('POINT(1 2)', 0)",
            "ST_GeomFromText('POLYGON((0 0, 1 0, 1 1, 0 0))', 4326)",
        ],
    ),
    ("POINT SRID 4326", &["ST_GeomFromText('POINT(9 10)', 4326)"]),
    ("VECTOR(3)", &["STRING_TO_VECTOR('[1, -2.5, 3e10]')"]),
    ("ENUM('a', 'ü', '2', '1')", &["'a'", "'ü'", "'2'", "'1'"]),
    ("ENUM('', 'ü', 'b') CHARACTER SET latin1", &["'ü'", "''"]),
    ("ENUM('x', 'y') CHARACTER SET ucs2", &["'y'"]),
    (
        "SET('a', 'ü', 'c') CHARACTER SET latin1",
        &["''", "'a,c'", "'ü'"],
    ),
    ("SET('1', '2')", &["'1,2'", "'2'", "''"]),
    (
        "JSON",
        &[
            "'null'",
            r#"'{"b": [1, 1.0, 1e300, true, null, "ü😀\\n"], "a": 18446744073709551615}'"#,
            "'\"\"'",
            "'[]'",
        ],
    ),
];

/// What a column holds, to the byte.
const BYTES: &str =
    "SELECT CONCAT_WS(' ', id, IFNULL(HEX(CAST(c AS BINARY)), 'NULL')) FROM t ORDER BY id";

#[tokio::test]
async fn values_of_every_type_arrive_as_they_are() {
    for (column, values) in COLUMNS {
        let list: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(id, value)| format!("({id}, {value})"))
            .collect();
        let create = format!("CREATE TABLE t (id INT PRIMARY KEY, c {column})");
        let mut pair = Pair::new(&[&create]).await;
        pair.source
            .run(&format!("INSERT INTO t VALUES {}", list.join(", ")))
            .await;
        pair.source.run("INSERT INTO t (id) VALUES (100)").await;
        for load in LOADS {
            let what = format!("{column} by {load:?}");
            let before = pair.loads().await;
            let sink = pair.sink(Mode::Ranged, load).await;
            let copied = sink.copy(&KeyRange::ALL, false).await;
            let copied = copied.unwrap_or_else(|e| panic!("{what}: {e}: {:?}", e.source()));
            assert_eq!(copied.rows, values.len() as u64 + 1, "{what}");
            pair.assert_equal(BYTES, &what).await;
            let way = u64::from(load == Load::LocalInfile);
            assert_eq!(pair.loads().await - before, way, "{what}");
            let keys: Vec<_> = (0..9).map(|id| key(&[id])).collect();
            pair.target.run("UPDATE t SET c = NULL").await;
            sink.copy_keys(&keys).await.unwrap();
            pair.assert_equal(BYTES, &format!("{what}, by key")).await;
            pair.empty().await;
            let changes = images(&mut pair.source).await;
            sink.apply(&batch(changes)).await.unwrap();
            pair.assert_equal(BYTES, &format!("{what}, applied")).await;
            pair.empty().await;
        }
    }
}

/// Documents with values whose types their text doesn't tell.
const DOCUMENTS: [&str; 13] = [
    "CAST(1.10 AS JSON)",
    "JSON_OBJECT('a \"b', CAST(5.25 AS DECIMAL(8,2)), 'i', 5)",
    "JSON_ARRAY(1, 1.5, 1e0, CAST(5 AS DECIMAL(9,0)), CAST('0.5' AS DECIMAL(65,30)))",
    "JSON_OBJECT('ü\n', JSON_OBJECT('', JSON_ARRAY('x', CAST('2020-01-02' AS DATE))))",
    "JSON_ARRAY(CAST('2020-01-02 03:04:05.000006' AS DATETIME(6)), TIMESTAMP'2020-01-02 03:04:05')",
    "JSON_ARRAY(CAST('-838:59:58.000001' AS TIME(6)), CAST('00:00:01' AS TIME))",
    "JSON_ARRAY(x'00ff0a', b'1010', CAST('a' AS BINARY(3)))",
    "CAST(CAST('2020-01-02' AS DATE) AS JSON)",
    "JSON_ARRAY('base64:type15:AGE=', '2020-01-02', '1.10', 1.10)",
    "JSON_OBJECT('deep', JSON_ARRAY(JSON_ARRAY(JSON_OBJECT('x', JSON_ARRAY(-0.5)))))",
    "JSON_ARRAY(123456789012345678901234567890.12, -7.00, CAST(0 AS DECIMAL(5,2)))",
    "JSON_ARRAY(CAST(18446744073709551615 AS UNSIGNED), TRUE, NULL)",
    "NULL",
];

/// All that a server tells of a document.
const DOCUMENT: &str = "SELECT CONCAT_WS(' ', id, IFNULL(CAST(c AS CHAR), 'NULL'), \
     JSON_STORAGE_SIZE(c), JSON_TYPE(c), \
     (SELECT GROUP_CONCAT(CONCAT(JSON_TYPE(v), ' ', JSON_STORAGE_SIZE(v)) ORDER BY n) \
      FROM JSON_TABLE(c, '$**.*' COLUMNS (n FOR ORDINALITY, v JSON PATH '$')) a), \
     (SELECT GROUP_CONCAT(CONCAT(JSON_TYPE(v), ' ', JSON_STORAGE_SIZE(v)) ORDER BY n) \
      FROM JSON_TABLE(c, '$**[*]' COLUMNS (n FOR ORDINALITY, v JSON PATH '$')) b)) FROM t ORDER BY id";

#[tokio::test]
async fn documents_keep_types_and_sizes() {
    let mut pair = Pair::new(&["CREATE TABLE t (id INT PRIMARY KEY, c JSON, v JSON)"]).await;
    for (id, document) in DOCUMENTS.iter().enumerate() {
        let insert = format!("INSERT INTO t VALUES ({id}, {document}, JSON_ARRAY({document}))");
        pair.source.run(&insert).await;
    }
    for load in LOADS {
        let sink = pair.sink(Mode::Ranged, load).await;
        let copied = sink.copy(&KeyRange::ALL, false).await;
        let copied = copied.unwrap_or_else(|e| panic!("{e}: {:?}", e.source()));
        assert_eq!(copied.rows, DOCUMENTS.len() as u64);
        pair.assert_equal(DOCUMENT, "copied").await;
        let others = DOCUMENT.replace("(c", "(t.v");
        pair.assert_equal(&others, "copied").await;
        pair.target.run("UPDATE t SET c = NULL").await;
        let keys: Vec<_> = (0..13).map(|id| key(&[id])).collect();
        sink.copy_keys(&keys).await.unwrap();
        pair.assert_equal(DOCUMENT, "by key").await;
        pair.empty().await;
    }
}

#[tokio::test]
async fn a_table_with_hidden_and_computed_columns_in_another_order_is_copied() {
    let mut pair = Pair::new(&[]).await;
    pair.source
        .run("CREATE TABLE t (a INT, g INT AS (a + 1) STORED, id INT AUTO_INCREMENT PRIMARY KEY, h INT INVISIBLE)")
        .await;
    pair.target
        .run("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, h INT INVISIBLE, a INT, g INT AS (a + 1) STORED)")
        .await;
    pair.source
        .run("INSERT INTO t (id, a, h) VALUES (0, 1, 2), (-4, NULL, 7)")
        .await;
    for load in LOADS {
        let sink = pair.sink(Mode::Ranged, load).await;
        assert_eq!(sink.copy(&KeyRange::ALL, false).await.unwrap().rows, 2);
        let rows = "SELECT CONCAT_WS(' ', id, a, g, h) FROM t ORDER BY id";
        pair.assert_equal(rows, "copied").await;
        pair.empty().await;
    }
}

#[tokio::test]
async fn a_row_that_a_load_would_skip_is_an_error_that_names_it() {
    let mut pair = Pair::new(&["CREATE TABLE t (id INT PRIMARY KEY, v INT)"]).await;
    pair.source
        .run("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        .await;
    for load in LOADS {
        pair.empty().await;
        pair.target.run("INSERT INTO t VALUES (2, 2)").await;
        let sink = pair.sink(Mode::Ranged, load).await;
        let error = sink.copy(&KeyRange::ALL, false).await.unwrap_err();
        let CopyError::Refused { place, source, .. } = error else {
            panic!("{error}: {:?}", error.source());
        };
        assert_eq!(place.key, Some(key(&[2])));
        assert!(
            source.to_string().contains("Duplicate entry '2'"),
            "{source}"
        );
        assert_eq!(pair.target.texts("SELECT COUNT(*) FROM t").await, ["1"]);
    }
}

#[tokio::test]
async fn a_value_that_a_load_would_bend_is_an_error_that_names_it() {
    let mut pair = Pair::new(&[]).await;
    let table = "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT";
    pair.source.run(&format!("{table})")).await;
    pair.target
        .run(&format!("{table} NOT NULL, CONSTRAINT low CHECK (v < 9))"))
        .await;
    pair.source
        .run("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
        .await;
    for (row, named, column) in [
        ("(5, 9, 1)", "Check constraint 'low' is violated", None),
        ("(5, 1, NULL)", "Column 'w' cannot be null", Some("w")),
    ] {
        pair.source.run("DELETE FROM t WHERE id = 5").await;
        pair.source
            .run(&format!("INSERT INTO t VALUES {row}"))
            .await;
        for load in LOADS {
            let sink = pair.sink(Mode::Ranged, load).await;
            let error = sink.copy(&KeyRange::ALL, false).await.unwrap_err();
            let CopyError::Refused { place, source, .. } = error else {
                panic!("{error}: {:?}", error.source());
            };
            assert_eq!(place.key, Some(key(&[5])), "{row}");
            assert_eq!(place.column.as_deref(), column);
            assert!(source.to_string().contains(named), "{source}");
            assert_eq!(pair.target.texts("SELECT COUNT(*) FROM t").await, ["0"]);
        }
    }
}

#[tokio::test]
async fn a_value_that_is_no_member_of_its_list_arrives() {
    let mut pair = Pair::new(&["CREATE TABLE t (id INT PRIMARY KEY, c ENUM('a', '0'))"]).await;
    pair.source.run("SET SESSION sql_mode = ''").await;
    pair.source
        .run("INSERT INTO t VALUES (1, ''), (2, 'a'), (3, '0')")
        .await;
    for load in LOADS {
        let sink = pair.sink(Mode::Ranged, load).await;
        assert_eq!(sink.copy(&KeyRange::ALL, false).await.unwrap().rows, 3);
        pair.assert_equal("SELECT c + 0 FROM t ORDER BY id", "copied")
            .await;
        pair.empty().await;
    }
}

#[tokio::test]
async fn a_target_that_stops_to_take_loads_gets_statements() {
    let mut pair = Pair::new(&["CREATE TABLE t (id INT PRIMARY KEY, v INT)"]).await;
    pair.source.run("INSERT INTO t VALUES (1, 1), (2, 2)").await;
    // The sink of before goes the other way: the test's own server has it off.
    std::mem::swap(&mut pair.source, &mut pair.target);
    pair.source.run("INSERT INTO t VALUES (1, 1), (2, 2)").await;
    pair.empty().await;
    let chosen = Load::choose(&mut pair.target.conn).await.unwrap();
    assert_eq!(chosen, Load::Statements);
    let chosen = Load::choose(&mut pair.source.conn).await.unwrap();
    assert_eq!(chosen, Load::LocalInfile);
    let sink = pair.sink(Mode::Ranged, Load::LocalInfile).await;
    assert_eq!(sink.copy(&KeyRange::ALL, false).await.unwrap().rows, 2);
    pair.assert_equal("SELECT CONCAT(id, v) FROM t ORDER BY id", "copied")
        .await;
}

#[tokio::test]
async fn each_transaction_begins_with_the_mark() {
    let mut pair = Pair::new(&["CREATE TABLE t (id INT PRIMARY KEY, v INT)"]).await;
    pair.source.run("INSERT INTO t VALUES (1, 1), (2, 2)").await;
    pair.target
        .run("CREATE TABLE state (job VARCHAR(255) PRIMARY KEY, sequence BIGINT UNSIGNED, payload LONGTEXT)")
        .await;
    for load in LOADS {
        let plan = pair.plan(Mode::Ranged).await;
        let table = pair.target.name("state");
        let mark = Some(Mark { table });
        let sink = pair.sink_with(plan, TransferSettings { load, mark }).await;
        sink.copy(&KeyRange::ALL, true).await.unwrap();
        sink.copy_keys(&[key(&[1])]).await.unwrap();
        sink.apply(&batch([upsert(1, [Value::Int(5)]), delete(2)]))
            .await
            .unwrap();
        let mut conn = pair.target.schema.conn().await.unwrap();
        sink.apply_on(&mut conn, &batch([upsert(1, [Value::Int(1)])]))
            .await
            .unwrap();
    }
    let marks = "SELECT SUM(sequence) FROM state";
    assert_eq!(pair.target.texts(marks).await, ["8"]);
    let logs: Vec<mysql_async::Row> = pair.target.conn.query("SHOW BINARY LOGS").await.unwrap();
    let mut begins = true;
    let mut count = 0;
    for log in logs {
        let name: String = log.get(0).unwrap();
        let events: Vec<mysql_async::Row> = pair
            .target
            .conn
            .query(format!("SHOW BINLOG EVENTS IN '{name}'"))
            .await
            .unwrap();
        for event in events {
            let (kind, info): (String, String) = (event.get(2).unwrap(), event.get(5).unwrap());
            match kind.as_str() {
                "Query" => begins = info.starts_with("BEGIN"),
                "Table_map" if info.contains(&format!("({}.", pair.target.schema.name())) => {
                    assert!(!begins || info.ends_with(".state)"), "{info}");
                    count += u64::from(begins);
                    begins = false;
                }
                _ => {}
            }
        }
    }
    assert_eq!(count, 8);
}

#[tokio::test]
async fn columns_of_other_types_are_converted_by_statements() {
    let mut pair = Pair::new(&[]).await;
    pair.source
        .run("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(20) CHARACTER SET latin1, d FLOAT)")
        .await;
    pair.target
        .run(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, c VARCHAR(20) CHARACTER SET utf8mb4, d DOUBLE)",
        )
        .await;
    pair.source
        .run("INSERT INTO t VALUES (1, 'Grüße', 0.1), (2, NULL, -0.0)")
        .await;
    let sink = pair.sink(Mode::Ranged, Load::LocalInfile).await;
    assert_eq!(sink.copy(&KeyRange::ALL, false).await.unwrap().rows, 2);
    pair.assert_equal(
        "SELECT CONCAT_WS(' ', id, c, d + 0e0) FROM t ORDER BY id",
        "copied",
    )
    .await;
    assert_eq!(pair.loads().await, 0);
}

//! Rows between two servers.

use std::error::Error;

use oxferry_copier::{Load, RowSink, engine::Mode};
use oxferry_schema::KeyRange;

use crate::{
    bed::key,
    pair::{LOADS, Pair},
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
        }
    }
}

//! Every type with its extremes: the images against what the server selects.

use mysql_async::{Conn, Row, Value, prelude::Queryable};
use oxferry_binlog::RowChange;
use oxferry_testkit::server::ServerOptions;

use crate::follow::{drain, follow, run, server};

/// Each column's type, how to select it in the form of a decoded value, and
/// values as SQL.
const ZOO: &[(&str, &str, &[&str])] = &[
    ("TINYINT", "?", &["-128", "127"]),
    ("TINYINT UNSIGNED", "?", &["0", "255"]),
    ("SMALLINT", "?", &["-32768", "32767"]),
    ("SMALLINT UNSIGNED", "?", &["65535", "0"]),
    ("MEDIUMINT", "?", &["-1", "-8388608", "8388607"]),
    ("MEDIUMINT UNSIGNED", "?", &["8388608", "16777215"]),
    ("INT", "?", &["-2147483648", "2147483647"]),
    ("INT UNSIGNED", "?", &["4294967295"]),
    (
        "BIGINT",
        "?",
        &["-9223372036854775808", "9223372036854775807"],
    ),
    ("BIGINT UNSIGNED", "?", &["18446744073709551615", "0"]),
    (
        "FLOAT",
        "?",
        &["-0.0", "3.4028234e38", "1.17549435e-38", "0.1"],
    ),
    (
        "DOUBLE",
        "?",
        &["-0.0", "5e-324", "1.7976931348623157e308", "0.1"],
    ),
    (
        "DECIMAL(65,30)",
        "?",
        &[
            "-12345678901234567890123456789012345.123456789012345678901234567891",
            "0",
            "0.5",
        ],
    ),
    (
        "DECIMAL(65,0)",
        "?",
        &[
            "99999999999999999999999999999999999999999999999999999999999999999",
            "-1",
        ],
    ),
    (
        "DECIMAL(30,30)",
        "?",
        &[
            "0.999999999999999999999999999999",
            "-0.000000000000000000000000000001",
        ],
    ),
    ("DECIMAL(10,2) UNSIGNED", "?", &["12345678.90", "0.01"]),
    ("BIT(1)", "?+0", &["b'1'", "b'0'"]),
    ("BIT(12)", "?+0", &["b'101010101010'"]),
    (
        "BIT(64)",
        "?+0",
        &["0xFFFFFFFFFFFFFFFF", "0x8000000000000001"],
    ),
    ("YEAR", "?", &["0000", "1901", "2155"]),
    (
        "DATE",
        "?",
        &[
            "'0000-00-00'",
            "'1000-01-01'",
            "'9999-12-31'",
            "'2024-02-00'",
        ],
    ),
    ("TIME", "?", &["'-838:59:59'", "'838:59:59'", "'-00:00:01'"]),
    ("TIME(1)", "?", &["'-12:34:56.7'", "'-00:00:00.1'"]),
    ("TIME(2)", "?", &["'-12:34:56.78'", "'-12:34:56.00'"]),
    ("TIME(3)", "?", &["'-12:34:56.789'"]),
    ("TIME(4)", "?", &["'-00:00:00.0001'", "'25:00:00.5'"]),
    (
        "TIME(6)",
        "?",
        &["'-838:59:58.999999'", "'00:00:00.000001'"],
    ),
    (
        "DATETIME",
        "?",
        &["'0000-00-00 00:00:00'", "'9999-12-31 23:59:59'"],
    ),
    ("DATETIME(1)", "?", &["'2024-02-29 12:34:56.7'"]),
    ("DATETIME(4)", "?", &["'2024-02-29 12:34:56.7891'"]),
    ("DATETIME(6)", "?", &["'1000-01-01 00:00:00.000001'"]),
    (
        "TIMESTAMP NULL",
        "?",
        &[
            "'1970-01-01 00:00:01'",
            "'2038-01-19 03:14:07'",
            "'0000-00-00 00:00:00'",
        ],
    ),
    ("TIMESTAMP(3) NULL", "?", &["'2024-02-29 23:59:59.999'"]),
    ("TIMESTAMP(6) NULL", "?", &["'2000-02-29 00:00:00.000001'"]),
    (
        "CHAR(10)",
        "CAST(? AS BINARY)",
        &["'a  '", "''", "'\u{1F600}'"],
    ),
    ("CHAR(255)", "CAST(? AS BINARY)", &["REPEAT('\u{e9}', 255)"]),
    (
        "CHAR(10) CHARACTER SET latin1",
        "CAST(? AS BINARY)",
        &["'caf\u{e9}'"],
    ),
    (
        "CHAR(10) CHARACTER SET utf16",
        "CAST(? AS BINARY)",
        &["'caf\u{e9}'"],
    ),
    (
        "VARCHAR(20) CHARACTER SET gbk",
        "CAST(? AS BINARY)",
        &["'\u{4e2d}\u{6587}'"],
    ),
    (
        "VARCHAR(20) CHARACTER SET ucs2",
        "CAST(? AS BINARY)",
        &["'\u{4e2d}\u{6587} '"],
    ),
    (
        "VARCHAR(300)",
        "CAST(? AS BINARY)",
        &["REPEAT('x', 300)", "'trailing '"],
    ),
    ("BINARY(5)", "?", &["0x0100", "x''", "0x0102030405"]),
    ("BINARY(255)", "?", &["0x01"]),
    ("VARBINARY(300)", "?", &["0x0100", "REPEAT(0x00, 300)"]),
    ("TINYTEXT", "CAST(? AS BINARY)", &["'tiny'"]),
    (
        "TEXT CHARACTER SET latin1",
        "CAST(? AS BINARY)",
        &["'\u{e9}'"],
    ),
    ("MEDIUMTEXT", "CAST(? AS BINARY)", &["REPEAT('m', 70000)"]),
    ("LONGTEXT", "CAST(? AS BINARY)", &["'long'"]),
    ("TINYBLOB", "?", &["0x00FF"]),
    ("BLOB", "?", &["x''"]),
    ("MEDIUMBLOB", "?", &["0x01"]),
    ("LONGBLOB", "?", &["REPEAT(0xFF, 100000)"]),
    (
        "ENUM('a','\u{e9}','')",
        "CONVERT(? USING utf8mb4)",
        &["'\u{e9}'", "'a'", "''"],
    ),
    (
        "ENUM('a','\u{e9}') CHARACTER SET latin1",
        "CONVERT(? USING utf8mb4)",
        &["'\u{e9}'", "0"],
    ),
    (
        "SET('a','b','c','d','e','f','g','h','i')",
        "CONVERT(? USING utf8mb4)",
        &["'a,i'", "''", "'b'"],
    ),
    (
        "JSON",
        "CAST(? AS CHAR CHARACTER SET utf8mb4)",
        &[
            "'null'",
            "'{\"b\": 1.0, \"aa\": [1, -1, 18446744073709551615, 1e300, 0.1, -0.0, 1e15, 123456789012345.0, 1e14, 1.5e-7, 0.0001]}'",
            "JSON_ARRAY(CAST(1.10 AS DECIMAL(10,2)), CAST('2020-01-02 03:04:05' AS DATETIME), CAST('-12:34:56.5' AS TIME(1)), CAST('2020-01-02' AS DATE), x'616263', TRUE)",
            "'\"quote \\\\\" back \\\\\\\\ nl \\\\n \\\\u0001 \u{e9}\"'",
            "JSON_OBJECT('long', REPEAT('y', 70000), 'n', 70000)",
        ],
    ),
    (
        "POINT",
        "?",
        &["POINT(1, -2)", "ST_GeomFromText('POINT(3 4)', 4326)"],
    ),
    (
        "GEOMETRY",
        "?",
        &["ST_GeomFromText('LINESTRING(0 0, 1 1)')"],
    ),
    ("VECTOR(3)", "?", &["TO_VECTOR('[1, -2.5, 3]')"]),
    (
        "INT GENERATED ALWAYS AS (id + 1) VIRTUAL",
        "?",
        &["DEFAULT"],
    ),
    ("INT GENERATED ALWAYS AS (id * 2) STORED", "?", &["DEFAULT"]),
    ("INT INVISIBLE", "?", &["7"]),
];

fn create() -> String {
    let columns = ZOO
        .iter()
        .enumerate()
        .map(|(at, (kind, ..))| format!("c{at} {kind}"));
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!(
        "CREATE TABLE shop.zoo (id INT PRIMARY KEY, {columns}, INDEX ((c6 + 1))) DEFAULT CHARSET utf8mb4"
    )
}

fn insert(row: usize) -> String {
    let names: Vec<_> = (0..ZOO.len()).map(|at| format!("c{at}")).collect();
    let values = ZOO.iter().map(|(_, _, values)| values[row % values.len()]);
    let values = values.collect::<Vec<_>>().join(", ");
    format!(
        "INSERT INTO shop.zoo (id, {}) VALUES ({row}, {values})",
        names.join(", ")
    )
}

/// The rows as the server selects them, in the form of decoded values.
async fn selected(conn: &mut Conn) -> Vec<Vec<Value>> {
    let columns = ZOO.iter().enumerate();
    let columns = columns.map(|(at, (_, how, _))| how.replace('?', &format!("c{at}")));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let rows: Vec<Row> = conn
        .exec(
            format!("SELECT id, {columns} FROM shop.zoo ORDER BY id"),
            (),
        )
        .await
        .unwrap();
    rows.into_iter().map(Row::unwrap).collect()
}

fn plain(value: &Value) -> Value {
    match value {
        Value::Int(number) => u64::try_from(*number).map_or_else(|_| value.clone(), Value::UInt),
        Value::Float(number) => Value::UInt(number.to_bits().into()),
        Value::Double(number) => Value::UInt(number.to_bits()),
        other => other.clone(),
    }
}

#[track_caller]
fn check(images: &[Vec<Value>], rows: &[Vec<Value>]) {
    assert_eq!(images.len(), rows.len());
    let mut wrong = Vec::new();
    for (image, row) in images.iter().zip(rows) {
        assert_eq!(image.len(), row.len());
        for (at, (decoded, selected)) in image.iter().zip(row).enumerate().skip(1) {
            if plain(decoded) != plain(selected) {
                let short = |value| format!("{value:?}").chars().take(300).collect::<String>();
                wrong.push(format!(
                    "{}: {} for {}",
                    ZOO[at - 1].0,
                    short(decoded),
                    short(selected)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

type Images = (Vec<Vec<Value>>, Vec<Vec<Value>>);

fn images(changes: Vec<RowChange>) -> Images {
    let mut images = (Vec::new(), Vec::new());
    for change in changes {
        images
            .0
            .extend(change.before.map(|row| row.values().to_vec()));
        images
            .1
            .extend(change.after.map(|row| row.values().to_vec()));
    }
    images
}

async fn check_zoo(compression: &str, checksum: &str) {
    let options = ServerOptions::new().arg(format!("--binlog-checksum={checksum}"));
    let server = server(options).await;
    let mut conn = server.conn().await.unwrap();
    run(
        &mut conn,
        &[
            "SET NAMES utf8mb4, sql_mode = '', time_zone = '+00:00'",
            &format!("SET binlog_transaction_compression = {compression}"),
            &create(),
        ],
    )
    .await;
    let mut stream = follow(&server, "zoo").await;
    for row in 0..5 {
        run(&mut conn, &[&insert(row)]).await;
    }
    run(&mut conn, &["INSERT INTO shop.zoo (id) VALUES (5)"]).await;
    let rows = selected(&mut conn).await;
    let (before, after) = images(drain(&mut stream, &mut conn).await);
    assert!(before.is_empty());
    check(&after, &rows);

    run(&mut conn, &["UPDATE shop.zoo SET id = id + 10"]).await;
    let updated = selected(&mut conn).await;
    let (before, after) = images(drain(&mut stream, &mut conn).await);
    check(&before, &rows);
    check(&after, &updated);

    run(&mut conn, &["DELETE FROM shop.zoo ORDER BY id"]).await;
    let (before, after) = images(drain(&mut stream, &mut conn).await);
    check(&before, &updated);
    assert!(after.is_empty());
}

#[tokio::test]
async fn images_equal_what_the_server_selects() {
    check_zoo("OFF", "CRC32").await;
}

#[tokio::test]
async fn images_out_of_compressed_transactions_equal_what_the_server_selects() {
    check_zoo("ON", "CRC32").await;
}

#[tokio::test]
async fn images_out_of_compressed_transactions_come_without_checksums_too() {
    check_zoo("ON", "NONE").await;
}

//! Keys out of row images against keys that the server sends.

use mysql_async::{Row, prelude::Queryable};
use oxferry_schema::{Ident, Key, Table, TableName};
use oxferry_testkit::server::ServerOptions;

use crate::follow::{drain, follow, run, server};

/// Types of key columns with values; the values of one row go together.
const NUMBERS_AND_TIMES: &[(&str, &[&str])] = &[
    (
        "DECIMAL(65,30)",
        &[
            "-0.5",
            "0",
            "12345678901234567890123456789012345.000000000000000000000000000001",
        ],
    ),
    ("DECIMAL(6,1) ZEROFILL", &["1.5", "0", "99999.9"]),
    ("DECIMAL(5,0)", &["-7", "0", "99999"]),
    ("DATE", &["'0000-00-00'", "'2020-00-00'", "'9999-12-31'"]),
    (
        "DATETIME",
        &["'0000-00-00'", "'2020-02-29 23:59:59'", "'1000-01-01'"],
    ),
    (
        "DATETIME(3)",
        &[
            "'2020-02-29 23:59:59.120'",
            "'2020-01-01'",
            "'2020-01-01 00:00:00.001'",
        ],
    ),
    (
        "TIMESTAMP(6)",
        &[
            "'1970-01-01 00:00:01'",
            "'2020-07-01 12:00:00.000001'",
            "'2038-01-19 03:14:07.999999'",
        ],
    ),
    (
        "TIMESTAMP",
        &["'2020-07-01 12:00:00'", "'0000-00-00'", "'2020-01-01'"],
    ),
    ("TIME", &["'-838:59:59'", "'00:00:00'", "'100:00:00'"]),
    (
        "TIME(2)",
        &["'-00:00:00.01'", "'12:00:00.5'", "'838:59:58.99'"],
    ),
    ("YEAR", &["0000", "1901", "2155"]),
    ("BIT(12)", &["0", "b'101010101010'", "4095"]),
    (
        "BIT(64)",
        &["0", "0x8000000000000001", "0xFFFFFFFFFFFFFFFF"],
    ),
    ("MEDIUMINT UNSIGNED", &["0", "8388608", "16777215"]),
    (
        "BIGINT UNSIGNED",
        &["0", "9223372036854775808", "18446744073709551615"],
    ),
];

const CHARACTERS_AND_BYTES: &[(&str, &[&str])] = &[
    ("BINARY(5)", &["x''", "x'6100'", "x'ffffffffff'"]),
    ("VARBINARY(20)", &["x''", "x'6100'", "x'e900'"]),
    ("CHAR(5) CHARACTER SET ucs2", &["'a  '", "''", "'一é'"]),
    ("CHAR(5) CHARACTER SET latin1", &["'é '", "''", "'Ab'"]),
    ("CHAR(5) CHARACTER SET utf8mb4", &["'𝒳 '", "''", "'ß'"]),
    ("VARCHAR(9) CHARACTER SET gbk", &["'一 '", "''", "'丁'"]),
    ("VARCHAR(9) CHARACTER SET sjis", &["'ア'", "'a '", "'表'"]),
    ("VARCHAR(9) CHARACTER SET utf16", &["'ア'", "'a '", "'𝒳'"]),
    (
        "VARCHAR(9) COLLATE utf8mb4_0900_ai_ci",
        &["'É'", "'é '", "'e'"],
    ),
    ("VARCHAR(300) COLLATE utf8mb4_bin", &["'a '", "'a'", "''"]),
    (
        "ENUM('z','é','') CHARACTER SET latin1",
        &["'é'", "'z'", "''"],
    ),
    ("ENUM('z','b')", &["'b'", "'z'", "0"]),
    (
        "SET('z','b','é','a','e','f','g','h','i')",
        &["''", "'a,z'", "'i,é'"],
    ),
];

async fn check(table: &str, columns: &[(&str, &[&str])]) {
    let server = server(ServerOptions::new()).await;
    let mut conn = server.conn().await.unwrap();
    let names: Vec<String> = (0..columns.len()).map(|at| format!("k{at}")).collect();
    let list = names.join(", ");
    let definitions: Vec<String> = names
        .iter()
        .zip(columns)
        .map(|(name, (column_type, _))| format!("{name} {column_type} NOT NULL"))
        .collect();
    let create = format!(
        "CREATE TABLE shop.{table} (v INT, {}, PRIMARY KEY ({list}))",
        definitions.join(", ")
    );
    let session = "SET NAMES utf8mb4, sql_mode = '', time_zone = '+00:00'";
    run(&mut conn, &[session, &create]).await;
    let mut stream = follow(&server, table).await;
    for row in 0..3 {
        let values: Vec<&str> = columns.iter().map(|(_, values)| values[row]).collect();
        let insert = format!(
            "INSERT INTO shop.{table} VALUES ({row}, {})",
            values.join(", ")
        );
        run(&mut conn, &[&insert]).await;
    }

    let name = |text: &str| Ident::new(text).unwrap();
    let full = TableName::new(name("shop"), name(table));
    let described = Table::read(&mut conn, &full).await.unwrap().unwrap();
    let row_key = described.row_key().unwrap();
    let side = row_key.side(&described).unwrap();
    let select = format!("SELECT {} FROM {full} ORDER BY v", side.select_list());
    let rows: Vec<Row> = conn.exec(select, ()).await.unwrap();
    let selected: Vec<Key> = rows
        .into_iter()
        .map(|row| side.read(&row.unwrap()).unwrap())
        .collect();
    let images = drain(&mut stream, &mut conn).await;
    let streamed: Vec<Key> = images
        .iter()
        .map(|change| row_key.key_of(change.after.as_ref().unwrap()).unwrap())
        .collect();
    assert_eq!(streamed, selected);
}

#[tokio::test]
async fn keys_of_numbers_and_times_are_alike_out_of_images_and_out_of_tables() {
    check("numbers", NUMBERS_AND_TIMES).await;
}

#[tokio::test]
async fn keys_of_characters_and_bytes_are_alike_out_of_images_and_out_of_tables() {
    check("characters", CHARACTERS_AND_BYTES).await;
}

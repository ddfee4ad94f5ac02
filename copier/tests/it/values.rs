//! A row gets the same values whichever way it comes.

use mysql_async::prelude::Queryable;
use oxferry_copier::{KeyedChange, RowSink, engine::Mode};
use oxferry_schema::{Column, JsonLeaf, JsonValue, KeyRange, Row, Value};

use crate::bed::{Bed, batch, key};

/// Reads `t` as the binary log would show it: see `oxferry_schema::Row`.
pub(crate) async fn images(bed: &mut Bed) -> Vec<KeyedChange> {
    let table = bed.table("t").await;
    let select: Vec<String> = table.columns.iter().map(read).collect();
    let sql = format!("SELECT {} FROM t ORDER BY id", select.join(", "));
    let rows: Vec<mysql_async::Row> = bed.conn.exec(sql, ()).await.unwrap();
    let bits: Vec<bool> = table.columns.iter().map(|c| c.data_type == "bit").collect();
    let change = |row: mysql_async::Row| {
        let values: Vec<Value> = row.unwrap();
        let Value::Int(id) = values[0] else {
            panic!("{values:?}")
        };
        let values: Vec<Value> = values
            .into_iter()
            .zip(&bits)
            .map(|(value, is_bit)| match value {
                Value::Bytes(bytes) if *is_bit => {
                    Value::UInt(bytes.iter().fold(0, |v, b| v << 8 | u64::from(*b)))
                }
                other => other,
            })
            .collect();
        KeyedChange {
            key: key(&[id.into()]),
            image: Some(Row::new(values)),
        }
    };
    rows.into_iter().map(change).collect()
}

fn read(column: &Column) -> String {
    let name = &column.name;
    match column.data_type.as_str() {
        "char" | "varchar" | "text" => format!("CAST({name} AS BINARY)"),
        "geometry" | "point" => format!("CAST({name} AS BINARY)"),
        "binary" | "vector" => format!("CAST({name} AS BINARY)"),
        _ => name.to_string(),
    }
}

/// Copies rows of one column both ways, and compares what arrives.
async fn check(source: &str, target: &str, values: &[&str]) {
    let list: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(id, value)| format!("({id}, {value})"))
        .collect();
    let mut bed = Bed::new(&[
        &format!("CREATE TABLE t (id INT PRIMARY KEY, c {source})"),
        &format!("CREATE TABLE n (id INT PRIMARY KEY, c {target})"),
        &format!("INSERT INTO t VALUES {}", list.join(", ")),
        "INSERT INTO t (id) VALUES (100)",
    ])
    .await;
    let sink = bed.sink(Mode::Ranged).await;
    let what = format!("{source} to {target}");
    let copied = sink.copy(&KeyRange::ALL, false).await;
    copied
        .unwrap_or_else(|error| panic!("{what}: {error}: {:?}", std::error::Error::source(&error)));
    let select = "SELECT IFNULL(HEX(CAST(c AS BINARY)), 'NULL') FROM n ORDER BY id";
    let by_select = bed.texts(select).await;
    bed.run("DELETE FROM n").await;
    let images = images(&mut bed).await;
    let applied = sink.apply(&batch(images)).await;
    applied
        .unwrap_or_else(|error| panic!("{what}: {error}: {:?}", std::error::Error::source(&error)));
    assert_eq!(bed.texts(select).await, by_select, "{what}");
    if source == target {
        let original = bed.texts(&select.replace(" n ", " t ")).await;
        assert_eq!(by_select, original, "{what}");
    }
}

#[tokio::test]
async fn numbers() {
    check(
        "BIGINT UNSIGNED",
        "BIGINT UNSIGNED",
        &["0", "18446744073709551615"],
    )
    .await;
    check("BIGINT", "BIGINT", &["0", "-9223372036854775808"]).await;
    check(
        "MEDIUMINT UNSIGNED",
        "INT UNSIGNED",
        &["8388608", "16777215"],
    )
    .await;
    check("INT", "VARCHAR(20)", &["-5", "0"]).await;
    check(
        "DECIMAL(65,30)",
        "DECIMAL(65,30)",
        &[
            "'-12345678901234567890123456789012345.123456789012345678901234567891'",
            "0.5",
        ],
    )
    .await;
    check("DECIMAL(10,3)", "INT", &["1.5", "-2.499"]).await;
    check("DECIMAL(10,3)", "VARCHAR(20)", &["1.5", "-0.1"]).await;
    check(
        "DOUBLE",
        "DOUBLE",
        &["-0.0", "1.7976931348623157e308", "0.1234567890123456789"],
    )
    .await;
    check(
        "FLOAT",
        "FLOAT",
        &["-0.0", "0.1", "3.4028234e38", "16777216"],
    )
    .await;
    check("FLOAT", "DOUBLE", &["0.1", "1e20"]).await;
    check("FLOAT", "VARCHAR(50)", &["0.1", "1e20"]).await;
    check("FLOAT", "DECIMAL(20,10)", &["0.1", "12345.678"]).await;
    check("BIT(64)", "BIT(64)", &["b'0'", "18446744073709551615"]).await;
    check("BIT(5)", "INT", &["b'10101'"]).await;
    check("YEAR", "YEAR", &["0", "1901", "2155"]).await;
    check("YEAR", "VARCHAR(10)", &["0", "1970"]).await;
    check("YEAR", "INT", &["0", "1970"]).await;
}

#[tokio::test]
async fn times() {
    check(
        "DATE",
        "DATE",
        &[
            "'0000-00-00'",
            "'2020-00-15'",
            "'2021-02-31'",
            "'9999-12-31'",
        ],
    )
    .await;
    check("DATE", "DATETIME", &["'2020-01-15'"]).await;
    check("DATE", "VARCHAR(30)", &["'2020-01-15'"]).await;
    check(
        "DATETIME(6)",
        "DATETIME(6)",
        &[
            "'0000-00-00'",
            "'1000-01-01 00:00:00.000001'",
            "'9999-12-31 23:59:59.999999'",
        ],
    )
    .await;
    check("DATETIME(3)", "VARCHAR(30)", &["'2020-01-15 01:02:03.45'"]).await;
    check("DATETIME", "DATE", &["'2020-01-15 23:59:59'"]).await;
    check("DATETIME(6)", "DATETIME", &["'2020-01-15 23:59:59.5'"]).await;
    check(
        "TIMESTAMP(6) NULL",
        "TIMESTAMP(6) NULL",
        &["'2038-01-19 03:14:07.999999'", "0"],
    )
    .await;
    check("TIMESTAMP NULL", "DATETIME", &["'2021-03-28 02:30:00'"]).await;
    check(
        "TIME(6)",
        "TIME(6)",
        &[
            "'-838:59:58.999999'",
            "'838:59:59'",
            "'00:00:00.000001'",
            "'-00:00:00.5'",
            "'30:00:00'",
            "'00:00:00'",
        ],
    )
    .await;
    check("TIME", "VARCHAR(20)", &["'-100:00:01'", "'00:00:00'"]).await;
    check("TIME(2)", "TIME", &["'10:00:00.55'"]).await;
}

#[tokio::test]
async fn text_in_its_own_character_set() {
    for charset in [
        "utf8mb4", "utf8mb3", "latin1", "gbk", "ucs2", "utf16", "utf32", "utf16le", "sjis",
        "cp1251",
    ] {
        let text = match charset {
            "latin1" => "'Grüße  '",
            "gbk" => "'中文字符'",
            "sjis" => "'日本語'",
            "cp1251" => "'Привет'",
            "utf8mb4" | "utf16" | "utf32" | "utf16le" => "'ü中😀 '",
            _ => "'ü中'",
        };
        let text = text.to_owned();
        let values = ["''", "'a '", "'NULL'", text.as_str()];
        let column = format!("VARCHAR(40) CHARACTER SET {charset}");
        check(&column, &column, &values).await;
        check(&column, "VARCHAR(40) CHARACTER SET utf8mb4", &values).await;
        check(&column, "VARBINARY(200)", &values).await;
        check(
            &format!("TEXT CHARACTER SET {charset}"),
            &format!("CHAR(40) CHARACTER SET {charset}"),
            &values,
        )
        .await;
    }
}

#[tokio::test]
async fn bytes_documents_and_places() {
    check("BINARY(4)", "BINARY(4)", &["'a'", "x'FF00FE00'", "''"]).await;
    check(
        "VARBINARY(40)",
        "VARBINARY(40)",
        &["x'FFFE00'", "''", "x'C3'", "'a '"],
    )
    .await;
    check("BLOB", "LONGBLOB", &["x'80'", "REPEAT(x'FF', 60000)"]).await;
    check("BINARY(4)", "VARBINARY(9)", &["'a'", "x'FF00FE00'"]).await;
    check(
        "JSON",
        "JSON",
        &[
            "'null'",
            r#"'{"b": [1, 1.0, 1e300, true, null, "ü😀\\n"], "a": 18446744073709551615}'"#,
            "'\"\"'",
        ],
    )
    .await;
    check("JSON", "LONGTEXT", &[r#"'{"b": 1.0, "a": "x"}'"#]).await;
    check(
        "GEOMETRY",
        "GEOMETRY",
        &[
            "ST_GeomFromText('POINT(1 2)', 0)",
            "ST_GeomFromText('POLYGON((0 0, 1 0, 1 1, 0 0))', 4326)",
        ],
    )
    .await;
    check(
        "VECTOR(3)",
        "VECTOR(3)",
        &["STRING_TO_VECTOR('[1, -2.5, 3e10]')"],
    )
    .await;
}

#[tokio::test]
async fn members_of_lists() {
    let before = "ENUM('a', 'ü', 'c')";
    check(before, before, &["'a'", "'ü'"]).await;
    check(before, "ENUM('c', 'ü', 'x', 'a')", &["'a'", "'ü'", "'c'"]).await;
    check(before, "VARCHAR(20)", &["'a'", "'ü'"]).await;
    check(
        "ENUM('ü', 'b') CHARACTER SET latin1",
        "ENUM('b', 'ü') CHARACTER SET utf8mb4",
        &["'ü'"],
    )
    .await;
    let set = "SET('a', 'ü', 'c')";
    check(set, set, &["''", "'a,c'", "'ü'"]).await;
    check(set, "SET('c', 'b', 'ü', 'a')", &["'a,c'", "'a,ü,c'"]).await;
}

#[tokio::test]
async fn conversions_are_the_servers_own_on_both_paths() {
    let mut wrong = Vec::new();
    for (source, target, values) in CONVERSIONS {
        let (source, target) = ((*source).to_owned(), (*target).to_owned());
        let values: Vec<String> = values.iter().map(|v| (*v).to_owned()).collect();
        let what = format!("{source} to {target}");
        let task = tokio::spawn(async move {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            check(&source, &target, &values).await;
        });
        if let Err(error) = task.await {
            let panic = error.into_panic();
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            wrong.push(format!("{what}: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Conversions that the server makes itself, of values that look different as
/// a parameter than in their column.
const CONVERSIONS: &[(&str, &str, &[&str])] = &[
    (
        "BIGINT UNSIGNED",
        "DOUBLE",
        &["18446744073709551615", "9007199254740993"],
    ),
    (
        "BIGINT UNSIGNED",
        "DECIMAL(20,0)",
        &["18446744073709551615"],
    ),
    ("INT(8) ZEROFILL", "VARCHAR(20)", &["42", "0"]),
    ("INT(8) ZEROFILL", "BIGINT", &["42"]),
    ("DECIMAL(12,2) ZEROFILL", "VARCHAR(20)", &["4.5"]),
    ("FLOAT ZEROFILL", "VARCHAR(20)", &["4.5"]),
    ("FLOAT(7,2)", "VARCHAR(20)", &["1234.5", "0.1"]),
    ("FLOAT(7,2)", "FLOAT", &["1234.5", "0.1"]),
    ("DOUBLE(9,3)", "VARCHAR(20)", &["1234.5", "0.1"]),
    (
        "DOUBLE",
        "VARCHAR(50)",
        &["0.1", "1e100", "-0.0", "1e15", "123456789.125"],
    ),
    ("DOUBLE", "FLOAT", &["0.1", "-0.0"]),
    ("DOUBLE", "DECIMAL(30,10)", &["0.1", "12345.678", "-0.0"]),
    ("FLOAT", "DECIMAL(30,15)", &["0.1", "16777217"]),
    ("FLOAT", "BIGINT", &["16777217", "2.5"]),
    ("BIT(5)", "VARCHAR(10)", &["b'10101'"]),
    (
        "BIT(16)",
        "VARBINARY(10)",
        &["b'0100000101000010'", "b'0'", "b'1000001'"],
    ),
    ("BIT(20)", "BINARY(4)", &["b'1000001'"]),
    ("BIT(8)", "CHAR(4)", &["b'1000001'"]),
    ("BIT(8)", "BIT(20)", &["b'1000001'"]),
    ("BIT(64)", "BIGINT UNSIGNED", &["18446744073709551615"]),
    ("BIT(8)", "DOUBLE", &["b'1000001'"]),
    ("BIT(8)", "DECIMAL(5,1)", &["b'1000001'"]),
    ("YEAR", "SMALLINT UNSIGNED", &["0", "2155"]),
    ("YEAR", "CHAR(4)", &["0", "1970"]),
    ("SMALLINT", "YEAR", &["0", "1970", "70"]),
    ("ENUM('a','b','c')", "INT", &["'a'", "'c'"]),
    ("ENUM('5','b','1')", "INT", &["'5'", "'1'"]),
    ("ENUM('a','b')", "DOUBLE", &["'b'"]),
    ("ENUM('a','b')", "DECIMAL(5,1)", &["'b'"]),
    ("SET('a','b','c')", "INT", &["'a,c'", "''"]),
    ("SET('a','b','c')", "BIGINT UNSIGNED", &["'b,c'"]),
    ("SET('a','b','c')", "VARCHAR(20)", &["'a,c'", "''"]),
    ("ENUM('a','b')", "BIT(8)", &["'b'"]),
    ("ENUM('a','b')", "SET('b','a')", &["'b'"]),
    ("ENUM('a','b')", "VARBINARY(9)", &["'b'"]),
    ("VARCHAR(9)", "ENUM('b','a','2')", &["'a'", "'b'", "'2'"]),
    ("VARCHAR(9)", "SET('b','a')", &["'a'", "'a,b'", "''"]),
    ("INT", "ENUM('b','a')", &["1", "2"]),
    ("INT", "BIT(8)", &["65"]),
    ("INT", "CHAR(5)", &["-5"]),
    ("INT", "VARBINARY(9)", &["-5"]),
    ("VARCHAR(30)", "JSON", &["'[1, 1.0]'"]),
    ("CHAR(6)", "VARCHAR(6)", &["'a  '", "''"]),
    ("CHAR(6)", "BINARY(6)", &["'a  '"]),
    ("CHAR(6)", "VARBINARY(6)", &["'a  '"]),
    ("VARCHAR(6)", "CHAR(6)", &["'a  '"]),
    ("BINARY(4)", "CHAR(8)", &["'a'", "'ab  '"]),
    ("BINARY(4)", "BINARY(6)", &["'a'"]),
    ("VARBINARY(9)", "INT", &["'12'"]),
    ("VARCHAR(20)", "INT", &["'12'", "'-7'"]),
    ("VARCHAR(20)", "DOUBLE", &["'1e3'", "'-0.0'"]),
    ("VARCHAR(20)", "DECIMAL(9,3)", &["'1.5'"]),
    ("VARCHAR(20)", "DATE", &["'2020-01-02'"]),
    (
        "VARCHAR(30)",
        "DATETIME(3)",
        &["'2020-01-02 03:04:05.6789'"],
    ),
    ("VARCHAR(20)", "TIME(2)", &["'-12:34:56.789'"]),
    (
        "VARCHAR(20) CHARACTER SET latin1",
        "ENUM('ü','b')",
        &["'ü'"],
    ),
    ("DATE", "TIMESTAMP NULL", &["'2020-01-15'"]),
    ("DATE", "INT", &["'2020-01-15'"]),
    ("DATETIME(3)", "BIGINT", &["'2020-01-15 01:02:03'"]),
    (
        "DATETIME(6)",
        "DECIMAL(30,6)",
        &["'2020-01-15 01:02:03.4567'"],
    ),
    ("DATETIME(6)", "DOUBLE", &["'2020-01-15 01:02:03.5'"]),
    ("DATETIME(6)", "TIME(3)", &["'2020-01-15 01:02:03.4567'"]),
    ("DATETIME", "VARCHAR(30)", &["'0000-00-00'", "'2020-00-15'"]),
    (
        "DATETIME(2)",
        "DATETIME(6)",
        &["'0000-00-00'", "'2020-01-15 01:02:03.45'"],
    ),
    ("DATE", "DATETIME(2)", &["'0000-00-00'", "'2020-00-15'"]),
    (
        "TIMESTAMP(2) NULL",
        "VARCHAR(30)",
        &["'2020-01-15 01:02:03.45'"],
    ),
    ("TIME(3)", "DECIMAL(20,6)", &["'-12:34:56.789'"]),
    ("TIME", "INT", &["'-12:34:56'"]),
    (
        "TIME(3)",
        "VARCHAR(20)",
        &["'838:59:59'", "'-00:00:00.001'"],
    ),
    (
        "TIME(6)",
        "TIME(3)",
        &["'01:02:03.123499'", "'-01:02:03.9999'"],
    ),
    (
        "JSON",
        "VARCHAR(90)",
        &[r#"'{"b": 1.0, "a": [null, "x", 1e20]}'"#],
    ),
    ("JSON", "INT", &["'5'"]),
    (
        "POINT SRID 4326",
        "GEOMETRY",
        &["ST_GeomFromText('POINT(1 2)', 4326)"],
    ),
    ("POINT", "BLOB", &["ST_GeomFromText('POINT(1 2)', 0)"]),
    (
        "GEOMETRY",
        "POINT",
        &["ST_GeomFromText('POINT(1 2)', 4326)"],
    ),
    (
        "VECTOR(3)",
        "VARBINARY(40)",
        &["STRING_TO_VECTOR('[1, -2.5, 3e10]')"],
    ),
    (
        "VECTOR(3)",
        "VECTOR(9)",
        &["STRING_TO_VECTOR('[1, -2.5, 3e10]')"],
    ),
    (
        "TEXT CHARACTER SET ucs2",
        "VARCHAR(20) CHARACTER SET utf8mb3",
        &["'ü中'", "''"],
    ),
    ("TINYTEXT", "MEDIUMBLOB", &["'ü'"]),
    (
        "VARCHAR(20) CHARACTER SET latin1",
        "VARBINARY(20)",
        &["'ü'"],
    ),
    (
        "VARCHAR(20) CHARACTER SET ascii",
        "VARCHAR(20) CHARACTER SET utf16",
        &["'abc'"],
    ),
    (
        "VARCHAR(20) CHARACTER SET utf8mb3",
        "VARCHAR(20) CHARACTER SET latin1",
        &["'ü'"],
    ),
];

#[tokio::test]
async fn json_documents_keep_the_types_of_their_values() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, c JSON)",
        "CREATE TABLE n (id INT PRIMARY KEY, c JSON)",
    ])
    .await;
    let moment = || "2020-01-02 03:04:05.000006".to_owned();
    let bytes = |type_code, bytes: &[u8]| JsonValue::Bytes {
        type_code,
        bytes: bytes.into(),
    };
    let decimal = JsonValue::Decimal {
        text: "1.10".to_owned(),
        digits: 3,
        scale: 2,
    };
    let values = [
        (decimal, "DECIMAL"),
        (JsonValue::Date("2020-01-02".to_owned()), "DATE"),
        (JsonValue::DateTime(moment()), "DATETIME"),
        (
            JsonValue::DateTime("0000-00-00 00:00:00.000000".to_owned()),
            "DATETIME",
        ),
        (JsonValue::Timestamp(moment()), "TIMESTAMP"),
        (JsonValue::Time("-838:59:58.000001".to_owned()), "TIME"),
        (bytes(15, b"\0a"), "BLOB"),
        (bytes(16, &[2, 5]), "BIT"),
        (bytes(249, b"\0a"), "BLOB"),
        (bytes(250, b"\0a"), "BLOB"),
        (bytes(251, b"\0a"), "BLOB"),
        (bytes(252, b"\0a"), "BLOB"),
        (bytes(254, b"\0a"), "BLOB"),
    ];
    let leaves: Vec<JsonLeaf> = values
        .iter()
        .enumerate()
        .map(|(at, (value, _))| JsonLeaf {
            column: 1,
            path: format!("$.\"a b\"[{at}]"),
            value: value.clone(),
        })
        .collect();
    let text = format!("{{\"a b\": {:?}}}", [0; 13]);
    let row = Row::new([Value::Int(1), Value::from(text)]).with_leaves(leaves);
    let change = KeyedChange {
        key: key(&[1]),
        image: Some(row),
    };
    let sink = bed.sink(Mode::Ranged).await;
    sink.apply(&batch(vec![change])).await.unwrap();
    for (at, (_, expected)) in values.iter().enumerate() {
        let read = format!("SELECT JSON_TYPE(JSON_EXTRACT(c, '$.\"a b\"[{at}]')) FROM n");
        let found: Option<String> = bed.conn.query_first(read).await.unwrap();
        assert_eq!(found.as_deref(), Some(*expected), "{at}");
    }
    let read = "SELECT CAST(c AS CHAR) FROM n";
    let found: Option<String> = bed.conn.query_first(read).await.unwrap();
    assert_eq!(
        found.as_deref(),
        Some(
            r#"{"a b": [1.10, "2020-01-02", "2020-01-02 03:04:05.000006", "0000-00-00 00:00:00.000000", "2020-01-02 03:04:05.000006", "-838:59:58.000001", "base64:type15:AGE=", "base64:type16:AgU=", "base64:type249:AGE=", "base64:type250:AGE=", "base64:type251:AGE=", "base64:type252:AGE=", "base64:type254:AGE="]}"#
        )
    );
}

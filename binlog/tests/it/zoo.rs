//! A table with a column of every type, and the types' extremes.

use mysql_async::{Conn, Row, Value, prelude::Queryable};

use crate::follow::run;

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
        "SET('a','b','c','d','e','f','g','h')",
        "CONVERT(? USING utf8mb4)",
        &["'h'", "'a,h'"],
    ),
    (
        MANY_MEMBERS,
        "CONVERT(? USING utf8mb4)",
        &["128", "127", "200"],
    ),
    (
        SIXTY_FOUR_MEMBERS,
        "CONVERT(? USING utf8mb4)",
        &["0x8000000000000000", "1", "0xFFFFFFFFFFFFFFFF"],
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

const MANY_MEMBERS: &str = "an ENUM of 200 members";
const SIXTY_FOUR_MEMBERS: &str = "a SET of 64 members";

/// The table, with all or some of its columns.
pub(crate) struct Zoo(Vec<&'static (&'static str, &'static str, &'static [&'static str])>);

impl Zoo {
    /// How many rows of values it has; one more is of NULLs.
    const ROWS: usize = 5;

    pub(crate) fn new() -> Self {
        Self(ZOO.iter().collect())
    }

    /// Leaves out columns whose type begins so.
    pub(crate) fn without(mut self, types: &[&str]) -> Self {
        let out = |kind: &str| types.iter().any(|out| kind.starts_with(out));
        self.0.retain(|(kind, ..)| !out(kind));
        self
    }

    pub(crate) async fn create(&self, conn: &mut Conn) {
        let columns = self.0.iter().enumerate();
        let columns = columns.map(|(at, (kind, ..))| format!("c{at} {}", definition(kind)));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let create = format!(
            "CREATE TABLE shop.zoo (id INT PRIMARY KEY, {columns}, INDEX ((c6 + 1))) DEFAULT CHARSET utf8mb4"
        );
        let session = "SET NAMES utf8mb4, sql_mode = '', time_zone = '+00:00'";
        run(conn, &[session, &create]).await;
    }

    /// Fills the table.
    pub(crate) async fn insert(&self, conn: &mut Conn) {
        let names: Vec<_> = (0..self.0.len()).map(|at| format!("c{at}")).collect();
        let names = names.join(", ");
        for row in 0..Self::ROWS {
            let values = self
                .0
                .iter()
                .map(|(_, _, values)| values[row % values.len()]);
            let values = values.collect::<Vec<_>>().join(", ");
            let insert = format!("INSERT INTO shop.zoo (id, {names}) VALUES ({row}, {values})");
            run(conn, &[&insert]).await;
        }
        let nulls = format!("INSERT INTO shop.zoo (id) VALUES ({})", Self::ROWS);
        run(conn, &[&nulls]).await;
    }

    /// Changes every row.
    pub(crate) async fn update(&self, conn: &mut Conn) {
        run(conn, &["UPDATE shop.zoo SET id = id + 10"]).await;
    }

    /// Empties the table, row by row.
    pub(crate) async fn delete(&self, conn: &mut Conn) {
        run(conn, &["DELETE FROM shop.zoo ORDER BY id"]).await;
    }

    /// The rows as the server selects them, in the form of decoded values.
    pub(crate) async fn selected(&self, conn: &mut Conn) -> Vec<Vec<Value>> {
        let columns = self.0.iter().enumerate();
        let columns = columns.map(|(at, (_, how, _))| how.replace('?', &format!("c{at}")));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let select = format!("SELECT id, {columns} FROM shop.zoo ORDER BY id");
        let rows: Vec<Row> = conn.exec(select, ()).await.unwrap();
        rows.into_iter().map(Row::unwrap).collect()
    }
}

/// The type in SQL.
fn definition(kind: &str) -> String {
    let members = |count: u32| {
        let members: Vec<_> = (1..=count).map(|number| format!("'m{number}'")).collect();
        members.join(",")
    };
    match kind {
        MANY_MEMBERS => format!("ENUM({})", members(200)),
        SIXTY_FOUR_MEMBERS => format!("SET({})", members(64)),
        other => other.to_owned(),
    }
}

/// A value in the one form that it is compared in: numbers that aren't
/// negative are unsigned, floating point numbers are their bits.
pub(crate) fn plain(value: &Value) -> Value {
    match value {
        Value::Int(number) => u64::try_from(*number).map_or_else(|_| value.clone(), Value::UInt),
        Value::Float(number) => Value::UInt(number.to_bits().into()),
        Value::Double(number) => Value::UInt(number.to_bits()),
        other => other.clone(),
    }
}

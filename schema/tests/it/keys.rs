//! Keys of every type, read and found on both sides of a change.

use mysql_async::{Params, Row, prelude::Queryable};
use oxferry_schema::{Key, KeyRange, KeySide, Predicate, Value};

use crate::place::Place;

/// A key column's type before, its values as SQL, and its type after.
type Case = (&'static str, &'static str, &'static str);

/// Pairs whose target keeps the source's order.
const ORDERED: &[Case] = &[
    ("tinyint", "-128,-1,0,1,127", "bigint"),
    (
        "mediumint unsigned",
        "0,8388608,16777215",
        "mediumint unsigned",
    ),
    (
        "bigint unsigned",
        "0,9223372036854775807,9223372036854775808,18446744073709551615",
        "bigint unsigned",
    ),
    (
        "bigint",
        "-9223372036854775808,0,9223372036854775807",
        "decimal(30,2)",
    ),
    ("int zerofill", "0,7,4294967295", "bigint"),
    ("year", "0,1901,1970,2155", "year"),
    (
        "bit(64)",
        "0,1,b'1000000000',18446744073709551615",
        "bit(64)",
    ),
    ("bit(9)", "0,300,511", "int"),
    (
        "enum('z','b','a','')",
        "'z','b','a',''",
        "enum('z','b','a','','new')",
    ),
    (
        "set('z','b','a','c')",
        "'','z','b','z,a','c','z,b,a,c'",
        "set('z','b','a','c','d')",
    ),
    (
        "binary(4)",
        "x'',x'61',x'61000001',x'ff',x'00000001'",
        "binary(6)",
    ),
    ("binary(4)", "x'',x'61',x'610001',x'ff'", "varbinary(9)"),
    (
        "varbinary(9)",
        "x'',x'00',x'0000',x'61',x'6100',x'ff',x'e9'",
        "varbinary(20)",
    ),
    (
        "decimal(65,30)",
        "-1.5,0,1.5,1.25,99999999999999999999999999999999999.999999999999999999999999999999",
        "decimal(65,30)",
    ),
    (
        "decimal(10,2)",
        "-99999999.99,-0.01,0,0.5,12,99999999.99",
        "decimal(14,4)",
    ),
    (
        "decimal(5,1) unsigned zerofill",
        "0,0.5,12,9999.9",
        "decimal(6,1)",
    ),
    (
        "date",
        "'0000-00-00','2020-00-00','1000-01-01','2020-02-29','9999-12-31'",
        "date",
    ),
    (
        "date",
        "'1000-01-01','2020-02-29','9999-12-31'",
        "datetime(3)",
    ),
    (
        "datetime",
        "'0000-00-00','2020-02-29 23:59:59','9999-12-31 23:59:59'",
        "datetime(6)",
    ),
    (
        "datetime(6)",
        "'2020-01-01 00:00:00.000001','2020-01-01 00:00:00.1','2020-01-01 00:00:00'",
        "datetime(6)",
    ),
    (
        "timestamp(3)",
        "'1970-01-01 00:00:01','2020-07-01 12:00:00.123','2038-01-19 03:14:07'",
        "timestamp(6)",
    ),
    (
        "time(2)",
        "'-838:59:59','-00:00:00.01','00:00:00','12:00:00.5','838:59:59'",
        "time(6)",
    ),
    (
        "time",
        "'-100:00:01','-00:00:01','00:00:01','100:00:00'",
        "time",
    ),
    (
        "char(5) character set latin1",
        "'','a','é','z','ö','Ab'",
        "varchar(9) character set latin1",
    ),
    (
        "varchar(9) collate utf8mb4_0900_ai_ci",
        "'','a','a ','é','z','𝒳','ß'",
        "varchar(20) collate utf8mb4_0900_ai_ci",
    ),
    (
        "varchar(9) collate utf8mb4_general_ci",
        "'','a','é','z','b '",
        "varchar(20) collate utf8mb4_general_ci",
    ),
    (
        "varchar(9) collate utf8mb4_bin",
        "'A','a','é','É','z'",
        "varchar(9) collate utf8mb4_bin",
    ),
    (
        "varchar(9) character set gbk",
        "'一','丁','a'",
        "varchar(9) character set gbk",
    ),
    (
        "varchar(9) character set ucs2",
        "'一','é','a',''",
        "varchar(9) character set ucs2",
    ),
    (
        "varchar(9) character set sjis",
        "'あ','ア','a'",
        "varchar(9) character set sjis",
    ),
    (
        "varchar(9) character set utf16le",
        "'あ','𝒳','a'",
        "varchar(9) character set utf16le",
    ),
];

/// Pairs whose target may order the keys in another way.
const REORDERED: &[Case] = &[
    ("enum('z','b','a')", "'z','b','a'", "enum('a','b','z')"),
    (
        "enum('z','b','é')",
        "'z','b','é'",
        "varchar(5) character set latin1",
    ),
    ("int", "-5,0,10,9", "varchar(20)"),
    (
        "bigint unsigned",
        "18446744073709551615,0,9",
        "varchar(20) character set latin1",
    ),
    (
        "varchar(20)",
        "'18446744073709551615','0','10','9'",
        "bigint unsigned",
    ),
    (
        "decimal(9,4)",
        "-1.5,0,8.4909,12",
        "varchar(20) character set ucs2",
    ),
    ("date", "'1000-01-01','2020-02-29'", "varchar(20)"),
    (
        "datetime(3)",
        "'2020-02-29 23:59:59.120','1000-01-01'",
        "char(30)",
    ),
    (
        "time(2)",
        "'-100:00:00','00:00:00.5','100:00:00'",
        "varchar(20) character set latin1",
    ),
    (
        "varchar(9) character set latin1",
        "'a','é','z','ö','Ab'",
        "varchar(9) collate utf8mb4_0900_ai_ci",
    ),
    (
        "varchar(9) character set latin1",
        "'a','é','z','ö','Ab'",
        "varchar(9) character set ucs2",
    ),
    (
        "varchar(9) collate utf8mb4_0900_ai_ci",
        "'a','é','z','ö','Ab'",
        "varchar(9) character set latin1 collate latin1_bin",
    ),
    (
        "varchar(9) character set gbk",
        "'一','丁','a'",
        "varchar(9) collate utf8mb4_bin",
    ),
    (
        "varchar(9) collate utf8mb4_bin",
        "'a','é','z'",
        "varchar(9) collate utf8mb4_0900_ai_ci",
    ),
    (
        "varchar(9) collate utf8mb4_bin",
        "'a','é','z'",
        "varbinary(40)",
    ),
    (
        "varbinary(9)",
        "'a','z','zz'",
        "varchar(9) character set latin1 collate latin1_bin",
    ),
    ("varchar(9)", "'a','é'", "enum('é','a')"),
];

#[tokio::test]
async fn a_key_is_read_alike_on_both_sides_and_found_by_itself() {
    let mut place = Place::new().await;
    for case in ORDERED.iter().chain(REORDERED) {
        let bed = Bed::new(&mut place, case).await;
        let source = bed.keys(&mut place, "s", &bed.source).await;
        let target = bed.keys(&mut place, "n", &bed.target).await;
        let mut sorted = (source.clone(), target);
        sorted.0.sort();
        sorted.1.sort();
        assert_eq!(sorted.0, sorted.1, "{case:?}");
        for (table, side) in [("s", &bed.source), ("n", &bed.target)] {
            for (key, v) in &source {
                let found = bed
                    .found(&mut place, table, &Predicate::keys([key], side))
                    .await;
                assert_eq!(found, [*v], "{case:?}, {key} on {table}");
            }
            let all = Predicate::keys(source.iter().map(|(key, _)| key), side);
            let found = bed.found(&mut place, table, &all).await;
            assert_eq!(found.len(), source.len(), "{case:?} on {table}");
        }
    }
}

#[tokio::test]
async fn ranges_between_neighbouring_keys_hold_one_row_each_where_the_order_is_kept() {
    let mut place = Place::new().await;
    for case in ORDERED {
        let bed = Bed::new(&mut place, case).await;
        assert!(bed.target.keeps_order(), "{case:?}");
        let keys = bed.keys(&mut place, "s", &bed.source).await;
        for (at, (key, v)) in keys.iter().enumerate() {
            let range = KeyRange {
                lower: Some(key.clone()),
                upper: keys.get(at + 1).map(|(key, _)| key.clone()),
            };
            for (table, side) in [("s", &bed.source), ("n", &bed.target)] {
                let found = bed
                    .found(&mut place, table, &Predicate::range(&range, side))
                    .await;
                assert_eq!(found, [*v], "{case:?}, {range} on {table}");
            }
        }
    }
}

#[tokio::test]
async fn client_and_server_agree_about_the_order_where_the_client_says_so() {
    let mut place = Place::new().await;
    for case in ORDERED {
        let bed = Bed::new(&mut place, case).await;
        if bed.is_client_ordered {
            let keys = bed.keys(&mut place, "s", &bed.source).await;
            assert!(keys.is_sorted(), "{case:?}: {keys:?}");
        }
    }
}

#[tokio::test]
async fn a_target_whose_order_is_another_says_so() {
    let mut place = Place::new().await;
    for case in REORDERED {
        let bed = Bed::new(&mut place, case).await;
        assert!(!bed.target.keeps_order(), "{case:?}");
    }
}

/// A key in two columns, the first of them of the case's types.
struct Bed {
    source: KeySide,
    target: KeySide,
    is_client_ordered: bool,
}

impl Bed {
    async fn new(place: &mut Place, (from, values, to): &Case) -> Self {
        place.run("SET NAMES utf8mb4").await;
        place.run("DROP TABLE IF EXISTS s, n").await;
        for (table, column) in [("s", from), ("n", to)] {
            let definition = format!(
                "CREATE TABLE {table} (i INT, k {column} NOT NULL, v INT, PRIMARY KEY (k, i))"
            );
            place.run(&definition).await;
        }
        let rows: Vec<String> = split(values)
            .iter()
            .enumerate()
            .map(|(v, value)| format!("(3, {value}, {v})"))
            .collect();
        place
            .run(&format!(
                "INSERT INTO s (i, k, v) VALUES {}",
                rows.join(",")
            ))
            .await;
        place.run("INSERT INTO n SELECT * FROM s").await;
        let (source, target) = (place.read("s").await, place.read("n").await);
        let key = source.row_key().unwrap();
        Self {
            source: key.side(&source).unwrap(),
            target: key.side_in(&target, &key.columns).unwrap(),
            is_client_ordered: key.is_client_ordered(),
        }
    }

    /// Each row's key and its number, in the order of the table's own index.
    async fn keys(&self, place: &mut Place, table: &str, side: &KeySide) -> Vec<(Key, u64)> {
        let sql = format!(
            "SELECT {}, v FROM {table} FORCE INDEX (PRIMARY) ORDER BY {}",
            side.select_list(),
            side.order_by()
        );
        let rows: Vec<Row> = place.conn.exec(sql, ()).await.unwrap();
        rows.into_iter()
            .map(|row| {
                let mut values = row.unwrap();
                let v: u64 = mysql_async::from_value(values.pop().unwrap());
                (side.read(&values).unwrap(), v)
            })
            .collect()
    }

    async fn found(&self, place: &mut Place, table: &str, which: &Predicate) -> Vec<u64> {
        let sql = format!("SELECT v FROM {table} WHERE {}", which.sql());
        let params: Vec<Value> = which.params().to_vec();
        let params = if params.is_empty() {
            Params::Empty
        } else {
            Params::Positional(params)
        };
        place.conn.exec(sql, params).await.unwrap()
    }
}

/// Splits at commas outside of quotes.
fn split(values: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in values.chars() {
        quoted ^= c == '\'';
        match c {
            ',' if !quoted => parts.push(String::new()),
            c => parts.last_mut().unwrap().push(c),
        }
    }
    parts
}

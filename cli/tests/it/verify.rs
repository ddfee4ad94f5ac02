//! `oxferry verify` between two servers.

use std::sync::Arc;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_testkit::{
    server::{Schema, Server, ServerOptions, shared},
    tool::{Finished, Oxferry, Signal},
    wait::eventually,
};

use crate::world::{LIMIT, check_code};

/// One database of the same name on each of two servers.
struct Pair {
    source: Schema,
    target: Conn,
    target_url: String,
}

impl Pair {
    async fn new() -> Self {
        let one: Arc<Server> = shared(ServerOptions::new()).await.unwrap();
        let other: Arc<Server> = shared(ServerOptions::new().max_binlog_size(1 << 20))
            .await
            .unwrap();
        let source = Schema::on(one).await.unwrap();
        let mut target = other.conn().await.unwrap();
        let name = source.name();
        for statement in [format!("CREATE DATABASE `{name}`"), format!("USE `{name}`")] {
            target.query_drop(statement).await.unwrap();
        }
        Self {
            source,
            target,
            target_url: other.url(),
        }
    }

    async fn source(&self, statement: &str) {
        let mut conn = self.source.conn().await.unwrap();
        conn.query_drop(statement).await.unwrap();
    }

    async fn target(&mut self, statement: &str) {
        self.target.query_drop(statement).await.unwrap();
    }

    async fn both(&mut self, statement: &str) {
        self.source(statement).await;
        self.target(statement).await;
    }

    fn column(&self, name: &str) -> String {
        format!("{}.{name}", self.source.name())
    }

    /// A call that compares the whole database.
    fn call(&self, more: &[&str]) -> Oxferry {
        let words = [
            "verify",
            "--source",
            &self.source.url(),
            "--target",
            &self.target_url,
            "--database",
            self.source.name(),
        ];
        let brief: &[&str] = match more.contains(&"--recheck-for") {
            true => &[],
            false => &["--recheck-for", "70ms"],
        };
        let call = Oxferry::new(words.iter().chain(brief)).program(env!("CARGO_BIN_EXE_oxferry"));
        more.iter().fold(call, |call, word| call.arg(*word))
    }

    async fn verify(&self, more: &[&str]) -> Finished {
        self.call(more).run(LIMIT).await.unwrap()
    }

    /// Checks that rows of these keys are reported, each as `kind` says.
    async fn check_found(&self, more: &[&str], expected: &[&str]) {
        let finished = self.verify(more).await;
        check_code(&finished, if expected.is_empty() { 0 } else { 65 });
        let text = finished.text();
        let lines = text.lines().filter(|line| line.contains(": key "));
        let mut found: Vec<String> = lines.map(short).collect();
        found.sort();
        assert_eq!(found, expected, "{text}");
    }
}

/// `t: key 7 is different` out of a line of the report.
fn short(line: &str) -> String {
    let line = line.split(": source ").next().unwrap_or_default();
    line.split_once('.')
        .map_or(line, |(_, rest)| rest)
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_only_look_alike_differ() {
    let mut pair = Pair::new().await;
    pair.both("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9), d DOUBLE, f FLOAT)")
        .await;
    let rows = |rows: [&str; 6]| format!("INSERT INTO t VALUES {}", rows.join(","));
    pair.source(&rows([
        "(1, NULL, 'x', 0, 0)",
        "(2, NULL, 'x', 0, 0)",
        "(3, NULL, 'x', 0, 0)",
        "(4, 'x0', 'y', 0, 0)",
        "(5, 'same', 'same', 0.0, 0.0)",
        "(6, 'a', 'A', 0, 0)",
    ]))
    .await;
    pair.target(&rows([
        "(1, '', 'x', 0, 0)",
        "(2, 'NULL', 'x', 0, 0)",
        "(3, 'x', NULL, 0, 0)",
        "(4, 'x', '0y', 0, 0)",
        "(5, 'same', 'same', -0.0e0, -0.0e0)",
        "(6, 'A', 'A', 0, 0)",
    ]))
    .await;
    let expected = [1, 2, 3, 4, 6].map(|key| format!("t: key {key} is different"));
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    pair.check_found(&[], &expected).await;
    let ignored = [
        "--ignore-column",
        &pair.column("t.a"),
        "--ignore-column",
        &pair.column("t.b"),
    ];
    pair.check_found(&ignored, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_key_is_named_in_the_report() {
    let mut pair = Pair::new().await;
    pair.both("CREATE TABLE ints (a INT, b BIGINT UNSIGNED, v INT, PRIMARY KEY (a, b))")
        .await;
    pair.both("CREATE TABLE bin (k BINARY(4) PRIMARY KEY, v INT)")
        .await;
    pair.both("CREATE TABLE txt (k VARCHAR(20), n INT, v INT, PRIMARY KEY (k, n))")
        .await;
    pair.both("INSERT INTO ints VALUES (1, 1, 1), (1, 2, 1), (-5, 18446744073709551615, 1)")
        .await;
    pair.both("INSERT INTO bin VALUES (x'01', 1), (x'0100FF00', 1), (x'FFFFFFFF', 1)")
        .await;
    pair.both("INSERT INTO txt VALUES ('a', 1, 1), ('ä', 2, 1), ('', 3, 1), ('o''k', 4, 1)")
        .await;
    pair.check_found(&[], &[]).await;
    pair.target("UPDATE ints SET v = 2 WHERE a = -5").await;
    pair.target("DELETE FROM ints WHERE b = 2").await;
    pair.target("UPDATE bin SET v = 2 WHERE k = x'0100FF00'")
        .await;
    pair.target("INSERT INTO bin VALUES (x'02', 1)").await;
    pair.target("UPDATE txt SET v = 2 WHERE n = 2").await;
    pair.target("DELETE FROM txt WHERE n = 4").await;
    pair.target("INSERT INTO txt VALUES ('A', 9, 1)").await;
    pair.check_found(
        &[],
        &[
            "bin: key 0x0100FF00 is different",
            "bin: key 0x02000000 is only on the target",
            "ints: key (-5, 18446744073709551615) is different",
            "ints: key (1, 2) is missing on the target",
            "txt: key ('A', 9) is only on the target",
            "txt: key ('o''k', 4) is missing on the target",
            "txt: key ('ä', 2) is different",
        ],
    )
    .await;
    let json = pair.verify(&["--log", "json"]).await;
    check_code(&json, 65);
    let line = json.text();
    let line = line
        .lines()
        .find(|line| line.contains("0x02000000"))
        .unwrap();
    for part in [
        "\"kind\":\"only-on-target\"",
        "\"source\":null",
        "\"fate\":\"different\"",
    ] {
        assert!(line.contains(part), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_columns_are_compared_by_what_they_hold() {
    let mut pair = Pair::new().await;
    pair.both("CREATE TABLE t (id INT PRIMARY KEY, z BLOB, s BLOB)")
        .await;
    // COMPRESS is zlib behind four bytes; Snappy's literals may have any length.
    let (one, other) = (snappy(&[5]), snappy(&[2, 3]));
    assert_ne!(one, other);
    let zlib = |text: &str| format!("SUBSTRING(COMPRESS('{text}'), 5)");
    let row = |id: i32, text: &str, snap: &str| format!("({id}, {}, {snap})", zlib(text));
    let rows = |rows: &[String]| format!("INSERT INTO t VALUES {}", rows.join(","));
    let null = "(3, NULL, NULL)".to_owned();
    pair.source(&rows(&[
        row(1, "abc", &one),
        row(2, "abc", &one),
        null.clone(),
    ]))
    .await;
    pair.target(&rows(&[row(1, "abc", &other), row(2, "abd", &other), null]))
        .await;
    pair.check_found(&[], &["t: key 1 is different", "t: key 2 is different"])
        .await;
    let (z, s) = (
        format!("{}=zlib", pair.column("t.z")),
        format!("{}=snappy", pair.column("t.s")),
    );
    let compressed = ["--compressed", z.as_str(), "--compressed", s.as_str()];
    pair.check_found(&compressed, &["t: key 2 is different"])
        .await;
    pair.target("UPDATE t SET s = x'00FF' WHERE id = 1").await;
    let failed = pair.verify(&compressed).await;
    check_code(&failed, 65);
    assert!(
        failed.text().contains("the value of s in the row 1 of"),
        "{}",
        failed.text()
    );
}

/// `hello` as a raw Snappy block of literals of these lengths.
fn snappy(lengths: &[usize]) -> String {
    let mut rest = "hello".as_bytes();
    let mut block = vec![5_u8];
    for length in lengths {
        block.push(u8::try_from((length - 1) << 2).unwrap());
        let (literal, behind) = rest.split_at(*length);
        block.extend(literal);
        rest = behind;
    }
    let digits: String = block.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("x'{digits}'")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_differs_is_repaired_and_compared_again() {
    let mut pair = Pair::new().await;
    pair.both(
        "CREATE TABLE t (id INT PRIMARY KEY, u INT, v VARCHAR(9), g INT AS (u + 1) STORED, \
         UNIQUE (u))",
    )
    .await;
    pair.both("CREATE TABLE x (k VARCHAR(9) PRIMARY KEY, j JSON, b BLOB)")
        .await;
    pair.source("INSERT INTO t (id, u, v) VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, NULL)")
        .await;
    pair.target("INSERT INTO t (id, u, v) VALUES (1, 20, 'a'), (2, 10, 'b'), (4, 40, 'd')")
        .await;
    pair.source("INSERT INTO x VALUES ('é', '{\"a\": 1.0}', x'00FF'), ('b', NULL, NULL)")
        .await;
    pair.target("INSERT INTO x VALUES ('é', '{\"a\": 1}', x'00FF'), ('c', NULL, NULL)")
        .await;
    let repaired = pair.verify(&["--repair"]).await;
    check_code(&repaired, 0);
    let lines = repaired.text().matches("is repaired and was").count();
    assert_eq!(lines, 7, "{}", repaired.text());
    pair.check_found(&["--repair"], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_repaired_without_harm_is_refused() {
    let mut pair = Pair::new().await;
    pair.both("CREATE TABLE t (id INT PRIMARY KEY)").await;
    pair.target("CREATE TRIGGER g BEFORE DELETE ON t FOR EACH ROW SET @x = 1")
        .await;
    let refused = pair.verify(&["--repair"]).await;
    check_code(&refused, 64);
    assert!(refused.text().contains("its trigger"), "{}", refused.text());
    pair.target("DROP TRIGGER g").await;
    pair.target("CREATE TABLE c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id))")
        .await;
    let refused = pair.verify(&["--repair"]).await;
    check_code(&refused, 64);
    assert!(
        refused.text().contains("refers to it"),
        "{}",
        refused.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_and_keys_that_do_not_match_are_refused_by_name() {
    let mut pair = Pair::new().await;
    pair.source("CREATE TABLE t (id INT PRIMARY KEY, a INT, only_here INT)")
        .await;
    pair.target("CREATE TABLE t (id INT PRIMARY KEY, A INT, only_there INT)")
        .await;
    let refused = pair.verify(&[]).await;
    check_code(&refused, 64);
    for name in ["`only_here` of the source", "`only_there` of the target"] {
        assert!(refused.text().contains(name), "{}", refused.text());
    }
    let ignored = [
        "--ignore-column",
        &pair.column("t.only_here"),
        "--ignore-column",
        &pair.column("t.only_there"),
    ];
    pair.check_found(&ignored, &[]).await;
    let unknown = ["--ignore-column", &pair.column("t.nothing")];
    check_code(&pair.verify(&unknown).await, 64);
    let elsewhere = ["--ignore-column", &pair.column("other.id")];
    check_code(&pair.verify(&elsewhere).await, 64);
    let forced = format!("{}=nothing", pair.column("t"));
    check_code(&pair.verify(&["--force-index", &forced]).await, 64);
    let forced = format!("{}=PRIMARY", pair.column("t"));
    pair.check_found(&[&ignored[..], &["--force-index", &forced]].concat(), &[])
        .await;
}

const MANY: &str = "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                    WHERE i < 30000) SELECT i, REPEAT('x', 1000) FROM n";

async fn many(pair: &mut Pair) {
    pair.both("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000))")
        .await;
    let mut source = pair.source.conn().await.unwrap();
    for conn in [&mut source, &mut pair.target] {
        conn.query_drop("SET cte_max_recursion_depth = 100000")
            .await
            .unwrap();
        conn.query_drop(MANY).await.unwrap();
        conn.query_drop("ANALYZE TABLE t").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn differences_are_listed_up_to_a_hundred_and_all_counted() {
    let mut pair = Pair::new().await;
    many(&mut pair).await;
    pair.target("DELETE FROM t WHERE id % 2 = 0").await;
    pair.target("INSERT INTO t SELECT -id, v FROM t WHERE id < 10000")
        .await;
    let finished = pair.verify(&[]).await;
    check_code(&finished, 65);
    let text = finished.text();
    assert_eq!(text.matches(": key ").count(), 100);
    assert!(text.contains("20000 rows differ"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_that_was_killed_goes_on_where_it_was() {
    let mut pair = Pair::new().await;
    many(&mut pair).await;
    pair.both("CREATE TABLE held (id INT PRIMARY KEY)").await;
    pair.source("INSERT INTO held VALUES (1)").await;
    pair.target("UPDATE t SET v = 'y' WHERE id IN (1, 29999)")
        .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("verify.json");
    let state = ["--state", file.to_str().unwrap()];
    // Nobody can read the second table, so the first one is done and no more.
    let mut locking = pair.source.conn().await.unwrap();
    locking.query_drop("LOCK TABLES held WRITE").await.unwrap();
    let running = pair.call(&state).spawn().unwrap();
    let is_done = async || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.contains("\"done\": true").then_some(())
    };
    eventually(LIMIT, "the first table", is_done).await.unwrap();
    running.signal(Signal::SIGKILL).unwrap();
    running.wait_exit(LIMIT).await.unwrap();
    locking.query_drop("UNLOCK TABLES").await.unwrap();
    let held = pair.column("held");
    let other = [&state[..], &["--exclude", &held]].concat();
    let refused = pair.verify(&other).await;
    check_code(&refused, 74);
    assert!(
        refused.text().contains("another comparison"),
        "{}",
        refused.text()
    );
    let finished = pair.verify(&state).await;
    check_code(&finished, 65);
    let text = finished.text();
    assert!(text.contains("compared before"), "{text}");
    for line in [
        "held: key 1 is missing",
        "t: key 1 is different",
        "t: key 29999 is different",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!file.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_arrive_late_do_not_differ() {
    let mut pair = Pair::new().await;
    pair.both("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        .await;
    pair.source("INSERT INTO t VALUES (1, 1), (2, 1)").await;
    pair.target("INSERT INTO t VALUES (1, 0)").await;
    let call = pair.call(&["--recheck-for", "60s"]);
    let call = call.env("OXFERRY_LOG", "info,oxferry::verify=debug");
    let mut running = call.spawn().unwrap();
    running.wait_line("looking again", LIMIT).await.unwrap();
    pair.target("REPLACE INTO t VALUES (1, 1), (2, 1)").await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_table_is_compared_with_its_new_name() {
    let mut pair = Pair::new().await;
    pair.source("CREATE TABLE t (id INT PRIMARY KEY)").await;
    pair.target("CREATE TABLE moved (id INT PRIMARY KEY)").await;
    pair.source("INSERT INTO t VALUES (1)").await;
    let rename = format!("{}={}", pair.column("t"), pair.column("moved"));
    pair.check_found(
        &["--rename", &rename],
        &["t: key 1 is missing on the target"],
    )
    .await;
}

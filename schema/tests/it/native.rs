//! What the server says that it can change at once.

use mysql_async::prelude::Queryable;
use oxferry_schema::{Algorithm, Alter, NativePlan, ServerInfo, native_plan};

use crate::place::Place;

async fn plan(place: &mut Place, clauses: &str) -> NativePlan {
    let source = place.read("t").await;
    let version = ServerInfo::read(&mut place.conn).await.unwrap().version;
    let alter = Alter::clauses(clauses).unwrap().about(&source);
    let plan = native_plan(&mut place.conn, &version, &source, &alter).await;
    let plan = plan.unwrap_or_else(|e| panic!("{clauses}: {e:?}"));
    let tables: Vec<String> = place.conn.query("SHOW TABLES").await.unwrap();
    assert!(!tables.contains(&"_t_oxprobe".to_owned()), "{clauses}");
    let now = place.read("t").await.create_statement;
    assert_eq!(now, source.create_statement, "{clauses}");
    plan
}

async fn told(place: &mut Place, clauses: &str) -> String {
    match plan(place, clauses).await.way {
        Ok(ways) => {
            let ways: Vec<_> = ways.iter().map(|way| way.as_str()).collect();
            ways.join(" ")
        }
        Err(_) => "copy".to_owned(),
    }
}

const COLUMNS: &str = "id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(20) NOT NULL DEFAULT 'x', \
    c VARCHAR(200), n INT NOT NULL DEFAULT 1, e ENUM('a','b'), v INT AS (a + 1) VIRTUAL, \
    KEY ka (a), KEY kb (b), CONSTRAINT pos CHECK (n > 0), CHECK (a < 1000)";

/// Observed on 9.7.4, where these are the server's own answers.
const TOLD: [(&str, &str); 40] = [
    ("ADD z INT", "INSTANT"),
    ("ADD z INT FIRST", "INSTANT"),
    ("ADD z INT NOT NULL DEFAULT 5", "INSTANT"),
    ("ADD z INT AS (a) VIRTUAL", "INSTANT INPLACE"),
    ("ADD z INT AS (a) STORED", "copy"),
    ("ADD z INT CHECK (z > 0)", "copy"),
    ("ADD z INT UNIQUE", "copy"),
    ("DROP COLUMN c", "INSTANT"),
    ("DROP COLUMN c, ADD c INT", "INSTANT"),
    ("RENAME COLUMN c TO d", "INSTANT INPLACE"),
    ("CHANGE c C VARCHAR(200)", "INSTANT INPLACE"),
    ("MODIFY b VARCHAR(63) NOT NULL DEFAULT 'x'", "INPLACE"),
    ("MODIFY b VARCHAR(64) NOT NULL DEFAULT 'x'", "copy"),
    ("MODIFY c VARCHAR(100)", "copy"),
    ("MODIFY a BIGINT", "copy"),
    ("MODIFY a INT NOT NULL", "copy"),
    ("MODIFY n INT NULL", "copy"),
    ("MODIFY c VARCHAR(200) FIRST", "copy"),
    ("MODIFY e ENUM('a','b','c')", "INSTANT INPLACE"),
    ("MODIFY e ENUM('b','a')", "copy"),
    ("ALTER n SET DEFAULT 4", "INSTANT INPLACE"),
    ("ALTER n DROP DEFAULT", "INSTANT INPLACE"),
    ("ALTER c SET INVISIBLE", "INSTANT INPLACE"),
    ("DROP INDEX ka", "INPLACE"),
    ("RENAME INDEX ka TO kk", "INPLACE"),
    ("ALTER INDEX ka INVISIBLE", "INPLACE"),
    ("ADD INDEX (n)", "copy"),
    ("DROP INDEX ka, ADD INDEX ka (a, n)", "copy"),
    ("DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)", "copy"),
    ("DROP CHECK pos", "INSTANT INPLACE"),
    ("DROP CONSTRAINT t_chk_1", "INSTANT INPLACE"),
    ("ALTER CHECK pos NOT ENFORCED", "INSTANT INPLACE"),
    ("ADD CONSTRAINT q CHECK (n < 10)", "copy"),
    ("AUTO_INCREMENT = 500", "INPLACE"),
    ("COMMENT = 'it''s 100 %, FORCE'", "INPLACE"),
    ("STATS_PERSISTENT = 0", "INPLACE"),
    ("ENGINE = InnoDB", "copy"),
    ("FORCE", "copy"),
    ("ROW_FORMAT = DYNAMIC", "copy"),
    ("PARTITION BY HASH (id) PARTITIONS 2", "copy"),
];

#[tokio::test]
async fn the_servers_own_answers_are_told() {
    let mut place = Place::new().await;
    place.run(&format!("CREATE TABLE t ({COLUMNS})")).await;
    for (clauses, expected) in TOLD {
        assert_eq!(told(&mut place, clauses).await, expected, "{clauses}");
    }
}

#[tokio::test]
async fn partitioned_and_oddly_named_tables_are_no_exception() {
    let mut place = Place::new().await;
    let partitions = "PARTITION BY HASH (id) PARTITIONS 2";
    place
        .run(&format!("CREATE TABLE t ({COLUMNS}) {partitions}"))
        .await;
    for (clauses, expected) in TOLD {
        if !clauses.contains("UNIQUE") {
            assert_eq!(told(&mut place, clauses).await, expected, "{clauses}");
        }
    }
}

#[tokio::test]
async fn full_text_indexes_and_compressed_rows_leave_no_instant_column() {
    let mut place = Place::new().await;
    place
        .run("CREATE TABLE t (id INT PRIMARY KEY, a TEXT, FULLTEXT KEY f (a))")
        .await;
    assert_eq!(told(&mut place, "ADD z INT").await, "copy");
    assert_eq!(told(&mut place, "DROP INDEX f").await, "INPLACE");
    place.run("DROP TABLE t").await;
    place
        .run("CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY (a)) ROW_FORMAT=COMPRESSED")
        .await;
    assert_eq!(told(&mut place, "ADD z INT").await, "copy");
    assert_eq!(told(&mut place, "DROP INDEX a").await, "INPLACE");
}

#[tokio::test]
async fn a_foreign_key_is_dropped_in_place_only() {
    let mut place = Place::new().await;
    place.run("CREATE TABLE p (id INT PRIMARY KEY)").await;
    place
        .run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id))")
        .await;
    for (clauses, expected) in [
        ("DROP FOREIGN KEY f", "INPLACE"),
        ("DROP CONSTRAINT `F`", "INPLACE"),
        ("DROP CONSTRAINT f, DROP INDEX f", "INPLACE"),
        ("DROP FOREIGN KEY f, DROP INDEX f", "INPLACE"),
        ("DROP FOREIGN KEY f, ADD z INT", "copy"),
    ] {
        assert_eq!(told(&mut place, clauses).await, expected, "{clauses}");
    }
}

#[tokio::test]
async fn without_the_privilege_to_see_it_nothing_is_guessed() {
    let mut place = Place::new().await;
    place.run(&format!("CREATE TABLE t ({COLUMNS})")).await;
    let user = format!("u_{}", place.schema.name());
    place
        .run(&format!("CREATE USER {user} IDENTIFIED BY ''"))
        .await;
    place
        .run(&format!("GRANT ALL ON {}.* TO {user}", place.schema.name()))
        .await;
    let url = place.schema.url().replacen("root", &user, 1);
    let url = oxferry_schema::ServerUrl::parse(&url, None).unwrap();
    place.conn = oxferry_schema::connect(&url, "tests").await.unwrap();
    for (clauses, expected) in [
        ("ADD z INT", "INSTANT"),
        ("DROP INDEX ka", "INPLACE"),
        ("MODIFY a INT NOT NULL", "copy"),
    ] {
        assert_eq!(told(&mut place, clauses).await, expected, "{clauses}");
    }
}

#[tokio::test]
async fn the_statement_is_one_that_the_server_takes() {
    let mut place = Place::new().await;
    place.run(&format!("CREATE TABLE t ({COLUMNS})")).await;
    let name = place.name("t");
    for (clauses, algorithm) in [
        ("ADD z INT, DROP COLUMN c", Algorithm::Instant),
        ("DROP INDEX ka", Algorithm::Inplace),
    ] {
        let alter = Alter::clauses(clauses).unwrap();
        place.run(&alter.native_statement(&name, algorithm)).await;
    }
}

//! Applying changes.

use mysql_async::prelude::Queryable;
use oxferry_copier::{Applied, KeyedChange, RowSink, engine::Mode};
use oxferry_schema::{Remedy, Row, Value, connect};

use crate::bed::{Bed, batch, delete, key, upsert};

const TABLES: [&str; 3] = [
    "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE n LIKE t",
    "INSERT INTO n VALUES (1, 10), (2, 20), (3, 30)",
];

async fn rows(bed: &mut Bed) -> Vec<(i64, Option<i64>)> {
    bed.conn.query("SELECT * FROM n ORDER BY id").await.unwrap()
}

#[tokio::test]
async fn every_key_comes_to_its_image() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = bed.sink(Mode::Ranged).await;
    let changes = batch([
        delete(1),
        upsert(2, [Value::Int(21)]),
        upsert(4, [Value::NULL]),
        delete(9),
    ]);
    let applied = sink.apply(&changes).await.unwrap();
    assert_eq!(
        applied,
        Applied {
            upserts: 2,
            deletes: 2
        }
    );
    let expected = [(2, Some(21)), (3, Some(30)), (4, None)];
    assert_eq!(rows(&mut bed).await, expected);
    sink.apply(&changes).await.unwrap();
    assert_eq!(
        rows(&mut bed).await,
        expected,
        "applied again, nothing changes"
    );
    assert_eq!(sink.apply(&batch([])).await.unwrap(), Applied::default());
}

#[tokio::test]
async fn a_large_batch_takes_several_statements_and_one_transaction() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = bed.sink(Mode::Ranged).await;
    let mut changes: Vec<KeyedChange> =
        (10..1_713).map(|id| upsert(id, [Value::Int(id)])).collect();
    changes.extend((1..4).map(delete));
    sink.apply(&batch(changes.clone())).await.unwrap();
    assert_eq!(bed.texts("SELECT COUNT(*) FROM n").await, ["1703"]);

    changes.push(upsert(1_800, [Value::Bytes("no number".into())]));
    bed.run("DELETE FROM n").await;
    let error = sink.apply(&batch(changes)).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Data);
    assert_eq!(bed.texts("SELECT COUNT(*) FROM n").await, ["0"]);
}

#[tokio::test]
async fn composite_keys_are_deleted_and_written() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (a INT, b INT, v INT, PRIMARY KEY (b, a))",
        "CREATE TABLE n LIKE t",
        "INSERT INTO n VALUES (1, 2, 0), (2, 1, 0), (3, 3, 0)",
    ])
    .await;
    let sink = bed.sink(Mode::Ranged).await;
    let gone = |parts: [i128; 2]| KeyedChange {
        key: key(&parts),
        image: None,
    };
    let written = KeyedChange {
        key: key(&[3, 3]),
        image: Some(Row::new([3, 3, 9].map(Value::Int))),
    };
    // Keys are in the order of the index: b, a.
    sink.apply(&batch([gone([2, 1]), gone([7, 7]), written]))
        .await
        .unwrap();
    assert_eq!(
        bed.texts("SELECT CONCAT_WS(' ', a, b, v) FROM n ORDER BY a")
            .await,
        ["2 1 0", "3 3 9"]
    );
}

#[tokio::test]
async fn unique_values_that_travel_between_rows_arrive() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE)",
        "CREATE TABLE n LIKE t",
        "INSERT INTO n VALUES (1, 10), (2, 20), (3, 30)",
    ])
    .await;
    let sink = bed.sink(Mode::Ordered).await;
    let swap = [(1, 20), (2, 30), (3, 10)].map(|(id, u)| upsert(id, [Value::Int(u)]));
    sink.apply(&batch(swap)).await.unwrap();
    assert_eq!(
        rows(&mut bed).await,
        [(1, Some(20)), (2, Some(30)), (3, Some(10))]
    );
}

#[tokio::test]
async fn changes_are_applied_on_a_connection_that_holds_table_locks() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = bed.sink(Mode::Ranged).await;
    let mut locker = connect(&bed.url, "tests").await.unwrap();
    locker
        .query_drop("LOCK TABLES t WRITE, n WRITE")
        .await
        .unwrap();
    let changes = batch([delete(1), upsert(5, [Value::Int(50)])]);
    sink.apply_on(&mut locker, &changes).await.unwrap();

    let bad = batch([delete(2), upsert(6, [Value::Bytes("no number".into())])]);
    let error = sink.apply_on(&mut locker, &bad).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Data);

    bed.run("SET lock_wait_timeout = 1").await;
    let other = bed.conn.query_drop("SELECT * FROM n").await;
    assert!(other.is_err(), "the table locks are still held");
    locker.query_drop("UNLOCK TABLES").await.unwrap();
    assert_eq!(
        rows(&mut bed).await,
        [(2, Some(20)), (3, Some(30)), (5, Some(50))]
    );
    let autocommit: Option<u8> = locker.query_first("SELECT @@autocommit").await.unwrap();
    assert_eq!(autocommit, Some(1));
}

#[tokio::test]
async fn a_value_that_is_no_member_is_applied_and_nothing_else_is_let_through() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('x','y'), f ENUM('x'), v VARCHAR(9))",
        "CREATE TABLE n (id INT PRIMARY KEY, e ENUM('x','y'), f ENUM('x'), v VARCHAR(3))",
        "SET sql_mode = ''",
        "INSERT INTO t VALUES (1, '', 'x', 'a'), (2, 'y', 'x', NULL), (3, '', '', '')",
    ])
    .await;
    let sink = bed.sink(Mode::Ranged).await;
    let row = |id, e: &str, f: &str, v: Value| upsert(id, [Value::from(e), Value::from(f), v]);
    let changes = batch([
        row(1, "", "x", Value::from("a")),
        row(2, "y", "x", Value::NULL),
        row(3, "", "", Value::from("")),
    ]);
    for _ in 0..2 {
        sink.apply(&changes).await.unwrap();
        bed.assert_equal().await;
    }
    let refused = batch([row(4, "", "x", Value::from("long"))]);
    let error = sink.apply(&refused).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Data);
    bed.assert_equal().await;
}

/// A key's values, as the stream brings them.
fn moment(text: &str, amount: &str) -> [Value; 2] {
    [text, amount].map(Value::from)
}

#[tokio::test]
async fn rows_of_a_partitioned_table_are_found_by_dates_and_numbers_together() {
    for partitions in ["", "PARTITION BY KEY () PARTITIONS 3"] {
        let table = format!(
            "CREATE TABLE t (d DATETIME(3), m DECIMAL(10,3), v INT, PRIMARY KEY (d, m)) {partitions}"
        );
        let rows = "INSERT INTO t VALUES ('2026-01-02 03:04:05.678', -1.5, 1), ('2026-01-02', 2, 2), \
            ('0000-00-00', 0, 3)";
        let mut bed = Bed::new(&[
            &table,
            rows,
            "CREATE TABLE n LIKE t",
            "INSERT INTO n SELECT * FROM t",
        ])
        .await;
        let sink = bed.sink(Mode::Ordered).await;
        let plan = bed.plan(Mode::Ordered).await;
        let gone = [
            moment("2026-01-02 03:04:05.678", "-1.500"),
            moment("2026-01-02 00:00:00.000", "2.000"),
        ];
        let gone = gone.map(|values| KeyedChange {
            key: plan.source_side().read(&values).unwrap(),
            image: None,
        });
        sink.apply(&batch(gone)).await.unwrap();
        assert_eq!(bed.texts("SELECT v FROM n").await, ["3"]);
    }
}

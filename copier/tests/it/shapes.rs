//! Targets whose keys are others than the source's.

use mysql_async::prelude::Queryable;
use oxferry_copier::{
    Batch, KeyedChange, RowSink, SelectSink,
    engine::{Action, Engine, EngineConfig, Mode, Repair, TableId, TablePlan},
};
use oxferry_schema::{Key, KeyPart, KeyRange, Row, Value};

use crate::bed::{Bed, batch, delete, key, upsert};

fn text(text: &str) -> Key {
    Key::new([KeyPart::Text(text.as_bytes().into())])
}

fn change(key: &str, value: Option<i64>) -> KeyedChange {
    KeyedChange {
        key: text(key),
        image: value.map(|value| Row::new([Value::from(key), Value::Int(value)])),
    }
}

/// Copies everything, then again with rows in the way, and applies changes.
async fn check(bed: &mut Bed, sink: &SelectSink) {
    for again in [false, true] {
        sink.copy(&KeyRange::ALL, again).await.unwrap();
        bed.assert_equal().await;
    }
    bed.run("UPDATE t SET x = x + 100 WHERE id = 2").await;
    bed.run("DELETE FROM t WHERE id = 3").await;
    bed.run("INSERT INTO t VALUES (9, 90)").await;
    let changes = batch([
        upsert(2, [Value::Int(120)]),
        delete(3),
        upsert(9, [Value::Int(90)]),
    ]);
    for _ in 0..2 {
        sink.apply(&changes).await.unwrap();
        bed.assert_equal().await;
    }
    bed.run("UPDATE n SET x = -id WHERE id IN (1, 9)").await;
    bed.run("INSERT INTO n VALUES (4, 4)").await;
    let keys = [1, 4, 9].map(|id| key(&[id]));
    sink.copy_keys(&keys).await.unwrap();
    bed.assert_equal().await;
}

#[tokio::test]
async fn rows_are_found_by_an_index_that_begins_with_the_key() {
    for target in [
        "(id INT, x INT, PRIMARY KEY (id, x))",
        "(id INT, x INT, PRIMARY KEY (x), KEY (id))",
        "(id INT, x INT, KEY (id, x))",
    ] {
        for mode in [Mode::Ranged, Mode::Ordered] {
            let mut bed = Bed::new(&[
                "CREATE TABLE t (id INT PRIMARY KEY, x INT NOT NULL)",
                &format!("CREATE TABLE n {target}"),
                "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
            ])
            .await;
            let sink = bed.sink(mode).await;
            check(&mut bed, &sink).await;
        }
    }
}

#[tokio::test]
async fn primary_and_unique_keys_may_be_swapped() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, x INT NOT NULL, UNIQUE KEY (x))",
        "CREATE TABLE n (id INT NOT NULL, x INT PRIMARY KEY, UNIQUE KEY (id))",
        "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
    ])
    .await;
    let sink = bed.sink(Mode::Ordered).await;
    check(&mut bed, &sink).await;
}

async fn apply(sink: &SelectSink, changes: impl Into<Vec<KeyedChange>>) {
    sink.apply(&Batch {
        changes: changes.into(),
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_keys_letter_case_changes_in_one_batch() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (k VARCHAR(9) PRIMARY KEY, v INT)",
        "CREATE TABLE n LIKE t",
        "INSERT INTO t VALUES ('a', 1), ('b', 2)",
    ])
    .await;
    let sink = bed.sink(Mode::Ordered).await;
    sink.copy(&KeyRange::ALL, false).await.unwrap();
    bed.run("UPDATE t SET k = 'B' WHERE k = 'b'").await;
    bed.run("UPDATE t SET k = 'A' WHERE k = 'a'").await;
    let changes = [
        change("A", Some(1)),
        change("B", Some(2)),
        change("a", None),
        change("b", None),
    ];
    apply(&sink, changes.clone()).await;
    bed.assert_equal().await;
    apply(&sink, changes).await;
    bed.assert_equal().await;
    bed.run("INSERT INTO n VALUES ('z', 9)").await;
    bed.run("UPDATE n SET v = 7 WHERE k = 'a'").await;
    let keys = ["a", "z"].map(text);
    assert_eq!(sink.copy_keys(&keys).await.unwrap().rows, 1);
    bed.assert_equal().await;
}

/// Neither is the target's order the source's, nor are its keys as fine.
#[tokio::test]
async fn a_key_of_a_coarser_collation_is_copied_and_its_duplicates_refused() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, v INT)",
        "CREATE TABLE n (k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES ('a', 1), ('B', 2), ('c', 3)",
        // Written ahead by a change, and stale by now.
        "INSERT INTO n VALUES ('B', 1)",
    ])
    .await;
    let plan = bed.plan(Mode::Ordered).await;
    assert!(plan.is_exclusive() && plan.chunk_rows_max().is_some());
    let sink = bed.sink(Mode::Ordered).await;
    for again in [false, true, false] {
        sink.copy(&KeyRange::ALL, again).await.unwrap();
        assert_eq!(
            bed.texts("SELECT CONCAT(k, v) FROM n ORDER BY k").await,
            ["a1", "B2", "c3"]
        );
    }
    apply(&sink, [change("a", Some(5)), change("c", None)]).await;
    assert_eq!(
        bed.texts("SELECT CONCAT(k, v) FROM n ORDER BY k").await,
        ["a5", "B2"]
    );
    bed.run("INSERT INTO t VALUES ('A', 4)").await;
    let error = sink.copy(&KeyRange::ALL, false).await.unwrap_err();
    assert_eq!(error.remedy(), oxferry_schema::Remedy::Data);
    assert!(error.to_string().contains("row 'a': "), "{error}");
    let error = sink
        .apply(&Batch {
            changes: vec![change("b", Some(9))],
        })
        .await;
    // 'b' is removed first, and with it 'B': the same key there.
    assert!(error.is_ok());
    let rows: Vec<(String, i64)> = bed
        .conn
        .query("SELECT k, v FROM n ORDER BY k")
        .await
        .unwrap();
    assert_eq!(rows, [("a".to_owned(), 5), ("b".to_owned(), 9)]);
}

/// The source takes a surplus key for one that is there.
#[tokio::test]
async fn a_surplus_key_in_another_letter_case_is_repaired() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
        "CREATE TABLE n (k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES ('a', 1), ('b', 2)",
        "INSERT INTO n VALUES ('a', 1), ('A', 1), ('b', 2)",
    ])
    .await;
    let sink = bed.sink(Mode::Ordered).await;
    sink.set_exclusive();
    assert_eq!(sink.copy_keys(&[text("A")]).await.unwrap().rows, 1);
    bed.assert_equal().await;
}

/// Neither the key nor its successor is anything but `abc\0\0` there.
#[tokio::test]
async fn a_key_is_repaired_that_the_target_pads_further() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (k BINARY(3) PRIMARY KEY, v INT)",
        "CREATE TABLE n (k BINARY(5) PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES ('abc', 1), ('abd', 2)",
        "INSERT INTO n VALUES ('abc', 9), ('abd', 2), ('abe', 3)",
    ])
    .await;
    let sink = bed.sink(Mode::Ranged).await;
    let keys = [b"abc", b"abe"].map(|key| Key::new([KeyPart::Bytes(key[..].into())]));
    let plan = TablePlan::resume(Mode::Ranged, vec![KeyRange::ALL]);
    let mut engine = Engine::new(EngineConfig::default(), vec![plan]);
    engine.handle_ranges_exhausted(TableId(0));
    engine.repair(TableId(0), Repair::Keys(keys.to_vec()));
    while let Some(action) = engine.poll() {
        let (chunk, copied) = match action {
            Action::Barrier { id } => {
                engine.handle_barrier_passed(id);
                continue;
            }
            Action::Copy {
                chunk,
                range,
                again,
                ..
            } => (chunk, sink.copy(&range, again).await),
            Action::CopyKeys { chunk, keys, .. } => (chunk, sink.copy_keys(&keys).await),
            other => panic!("{other:?}"),
        };
        engine.handle_chunk_copied(chunk, copied.unwrap().rows);
    }
    assert!(engine.is_copied());
    let rows = "SELECT CONCAT(LEFT(k, 3), v) FROM n ORDER BY k";
    assert_eq!(bed.texts(rows).await, ["abc1", "abd2"]);
}

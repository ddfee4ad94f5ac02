//! Copying rows on one server.

use mysql_async::prelude::Queryable;
use oxferry_copier::{CopiedRows, RowSink, Task, engine::Mode};
use oxferry_schema::{KeyRange, Remedy, connect};

use crate::bed::{Bed, key};

fn range(lower: i128, upper: i128) -> KeyRange {
    KeyRange {
        lower: Some(key(&[lower])),
        upper: Some(key(&[upper])),
    }
}

const TABLES: [&str; 3] = [
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
    "CREATE TABLE n (v VARCHAR(20), id INT PRIMARY KEY, extra INT DEFAULT 7)",
    "INSERT INTO t VALUES (-1, 'minus'), (0, 'zero'), (1, 'one'), (2, NULL)",
];

#[tokio::test]
async fn a_range_is_copied_and_counted() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = bed.sink(Mode::Ranged).await;
    let copied = sink.copy(&range(-1, 2), false).await.unwrap();
    assert_eq!(copied, CopiedRows { rows: 3 });
    assert_eq!(
        bed.texts("SELECT CONCAT_WS(' ', id, v, extra) FROM n ORDER BY id")
            .await,
        ["-1 minus 7", "0 zero 7", "1 one 7"]
    );
}

#[tokio::test]
async fn a_range_copied_again_is_emptied_first_in_ranged_mode() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = bed.sink(Mode::Ranged).await;
    bed.run("INSERT INTO n (id, v) VALUES (-7, 'outside'), (0, 'stale'), (5, 'stale too')")
        .await;
    let copied = sink.copy(&range(-1, 10), true).await.unwrap();
    assert_eq!(copied, CopiedRows { rows: 4 });
    assert_eq!(
        bed.texts("SELECT CONCAT_WS(' ', id, v) FROM n ORDER BY id")
            .await,
        ["-7 outside", "-1 minus", "0 zero", "1 one", "2"]
    );
}

#[tokio::test]
async fn ordered_mode_replaces_what_is_in_the_way() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE)",
        "CREATE TABLE n LIKE t",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
        "INSERT INTO n VALUES (1, 5), (7, 20)",
    ])
    .await;
    let sink = bed.sink(Mode::Ordered).await;
    let copied = sink.copy(&KeyRange::ALL, true).await.unwrap();
    assert_eq!(copied, CopiedRows { rows: 2 });
    bed.assert_equal().await;
}

#[tokio::test]
async fn a_range_copied_again_loses_its_surplus_rows_in_ordered_mode() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE)",
        "CREATE TABLE n LIKE t",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
        "INSERT INTO n VALUES (1, 10), (2, 20), (3, 30)",
    ])
    .await;
    let sink = bed.sink(Mode::Ordered).await;
    sink.copy(&range(3, 4), false).await.unwrap();
    assert_eq!(bed.texts("SELECT COUNT(*) FROM n").await, ["3"]);
    let copied = sink.copy(&range(3, 4), true).await.unwrap();
    assert_eq!(copied, CopiedRows { rows: 0 });
    bed.assert_equal().await;
}

#[tokio::test]
async fn a_range_copied_again_after_unique_indexes_were_built_meets_no_stale_row() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE)",
        "CREATE TABLE n (id INT PRIMARY KEY, u INT)",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
        "INSERT INTO n VALUES (1, 10), (7, 20)",
    ])
    .await;
    let sink = bed.sink(Mode::Ranged).await;
    bed.run("ALTER TABLE n ADD UNIQUE KEY (u)").await;
    sink.copy(&range(2, 3), true).await.unwrap();
    bed.assert_equal().await;
}

#[tokio::test]
async fn a_row_in_the_way_in_ranged_mode_is_an_error_that_names_it() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = bed.sink(Mode::Ranged).await;
    bed.run("INSERT INTO n (id) VALUES (1)").await;
    let error = sink.copy(&range(0, 2), false).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Data);
    let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    assert!(
        text.contains("copy the rows of [0, 2) of table test_"),
        "{text}"
    );
    assert!(
        text.contains("Duplicate entry '1' for key 'n.PRIMARY'"),
        "{text}"
    );
    assert_eq!(bed.texts("SELECT COUNT(*) FROM n").await, ["1"]);
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_the_datas_fault() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE n (id INT PRIMARY KEY, v VARCHAR(3))",
        "INSERT INTO t VALUES (1, 'short'), (2, 'ok')",
    ])
    .await;
    let sink = bed.sink(Mode::Ranged).await;
    let error = sink.copy(&KeyRange::ALL, false).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Data);
    let oxferry_copier::CopyError::Refused { task, source, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(*task, Task::Copy(KeyRange::ALL));
    assert!(source.to_string().contains("column 'v'"), "{source}");
}

#[tokio::test]
async fn copying_neither_locks_source_rows_nor_waits_for_their_locks() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = bed.sink(Mode::Ranged).await;
    let mut writer = connect(&bed.url, "tests").await.unwrap();
    writer.query_drop("START TRANSACTION").await.unwrap();
    writer
        .query_drop("UPDATE t SET v = 'unseen' WHERE id = 1")
        .await
        .unwrap();
    sink.copy(&range(-1, 2), false).await.unwrap();
    writer.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(
        bed.texts("SELECT v FROM n WHERE id = 1").await,
        ["one"],
        "what another session has not committed is not copied"
    );

    // The sink's own statement, held open.
    bed.run("DELETE FROM n").await;
    bed.run("START TRANSACTION").await;
    bed.run("INSERT INTO n (id, v) SELECT id, v FROM t FORCE INDEX (`PRIMARY`) WHERE id >= 0")
        .await;
    let locks = "SELECT CONCAT_WS(' ', object_name, lock_type) FROM performance_schema.data_locks \
                 WHERE object_schema = DATABASE() AND object_name = 't'";
    assert!(bed.texts(locks).await.is_empty());
    bed.run("ROLLBACK").await;
}

#[tokio::test]
async fn the_sinks_sessions_read_committed_rows() {
    let mut bed = Bed::new(&TABLES).await;
    let sink = bed.sink(Mode::Ranged).await;
    sink.copy(&KeyRange::ALL, false).await.unwrap();
    let levels = "SELECT DISTINCT v.variable_value FROM performance_schema.variables_by_thread v \
                  JOIN performance_schema.threads t USING (thread_id) \
                  WHERE v.variable_name = 'transaction_isolation' \
                  AND t.processlist_db = DATABASE() AND t.processlist_id <> CONNECTION_ID()";
    assert_eq!(bed.texts(levels).await, ["READ-COMMITTED"]);
}

//! Data that the target refuses: the row and the column are named.

use mysql_async::prelude::Queryable;
use oxferry_copier::{CopyError, RowSink, engine::Mode};
use oxferry_schema::{KeyRange, Remedy, Value};

use crate::bed::{Bed, batch, delete, upsert};

async fn many(target: &str) -> Bed {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n INT)",
        &format!("CREATE TABLE n {target}"),
        "SET cte_max_recursion_depth = 10000",
        "INSERT INTO t WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 999) \
         SELECT i * 10, i, i FROM c",
    ])
    .await;
    bed.run("ANALYZE TABLE t").await;
    bed
}

async fn refused(bed: &mut Bed, mode: Mode) -> String {
    let sink = bed.sink(mode).await;
    let error = sink.copy(&KeyRange::ALL, false).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Data);
    assert!(matches!(error, CopyError::Refused { .. }), "{error:?}");
    assert_eq!(bed.texts("SELECT COUNT(*) FROM n").await, ["0"]);
    error.to_string()
}

#[tokio::test]
async fn a_value_that_is_too_long_is_named_by_key_and_column() {
    let mut bed = many("(id INT PRIMARY KEY, v VARCHAR(5))").await;
    bed.run("UPDATE t SET v = 'much too long' WHERE id IN (7770, 9000)")
        .await;
    let text = refused(&mut bed, Mode::Ranged).await;
    assert!(text.contains("row 7770, column v: "), "{text}");
}

#[tokio::test]
async fn a_null_in_a_column_that_takes_none_is_named() {
    let mut bed = many("(id INT PRIMARY KEY, v VARCHAR(20) NOT NULL)").await;
    bed.run("UPDATE t SET v = NULL WHERE id = 4440").await;
    for mode in [Mode::Ranged, Mode::Ordered] {
        let text = refused(&mut bed, mode).await;
        assert!(text.contains("row 4440, column v: "), "{text}");
    }
}

#[tokio::test]
async fn a_text_that_is_no_number_and_a_check_name_the_row() {
    let mut bed = many("(id INT PRIMARY KEY, v INT)").await;
    bed.run("UPDATE t SET v = 'b' WHERE id = 30").await;
    let text = refused(&mut bed, Mode::Ranged).await;
    assert!(text.contains("row 30, column v: "), "{text}");

    let mut bed = many("(id INT PRIMARY KEY, n INT, CHECK (n < 500))").await;
    let text = refused(&mut bed, Mode::Ranged).await;
    assert!(text.contains("row 5000: "), "{text}");
}

#[tokio::test]
async fn a_duplicate_over_a_new_primary_key_names_the_second_row() {
    let mut bed = many("(id INT, n INT PRIMARY KEY, KEY (id))").await;
    bed.run("UPDATE t SET n = 5 WHERE id = 6000").await;
    let sink = bed.sink(Mode::Ranged).await;
    let error = sink.copy(&KeyRange::ALL, false).await.unwrap_err();
    let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    assert!(text.contains("row 6000: "), "{text}");
    assert!(
        text.contains("Duplicate entry '5' for key 'n.PRIMARY'"),
        "{text}"
    );
}

#[tokio::test]
async fn a_changed_row_that_does_not_fit_is_named_and_its_batch_undone() {
    let mut bed = many("(id INT PRIMARY KEY, v VARCHAR(5), n TINYINT)").await;
    bed.run("INSERT INTO n VALUES (1, 'a', 1)").await;
    let sink = bed.sink(Mode::Ranged).await;
    let changes = (10..500).map(|id| {
        let number = if id == 300 { 300 } else { 1 };
        upsert(id, [Value::from("ok"), Value::Int(number)])
    });
    let changes: Vec<_> = [delete(1)].into_iter().chain(changes).collect();
    let error = sink.apply(&batch(changes)).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Data);
    let text = error.to_string();
    assert!(text.contains("row 300, column n: "), "{text}");
    assert_eq!(bed.texts("SELECT id FROM n").await, ["1"]);
}

#[tokio::test]
async fn a_row_larger_than_a_packet_is_named_with_both_sizes() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)",
        "CREATE TABLE n LIKE t",
    ])
    .await;
    let limit: Option<usize> = bed
        .conn
        .query_first("SELECT @@max_allowed_packet")
        .await
        .unwrap();
    let limit = limit.unwrap();
    let sink = bed.sink(Mode::Ranged).await;
    let row = |bytes: usize| batch([upsert(7, [Value::Bytes(vec![b'x'; bytes])])]);
    sink.apply(&row(limit - 1_000)).await.unwrap();
    assert_eq!(
        bed.texts("SELECT LENGTH(b) FROM n").await,
        [(limit - 1_000).to_string()]
    );
    let error = sink.apply(&row(limit)).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Privileges);
    let text = error.to_string();
    assert!(text.contains("the row with key 7 of table"), "{text}");
    assert!(text.contains(&format!("more than the {limit} ")), "{text}");
}

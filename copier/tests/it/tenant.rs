//! The rows of one tenant among those of others.

use std::error::Error;

use oxferry_copier::{
    Access, Chunker, CopyError, Join, RowFilter, RowSink, TableChunker, TransferSettings,
    TransferSink, engine::Mode,
};
use oxferry_schema::{KeyRange, Value};

use crate::{
    bed::{batch, delete, ident, key, upsert},
    pair::{LOADS, Pair},
};

const TABLE: &str =
    "CREATE TABLE t (id INT PRIMARY KEY, shop INT, u INT, UNIQUE KEY u (u), KEY shop (shop))";
const RANGED: &str = "CREATE TABLE t (id INT PRIMARY KEY, shop INT, u INT, KEY shop (shop))";
const ROWS: &str = "SELECT CONCAT_WS(' ', id, shop, u) FROM t ORDER BY id";

async fn sinks(pair: &mut Pair, mode: Mode) -> Vec<TransferSink> {
    let mut sinks = Vec::new();
    for load in LOADS {
        let columns = (&ident("shop"), &ident("shop"));
        let filter = RowFilter::equal(columns, &Value::Int(7), Access::Index(ident("shop")));
        let plan = pair.plan(mode).await.with_filter(filter);
        let mark = None;
        sinks.push(pair.sink_with(plan, TransferSettings { load, mark }).await);
    }
    sinks
}

#[tokio::test]
async fn a_tenants_rows_are_copied_and_others_of_the_target_stay() {
    let mut pair = Pair::new(&[RANGED]).await;
    pair.source
        .run("INSERT INTO t VALUES (1, 7, 1), (2, 8, 2), (3, 7, 3), (4, 7, 4)")
        .await;
    for sink in sinks(&mut pair, Mode::Ranged).await {
        pair.empty().await;
        pair.target
            .run("INSERT INTO t VALUES (2, 9, 0), (6, 9, 0)")
            .await;
        assert_eq!(sink.copy(&KeyRange::ALL, false).await.unwrap().rows, 3);
        let rows = ["1 7 1", "2 9 0", "3 7 3", "4 7 4", "6 9 0"];
        assert_eq!(pair.target.texts(ROWS).await, rows);
        pair.target.run("UPDATE t SET u = 50 WHERE shop = 7").await;
        pair.target.run("INSERT INTO t VALUES (5, 7, 5)").await;
        assert_eq!(sink.copy(&KeyRange::ALL, true).await.unwrap().rows, 3);
        assert_eq!(pair.target.texts(ROWS).await, rows);
        pair.target.run("UPDATE t SET u = 60 WHERE shop = 7").await;
        let keys: Vec<_> = (0..9).map(|id| key(&[id])).collect();
        assert_eq!(sink.copy_keys(&keys).await.unwrap().rows, 3);
        assert_eq!(pair.target.texts(ROWS).await, rows);
    }
}

#[tokio::test]
async fn a_row_takes_its_tenants_place_and_no_others() {
    let mut pair = Pair::new(&[TABLE]).await;
    pair.source
        .run("INSERT INTO t VALUES (1, 7, 10), (2, 7, 20)")
        .await;
    for sink in sinks(&mut pair, Mode::Ordered).await {
        pair.empty().await;
        // The value 20 was another row's of the same tenant.
        pair.target
            .run("INSERT INTO t VALUES (3, 7, 20), (9, 9, 90)")
            .await;
        sink.copy(&KeyRange::ALL, false).await.unwrap();
        let rows = ["1 7 10", "2 7 20", "9 9 90"];
        assert_eq!(pair.target.texts(ROWS).await, rows);
        let changes = [
            upsert(1, [Value::Int(7), Value::Int(20)]),
            upsert(2, [Value::Int(7), Value::Int(30)]),
            delete(9),
        ];
        sink.apply(&batch(changes)).await.unwrap();
        let rows = ["1 7 20", "2 7 30", "9 9 90"];
        assert_eq!(pair.target.texts(ROWS).await, rows);
        for taken in [
            upsert(5, [Value::Int(7), Value::Int(90)]),
            upsert(9, [Value::Int(7), Value::Int(5)]),
        ] {
            let error = sink.apply(&batch([taken.clone()])).await.unwrap_err();
            let CopyError::Refused { place, source, .. } = error else {
                panic!("{error}: {:?}", error.source());
            };
            assert_eq!(place.key, Some(taken.key), "{source}");
            assert_eq!(pair.target.texts(ROWS).await, rows);
        }
    }
}

#[tokio::test]
async fn a_row_that_is_joined_to_its_owner_is_the_tenants() {
    let owners = "CREATE TABLE owners (id INT PRIMARY KEY, shop VARCHAR(9) CHARACTER SET latin1)";
    let table = "CREATE TABLE t (id INT PRIMARY KEY, shop INT, u INT)";
    let mut pair = Pair::new(&[owners, table]).await;
    pair.source
        .run("INSERT INTO owners VALUES (1, 'ü'), (2, 'x')")
        .await;
    pair.source
        .run("INSERT INTO t VALUES (1, 1, 0), (2, 2, 0), (3, 1, 0), (4, NULL, 0)")
        .await;
    // The owner is not there yet.
    pair.target.run("INSERT INTO owners VALUES (9, 'x')").await;
    pair.target
        .run("INSERT INTO t VALUES (1, 1, 55), (3, 9, 1), (8, 9, 0)")
        .await;
    let join = |owner| Join {
        column: ident("shop"),
        owner,
        owner_key: ident("id"),
        owner_tenant: ident("shop"),
    };
    let source = (pair.source.name("t"), join(pair.source.name("owners")));
    let target = (pair.target.name("t"), join(pair.target.name("owners")));
    let filter = RowFilter::joined(
        (&source.0, &source.1),
        (&target.0, &target.1),
        &Value::from("ü"),
        Access::Any,
    );
    let plan = pair.plan(Mode::Ranged).await.with_filter(filter);
    assert_eq!(plan.mode(), Mode::Ordered);
    let sink = pair.sink_with(plan, TransferSettings::default()).await;
    let error = sink.copy(&KeyRange::ALL, false).await.unwrap_err();
    let CopyError::Refused { place, .. } = error else {
        panic!("{error}: {:?}", error.source());
    };
    assert_eq!(place.key, Some(key(&[3])));
    pair.target.run("DELETE FROM t WHERE id = 3").await;
    for again in [false, true] {
        assert_eq!(sink.copy(&KeyRange::ALL, again).await.unwrap().rows, 2);
        let rows = pair.target.texts(ROWS).await;
        assert_eq!(rows, ["1 1 0", "3 1 0", "8 9 0"]);
    }
}

#[tokio::test]
async fn chunks_count_the_tenants_rows_alone() {
    let mut pair = Pair::new(&[RANGED]).await;
    pair.source
        .run("INSERT INTO t SELECT a.id * 10 + b.id, b.id, 0 FROM \
              (WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < 99) SELECT id FROM n) a, \
              (WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < 9) SELECT id FROM n) b")
        .await;
    let plan = pair.plan(Mode::Ranged).await;
    let columns = (&ident("shop"), &ident("shop"));
    let filter = RowFilter::equal(columns, &Value::Int(7), Access::Index(ident("shop")));
    let (source, _) = pair.connections(Default::default()).await;
    let (name, index) = (&plan.source().name, plan.key().index.clone());
    let all = vec![KeyRange::ALL];
    let mut chunker = TableChunker::new(source, name, index, plan.source_side().clone(), all)
        .with_filter(Some(filter));
    let mut uppers = Vec::new();
    while let Some(range) = chunker.next(40).await.unwrap() {
        uppers.push(range.upper);
    }
    // The last row is another's.
    let ends = [407, 807, 999].map(|id| Some(key(&[id])));
    assert_eq!(uppers, [&ends[..], &[None]].concat());
}

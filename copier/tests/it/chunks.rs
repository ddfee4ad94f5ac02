//! Where chunks begin and end.

use mysql_async::prelude::Queryable;
use oxferry_copier::{Chunker, TableChunker, gaps};
use oxferry_schema::{KeyRange, KeySide, Predicate};

use crate::bed::{Bed, ident, key};

async fn chunker(bed: &mut Bed, within: Vec<KeyRange>) -> TableChunker {
    let table = bed.table("t").await;
    let row_key = table.row_key().unwrap();
    TableChunker::new(
        bed.connections().await,
        &table.name,
        row_key.index.clone(),
        row_key.side(&table).unwrap(),
        within,
    )
}

async fn chunks(bed: &mut Bed, within: Vec<KeyRange>, rows: u64) -> Vec<KeyRange> {
    let mut chunker = chunker(bed, within).await;
    let mut chunks = Vec::new();
    while let Some(range) = chunker.next(rows).await.unwrap() {
        chunks.push(range);
    }
    assert_eq!(chunker.next(rows).await.unwrap(), None);
    chunks
}

fn printed(chunks: &[KeyRange]) -> Vec<String> {
    chunks.iter().map(KeyRange::to_string).collect()
}

#[tokio::test]
async fn chunks_have_the_rows_asked_for_and_an_open_end() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (-5), (-1), (0), (3), (9)",
    ])
    .await;
    let chunks = chunks(&mut bed, vec![KeyRange::ALL], 2).await;
    assert_eq!(printed(&chunks), ["[min, 0)", "[0, 9)", "[9, max]"]);
}

#[tokio::test]
async fn gaps_between_keys_make_no_empty_chunks() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY)",
        "INSERT INTO t VALUES (1), (8589934592), (18446744073709551615)",
    ])
    .await;
    let whole = chunks(&mut bed, vec![KeyRange::ALL], 1_000).await;
    assert_eq!(whole, [KeyRange::ALL]);
    let single = chunks(&mut bed, vec![KeyRange::ALL], 1).await;
    assert_eq!(
        printed(&single),
        [
            "[min, 8589934592)",
            "[8589934592, 18446744073709551615)",
            "[18446744073709551615, max]"
        ]
    );
}

#[tokio::test]
async fn a_table_that_grows_as_fast_as_it_is_cut_comes_to_an_end() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)",
        "INSERT INTO t VALUES (1), (2), (3), (4), (5), (6)",
    ])
    .await;
    let mut chunker = chunker(&mut bed, vec![KeyRange::ALL]).await;
    let mut sizes = Vec::new();
    while let Some(range) = chunker.next(2).await.unwrap() {
        sizes.push(range.to_string());
        bed.run("INSERT INTO t VALUES (), (), ()").await;
        assert!(sizes.len() < 20, "{sizes:?}");
    }
    assert_eq!(sizes.last().map(|last| last.ends_with("max]")), Some(true));
}

#[tokio::test]
async fn an_empty_table_is_one_chunk() {
    let mut bed = Bed::new(&["CREATE TABLE t (id INT PRIMARY KEY)"]).await;
    let chunks = chunks(&mut bed, vec![KeyRange::ALL], 100).await;
    assert_eq!(chunks, [KeyRange::ALL]);
}

#[tokio::test]
async fn after_an_interruption_only_the_gaps_are_cut() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1), (2), (3), (4), (5), (6), (7), (8)",
    ])
    .await;
    let closed = [KeyRange {
        lower: Some(key(&[3])),
        upper: Some(key(&[7])),
    }];
    let chunks = chunks(&mut bed, gaps(&closed), 1).await;
    assert_eq!(
        printed(&chunks),
        ["[min, 2)", "[2, 3)", "[7, 8)", "[8, max]"]
    );
}

#[tokio::test]
async fn composite_keys_are_cut_between_their_rows() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (a INT, b INT UNSIGNED, PRIMARY KEY (a, b))",
        "INSERT INTO t VALUES (-1, 7), (0, 0), (0, 1), (0, 4000000000), (2, 0)",
    ])
    .await;
    let chunks = chunks(&mut bed, vec![KeyRange::ALL], 2).await;
    assert_eq!(
        printed(&chunks),
        ["[min, (0, 1))", "[(0, 1), (2, 0))", "[(2, 0), max]"]
    );
}

#[tokio::test]
async fn a_unique_key_serves_where_there_is_no_primary_key() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (a INT, b INT NOT NULL, UNIQUE KEY u (b))",
        "INSERT INTO t VALUES (1, 30), (2, 20), (3, 10)",
    ])
    .await;
    let chunks = chunks(&mut bed, vec![KeyRange::ALL], 2).await;
    assert_eq!(printed(&chunks), ["[min, 30)", "[30, max]"]);
}

/// Counts the index entries that the statement reads.
async fn reads(bed: &mut Bed, condition: &Predicate) -> u64 {
    bed.run("FLUSH STATUS").await;
    let sql = format!(
        "SELECT a FROM t FORCE INDEX (`PRIMARY`) WHERE {}",
        condition.sql()
    );
    let params = condition.params().to_vec();
    bed.conn.exec_drop(sql, params).await.unwrap();
    let counts: Vec<(String, u64)> = bed
        .conn
        .query("SHOW SESSION STATUS LIKE 'Handler_read%'")
        .await
        .unwrap();
    counts.into_iter().map(|(_, count)| count).sum()
}

#[tokio::test]
async fn a_composite_range_reads_only_its_own_rows() {
    let mut bed = composite().await;
    let range = KeyRange {
        lower: Some(key(&[3, 50, 2])),
        upper: Some(key(&[4, 20, 1])),
    };
    let columns = KeySide::of_integers(&["a", "b", "c"].map(ident));
    let read = reads(&mut bed, &Predicate::range(&range, &columns)).await;
    // 50 * 3 - 2 rows of a = 3 and 20 * 3 + 1 of a = 4, and some bounds.
    assert!((209..230).contains(&read), "{read}");
}

#[tokio::test]
async fn a_list_of_composite_keys_reads_only_its_own_rows() {
    let mut bed = composite().await;
    let keys: Vec<_> = (0..512).map(|i| key(&[i % 10, i / 10, i % 3])).collect();
    let columns = KeySide::of_integers(&["a", "b", "c"].map(ident));
    let read = reads(&mut bed, &Predicate::keys(&keys, &columns)).await;
    assert!(read <= 1_100, "{read}");
}

#[tokio::test]
async fn a_range_of_sets_reads_only_its_own_rows() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (a SET('x','c','b') NOT NULL, b INT NOT NULL, PRIMARY KEY (a, b))",
        "SET cte_max_recursion_depth = 10000",
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2399) \
         SELECT i % 8, i DIV 8 FROM n",
        "ANALYZE TABLE t",
    ])
    .await;
    let table = bed.table("t").await;
    let side = table.row_key().unwrap().side(&table).unwrap();
    let range = KeyRange {
        lower: Some(key(&[5, 100])),
        upper: Some(key(&[6, 100])),
    };
    let read = reads(&mut bed, &Predicate::range(&range, &side)).await;
    assert!((300..320).contains(&read), "{read}");
}

async fn composite() -> Bed {
    Bed::new(&[
        "CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (a, b, c))",
        "SET cte_max_recursion_depth = 10000",
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2999) \
         SELECT i DIV 300, i DIV 3 % 100, i % 3 FROM n",
        "ANALYZE TABLE t",
    ])
    .await
}

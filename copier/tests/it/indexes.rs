//! Indexes that are built after the rows.

use oxferry_copier::{BuildSettings, DeferredIndexes};
use oxferry_schema::{Ident, Remedy};

use crate::bed::{Bed, ident};

async fn deferred(bed: &mut Bed) -> DeferredIndexes {
    let table = bed.table("n").await;
    DeferredIndexes::plan(&table, &[ident("id")])
}

fn names(plan: &DeferredIndexes) -> Vec<&str> {
    plan.names().map(Ident::as_str).collect()
}

async fn indexes(bed: &mut Bed) -> Vec<String> {
    bed.texts(
        "SELECT DISTINCT index_name FROM information_schema.statistics \
         WHERE table_schema = DATABASE() AND table_name = 'n' ORDER BY 1",
    )
    .await
}

#[tokio::test]
async fn indexes_of_every_plain_kind_come_back_as_they_were() {
    let mut bed = Bed::new(&[
        "CREATE TABLE p (a INT PRIMARY KEY)",
        "CREATE TABLE n (id INT NOT NULL, a INT, b VARCHAR(300), g INT AS (a + 1), j JSON, \
         auto BIGINT NOT NULL AUTO_INCREMENT, f TEXT, x POINT NOT NULL SRID 0, \
         PRIMARY KEY (id), UNIQUE KEY u (a, b(20)), UNIQUE KEY z (auto), KEY fkx (a), \
         KEY `od``d` (b(10), a DESC) COMMENT 'KEY `k` (`a`)', KEY hidden (b) INVISIBLE, \
         KEY expr ((a * 2)), KEY gen (g), KEY multi ((CAST(j->'$[*]' AS UNSIGNED ARRAY))), \
         FULLTEXT KEY ft (f), SPATIAL KEY sp (x), \
         CONSTRAINT c FOREIGN KEY (a) REFERENCES p (a))",
    ])
    .await;
    let plan = deferred(&mut bed).await;
    let mut later = names(&plan);
    later.sort_unstable();
    assert_eq!(later, ["expr", "gen", "hidden", "multi", "od`d"]);

    let connections = bed.connections().await;
    plan.drop_all(&connections).await.unwrap();
    plan.drop_all(&connections).await.unwrap();
    assert_eq!(
        indexes(&mut bed).await,
        ["fkx", "ft", "PRIMARY", "sp", "u", "z"]
    );
    bed.run("INSERT INTO p VALUES (1), (2)").await;
    bed.run("INSERT INTO n (id, a, b, j, f, x) VALUES (1, 1, 'b', '[1, 2]', 'f', POINT(0, 0))")
        .await;
    plan.build(&connections, BuildSettings::default())
        .await
        .unwrap();
    plan.build(&connections, BuildSettings::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_partitioned_tables_indexes_come_back_as_they_were() {
    let mut bed = Bed::new(&[
        "CREATE TABLE n (id INT NOT NULL AUTO_INCREMENT, a INT, PRIMARY KEY (id), \
         UNIQUE KEY u (id, a), KEY k (a)) PARTITION BY HASH (id) PARTITIONS 3",
        "INSERT INTO n (a) VALUES (1), (2), (3)",
    ])
    .await;
    let plan = deferred(&mut bed).await;
    assert_eq!(names(&plan), ["u", "k"]);
    let connections = bed.connections().await;
    plan.drop_all(&connections).await.unwrap();
    assert_eq!(indexes(&mut bed).await, ["PRIMARY"]);
    bed.run("INSERT INTO n (a) VALUES (7)").await;
    plan.build(&connections, BuildSettings::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_duplicate_in_a_unique_index_is_the_datas_fault_and_is_named() {
    let mut bed = Bed::new(&["CREATE TABLE n (id INT PRIMARY KEY, a INT, UNIQUE KEY u (a))"]).await;
    let plan = deferred(&mut bed).await;
    let connections = bed.connections().await;
    plan.drop_all(&connections).await.unwrap();
    bed.run("INSERT INTO n VALUES (1, 42), (2, 42)").await;
    let error = plan
        .build(&connections, BuildSettings::default())
        .await
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::Data);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        source.contains("Duplicate entry '42' for key 'n.u'"),
        "{source}"
    );
}

#[tokio::test]
async fn a_table_that_is_not_as_before_is_noticed() {
    let mut bed = Bed::new(&["CREATE TABLE n (id INT PRIMARY KEY, a INT, KEY k (a))"]).await;
    let plan = deferred(&mut bed).await;
    let connections = bed.connections().await;
    plan.drop_all(&connections).await.unwrap();
    bed.run("ALTER TABLE n ADD COLUMN b INT").await;
    let error = plan
        .build(&connections, BuildSettings::default())
        .await
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::Bug);
    assert!(error.to_string().contains("should be"), "{error}");
}

use std::time::Duration;

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    compare::{CompareError, Comparison, Kind, compare_tables},
    server::{Schema, Server},
    tables::TableSpec,
    writer::{WriterOptions, WriterReport, Writers},
};

const LIMIT: Duration = Duration::from_secs(60);

/// Lets three writers at a table, swaps it under them, and stops them.
async fn written_and_swapped(schema: &Schema, table: &TableSpec) -> WriterReport {
    let mut conn = schema.conn().await.unwrap();
    table.create(&mut conn, 7).await.unwrap();
    let url = schema.server().url();
    let writers = Writers::start(&url, table, WriterOptions::new(3, 7))
        .await
        .unwrap();
    writers.wait_for_commits(100, LIMIT).await.unwrap();
    let other = table.named("other");
    // Under the lock nothing can change between the copy and the swap.
    conn.query_drop(format!(
        "CREATE TABLE {} LIKE {}",
        other.quoted(),
        table.quoted()
    ))
    .await
    .unwrap();
    let (t, o) = (table.quoted(), other.quoted());
    conn.query_drop(format!(
        "LOCK TABLES {t} WRITE, {o} WRITE, {t} AS source READ"
    ))
    .await
    .unwrap();
    conn.query_drop(format!("INSERT INTO {o} SELECT * FROM {t} AS source"))
        .await
        .unwrap();
    conn.query_drop(format!(
        "RENAME TABLE {t} TO `{}`.`old`, {o} TO {t}",
        schema.name()
    ))
    .await
    .unwrap();
    conn.query_drop("UNLOCK TABLES").await.unwrap();
    writers.wait_for_commits(100, LIMIT).await.unwrap();
    writers.stop().await
}

#[tokio::test]
async fn what_the_writers_committed_is_known_across_a_swap() {
    for make in [TableSpec::sysbench, TableSpec::with_unique] {
        let schema = Server::fresh_schema().await.unwrap();
        let table = make(schema.name(), "t", 500);
        let report = written_and_swapped(&schema, &table).await;
        assert_eq!(report.errors, 0, "{:?}", report.last_error);
        let counts = [report.inserts, report.updates, report.moves, report.deletes];
        assert!(counts.iter().all(|count| *count > 0), "{report:?}");

        let mut conn = schema.conn().await.unwrap();
        report.journal.check(&mut conn, &table).await.unwrap();
        report
            .journal
            .store_keys(&mut conn, "touched", table.key)
            .await
            .unwrap();
        let old = table.named("old").quoted();
        let names = table.column_names();
        let untouched = Comparison::new(&old, &table.quoted(), &[table.key], &names)
            .except_keys_in("`touched`");
        untouched.run(&mut conn).await.unwrap();
        // The whole old table is behind: what was written after the swap is missing there.
        assert!(
            report
                .journal
                .check(&mut conn, &table.named("old"))
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn writers_survive_the_server_and_still_know_what_was_committed() {
    let mut server = Server::start(Default::default()).await.unwrap();
    let table = TableSpec::sysbench("d", "t", 300);
    let mut conn = server.conn().await.unwrap();
    table.create(&mut conn, 1).await.unwrap();
    drop(conn);
    let writers = Writers::start(&server.url(), &table, WriterOptions::new(2, 1))
        .await
        .unwrap();
    writers.wait_for_commits(50, LIMIT).await.unwrap();
    server.kill();
    server.start_again().await.unwrap();
    writers.wait_for_commits(50, LIMIT).await.unwrap();
    let report = writers.stop().await;
    assert!(report.errors > 0);
    report
        .journal
        .check(&mut server.conn().await.unwrap(), &table)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_comparison_names_every_kind_of_difference() {
    let schema = Server::fresh_schema().await.unwrap();
    let mut conn = schema.conn().await.unwrap();
    for statement in [
        "CREATE TABLE l (a INT, b VARCHAR(9), s VARCHAR(9), d DOUBLE, PRIMARY KEY (a, b))",
        "CREATE TABLE r LIKE l",
        "INSERT INTO l VALUES (1,'x','',0),(2,'x','a',0),(3,'x','a',0),(4,'x','a',0),(5,'x','q',1)",
        "INSERT INTO r VALUES (1,'x',NULL,0),(2,'x','A',0),(3,'x','a ',-0e0),(5,'x','q',1),(6,'x','a',0)",
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    let compared = compare_tables(&mut conn, "`l`", "`r`", &["a", "b"], &["s", "d"]).await;
    let Err(CompareError::Differ(found)) = compared else {
        panic!("{compared:?}")
    };
    let columns = |names: &str| Kind::Columns(names.to_owned());
    let mut kinds: Vec<_> = found
        .first
        .into_iter()
        .map(|found| (found.key, found.kind))
        .collect();
    kinds.sort_by(|one, two| one.0.cmp(&two.0));
    let expected = [
        ("1,x", columns("`s`")),
        ("2,x", columns("`s`")),
        ("3,x", columns("`s`,`d`")),
        ("4,x", Kind::OnlyLeft),
        ("6,x", Kind::OnlyRight),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(key, kind)| (key.to_owned(), kind))
        .collect();
    assert_eq!(kinds, expected);

    conn.query_drop("DELETE FROM r").await.unwrap();
    conn.query_drop("INSERT INTO r SELECT * FROM l")
        .await
        .unwrap();
    let rows = compare_tables(&mut conn, "`l`", "`r`", &["a", "b"], &["s", "d"])
        .await
        .unwrap();
    assert_eq!(rows, 5);
}

#[tokio::test]
async fn loaded_rows_all_differ_and_depend_on_the_seed_alone() {
    let schema = Server::fresh_schema().await.unwrap();
    let mut conn = schema.conn().await.unwrap();
    for (name, seed) in [("one", 1), ("same", 1), ("two", 2)] {
        TableSpec::sysbench(schema.name(), name, 1200)
            .create(&mut conn, seed)
            .await
            .unwrap();
    }
    let sql = "SELECT COUNT(*), COUNT(DISTINCT c), COUNT(DISTINCT pad) FROM one";
    let counts: Option<(u64, u64, u64)> = conn.query_first(sql).await.unwrap();
    assert_eq!(counts, Some((1200, 1200, 1200)));
    compare_tables(&mut conn, "`one`", "`same`", &["id"], &["k", "c", "pad"])
        .await
        .unwrap();
    compare_tables(&mut conn, "`one`", "`two`", &["id"], &["c"])
        .await
        .unwrap_err();
}

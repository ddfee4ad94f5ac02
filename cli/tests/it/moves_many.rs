//! Many tables in one move: other names, what is refused, and who comes first.

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    server::Schema,
    tables::TableSpec,
    tool::{Finished, Oxferry},
    writer::{WriterOptions, Writers},
};

use crate::{
    far::{Far, run},
    held::Gate,
    world::{LIMIT, check_code},
};

/// A second database on the source, for the same move.
async fn more_databases(far: &Far) -> Schema {
    let server = oxferry_testkit::server::shared(crate::world::options());
    let schema = Schema::on(server.await.unwrap()).await.unwrap();
    assert_eq!(schema.server().port(), far.source.server().port());
    schema
}

fn both(far: &Far, other: &Schema) -> Oxferry {
    far.moves().arg("--database").arg(other.name())
}

fn check_refused(finished: &Finished, why: &str) {
    check_code(finished, 64);
    let text = finished.text();
    assert!(text.contains(why), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_tables_of_two_databases_move_under_writers() {
    let far = Far::new(TableSpec::sysbench, 2_000).await;
    let other = more_databases(&far).await;
    let mut specs = vec![far.table.clone()];
    let mut conn = far.source.conn().await.unwrap();
    for number in 1_u64..20 {
        let (database, rows) = match number % 2 {
            0 => (far.source.name(), number * 20),
            _ => (other.name(), if number % 3 == 0 { 0 } else { number * 20 }),
        };
        let make = if number % 4 < 2 {
            TableSpec::sysbench
        } else {
            TableSpec::with_unique
        };
        let spec = make(database, &format!("t{number}"), rows);
        spec.create(&mut conn, number).await.unwrap();
        specs.push(spec);
    }
    let mut writers = Vec::new();
    let url = far.source.server().url();
    for (spec, seed) in specs.iter().zip(1..) {
        let options = WriterOptions::new(1, seed).rate(50);
        writers.push(Writers::start(&url, spec, options).await.unwrap());
    }
    let moves = both(&far, &other).arg("--threads").arg("4");
    let finished = moves
        .arg("--write-threads")
        .arg("4")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 0);
    let mut target = far.target_conn().await;
    for (writers, spec) in writers.into_iter().zip(&specs) {
        let report = writers.stop().await;
        assert_eq!(report.errors, 0, "{:?}", report.last_error);
        report.journal.check(&mut target, spec).await.unwrap();
        let old = format!("_{}_oxold", spec.name);
        far.check_rows_in(&spec.database, &old, &spec.name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_table_is_copied_first() {
    let far = Far::new(TableSpec::sysbench, 20).await;
    let mut conn = far.source.conn().await.unwrap();
    for (name, rows) in [("small", 100), ("large", 20_000), ("medium", 5_000)] {
        let spec = TableSpec::sysbench(far.source.name(), name, rows);
        spec.create(&mut conn, rows).await.unwrap();
        run(&mut conn, &[&format!("ANALYZE TABLE {name}")]).await;
    }
    let plan = far.call(&["plan", "move"], &["--lock-source", "rename"]);
    let planned = plan.run(LIMIT).await.unwrap();
    check_code(&planned, 0);
    let text = planned.text();
    let at = |name: &str| {
        let line = format!("table={}.{name} ", far.source.name());
        text.find(&line).unwrap_or_else(|| panic!("{line}: {text}"))
    };
    let order = [at("large"), at("medium"), at("small"), at("t")];
    assert!(order.is_sorted(), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_and_tables_get_other_names_and_keep_their_collations() {
    let far = Far::new(TableSpec::sysbench, 300).await;
    let name = far.source.name().to_owned();
    let mut source = far.source.conn().await.unwrap();
    run(
        &mut source,
        &[
            &format!("ALTER DATABASE `{name}` CHARACTER SET latin1 COLLATE latin1_spanish_ci"),
            "CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(9))",
            "CREATE TABLE other (id INT PRIMARY KEY, v VARCHAR(9) COLLATE utf8mb4_bin) \
             COLLATE utf8mb4_danish_ci",
            "INSERT INTO plain VALUES (1, 'ñ')",
        ],
    )
    .await;
    let to = format!("{name}_new");
    let moves = far
        .moves()
        .arg("--rename")
        .arg(format!("{name}={to}"))
        .arg("--rename")
        .arg(format!("{name}.plain={to}.fancy"));
    check_code(&moves.run(LIMIT).await.unwrap(), 0);
    let mut target = far.target.conn_to(&to).await.unwrap();
    let tables: Vec<String> = target.query("SHOW TABLES").await.unwrap();
    assert_eq!(tables, ["fancy", "other", "t"]);
    let database: Option<String> = target
        .query_first("SELECT @@collation_database")
        .await
        .unwrap();
    assert_eq!(database.as_deref(), Some("latin1_spanish_ci"));
    let collations: Vec<String> = target
        .query(
            "SELECT TABLE_COLLATION FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = DATABASE() ORDER BY TABLE_NAME",
        )
        .await
        .unwrap();
    assert_eq!(collations[..2], ["latin1_spanish_ci", "utf8mb4_danish_ci"]);
    let value: Option<String> = target
        .query_first("SELECT HEX(v) FROM fancy")
        .await
        .unwrap();
    assert_eq!(value.as_deref(), Some("F1"));
    let rows: Option<u64> = target.query_first("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(rows, Some(300));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tables_for_one_target_are_refused() {
    let far = Far::new(TableSpec::sysbench, 10).await;
    let name = far.source.name().to_owned();
    let mut source = far.source.conn().await.unwrap();
    run(&mut source, &["CREATE TABLE u (id INT PRIMARY KEY)"]).await;
    let rename = format!("{name}.u={name}.t");
    let refused = far
        .moves()
        .arg("--rename")
        .arg(rename)
        .run(LIMIT)
        .await
        .unwrap();
    check_refused(&refused, &format!("{name}.t"));
    let other = more_databases(&far).await;
    let conflict = TableSpec::sysbench(other.name(), "t", 10);
    conflict.create(&mut source, 1).await.unwrap();
    let rename = format!("{}={name}", other.name());
    let refused = both(&far, &other)
        .arg("--rename")
        .arg(rename)
        .run(LIMIT)
        .await
        .unwrap();
    check_refused(&refused, &format!("{name}.t"));
    let (_, there) = far.tables().await;
    assert_eq!(there, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_stand_on_the_target_are_refused_unless_they_are_allowed() {
    let far = Far::new(TableSpec::sysbench, 200).await;
    let name = far.source.name();
    let mut target = far.target.conn().await.unwrap();
    run(
        &mut target,
        &[
            &format!("CREATE DATABASE `{name}`"),
            &format!("USE `{name}`"),
        ],
    )
    .await;
    run(&mut target, &[&far.table.create_sql()]).await;
    let refused = far.moves().run(LIMIT).await.unwrap();
    check_refused(&refused, &format!("{name}.t"));
    run(&mut target, &["INSERT INTO t (id) VALUES (100000)"]).await;
    let empty = || far.moves().arg("--target-tables").arg("empty");
    check_refused(&empty().run(LIMIT).await.unwrap(), &format!("{name}.t"));
    run(&mut target, &["DELETE FROM t"]).await;
    check_code(&empty().run(LIMIT).await.unwrap(), 0);
    assert_eq!(far.check_rows("_t_oxold", "t").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_copy_is_held_changes_go_on_and_nothing_is_copied() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let gate = Gate::closed();
    let mut running = gate.hold(far.moves()).spawn().unwrap();
    running.wait_phase("copy", LIMIT).await.unwrap();
    let writers = far.writers(2, 41).await;
    writers.wait_for_commits(50, LIMIT).await.unwrap();
    let mut target = far.target_conn().await;
    let rows: Option<u64> = target.query_first("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(rows, Some(0));
    gate.open();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    far.check(&writers.stop().await).await;
}

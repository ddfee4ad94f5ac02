//! What can't succeed is refused with one clear line, and leaves nothing behind.

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    server::{RowImage, ServerOptions},
    tables::TableSpec,
    tool::Oxferry,
};

use crate::world::{LIMIT, World, check_code, postponed};

fn oxferry<'a>(words: impl IntoIterator<Item = &'a str>) -> Oxferry {
    Oxferry::new(words).program(env!("CARGO_BIN_EXE_oxferry"))
}

/// Runs a call that must fail with `code` and name `fact` in its last line.
async fn refuses(world: &World, tool: Oxferry, code: i32, fact: &str) {
    let finished = tool.run(LIMIT).await.unwrap();
    check_code(&finished, code);
    let last = finished
        .lines
        .last()
        .map(|line| line.text.clone())
        .unwrap_or_default();
    assert!(last.contains(fact), "{fact:?} is not in {last:?}");
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_calls_are_named() {
    let world = World::new(TableSpec::sysbench, 10).await;
    let cases = [
        ("ADD COLUMN", 64, "syntax"),
        ("DROP COLUMN nosuch", 64, "nosuch"),
        ("ADD COLUMN k INT", 64, "k"),
        ("DROP PRIMARY KEY, MODIFY id INT NOT NULL", 64, "key"),
        ("DROP COLUMN id", 64, "id"),
        ("RENAME TO other", 64, "RENAME"),
        ("ENGINE=InnoDB, ALGORITHM=INPLACE", 64, "ALGORITHM"),
        ("LOCK=NONE, ADD COLUMN x INT", 64, "LOCK"),
        (
            "ADD COLUMN x INT; DROP TABLE t",
            64,
            "more than one statement",
        ),
        ("", 64, ""),
    ];
    for (clauses, code, fact) in cases {
        refuses(&world, world.migrate(clauses), code, fact).await;
    }
    let moved = "DROP PRIMARY KEY, ADD PRIMARY KEY (k), ADD UNIQUE (id)";
    refuses(&world, world.migrate(moved), 65, "PRIMARY").await;
    let never = world.migrate("ENGINE=InnoDB").arg("--kill-blockers-after");
    refuses(&world, never.arg("3s"), 64, "--lock-wait").await;
    let url = world.schema.url();
    let other = [
        "migrate",
        "--source",
        &url,
        "--table",
        "nosuch",
        "--alter",
        "ENGINE=InnoDB",
    ];
    refuses(&world, oxferry(other), 64, "nosuch").await;
    let view = "CREATE VIEW v AS SELECT * FROM t";
    world.conn().await.query_drop(view).await.unwrap();
    let on_view = [
        "migrate",
        "--source",
        &url,
        "--table",
        "v",
        "--alter",
        "ENGINE=InnoDB",
    ];
    let finished = oxferry(on_view).run(LIMIT).await.unwrap();
    check_code(&finished, 64);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_and_logins_that_do_not_work_are_named() {
    let world = World::new(TableSpec::sysbench, 10).await;
    let port = world.schema.server().port();
    let migrate = |url: String| {
        let words = [
            "migrate",
            "--source",
            &url,
            "--table",
            "t",
            "--alter",
            "ENGINE=InnoDB",
        ];
        oxferry(words)
    };
    let database = world.schema.name();
    let password = format!("mysql://nobody:s3cret@127.0.0.1:{port}/{database}");
    let finished = migrate(password).run(LIMIT).await.unwrap();
    check_code(&finished, 77);
    assert!(!finished.text().contains("s3cret"), "{}", finished.text());
    refuses(
        &world,
        migrate(format!("mysql://root@127.0.0.1:1/{database}")),
        69,
        "127.0.0.1:1",
    )
    .await;
    refuses(
        &world,
        migrate(format!("mysql://root@127.0.0.1:{port}/nosuch")),
        64,
        "nosuch",
    )
    .await;
    refuses(
        &world,
        migrate("postgres://root@127.0.0.1/x".to_owned()),
        64,
        "postgres",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_would_lose_changes_are_refused_all_at_once() {
    let options = ServerOptions::new()
        .row_image(RowImage::Minimal)
        .binlog_order_commits(false);
    let world = World::on(options, TableSpec::sysbench, 10).await;
    let finished = world.migrate("ENGINE=InnoDB").run(LIMIT).await.unwrap();
    check_code(&finished, 77);
    for setting in ["binlog_row_image", "binlog_order_commits"] {
        assert!(finished.text().contains(setting), "{}", finished.text());
    }
    let world = World::on(
        ServerOptions::new().binary_log(false),
        TableSpec::sysbench,
        10,
    )
    .await;
    refuses(&world, world.migrate("ENGINE=InnoDB"), 77, "log_bin").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_exactly_the_listed_privileges_can_migrate() {
    let world = World::new(TableSpec::sysbench, 500).await;
    let (name, port) = (world.schema.name(), world.schema.server().port());
    let user = format!("u_{name}");
    let user = user.get(..user.len().min(32)).unwrap();
    let mut conn = world.conn().await;
    let all = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, LOCK TABLES";
    for statement in [
        format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'"),
        format!("GRANT REPLICATION SLAVE, REPLICATION CLIENT, PROCESS ON *.* TO '{user}'@'%'"),
        format!("GRANT {all} ON `{name}`.* TO '{user}'@'%'"),
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    let url = format!("mysql://{user}@127.0.0.1:{port}/{name}");
    let words = [
        "migrate",
        "--source",
        &url,
        "--table",
        "t",
        "--alter",
        "ENGINE=InnoDB",
    ];
    let migrate = || oxferry(words).env("OXFERRY_SOURCE_PASSWORD", "pw");
    refuses(&world, migrate(), 77, "TRIGGER").await;
    conn.query_drop(format!("GRANT TRIGGER ON `{name}`.* TO '{user}'@'%'"))
        .await
        .unwrap();
    check_code(&migrate().run(LIMIT).await.unwrap(), 0);
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_this_version_cannot_carry_over_are_refused() {
    let world = World::new(TableSpec::sysbench, 10).await;
    let mut conn = world.conn().await;
    conn.query_drop("ALTER TABLE t DROP PRIMARY KEY, MODIFY id INT NOT NULL")
        .await
        .unwrap();
    refuses(&world, world.migrate("ENGINE=InnoDB"), 64, "key").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_for_a_new_unique_key_end_the_job_and_leave_the_source_alone() {
    let world = World::new(TableSpec::sysbench, 1_000).await;
    world
        .conn()
        .await
        .query_drop("UPDATE t SET k = 5 WHERE id IN (10, 20)")
        .await
        .unwrap();
    let finished = world
        .migrate("ADD UNIQUE KEY u (k)")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 65);
    let text = finished.text();
    for fact in ["unique index u", "duplicate (", "keys ", "SELECT v1"] {
        assert!(text.contains(fact), "{text}");
    }
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
    let rows: Option<u64> = world
        .conn()
        .await
        .query_first("SELECT COUNT(*) FROM t")
        .await
        .unwrap();
    assert_eq!(rows, Some(1_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_ddl_in_mid_run_stops_the_job() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let running = postponed(world.migrate("ADD COLUMN extra INT")).await;
    world
        .conn()
        .await
        .query_drop("ALTER TABLE t ADD COLUMN foreign_one INT")
        .await
        .unwrap();
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 74);
    assert!(
        finished.text().contains("foreign_one"),
        "{}",
        finished.text()
    );
}

/// A duplicate that comes after the new unique index was built.
#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_that_arrives_in_mid_run_ends_the_job_and_loses_no_row() {
    let world = World::new(TableSpec::sysbench, 1_000).await;
    let mut conn = world.conn().await;
    conn.query_drop("UPDATE t SET k = id").await.unwrap();
    let running = postponed(world.migrate("ADD UNIQUE KEY u (k)")).await;
    // Values may change places within a transaction.
    for statement in [
        "BEGIN",
        "UPDATE t SET k = -1 WHERE id = 10",
        "UPDATE t SET k = 10 WHERE id = 11",
        "UPDATE t SET k = 11 WHERE id = 10",
        "COMMIT",
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    oxferry_testkit::wait::eventually(LIMIT, "the exchange on the new table", async || {
        let mut conn = world.conn().await;
        let k: Option<i64> = conn
            .query_first("SELECT k FROM _t_oxnew WHERE id = 10")
            .await
            .unwrap();
        (k == Some(11)).then_some(())
    })
    .await
    .unwrap();
    conn.query_drop("UPDATE t SET k = 5 WHERE id = 77")
        .await
        .unwrap();
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 65);
    assert!(
        finished.text().contains("Duplicate entry"),
        "{}",
        finished.text()
    );
    let rows: Option<u64> = conn.query_first("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(rows, Some(1_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_was_changed_behind_the_binary_log_stops_the_cutover() {
    let world = World::new(TableSpec::sysbench, 1_000).await;
    let running = postponed(world.migrate("ADD COLUMN extra INT")).await;
    let mut conn = world.conn().await;
    for statement in [
        "SET SESSION sql_log_bin = 0",
        "ALTER TABLE t MODIFY k INT NOT NULL DEFAULT 9",
        "DROP TABLE _t_oxsentinel",
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 74);
    assert!(
        finished.text().contains("was changed"),
        "{}",
        finished.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_depends_on_the_time_zone_is_refused_outside_utc() {
    let options = ServerOptions::new().arg("--default-time-zone=+02:00");
    let world = World::on(options, TableSpec::sysbench, 10).await;
    let add = "ALTER TABLE t ADD COLUMN at TIMESTAMP NULL";
    world.conn().await.query_drop(add).await.unwrap();
    refuses(&world, world.migrate("MODIFY at DATETIME"), 64, "time zone").await;
    check_code(
        &world
            .migrate("MODIFY at TIMESTAMP(3) NULL")
            .run(LIMIT)
            .await
            .unwrap(),
        0,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_would_compute_in_another_time_zone_is_refused() {
    let options = ServerOptions::new().arg("--default-time-zone=+02:00");
    let world = World::on(options, TableSpec::sysbench, 10).await;
    let now = "ADD COLUMN d DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP";
    refuses(&world, world.migrate(now), 64, "column d").await;
    let mut conn = world.conn().await;
    let literal = "ADD COLUMN at TIMESTAMP NOT NULL DEFAULT '2000-01-01 00:00:01'";
    check_code(&world.migrate(literal).run(LIMIT).await.unwrap(), 0);
    let read = "SELECT DISTINCT CAST(at AS CHAR) FROM t";
    let at: Vec<String> = conn.query(read).await.unwrap();
    assert_eq!(at, ["2000-01-01 00:00:01"]);
    let computed = "ALTER TABLE t ADD COLUMN h INT AS (HOUR(at)) STORED";
    conn.query_drop(computed).await.unwrap();
    refuses(&world, world.migrate("ENGINE=InnoDB"), 64, "TIMESTAMP").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_engine_is_refused_before_anything_is_made() {
    let world = World::new(TableSpec::sysbench, 10).await;
    for engine in ["MyISAM", "MEMORY", "BLACKHOLE"] {
        let clauses = format!("ENGINE={engine}");
        refuses(&world, world.migrate(&clauses), 64, "only InnoDB").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_table_that_somebody_emptied_never_takes_over() {
    let world = World::new(TableSpec::sysbench, 1_000).await;
    let running = postponed(world.migrate("ADD COLUMN extra INT")).await;
    let mut conn = world.conn().await;
    conn.query_drop("TRUNCATE _t_oxnew").await.unwrap();
    conn.query_drop("DROP TABLE _t_oxsentinel").await.unwrap();
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 74);
    assert!(
        finished.text().contains("somebody else wrote"),
        "{}",
        finished.text()
    );
    let rows: Option<u64> = conn.query_first("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(rows, Some(1_000));
}

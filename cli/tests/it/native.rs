//! What the server changes by itself, and what must be copied nevertheless.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    tables::TableSpec,
    tool::{Finished, Oxferry, Signal},
};

use crate::world::{LIMIT, World, check_code};

/// A table of a few rows with indexes, in a database of its own.
async fn world() -> World {
    World::new(TableSpec::sysbench, 300).await
}

/// `oxferry migrate` of the table, at once where the server can do so.
fn migrate(world: &World, clauses: &str) -> Oxferry {
    let oxferry = world.oxferry("migrate").arg("--table").arg("t");
    oxferry.arg("--alter").arg(clauses)
}

async fn run(world: &World, clauses: &str) -> Finished {
    migrate(world, clauses).run(LIMIT).await.unwrap()
}

#[track_caller]
fn check_says(finished: &Finished, facts: &[&str]) {
    for fact in facts {
        let text = finished.text();
        assert!(text.contains(fact), "{fact} is missing in:\n{text}");
    }
}

async fn sql(world: &World, statement: &str) {
    world.conn().await.query_drop(statement).await.unwrap();
}

async fn create_statement(world: &World) -> String {
    let row: Option<(String, String)> = world
        .conn()
        .await
        .query_first("SHOW CREATE TABLE t")
        .await
        .unwrap();
    row.unwrap().1
}

/// How often the table was changed instantly, and the server's number for it.
async fn versions(world: &World) -> (u64, u64) {
    let name = format!("{}/t", world.schema.name());
    let query =
        "SELECT TOTAL_ROW_VERSIONS, TABLE_ID FROM information_schema.INNODB_TABLES WHERE NAME = ?";
    let row: Option<(u64, u64)> = world.conn().await.exec_first(query, (name,)).await.unwrap();
    row.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_is_added_instantly() {
    let world = world().await;
    let (_, id) = versions(&world).await;
    let finished = run(&world, "ADD COLUMN extra INT NOT NULL DEFAULT 7").await;
    check_code(&finished, 0);
    check_says(
        &finished,
        &["phase=native-ddl", "algorithm=INSTANT", "phase=done"],
    );
    assert!(!finished.text().contains("phase=copy"));
    assert_eq!(versions(&world).await, (1, id));
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_dropped_in_place_and_added_by_a_copy() {
    let world = world().await;
    let (_, id) = versions(&world).await;
    let finished = run(&world, "DROP INDEX k_1, ALTER k SET DEFAULT 3").await;
    check_code(&finished, 0);
    check_says(&finished, &["algorithm=INPLACE"]);
    assert_eq!(versions(&world).await.1, id);
    let finished = run(&world, "ADD INDEX k_2 (k)").await;
    check_code(&finished, 0);
    check_says(&finished, &["builds an index", "phase=copy"]);
    assert_ne!(versions(&world).await.1, id);
    assert!(create_statement(&world).await.contains("KEY `k_2`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn index_statements_are_run_like_their_clauses() {
    let world = world().await;
    let statement = |sql: &str| world.oxferry("migrate").arg("--statement").arg(sql);
    let dropped = statement("DROP INDEX k_1 ON t").run(LIMIT).await.unwrap();
    check_code(&dropped, 0);
    check_says(&dropped, &["algorithm=INPLACE"]);
    let create = "CREATE INDEX `k 2` ON t (k DESC) COMMENT 'it''s 100 %, RENAME'";
    check_code(&statement(create).run(LIMIT).await.unwrap(), 0);
    let made = create_statement(&world).await;
    assert!(
        made.contains("KEY `k 2` (`k` DESC) COMMENT 'it''s 100 %, RENAME'"),
        "{made}"
    );
    let refused = statement("CREATE INDEX k_3 ON t (k) ALGORITHM=INPLACE");
    check_code(&refused.run(LIMIT).await.unwrap(), 64);
    assert_eq!(create_statement(&world).await, made);
}

#[tokio::test(flavor = "multi_thread")]
async fn used_up_instant_changes_are_followed_by_a_copy_that_starts_the_count_anew() {
    let world = world().await;
    let mut conn = world.conn().await;
    loop {
        let (add, drop) = (
            "ALTER TABLE t ALGORITHM=INSTANT, ADD COLUMN x INT",
            "ALTER TABLE t ALGORITHM=INSTANT, DROP COLUMN x",
        );
        if conn.query_drop(add).await.is_err() || conn.query_drop(drop).await.is_err() {
            break;
        }
    }
    let (used, id) = versions(&world).await;
    assert!(used >= 64, "{used}");
    let finished = run(&world, "ADD COLUMN extra INT").await;
    check_code(&finished, 0);
    check_says(&finished, &["instant changes", "phase=copy"]);
    let (used, now) = versions(&world).await;
    assert_eq!(used, 0);
    assert_ne!(now, id);
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_cannot_be_copied_can_still_be_changed_at_once() {
    let world = world().await;
    sql(&world, "CREATE TABLE bare (a INT, b VARCHAR(10), KEY (a))").await;
    sql(
        &world,
        "CREATE TRIGGER tr BEFORE INSERT ON bare FOR EACH ROW SET NEW.a = 1",
    )
    .await;
    let bare = |clauses: &str| {
        let oxferry = world.oxferry("migrate").arg("--table").arg("bare");
        oxferry.arg("--alter").arg(clauses)
    };
    let finished = bare("ADD c INT").run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    check_says(&finished, &["algorithm=INSTANT"]);
    let copied = bare("ADD INDEX (b)").run(LIMIT).await.unwrap();
    check_code(&copied, 64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_key_is_dropped_in_place() {
    let world = world().await;
    sql(&world, "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES t (id))").await;
    let finished = world
        .oxferry("migrate")
        .arg("--table")
        .arg("child")
        .arg("--alter")
        .arg("DROP FOREIGN KEY f, DROP INDEX f")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 0);
    check_says(&finished, &["algorithm=INPLACE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_only_a_copy_can_honour_make_one() {
    let world = world().await;
    for options in [&["--native-ddl", "off"][..], &["--keep-old-table"][..]] {
        let change = migrate(&world, "ADD COLUMN extra INT");
        let change = options
            .iter()
            .fold(change, |change, option| change.arg(*option));
        let finished = change.run(LIMIT).await.unwrap();
        check_code(&finished, 0);
        check_says(&finished, &["phase=copy"]);
        sql(&world, "ALTER TABLE t DROP COLUMN extra").await;
        sql(&world, "DROP TABLE IF EXISTS _t_oxold").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_chooses_the_algorithm_is_refused() {
    let world = world().await;
    let before = create_statement(&world).await;
    for clauses in ["ADD x INT, ALGORITHM=INSTANT", "DROP INDEX k_1, LOCK=NONE"] {
        check_code(&run(&world, clauses).await, 64);
    }
    assert_eq!(create_statement(&world).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_which_algorithm_it_would_be_and_changes_nothing() {
    let world = world().await;
    let before = create_statement(&world).await;
    let versions_before = versions(&world).await;
    let url = world.schema.url();
    for (clauses, fact) in [
        ("ADD x INT", "algorithm=INSTANT"),
        ("DROP INDEX k_1", "algorithm=INPLACE"),
        ("ADD INDEX (pad)", "builds an index"),
        ("FORCE", "written anew"),
    ] {
        let words = [
            "plan", "migrate", "--source", &url, "--table", "t", "--alter", clauses,
        ];
        let plan = Oxferry::new(words).program(env!("CARGO_BIN_EXE_oxferry"));
        let finished = plan.run(LIMIT).await.unwrap();
        check_code(&finished, 0);
        check_says(&finished, &[fact]);
        assert_eq!(create_statement(&world).await, before, "{clauses}");
        assert_eq!(versions(&world).await, versions_before, "{clauses}");
        assert_eq!(world.tables_beside().await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_transaction_is_waited_for_in_short_turns_and_named() {
    let world = world().await;
    let mut holder = world.conn().await;
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT COUNT(*) FROM t").await.unwrap();
    let migrate = world
        .migrate("ADD COLUMN extra INT")
        .arg("--lock-wait")
        .arg("1s");
    let mut running = migrate.spawn().unwrap();
    let put_off = running.wait_line("put off", LIMIT).await.unwrap();
    let named = format!("session {} (", holder.id());
    assert!(put_off.text.contains(&named), "{}", put_off.text);
    // A statement waits behind the change for a lock wait at most.
    let mut reader = world.conn().await;
    reader
        .query_drop("SET SESSION lock_wait_timeout = 3")
        .await
        .unwrap();
    reader
        .query_drop("UPDATE t SET k = k + 1 WHERE id = 5")
        .await
        .unwrap();
    holder.query_drop("COMMIT").await.unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    assert!(create_statement(&world).await.contains("`extra`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_ended_where_that_is_asked_for() {
    let world = world().await;
    let mut holder = world.conn().await;
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT COUNT(*) FROM t").await.unwrap();
    let finished = migrate(&world, "ADD COLUMN extra INT")
        .arg("--kill-blockers-after")
        .arg("500ms");
    let finished = finished.run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    check_says(&finished, &["ended: it held up", "algorithm=INSTANT"]);
    assert!(holder.query_drop("SELECT 1").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_built_copy_is_resumed_rather_than_passed_over() {
    let world = world().await;
    let limited = migrate(&world, "ADD COLUMN extra INT")
        .arg("--defer-cutover")
        .arg("--defer-cutover-limit")
        .arg("1s")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&limited, 75);
    sql(&world, "DROP TABLE _t_oxsentinel").await;
    // The same statement in other words is the same job.
    let resumed = world
        .oxferry("migrate")
        .arg("--statement")
        .arg("alter table `t`  add column `extra` int -- again")
        .run(Duration::from_secs(120))
        .await
        .unwrap();
    check_code(&resumed, 0);
    check_says(&resumed, &["an earlier run has begun to copy", "resumes"]);
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
}

/// Three statements: two that the server carries out, and a copy between them.
fn three(world: &World) -> Oxferry {
    [
        "ALTER TABLE a ADD x INT",
        "ALTER TABLE t FORCE",
        "DROP INDEX k ON b",
    ]
    .into_iter()
    .fold(world.oxferry("migrate"), |oxferry, statement| {
        oxferry.arg("--statement").arg(statement)
    })
}

async fn world_of_three() -> World {
    let world = world().await;
    sql(&world, "CREATE TABLE a (id INT PRIMARY KEY)").await;
    sql(
        &world,
        "CREATE TABLE b (id INT PRIMARY KEY, k INT, KEY k (k))",
    )
    .await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_tables_some_are_changed_at_once_and_the_rest_is_copied() {
    let world = world_of_three().await;
    let (_, id) = versions(&world).await;
    let finished = three(&world).run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    check_says(
        &finished,
        &["algorithm=INSTANT", "algorithm=INPLACE", "phase=copy"],
    );
    assert_ne!(versions(&world).await.1, id);
    assert_eq!(world.tables_beside().await, ["a", "b"]);
    let mut conn = world.conn().await;
    let x: Vec<mysql_async::Row> = conn.query("SHOW COLUMNS FROM a LIKE 'x'").await.unwrap();
    let k: Vec<mysql_async::Row> = conn
        .query("SHOW INDEX FROM b WHERE Key_name = 'k'")
        .await
        .unwrap();
    assert_eq!((x.len(), k.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn none_of_several_tables_is_changed_when_one_is_refused() {
    let world = world_of_three().await;
    sql(
        &world,
        "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.k = 1",
    )
    .await;
    sql(
        &world,
        "ALTER TABLE t DROP PRIMARY KEY, MODIFY id INT NOT NULL",
    )
    .await;
    check_code(&three(&world).run(LIMIT).await.unwrap(), 64);
    let mut conn = world.conn().await;
    let x: Vec<mysql_async::Row> = conn.query("SHOW COLUMNS FROM a LIKE 'x'").await.unwrap();
    assert_eq!(x.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn none_of_several_tables_is_changed_when_triggers_or_rows_of_another_are_in_the_way() {
    let world = world_of_three().await;
    sql(
        &world,
        "CREATE TRIGGER tr BEFORE UPDATE ON t FOR EACH ROW SET @c = NEW.c",
    )
    .await;
    sql(&world, "UPDATE t SET pad = 'same' WHERE id < 3").await;
    for (change, code, fact) in [
        ("DROP COLUMN c, FORCE", 64, "Unknown column 'c'"),
        ("ADD UNIQUE (pad), FORCE", 65, "duplicate ('same')"),
    ] {
        let finished = world
            .oxferry("migrate")
            .arg("--statement")
            .arg("ALTER TABLE a ADD x INT")
            .arg("--statement")
            .arg(format!("ALTER TABLE t {change}"))
            .run(LIMIT)
            .await
            .unwrap();
        check_code(&finished, code);
        check_says(&finished, &[fact]);
    }
    let mut conn = world.conn().await;
    let x: Vec<mysql_async::Row> = conn.query("SHOW COLUMNS FROM a LIKE 'x'").await.unwrap();
    assert_eq!(x.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_resumed_after_other_tables_were_changed_at_once() {
    let world = world_of_three().await;
    let mut holder = world.conn().await;
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT COUNT(*) FROM t").await.unwrap();
    let mut running = three(&world).arg("--lock-wait").arg("1s").spawn().unwrap();
    running.wait_phase("cutover", LIMIT).await.unwrap();
    running.signal(Signal::SIGKILL).unwrap();
    running.wait_exit(LIMIT).await.unwrap();
    holder.query_drop("COMMIT").await.unwrap();
    let resumed = three(&world).run(LIMIT).await.unwrap();
    check_code(&resumed, 0);
    check_says(
        &resumed,
        &["was changed at once by an earlier run", "resumes"],
    );
    assert_eq!(world.tables_beside().await, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_are_carried_over_a_copy_and_changed_by_their_names() {
    let world = world().await;
    for check in [
        "ADD CHECK (k >= 0)",
        "ADD CONSTRAINT pos CHECK (k > -5)",
        "ADD CONSTRAINT gone CHECK (k > -9)",
    ] {
        sql(&world, &format!("ALTER TABLE t {check}")).await;
    }
    let change = "DROP CHECK gone, ADD CONSTRAINT fresh CHECK (k > -7), FORCE";
    let finished = run(&world, change).await;
    check_code(&finished, 0);
    check_says(&finished, &["check=\"pos\"", "becomes=\"_pos\""]);
    let made = create_statement(&world).await;
    for line in [
        "CONSTRAINT `_pos` CHECK ((`k` > -(5)))",
        "CONSTRAINT `fresh` CHECK ((`k` > -(7)))",
        "CONSTRAINT `t_chk_1` CHECK ((`k` >= 0))",
    ] {
        assert!(made.contains(line), "{line}: {made}");
    }
    assert!(!made.contains("gone"), "{made}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_key_is_not_dropped_by_a_copy() {
    let world = world().await;
    let before = create_statement(&world).await;
    let finished = run(&world, "DROP FOREIGN KEY f, FORCE").await;
    check_code(&finished, 64);
    check_says(&finished, &["DROP FOREIGN KEY is for the server"]);
    assert_eq!(create_statement(&world).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_refuses_on_the_live_table_alone_is_done_otherwise() {
    let world = world().await;
    // The empty copy lacks the foreign key, and the row numbers that a dropped
    // full-text index leaves behind.
    sql(
        &world,
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (id))",
    )
    .await;
    let renamed = run(&world, "RENAME COLUMN id TO number").await;
    check_code(&renamed, 0);
    check_says(
        &renamed,
        &["refuses on the live table", "algorithm=INPLACE"],
    );
    sql(
        &world,
        "CREATE TABLE text (id INT PRIMARY KEY, a TEXT, FULLTEXT KEY f (a))",
    )
    .await;
    sql(&world, "ALTER TABLE text DROP INDEX f").await;
    let added = world
        .oxferry("migrate")
        .arg("--table")
        .arg("text")
        .arg("--alter")
        .arg("ADD z INT")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&added, 0);
    check_says(
        &added,
        &[
            "refuses on the live table",
            "is copied instead",
            "phase=copy",
        ],
    );
}

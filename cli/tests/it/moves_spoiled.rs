//! Rows of a move's target that somebody else, or a trigger, has changed.

use oxferry_testkit::{
    tables::TableSpec,
    tool::{Finished, Running, Signal},
};

use crate::{
    far::{Far, run},
    held::{Gate, wait_for_one},
    world::{LIMIT, check_code},
};

/// Databases with `t`, and a table whose key has two columns.
async fn far() -> Far {
    let far = Far::new(TableSpec::sysbench, 300).await;
    let pairs = [
        "CREATE TABLE pairs (a INT, b VARCHAR(9), v INT, PRIMARY KEY (a, b))",
        "INSERT INTO pairs SELECT id, CONCAT('k', id), id FROM t",
    ];
    run(&mut far.source.conn().await.unwrap(), &pairs).await;
    far
}

async fn postponed(far: &Far, more: &[&str]) -> Running {
    let moves = far.moves().arg("--cutover").arg("manual");
    let moves = more.iter().fold(moves, |moves, word| moves.arg(*word));
    let mut running = moves.spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    running
}

fn check_told(finished: &Finished, code: i32, facts: &[&str]) {
    check_code(finished, code);
    let text = finished.text();
    for fact in facts {
        assert!(text.contains(fact), "{fact:?} is not in:\n{text}");
    }
    assert!(!text.contains("phase=done"), "{text}");
}

/// Checks that nothing was switched.
async fn check_source_stands(far: &Far) {
    let (here, _) = far.tables().await;
    assert!(here.contains(&"t".to_owned()), "{here:?}");
}

/// What tells which row differs, and how.
fn different(key: &str) -> String {
    format!("key {key} of test_")
}

const ALLOWED: [&str; 2] = ["--detect-foreign-writes", "off"];

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_spoils_one_copied_row_ends_the_move_with_its_key() {
    let far = far().await;
    for (trigger, key, table) in [
        (
            "CREATE TRIGGER spoil BEFORE INSERT ON t FOR EACH ROW \
             SET NEW.c = IF(NEW.id = 77, 'spoiled', NEW.c)",
            "77",
            "t",
        ),
        (
            "CREATE TRIGGER spoil BEFORE INSERT ON pairs FOR EACH ROW \
             SET NEW.v = IF(NEW.a = 5, -1, NEW.v)",
            "(5, 'k5')",
            "pairs",
        ),
    ] {
        let gate = Gate::closed();
        let moves = gate.hold(far.moves()).arg("--fresh").arg("--yes");
        let moves = ALLOWED.iter().fold(moves, |moves, word| moves.arg(*word));
        let mut running = moves.spawn().unwrap();
        running.wait_phase("copy", LIMIT).await.unwrap();
        run(&mut far.target_conn().await, &[trigger]).await;
        gate.open();
        let finished = running.wait_exit(LIMIT).await.unwrap();
        let row = format!("key {key} is different: source ");
        let table = format!("{}.{table}", far.source.name());
        let facts = [&*row, &table, ", target ", "trigger"];
        check_told(&finished, 65, &facts);
        check_source_stands(&far).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_spoils_one_streamed_row_ends_the_move_with_its_key() {
    let far = far().await;
    for (triggers, change, key, table) in [
        (
            "CREATE TRIGGER spoil BEFORE {} ON t FOR EACH ROW \
             SET NEW.c = IF(NEW.id = 901, 'spoiled', NEW.c)",
            "INSERT INTO t (id, c) VALUES (900, 'sound'), (901, 'to be spoiled')",
            "901",
            "t",
        ),
        (
            "CREATE TRIGGER spoil BEFORE {} ON pairs FOR EACH ROW \
             SET NEW.v = IF(NEW.a = 9, -1, NEW.v)",
            "UPDATE pairs SET v = 4 WHERE a = 9",
            "(9, 'k9')",
            "pairs",
        ),
    ] {
        let running = postponed(&far, &[&["--fresh", "--yes"], &ALLOWED[..]].concat()).await;
        let mut target = far.target_conn().await;
        for event in ["INSERT", "UPDATE"] {
            let trigger = triggers
                .replace("{}", event)
                .replace("spoil", &format!("spoil_{event}"));
            run(&mut target, &[&trigger]).await;
        }
        run(&mut far.source.conn().await.unwrap(), &[change]).await;
        run(&mut target, &["DROP TABLE _pairs_oxsentinel"]).await;
        let finished = running.wait_exit(LIMIT).await.unwrap();
        let row = different(key);
        let table = format!("{}.{table}", far.source.name());
        let facts = [
            &*row,
            &table,
            "is different: source ",
            ", target ",
            "trigger",
        ];
        check_told(&finished, 65, &facts);
        check_source_stands(&far).await;
        run(
            &mut far.source.conn().await.unwrap(),
            &["DELETE FROM t WHERE id > 300"],
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_else_writes_to_the_target_ends_the_move_at_once() {
    let far = far().await;
    for (write, key, table) in [
        ("UPDATE t SET c = 'meddled' WHERE id = 42", "42", "t"),
        ("DELETE FROM pairs WHERE a = 7", "(7, 'k7')", "pairs"),
        ("INSERT INTO t (id) VALUES (-5)", "-5", "t"),
    ] {
        let running = postponed(&far, &["--fresh", "--yes"]).await;
        run(&mut far.target_conn().await, &[write]).await;
        let finished = running.wait_exit(LIMIT).await.unwrap();
        let table = format!("{}.{table}", far.source.name());
        check_told(&finished, 74, &["somebody else", &table, key]);
        check_source_stands(&far).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_else_wrote_while_the_move_was_down_ends_it() {
    let far = far().await;
    for (signal, key) in [(Signal::SIGKILL, 42), (Signal::SIGTERM, 43)] {
        let running = postponed(&far, &["--fresh", "--yes"]).await;
        running.signal(signal).unwrap();
        running.wait_exit(LIMIT).await.unwrap();
        let mut target = far.target_conn().await;
        let write = format!("UPDATE t SET c = 'meddled' WHERE id = {key}");
        run(&mut target, &[&write]).await;
        // The log that tells of it is no more the last one.
        run(&mut target, &["FLUSH BINARY LOGS"]).await;
        let moves = far.moves().arg("--cutover").arg("manual");
        let finished = moves.run(LIMIT).await.unwrap();
        let table = format!("{}.t", far.source.name());
        check_told(&finished, 74, &["somebody else", &table, &key.to_string()]);
        check_source_stands(&far).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_somebody_else_changes_outside_the_log_ends_the_move() {
    let far = far().await;
    for (change, told) in [
        ("ALTER TABLE t DROP INDEX k_1", "KEY `k_1` (`k`) is gone"),
        (
            "ALTER TABLE t ADD UNIQUE INDEX once (id, k)",
            "UNIQUE KEY `once`",
        ),
        (
            "ALTER TABLE t MODIFY c VARCHAR(500) COLLATE utf8mb4_bin",
            "`c` varchar(500)",
        ),
        (
            "ALTER TABLE pairs COMMENT 'meddled'",
            "COMMENT='meddled' is new",
        ),
        (
            "CREATE TRIGGER later AFTER DELETE ON pairs FOR EACH ROW SET @x = 1",
            "made trigger later on",
        ),
    ] {
        let running = postponed(&far, &["--fresh", "--yes"]).await;
        let mut target = far.target_conn().await;
        run(&mut target, &["SET SESSION sql_log_bin = 0", change]).await;
        run(&mut target, &["DROP TABLE _pairs_oxsentinel"]).await;
        let finished = running.wait_exit(LIMIT).await.unwrap();
        check_told(&finished, 74, &["somebody else", told]);
        check_source_stands(&far).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_others_may_write_are_mended_by_the_comparison() {
    let far = far().await;
    let running = postponed(&far, &ALLOWED).await;
    running.signal(Signal::SIGTERM).unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 130);
    let mut target = far.target_conn().await;
    let writes = [
        "UPDATE t SET c = 'meddled' WHERE id = 42",
        "DELETE FROM t WHERE id = 43",
        "INSERT INTO t (id) VALUES (999)",
        "DROP TABLE _pairs_oxsentinel",
    ];
    run(&mut target, &writes).await;
    let moves = far.moves().arg("--cutover").arg("manual");
    let moves = ALLOWED.iter().fold(moves, |moves, word| moves.arg(*word));
    check_code(&moves.run(LIMIT).await.unwrap(), 0);
    far.check_rows("_t_oxold", "t").await;
    wait_for_one(&mut target, "SELECT COUNT(*) FROM t WHERE id = 43").await;
}

//! What other moves left is theirs: another target's, another table's, or that of a
//! move that is still at work.

use std::path::Path;

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    server::Server,
    tool::{Oxferry, Running, Signal},
};

use crate::{
    far::{run, target_options},
    held::wait_for_one,
    own::Own,
    world::{LIMIT, check_code},
};

/// Database `e` with a table of its own, beside `d`.
async fn with_another(own: &Own) {
    let other = [
        "CREATE DATABASE e",
        "CREATE TABLE e.t (id INT PRIMARY KEY)",
        "INSERT INTO e.t VALUES (1), (2), (3)",
    ];
    run(&mut own.source.conn().await.unwrap(), &other).await;
}

/// `oxferry COMMAND` between the source and a server, with these options.
fn call(own: &Own, target: &Server, command: &str, options: &[&str]) -> Oxferry {
    let (source, target) = (own.source.url(), target.url());
    let words = [command, "--source", &source, "--target", &target];
    Oxferry::new([&words, options].concat()).program(env!("CARGO_BIN_EXE_oxferry"))
}

async fn killed_in(mut running: Running, phase: &str) {
    running.wait_phase(phase, LIMIT).await.unwrap();
    running.signal(Signal::SIGKILL).unwrap();
    assert_eq!(running.wait_exit(LIMIT).await.unwrap().code, None);
}

async fn count(server: &Server, table: &str) -> u64 {
    let query = format!("SELECT COUNT(*) FROM {table}");
    let mut conn = server.conn().await.unwrap();
    conn.query_first(query).await.unwrap().unwrap()
}

const RENAME: [&str; 2] = ["--lock-source", "rename"];

fn state(file: &Path) -> [&str; 2] {
    ["--state", file.to_str().unwrap()]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_file_of_another_target_lets_no_table_there_be_dropped() {
    let own = Own::new(50).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    let common = [&["--database", "d"][..], &RENAME, &state(&file)].concat();
    let manual = [&common[..], &["--cutover", "manual"]].concat();
    let running = call(&own, &own.target, "move", &manual).spawn().unwrap();
    killed_in(running, "deferred").await;
    let other = Server::start(target_options()).await.unwrap();
    let theirs = [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "INSERT INTO d.t VALUES (77), (78)",
    ];
    run(&mut other.conn().await.unwrap(), &theirs).await;
    let refused = call(&own, &other, "move", &common)
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&refused, 74);
    let fresh = [&common[..], &["--fresh", "--yes"]].concat();
    let refused = call(&own, &other, "move", &fresh).run(LIMIT).await.unwrap();
    check_code(&refused, 64);
    assert!(
        refused.text().contains("exists on the target"),
        "{}",
        refused.text()
    );
    assert_eq!(count(&other, "d.t").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_back_is_not_given_up_by_a_move_of_other_tables() {
    let own = Own::new(50).await;
    with_another(&own).await;
    let shop = [&["--database", "d", "--reverse-for", "1h"][..], &RENAME].concat();
    let running = call(&own, &own.target, "move", &shop).spawn().unwrap();
    killed_in(running, "reverse").await;
    // It would take the tables of both, or some of the first one's only.
    let all = call(&own, &own.target, "move", &RENAME)
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&all, 64);
    assert!(all.text().contains("didn't move e.t"), "{}", all.text());
    let rest = [&["--exclude", "d"][..], &RENAME].concat();
    let rest = call(&own, &own.target, "move", &rest)
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&rest, 0);
    assert_eq!(count(&own.target, "e.t").await, 3);
    // The way is open still, and leads back.
    let mut running = call(&own, &own.target, "move", &shop).spawn().unwrap();
    running.wait_phase("reverse", LIMIT).await.unwrap();
    let back = [
        "INSERT INTO d.t (k, c, pad) VALUES (1, 'a', 'b')",
        "CREATE TABLE d._t_oxreverse (a INT)",
    ];
    run(&mut own.target.conn().await.unwrap(), &back).await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    assert_eq!(count(&own.source, "d.t").await, 51);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cleanup_goes_by_what_a_move_has_come_to_meanwhile() {
    let own = Own::new(50).await;
    let first = ["CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY)"];
    run(&mut own.source.conn().await.unwrap(), &first).await;
    let postponed = |database: &str| {
        let options = ["--database", database, "--cutover", "manual"];
        let options = [&options[..], &RENAME].concat();
        call(&own, &own.target, "move", &options).spawn().unwrap()
    };
    killed_in(postponed("a"), "deferred").await;
    let mut running = postponed("d");
    running.wait_phase("deferred", LIMIT).await.unwrap();
    let mut blocker = own.target.conn().await.unwrap();
    run(&mut blocker, &["LOCK TABLES a.t READ"]).await;
    let cleanup = call(&own, &own.target, "cleanup", &["--execute"])
        .spawn()
        .unwrap();
    let mut target = own.target.conn().await.unwrap();
    let waits = "SELECT COUNT(*) > 0 FROM performance_schema.metadata_locks \
                 WHERE OBJECT_SCHEMA = 'a' AND OBJECT_NAME = 't' AND LOCK_STATUS = 'PENDING'";
    wait_for_one(&mut target, waits).await;
    // Until it comes to the other move, that one has made its switch.
    run(&mut target, &["DROP TABLE d._t_oxsentinel"]).await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    run(
        &mut target,
        &["INSERT INTO d.t (k, c, pad) VALUES (1, 'a', 'b')"],
    )
    .await;
    run(&mut blocker, &["UNLOCK TABLES"]).await;
    let cleaned = cleanup.wait_exit(LIMIT).await.unwrap();
    assert_eq!(count(&own.target, "d.t").await, 51, "{}", cleaned.text());
}

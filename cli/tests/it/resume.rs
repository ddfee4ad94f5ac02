//! Jobs that were ended early go on where they stopped.

use std::time::Duration;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_testkit::{
    tables::TableSpec,
    tool::{Running, Signal},
    writer::Writers,
};

use crate::world::{LIMIT, World, check_code, options, postponed};

const CLAUSES: &str = "ADD COLUMN extra INT NOT NULL DEFAULT 7";

/// What became of a job that was to be killed.
#[derive(PartialEq)]
enum Fate {
    Killed,
    /// It came to its end before.
    Done,
}

/// Runs the job and kills it somewhere inside `phase`: after `commits` more
/// commits of the writers.
async fn kill_in(world: &World, writers: &Writers, (phase, commits): (&str, u64)) -> Fate {
    let migrate = world.migrate(CLAUSES).arg("--keep-old-table");
    let mut running = migrate.spawn().unwrap();
    if running.wait_phase(phase, LIMIT).await.is_err() {
        // Nothing but the cleaning up was left: it has ended by itself.
        check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
        return Fate::Done;
    }
    writers.wait_for_commits(commits, LIMIT).await.unwrap();
    // It may have ended by itself already.
    let _gone = running.signal(Signal::SIGKILL);
    let finished = running.wait_exit(LIMIT).await.unwrap();
    if finished.code == Some(0) {
        return Fate::Done;
    }
    assert_eq!(finished.code, None, "{}", finished.text());
    Fate::Killed
}

/// Kills the job in one phase after the other, until it ends by itself or was
/// killed after its last statement.
async fn survives_kills(world: &World, kills: u32) {
    let writers = world.writers(3, 17).await;
    let phases = [
        "prepare", "copy", "catch-up", "analyze", "verify", "cutover",
    ];
    let mut dice = fastrand::Rng::with_seed(23);
    let mut landed = 0;
    for _ in 0..kills {
        let moment = (*dice.choice(phases.iter()).unwrap(), dice.u64(0..40));
        if kill_in(world, &writers, moment).await == Fate::Done {
            break;
        }
        landed += 1;
        if world.tables_beside().await == ["_t_oxold"] {
            break;
        }
    }
    assert!(landed > 0, "no kill landed while the job was at work");
    if world.tables_beside().await != ["_t_oxold"] {
        let migrate = world.migrate(CLAUSES).arg("--keep-old-table");
        check_code(&migrate.run(LIMIT).await.unwrap(), 0);
    }
    writers.wait_for_commits(20, LIMIT).await.unwrap();
    world.check_against_old(&writers.stop().await).await;
    assert_eq!(world.tables_beside().await, ["_t_oxold"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_at_any_moment_loses_nothing_with_gtids() {
    survives_kills(&World::new(TableSpec::sysbench, 20_000).await, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_at_any_moment_loses_nothing_without_gtids() {
    let world = World::on(options().gtid(false), TableSpec::with_unique, 20_000).await;
    survives_kills(&world, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_can_be_resumed_twice() {
    let world = World::new(TableSpec::sysbench, 20_000).await;
    let folder = tempfile::tempdir().unwrap();
    let (state, copy) = (folder.path().join("state"), folder.path().join("copy"));
    let migrate = || {
        world
            .migrate(CLAUSES)
            .arg("--keep-old-table")
            .arg("--defer-cutover")
            .arg("--state")
            .arg(&state)
    };
    let writers = world.writers(3, 29).await;
    let mut first = migrate().spawn().unwrap();
    first.wait_phase("copy", LIMIT).await.unwrap();
    first.signal(Signal::SIGINT).unwrap();
    check_code(&first.wait_exit(LIMIT).await.unwrap(), 130);
    std::fs::copy(&state, &copy).unwrap();
    let mut second = migrate().spawn().unwrap();
    second.wait_phase("deferred", LIMIT).await.unwrap();
    second.signal(Signal::SIGKILL).unwrap();
    second.wait_exit(LIMIT).await.unwrap();
    std::fs::copy(&copy, &state).unwrap();
    let mut third = migrate().spawn().unwrap();
    third.wait_phase("deferred", LIMIT).await.unwrap();
    world
        .conn()
        .await
        .query_drop("DROP TABLE _t_oxsentinel")
        .await
        .unwrap();
    check_code(&third.wait_exit(LIMIT).await.unwrap(), 0);
    world.check_against_old(&writers.stop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_job_goes_on_and_a_second_signal_ends_it_at_once() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let world = World::new(TableSpec::sysbench, 20_000).await;
        let mut running = world.migrate(CLAUSES).spawn().unwrap();
        running.wait_phase("copy", LIMIT).await.unwrap();
        running.signal(signal).unwrap();
        running.wait_line("safe point", LIMIT).await.unwrap();
        let finished = running.wait_exit(LIMIT).await.unwrap();
        check_code(&finished, 130);
        assert!(world.tables_beside().await.contains(&"_t_oxnew".to_owned()));
        let resumed = world.migrate(CLAUSES).run(LIMIT).await.unwrap();
        check_code(&resumed, 0);
        assert!(resumed.text().contains("resumes"), "{}", resumed.text());
        assert_eq!(world.tables_beside().await, Vec::<String>::new());
    }
}

/// A job that waits in its preparation for a lock that `holder` has.
async fn preparing(world: &World, holder: &mut Conn) -> Running {
    let lock = "FLUSH TABLES WITH READ LOCK";
    holder.query_drop(lock).await.unwrap();
    let mut running = world.migrate(CLAUSES).spawn().unwrap();
    running.wait_phase("prepare", LIMIT).await.unwrap();
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_prepares_ends_at_an_interrupt_and_when_its_lock_is_lost() {
    // A server of its own: the read lock is the whole server's, and the only
    // lock with a name has to be this job's.
    let options = options().arg("--max-binlog-cache-size=96M");
    let world = World::on(options, TableSpec::sysbench, 2_000).await;
    let mut holder = world.conn().await;
    let running = preparing(&world, &mut holder).await;
    running.signal(Signal::SIGINT).unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 130);
    let running = preparing(&world, &mut holder).await;
    let query = "SELECT t.processlist_id FROM performance_schema.metadata_locks l \
        JOIN performance_schema.threads t ON t.thread_id = l.owner_thread_id \
        WHERE l.object_type = 'USER LEVEL LOCK'";
    let locked: Option<u64> = holder.query_first(query).await.unwrap();
    let kill = format!("KILL {}", locked.unwrap());
    holder.query_drop(kill).await.unwrap();
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 75);
    let text = finished.text();
    assert!(text.contains("the job's lock on"), "{text}");
    holder.query_drop("UNLOCK TABLES").await.unwrap();
    check_code(&world.migrate(CLAUSES).run(LIMIT).await.unwrap(), 0);
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_statement_touches_the_half_built_table_only_when_told() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let running = postponed(world.migrate(CLAUSES)).await;
    running.signal(Signal::SIGTERM).unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 130);
    let refused = world
        .migrate("ADD COLUMN other INT")
        .run(LIMIT)
        .await
        .unwrap();
    assert!(matches!(refused.code, Some(64 | 74)), "{}", refused.text());
    assert!(refused.text().contains("--fresh"), "{}", refused.text());
    assert!(world.tables_beside().await.contains(&"_t_oxnew".to_owned()));
    let told = world
        .migrate("ADD COLUMN other INT")
        .arg("--fresh")
        .arg("--yes")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&told, 0);
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_job_left_is_listed_and_removed_on_request() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let running = postponed(world.migrate(CLAUSES)).await;
    let alive = world
        .oxferry("cleanup")
        .arg("--job")
        .arg("t")
        .arg("--execute")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&alive, 0);
    assert!(alive.text().contains("left alone"), "{}", alive.text());
    running.signal(Signal::SIGKILL).unwrap();
    running.wait_exit(LIMIT).await.unwrap();
    let listed = world
        .oxferry("cleanup")
        .arg("--job")
        .arg("t")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&listed, 0);
    assert!(listed.text().contains("_t_oxnew"), "{}", listed.text());
    assert!(!world.tables_beside().await.is_empty());
    let removed = world
        .oxferry("cleanup")
        .arg("--job")
        .arg("t")
        .arg("--execute")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&removed, 0);
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
}

/// What took over needn't be fit for a copy: here it has no key any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_killed_behind_the_rename_cleans_up_whatever_the_new_table_is_like() {
    let world = World::new(TableSpec::sysbench, 200).await;
    let clauses = "MODIFY id INT NOT NULL, DROP PRIMARY KEY, ADD INDEX (id)";
    killed_behind_the_rename(&world, clauses).await;
    let url = world.schema.url();
    let words = ["plan", "migrate", "--source", &url, "--table", "t"];
    let plan = oxferry_testkit::tool::Oxferry::new(words)
        .program(env!("CARGO_BIN_EXE_oxferry"))
        .arg("--alter")
        .arg(clauses)
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&plan, 0);
    assert!(
        plan.text().contains("would only clean up"),
        "{}",
        plan.text()
    );
    let again = world.migrate(clauses).run(LIMIT).await.unwrap();
    check_code(&again, 0);
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
}

/// Leaves what a job does that is killed right behind its rename.
async fn killed_behind_the_rename(world: &World, clauses: &str) {
    let running = postponed(world.migrate(clauses)).await;
    running.signal(Signal::SIGKILL).unwrap();
    running.wait_exit(LIMIT).await.unwrap();
    // What the job would have done next, up to the first statement after it.
    let mut conn = world.conn().await;
    let note = "UPDATE _t_oxstate SET payload = JSON_SET(payload, '$.phase', 'cutover')";
    conn.query_drop(note).await.unwrap();
    conn.query_drop("DROP TABLE _t_oxsentinel").await.unwrap();
    conn.query_drop("RENAME TABLE t TO _t_oxold, _t_oxnew TO t")
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_its_checkpoint_in_a_file_is_cleaned_up_by_that_file() {
    let world = World::new(TableSpec::sysbench, 200).await;
    let mut conn = world.conn().await;
    let trigger = "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.k = 7";
    conn.query_drop(trigger).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let migrate = world.migrate(CLAUSES).arg("--defer-cutover");
    let mut running = migrate.arg("--state").arg(&state).spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    running.signal(Signal::SIGKILL).unwrap();
    running.wait_exit(LIMIT).await.unwrap();
    // What the job would have done next, up to the first statement after it.
    let held = std::fs::read_to_string(&state).unwrap();
    let mut noted = held.clone();
    for phase in ["analyze", "verify", "deferred"] {
        noted = noted.replacen(&format!("\"{phase}\""), "\"cutover\"", 1);
    }
    assert_ne!(noted, held);
    std::fs::write(&state, noted).unwrap();
    conn.query_drop("RENAME TABLE t TO _t_oxold, _t_oxnew TO t")
        .await
        .unwrap();
    let cleanup = || {
        let cleanup = world.oxferry("cleanup").arg("--execute");
        cleanup.arg("--job").arg("t")
    };
    let alone = cleanup().run(LIMIT).await.unwrap();
    check_code(&alone, 0);
    assert!(alone.text().contains("--state FILE"), "{}", alone.text());
    let beside = world.tables_beside().await;
    assert_eq!(beside, ["_t_oxold", "_t_oxsentinel", "_t_oxstate"]);
    let cleaned = cleanup().arg("--state").arg(&state).run(LIMIT).await;
    check_code(&cleaned.unwrap(), 0);
    assert_eq!(world.tables_beside().await, Vec::<String>::new());
    assert!(!state.exists());
    let on: Option<String> = conn
        .query_first(
            "SELECT EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS \
             WHERE TRIGGER_SCHEMA = DATABASE() AND TRIGGER_NAME = 'tr'",
        )
        .await
        .unwrap();
    assert_eq!(on.as_deref(), Some("t"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_only_interrupts_a_job() {
    let mut server = oxferry_testkit::server::Server::start(options())
        .await
        .unwrap();
    let table = TableSpec::sysbench("app", "t", 20_000);
    let mut conn = server.conn().await.unwrap();
    table.create(&mut conn, 1).await.unwrap();
    drop(conn);
    let url = server.url_for("root", "", "app");
    let words = [
        "migrate",
        "--source",
        &url,
        "--table",
        "t",
        "--alter",
        CLAUSES,
        "--keep-old-table",
        "--chunk-time",
        "20ms",
        "--chunk-bytes",
        "64K",
    ];
    let tool = oxferry_testkit::tool::Oxferry::new(words).program(env!("CARGO_BIN_EXE_oxferry"));
    let mut running = tool.spawn().unwrap();
    running.wait_phase("copy", LIMIT).await.unwrap();
    server.kill();
    server.start_again().await.unwrap();
    let finished = running.wait_exit(LIMIT).await.unwrap();
    if finished.code != Some(0) {
        assert!(
            matches!(finished.code, Some(69 | 75)),
            "{}",
            finished.text()
        );
        check_code(&tool.run(LIMIT).await.unwrap(), 0);
    }
    let mut conn = server.conn_to("app").await.unwrap();
    let names = table.column_names();
    let (old, new) = (table.named("_t_oxold").quoted(), table.quoted());
    oxferry_testkit::compare::compare_tables(&mut conn, &old, &new, &["id"], &names)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_job_on_the_table_is_refused() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let running = postponed(world.migrate(CLAUSES)).await;
    let second = world
        .migrate(CLAUSES)
        .run(Duration::from_secs(60))
        .await
        .unwrap();
    check_code(&second, 75);
    assert!(second.text().contains("another job"), "{}", second.text());
    world
        .conn()
        .await
        .query_drop("DROP TABLE _t_oxsentinel")
        .await
        .unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
}

//! Several tables in one job.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_testkit::{
    tables::TableSpec,
    tool::{Finished, Signal},
    wait::eventually,
};

use crate::{
    several::Several,
    world::{LIMIT, check_code, options, postponed},
};

const OLD: [&str; 3] = ["_e_oxold", "_t_oxold", "_u_oxold"];

/// Looks at all tables in one statement, over and over: how many have the new
/// column, each time that this changed.
async fn watch(mut conn: Conn, tables: Vec<TableSpec>, stop: Arc<AtomicBool>) -> Vec<usize> {
    let names: Vec<String> = tables.iter().map(TableSpec::quoted).collect();
    let query = format!("SELECT * FROM {} LIMIT 0", names.join(" JOIN "));
    let mut seen = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let result = conn.query_iter(query.as_str()).await.unwrap();
        let columns = result.columns_ref();
        let extra = columns.iter().filter(|column| column.name_str() == "extra");
        let extra = extra.count();
        result.drop_result().await.unwrap();
        if seen.last() != Some(&extra) {
            seen.push(extra);
        }
        tokio::task::yield_now().await;
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_two_databases_change_together_under_writers_of_all() {
    let several = Several::new(12_000).await;
    let writers = several.writers(3).await;
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn(watch(
        several.conn().await,
        several.tables.clone(),
        Arc::clone(&stop),
    ));
    let migrate = several.migrate(&several.statements());
    let finished = migrate.arg("--keep-old-table").run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    writers.wait_for_commits(10).await;
    stop.store(true, Ordering::Relaxed);
    // Never a new and an old one side by side.
    assert_eq!(watcher.await.unwrap(), [0, 3]);
    several.check_against_old(&writers.stop().await).await;
    assert_eq!(several.tables_beside().await, OLD);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_small_tables_change_together_and_leave_nothing() {
    let several = Several::new(30).await;
    let statements = several.statements();
    let finished = several.migrate(&statements[1..]).run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    assert_eq!(several.tables_beside().await, Vec::<String>::new());
    let definitions = several.definitions().await;
    let extra = definitions.iter().map(|create| create.contains("`extra`"));
    assert_eq!(extra.collect::<Vec<_>>(), [false, true, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_copied_side_by_side() {
    let several = Several::new(20_000).await;
    let statements = several.statements();
    let migrate = several.migrate(&statements[..2]).arg("--print-state");
    let mut running = migrate.spawn().unwrap();
    running.wait_phase("copy", LIMIT).await.unwrap();
    let there = several.there.conn().await.unwrap();
    let there = tokio::sync::Mutex::new(there);
    let first = async || {
        let query = "SELECT 1 FROM _u_oxnew LIMIT 1";
        there
            .lock()
            .await
            .query_first::<u8, _>(query)
            .await
            .unwrap()
    };
    eventually(LIMIT, "a row of the second table", first)
        .await
        .unwrap();
    running.signal(Signal::SIGINT).unwrap();
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 130);
    let lines: Vec<String> = finished.lines.into_iter().map(|line| line.text).collect();
    let copied: Vec<u64> = lines
        .iter()
        .filter_map(|line| line.trim().strip_prefix("\"rows_copied\": "))
        .map(|count| count.trim_end_matches(',').parse().unwrap())
        .collect();
    // Had the first been copied whole before the second began, it would be done.
    let side_by_side =
        matches!(copied[..], [first, second] if 0 < first && first < 20_000 && 0 < second);
    assert!(side_by_side, "{copied:?}: {lines:?}");
    check_code(
        &several.migrate(&statements[..2]).run(LIMIT).await.unwrap(),
        0,
    );
    assert_eq!(several.tables_beside().await, Vec::<String>::new());
}

/// Kills the job in the midst of every phase in turn, until it ends by itself.
#[tokio::test(flavor = "multi_thread")]
async fn kill_9_in_any_phase_loses_nothing_of_any_table() {
    let several = Several::on(options().gtid(false), 12_000).await;
    let writers = several.writers(17).await;
    let statements = several.statements();
    let migrate = || several.migrate(&statements).arg("--keep-old-table");
    let mut landed = 0;
    for phase in [
        "phase=prepare",
        "phase=copy",
        "phase=copy",
        "phase=catch-up",
        "phase=index",
        "phase=analyze",
        "phase=verify",
        "phase=cutover",
        "renaming",
        "phase=cleanup",
    ] {
        let mut running = migrate().spawn().unwrap();
        if running.wait_line(phase, LIMIT).await.is_err() {
            // Nothing but the cleaning up was left: it has ended by itself.
            check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
            break;
        }
        if phase == "phase=copy" {
            writers.wait_for_commits(3).await;
        }
        // It may have ended by itself already.
        let _gone = running.signal(Signal::SIGKILL);
        let finished = running.wait_exit(LIMIT).await.unwrap();
        if finished.code == Some(0) {
            break;
        }
        assert_eq!(finished.code, None, "{phase}: {}", finished.text());
        landed += 1;
        if several.tables_beside().await == OLD {
            // It was killed after its last statement.
            break;
        }
    }
    assert!(landed >= 4, "only {landed} kills landed at work");
    if several.tables_beside().await != OLD {
        check_code(&migrate().run(LIMIT).await.unwrap(), 0);
    }
    writers.wait_for_commits(5).await;
    several.check_against_old(&writers.stop().await).await;
    assert_eq!(several.tables_beside().await, OLD);
}

/// Checks that a call failed so, and that nothing at all has happened.
async fn refused(several: &Several, statements: &[String], code: i32, facts: &[&str]) {
    let before = several.definitions().await;
    for command in [&["migrate"][..], &["plan", "migrate"]] {
        let finished = several
            .oxferry(command, statements)
            .run(LIMIT)
            .await
            .unwrap();
        check_code(&finished, code);
        for fact in facts {
            let text = finished.text();
            assert!(text.contains(fact), "{fact:?} is not in {text}");
        }
        assert_eq!(several.definitions().await, before);
        assert_eq!(several.tables_beside().await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_statement_of_three_changes_nothing() {
    let several = Several::new(300).await;
    let good = several.statements();
    let with = |at: usize, statement: &str| {
        let mut statements = good.clone();
        statements[at] = statement.to_owned();
        statements
    };
    let there = several.there.name();
    refused(
        &several,
        &with(2, "ALTER TABLE e DROP COLUMN nosuch"),
        64,
        &["nosuch", ".e"],
    )
    .await;
    refused(
        &several,
        &with(2, "ALTER TABLE nosuch ADD x INT"),
        64,
        &["no table", "nosuch"],
    )
    .await;
    refused(
        &several,
        &with(1, "ALTER TABLE u ADD x INT"),
        64,
        &["no table", ".u"],
    )
    .await;
    refused(
        &several,
        &with(1, "DROP TABLE t"),
        64,
        &["statement 2 of 3"],
    )
    .await;
    let both = vec![
        "ALTER TABLE t DROP COLUMN nosuch".to_owned(),
        format!("ALTER TABLE {there}.u DROP COLUMN neither"),
        good[2].clone(),
    ];
    refused(&several, &both, 64, &["nosuch", "neither", "2 statements"]).await;
    let mut conn = several.conn().await;
    conn.query_drop("CREATE TABLE other (id INT PRIMARY KEY) ENGINE=MyISAM")
        .await
        .unwrap();
    let mixed = vec![
        "ALTER TABLE other ADD x INT".to_owned(),
        "ALTER TABLE nosuch ADD x INT".to_owned(),
        good[0].clone(),
    ];
    let finished = several.migrate(&mixed).run(LIMIT).await.unwrap();
    check_code(&finished, 64);
    for fact in ["MyISAM", "nosuch", "2 things are in the way"] {
        assert!(finished.text().contains(fact), "{}", finished.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_statements_for_one_table_are_refused() {
    let several = Several::new(30).await;
    let here = several.here.name();
    let statements = vec![
        "ALTER TABLE t ADD x INT".to_owned(),
        "ALTER TABLE e ADD x INT".to_owned(),
        format!("ALTER TABLE {here}.t ADD y INT"),
    ];
    refused(
        &several,
        &statements,
        64,
        &["two statements change table", ".t"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_for_several_tables_tells_of_each() {
    let several = Several::new(300).await;
    let plan = several.oxferry(&["plan", "migrate"], &several.statements());
    let plan = plan.arg("--native-ddl").arg("off");
    let finished = plan.run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    for fact in [
        "_t_oxnew",
        "_u_oxnew",
        "_e_oxnew",
        "_t_oxstate",
        "disk_needed",
    ] {
        assert!(
            finished.text().contains(fact),
            "{fact}: {}",
            finished.text()
        );
    }
    assert!(
        !finished.text().contains("_u_oxstate"),
        "{}",
        finished.text()
    );
    assert_eq!(several.tables_beside().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_in_one_table_ends_the_job_for_all() {
    let several = Several::new(300).await;
    let mut conn = several.conn().await;
    conn.query_drop("UPDATE t SET k = id").await.unwrap();
    let there = several.there.name();
    conn.query_drop(format!("UPDATE {there}.u SET v = id"))
        .await
        .unwrap();
    conn.query_drop(format!(
        "UPDATE {there}.u SET v = 'same' WHERE id IN (7, 70)"
    ))
    .await
    .unwrap();
    let statements = [
        "ALTER TABLE t ADD UNIQUE KEY k_u (k)".to_owned(),
        format!("ALTER TABLE {there}.u ADD UNIQUE KEY v_u (v)"),
    ];
    let before = several.definitions().await;
    let ended = several.migrate(&statements).run(LIMIT).await.unwrap();
    check_code(&ended, 65);
    assert!(ended.text().contains("same"), "{}", ended.text());
    assert_eq!(several.definitions().await, before);
    let mend = format!("UPDATE {there}.u SET v = 'other' WHERE id = 70");
    conn.query_drop(mend).await.unwrap();
    let resumed = several.migrate(&statements).run(LIMIT).await.unwrap();
    check_code(&resumed, 0);
    let definitions = several.definitions().await;
    assert!(definitions[0].contains("UNIQUE KEY `k_u`"));
    assert!(definitions[1].contains("UNIQUE KEY `v_u`"));
    assert_eq!(several.tables_beside().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_of_a_running_job_is_taken() {
    let several = Several::new(300).await;
    let statements = several.statements();
    let mut running = several
        .migrate(&statements)
        .arg("--defer-cutover")
        .spawn()
        .unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    for alone in &statements {
        let second = several.migrate(std::slice::from_ref(alone));
        let second = second.run(LIMIT).await.unwrap();
        check_code(&second, 75);
        assert!(second.text().contains("another job"), "{}", second.text());
    }
    let cleanup = several.oxferry(&["cleanup", "--execute", "--job", "e"], &[]);
    let alive = cleanup.run(LIMIT).await.unwrap();
    assert!(alive.text().contains("left alone"), "{}", alive.text());
    let mut conn = several.conn().await;
    conn.query_drop("DROP TABLE _t_oxsentinel").await.unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    assert_eq!(several.tables_beside().await, Vec::<String>::new());
}

/// Ends a job while it waits to take over; returns what it logged.
async fn left_behind(several: &Several, statements: &[String]) -> Finished {
    let running = postponed(several.migrate(statements)).await;
    running.signal(Signal::SIGKILL).unwrap();
    running.wait_exit(LIMIT).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_over_several_tables_left_is_no_other_jobs() {
    let several = Several::new(300).await;
    let statements = several.statements();
    left_behind(&several, &statements).await;
    let (only_u, swapped) = ([statements[1].clone()], {
        let mut swapped = statements.clone();
        swapped.swap(0, 1);
        swapped
    });
    let refused = several.migrate(&only_u).run(LIMIT).await.unwrap();
    check_code(&refused, 74);
    assert!(
        refused.text().contains("_u_oxnew exists"),
        "{}",
        refused.text()
    );
    let refused = several.migrate(&swapped).run(LIMIT).await.unwrap();
    check_code(&refused, 74);
    assert!(refused.text().contains("_t_oxstate"), "{}", refused.text());
    let anew = several
        .migrate(&only_u)
        .arg("--fresh")
        .arg("--defer-cutover");
    let mut running = anew.spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    running.signal(Signal::SIGKILL).unwrap();
    running.wait_exit(LIMIT).await.unwrap();
    // The new table beside `u` is another job's by now.
    let refused = several.migrate(&statements).run(LIMIT).await.unwrap();
    check_code(&refused, 74);
    assert!(refused.text().contains("_u_oxstate"), "{}", refused.text());
    let anew = several.migrate(&statements).arg("--fresh");
    check_code(&anew.run(LIMIT).await.unwrap(), 0);
    assert_eq!(several.tables_beside().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_over_several_tables_left_is_removed_together() {
    let several = Several::new(300).await;
    left_behind(&several, &several.statements()).await;
    let cleanup = |words: &[&str]| {
        let words = [&["cleanup", "--job", "e"], words].concat();
        several.oxferry(&words, &[])
    };
    let listed = cleanup(&[]).run(LIMIT).await.unwrap();
    check_code(&listed, 0);
    for table in ["_t_oxnew", "_u_oxnew", "_e_oxnew", "_t_oxstate"] {
        assert!(listed.text().contains(table), "{table}: {}", listed.text());
    }
    check_code(&cleanup(&["--execute"]).run(LIMIT).await.unwrap(), 0);
    assert_eq!(several.tables_beside().await, Vec::<String>::new());
}

//! Whom a job tells of itself.

use std::path::Path;

use oxferry_testkit::{tables::TableSpec, tool::Signal, wait::eventually};
use serde_json::Value;

use crate::{
    far::Far,
    world::{LIMIT, World, check_code},
};

/// A command that appends what it is told to a file, a line a call.
pub(crate) fn noting(file: &Path) -> String {
    format!("sh -c 'cat >> \"$0\"; echo >> \"$0\"' {}", file.display())
}

/// What such a command was told so far.
pub(crate) fn told(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines();
    // The last one may still be on its way.
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_goes_on_from_the_state_that_the_error_callback_was_told() {
    let far = Far::new(TableSpec::sysbench, 20_000).await;
    let writers = far.writers(2, 41).await;
    let folder = tempfile::tempdir().unwrap();
    let (errors, state) = (folder.path().join("errors"), folder.path().join("state"));
    let tool = far.moves().arg("--error-callback").arg(noting(&errors));
    let mut running = tool.arg("--callback-payload").arg("mine").spawn().unwrap();
    running.wait_phase("copy", LIMIT).await.unwrap();
    writers.wait_for_commits(20, LIMIT).await.unwrap();
    running.signal(Signal::SIGTERM).unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 130);
    let calls = told(&errors);
    assert_eq!(calls.len(), 1, "{calls:?}");
    let call = calls.first().unwrap();
    assert_eq!(
        (&call["event"], &call["exit_code"]),
        (&"error".into(), &130.into())
    );
    assert_eq!(
        (&call["cause"], &call["payload"]),
        (&"interrupted".into(), &"mine".into())
    );
    std::fs::write(&state, call["state"].to_string()).unwrap();
    let finished = far
        .moves()
        .arg("--state")
        .arg(&state)
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&finished, 0);
    assert!(finished.text().contains("resumes"), "{}", finished.text());
    far.check(&writers.stop().await).await;
    assert!(far.is_done().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_before_there_is_a_state_is_told_without_one() {
    let far = Far::new(TableSpec::sysbench, 1).await;
    let folder = tempfile::tempdir().unwrap();
    let errors = folder.path().join("errors");
    let tool = far.moves().arg("--error-callback").arg(noting(&errors));
    let tool = tool.arg("--exclude").arg(far.source.name());
    let finished = tool.run(LIMIT).await.unwrap();
    let calls = told(&errors);
    assert_eq!(calls.len(), 1, "{calls:?} {}", finished.text());
    let call = calls.first().unwrap();
    assert_eq!(call["exit_code"], finished.code.unwrap());
    assert!(
        call["state"].is_null() && call["cause"].is_string(),
        "{call}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_callback_is_told_of_every_table() {
    let world = World::new(TableSpec::sysbench, 1_000).await;
    let folder = tempfile::tempdir().unwrap();
    let progress = folder.path().join("progress");
    let migrate = world.migrate("ENGINE=InnoDB").arg("--defer-cutover");
    let migrate = migrate.arg("--progress-callback").arg(noting(&progress));
    let running = migrate
        .arg("--progress-every")
        .arg("100ms")
        .spawn()
        .unwrap();
    let call = eventually(LIMIT, "all rows to be told of", async || {
        let call = told(&progress).pop()?;
        (call["phase"] == "deferred" && call["rows_copied"] == 1_000).then_some(call)
    })
    .await
    .unwrap();
    let table = &call["tables"][0];
    assert_eq!(table["table"], format!("{}.t", world.schema.name()));
    assert_eq!(table["rows_copied"], 1_000);
    for field in [
        "rows_per_s",
        "changes_waiting",
        "rows_about",
        "lag_ms",
        "throttled",
        "eta_s",
    ] {
        let there = call.get(field).is_some() || table.get(field).is_some();
        assert!(there, "{field}: {call}");
    }
    running.signal(Signal::SIGTERM).unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 130);
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_that_hang_or_fail_hold_nothing_up() {
    for call in ["sleep 600", "false", "http://127.0.0.1:1/"] {
        let world = World::new(TableSpec::sysbench, 1_000).await;
        let migrate = world.migrate("ENGINE=InnoDB").arg("--keep-old-table");
        let migrate = migrate.arg("--progress-callback").arg(call);
        let migrate = migrate.arg("--progress-every").arg("10ms");
        let migrate = migrate.arg("--callback-timeout").arg("100ms");
        let finished = migrate.run(LIMIT).await.unwrap();
        check_code(&finished, 0);
        let lines = finished.text().matches("nobody takes the progress").count();
        assert_eq!(lines, 1, "{}", finished.text());
        world.check_same_as_old().await;
    }
}

//! The ways to verify: each finds what was spoiled, and lets pass what wasn't.

use std::path::Path;

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    tables::TableSpec,
    tool::{Finished, Oxferry, Running, Signal},
};

use crate::{
    far::Far,
    world::{LIMIT, World, check_code},
};

const MODES: [&str; 3] = ["iterative", "inline", "checksum"];

fn moves(far: &Far, mode: &str) -> Oxferry {
    far.moves().arg("--verify").arg(mode)
}

/// A move that doesn't copy before the file is gone.
async fn held(far: &Far, mode: &str, file: &Path) -> Running {
    std::fs::write(file, "").unwrap();
    let tool = moves(far, mode).arg("--throttle-file").arg(file);
    let tool = tool.arg("--detect-foreign-writes").arg("off");
    let mut running = tool.arg("--cutover").arg("manual").spawn().unwrap();
    running.wait_phase("copy", LIMIT).await.unwrap();
    running
}

async fn on_target(far: &Far, statement: &str) {
    far.target_conn().await.query_drop(statement).await.unwrap();
}

async fn check_refused(far: &Far, finished: &Finished, key: &str) {
    check_code(finished, 65);
    let text = finished.text();
    assert!(text.contains(&format!("key {key}")), "{text}");
    assert!(
        text.contains("source ") && text.contains("target "),
        "{text}"
    );
    let (here, _) = far.tables().await;
    assert!(here.contains(&"t".to_owned()), "{here:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_names_a_copied_row_that_a_trigger_spoiled() {
    let folder = tempfile::tempdir().unwrap();
    for mode in MODES {
        let far = Far::new(TableSpec::sysbench, 500).await;
        let file = folder.path().join(mode);
        let running = held(&far, mode, &file).await;
        let spoil = "CREATE TRIGGER spoil BEFORE INSERT ON t FOR EACH ROW \
                     SET NEW.c = IF(NEW.id = 77, 'spoiled', NEW.c)";
        on_target(&far, spoil).await;
        let drop = "DROP TABLE _t_oxsentinel";
        on_target(&far, drop).await;
        std::fs::remove_file(&file).unwrap();
        let finished = running.wait_exit(LIMIT).await.unwrap();
        check_refused(&far, &finished, "77").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_names_a_streamed_row_that_a_trigger_spoiled() {
    let folder = tempfile::tempdir().unwrap();
    for mode in MODES {
        let far = Far::new(TableSpec::sysbench, 500).await;
        let file = folder.path().join(mode);
        let mut running = held(&far, mode, &file).await;
        std::fs::remove_file(&file).unwrap();
        running.wait_phase("deferred", LIMIT).await.unwrap();
        for event in ["INSERT", "UPDATE"] {
            let spoil = format!(
                "CREATE TRIGGER spoil_{event} BEFORE {event} ON t FOR EACH ROW \
                 SET NEW.c = IF(NEW.id = 77, 'spoiled', NEW.c)"
            );
            on_target(&far, &spoil).await;
        }
        let mut source = far.source.conn().await.unwrap();
        let change = "UPDATE t SET c = 'sound' WHERE id = 77";
        source.query_drop(change).await.unwrap();
        on_target(&far, "DROP TABLE _t_oxsentinel").await;
        let finished = running.wait_exit(LIMIT).await.unwrap();
        check_refused(&far, &finished, "77").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_written_to_moves_in_every_mode() {
    for (mode, make) in [
        (
            "inline",
            TableSpec::sysbench as fn(&str, &str, u64) -> TableSpec,
        ),
        ("checksum", TableSpec::sysbench),
        ("inline", TableSpec::with_unique),
    ] {
        let far = Far::new(make, 10_000).await;
        let writers = far.writers(3, 61).await;
        let finished = moves(&far, mode).run(LIMIT).await.unwrap();
        check_code(&finished, 0);
        far.check(&writers.stop().await).await;
        let at_rest = finished.text().contains("at_rest=true");
        assert_eq!(at_rest, mode == "checksum", "{}", finished.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_was_killed_goes_on_in_every_mode() {
    for mode in ["inline", "checksum"] {
        let far = Far::new(TableSpec::sysbench, 20_000).await;
        let writers = far.writers(2, 62).await;
        let mut running = moves(&far, mode).spawn().unwrap();
        running.wait_phase("copy", LIMIT).await.unwrap();
        writers.wait_for_commits(20, LIMIT).await.unwrap();
        running.signal(Signal::SIGKILL).unwrap();
        running.wait_exit(LIMIT).await.unwrap();
        check_code(&moves(&far, mode).run(LIMIT).await.unwrap(), 0);
        far.check(&writers.stop().await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_written_to_is_changed_in_every_mode() {
    for mode in ["inline", "checksum"] {
        let world = World::new(TableSpec::sysbench, 10_000).await;
        let writers = world.writers(3, 63).await;
        let migrate = || {
            let migrate = world.migrate("ADD COLUMN note INT");
            migrate.arg("--keep-old-table").arg("--verify").arg(mode)
        };
        let mut running = migrate().spawn().unwrap();
        running.wait_phase("copy", LIMIT).await.unwrap();
        running.signal(Signal::SIGTERM).unwrap();
        check_code(&running.wait_exit(LIMIT).await.unwrap(), 130);
        check_code(&migrate().run(LIMIT).await.unwrap(), 0);
        world.check_against_old(&writers.stop().await).await;
    }
}

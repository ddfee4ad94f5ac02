//! A running job that is told what to do.

use std::path::Path;

use oxferry_testkit::{tables::TableSpec, tool::Oxferry, wait::eventually};

use crate::world::{LIMIT, World, postponed};

/// Runs `oxferry ctl` as somebody does whose runtime folder this is.
async fn ctl(runtime: &Path, words: &[&str]) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_oxferry");
    let words = ["ctl"].iter().chain(words).copied();
    let ctl = Oxferry::new(words).program(program);
    let ctl = ctl.env("XDG_RUNTIME_DIR", runtime);
    let finished = ctl.run(LIMIT).await.unwrap();
    (finished.code, finished.text())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postponed_job_is_asked_paused_tuned_and_let_take_over() {
    let world = World::new(TableSpec::sysbench, 1_000).await;
    let runtime = tempfile::tempdir().unwrap();
    let migrate = world.migrate("ENGINE=InnoDB");
    let running = postponed(migrate.env("XDG_RUNTIME_DIR", runtime.path())).await;
    let job = format!("{}.t", world.schema.name());
    let tell = async |words: &[&str]| {
        let words = [&["--job", &job], words].concat();
        ctl(runtime.path(), &words).await
    };
    eventually(LIMIT, "the status to be that of the moment", async || {
        let (code, text) = tell(&["status"]).await;
        assert_eq!(code, Some(0), "{text}");
        let facts = [
            "\"phase\": \"deferred\"",
            "\"rows_copied\": 1000",
            "\"paused\": false",
        ];
        facts.iter().all(|fact| text.contains(fact)).then_some(())
    })
    .await
    .unwrap();
    for (words, expected) in [
        (&["pause"][..], 0),
        (&["resume"], 0),
        (&["set", "max-lag=20s"], 0),
        (&["set", "max-threads-running=1000"], 0),
        (&["set", "threads=4"], 64),
        (&["set", "max-lag"], 64),
        (&["explode"], 64),
        (&["cutover"], 0),
    ] {
        let (code, text) = tell(words).await;
        assert_eq!(code, Some(expected), "{words:?}: {text}");
    }
    let finished = running.wait_exit(LIMIT).await.unwrap();
    assert_eq!(finished.code, Some(0), "{}", finished.text());
    let (code, text) = tell(&["status"]).await;
    assert_eq!(code, Some(69), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_job_keeps_its_checkpoint() {
    let world = World::new(TableSpec::sysbench, 1_000).await;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("job");
    let migrate = || world.migrate("ENGINE=InnoDB").arg("--control").arg(&socket);
    let running = postponed(migrate()).await;
    let path = socket.to_str().unwrap();
    let (code, text) = ctl(folder.path(), &["--socket", path, "abort"]).await;
    assert_eq!(code, Some(0), "{text}");
    let finished = running.wait_exit(LIMIT).await.unwrap();
    assert_eq!(finished.code, Some(130), "{}", finished.text());
    assert!(!socket.exists());
    let beside = world.tables_beside().await;
    assert!(beside.contains(&"_t_oxstate".to_owned()), "{beside:?}");
    // A path at which no job can listen ends the next one before it works.
    std::fs::write(&socket, "precious").unwrap();
    let refused = migrate().run(LIMIT).await.unwrap();
    assert_eq!(refused.code, Some(64), "{}", refused.text());
}

//! Settings: where they come from, and what they do to a running job.

use oxferry_testkit::{tables::TableSpec, tool::Oxferry, tool::Signal};

use crate::world::{LIMIT, World, check_code};

const CLAUSES: &str = "ADD COLUMN extra INT NOT NULL DEFAULT 7";

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_file_holds_the_copy_until_it_is_removed() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("wait");
    std::fs::write(&flag, "").unwrap();
    let migrate = world
        .migrate(CLAUSES)
        .arg("--throttle-file")
        .arg(&flag)
        .arg("--keep-old-table");
    let mut running = migrate.spawn().unwrap();
    let held = running.wait_line("copying waits", LIMIT).await.unwrap();
    assert!(held.text.contains("wait"), "{}", held.text);
    std::fs::remove_file(&flag).unwrap();
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    world.check_same_as_old().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settings_file_says_what_options_say_and_options_win() {
    let world = World::new(TableSpec::sysbench, 100).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.toml");
    let toml = format!(
        "source = '{}'\ntable = 't'\nalter = 'ENGINE=InnoDB'\nkeep-old-table = true\nthreads = 3\n",
        world.schema.url()
    );
    std::fs::write(&file, toml).unwrap();
    let oxferry =
        |words: &[&str]| Oxferry::new(words.iter().copied()).program(env!("CARGO_BIN_EXE_oxferry"));
    let file_name = file.to_str().unwrap();
    let printed = oxferry(&["config", "--print", "--config", file_name, "--threads", "5"]);
    let printed = printed.run(LIMIT).await.unwrap();
    check_code(&printed, 0);
    for line in [
        "threads = 5  # option",
        "table = t  # file",
        "lock-wait = 3s  # default",
    ] {
        assert!(printed.text().contains(line), "{line}: {}", printed.text());
    }
    let migrated = oxferry(&["migrate", "--config", file_name])
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&migrated, 0);
    world.check_same_as_old().await;
    std::fs::write(&file, "tabel = 't'\n").unwrap();
    let refused = oxferry(&["migrate", "--config", file_name])
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&refused, 64);
    assert!(refused.text().contains("tabel"), "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checkpoint_is_printed_on_request() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let migrate = world
        .migrate(CLAUSES)
        .arg("--defer-cutover")
        .arg("--print-state");
    let limited = migrate
        .arg("--defer-cutover-limit")
        .arg("1s")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&limited, 75);
    for part in ["\"format\"", "\"phase\"", "deferred", "\"position\""] {
        assert!(limited.text().contains(part), "{part}: {}", limited.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_can_still_be_postponed_when_it_is_resumed() {
    let world = World::new(TableSpec::sysbench, 20_000).await;
    let mut first = world.migrate(CLAUSES).spawn().unwrap();
    first.wait_phase("copy", LIMIT).await.unwrap();
    first.signal(Signal::SIGTERM).unwrap();
    check_code(&first.wait_exit(LIMIT).await.unwrap(), 130);
    let mut second = world
        .migrate(CLAUSES)
        .arg("--defer-cutover")
        .spawn()
        .unwrap();
    second.wait_phase("deferred", LIMIT).await.unwrap();
    assert!(
        world
            .tables_beside()
            .await
            .contains(&"_t_oxsentinel".to_owned())
    );
}

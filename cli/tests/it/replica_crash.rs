//! Moves off a replica that die, and their hooks.

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    tool::{Oxferry, Signal},
    wait::eventually,
};

use crate::{
    far::run,
    held::{Called, TRIGGER, stopped_in_its_switch},
    trio::Trio,
    world::{LIMIT, check_code},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_dies_in_its_switch_leaves_the_primary_to_the_next() {
    let trio = Trio::new("dies", 500).await;
    run(&mut trio.far.source.conn().await.unwrap(), &TRIGGER).await;
    let primary = trio.far.source.server();
    trio.replica.wait_for_source(primary, LIMIT).await.unwrap();
    let moves = trio.moves("rename").arg("--cutover").arg("manual");
    let (running, reader) =
        stopped_in_its_switch(moves, async || trio.far.target_conn().await).await;
    assert!(trio.far.tables().await.0.contains(&"_t_oxold".to_owned()));
    running.signal(Signal::SIGKILL).unwrap();
    assert_eq!(running.wait_exit(LIMIT).await.unwrap().code, None);
    drop(reader);
    // Its sentinel is gone: it takes over as soon as all is compared again.
    let finished = trio.moves("rename").arg("--cutover").arg("manual");
    let finished = finished.run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    let told = "an earlier run has shut the source";
    assert!(finished.text().contains(told), "{}", finished.text());
    assert_eq!(trio.far.check_rows("_t_oxold", "t").await, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_shut_and_open_the_primary() {
    let trio = Trio::new("hooks", 300).await;
    let (shut, switched, open) = (
        Called::new().await,
        Called::new().await,
        Called::new().await,
    );
    let tool = trio.moves("hook").arg("--hook-attempts").arg("1");
    let tool = tool.arg("--hook-lock-source").arg(shut.address());
    let tool = tool.arg("--hook-switched").arg(switched.address());
    let tool = tool.arg("--hook-unlock-source").arg(open.address());
    let running = tool.spawn().unwrap();
    let call = shut.next().await;
    // What was written until then is still on its way to the replica.
    trio.on_primary("INSERT INTO t (k, c, pad) VALUES (7, 'last', 'last')")
        .await;
    call.answer().await;
    switched.next().await.answer().await;
    open.next().await.answer().await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    assert_eq!(trio.far.check_rows("t", "t").await, 301);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_move_left_on_the_primary_is_removed_there() {
    let trio = Trio::new("leaves", 300).await;
    let mut running = trio
        .moves("rename")
        .arg("--cutover")
        .arg("manual")
        .spawn()
        .unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    running.signal(Signal::SIGKILL).unwrap();
    running.wait_exit(LIMIT).await.unwrap();
    let (source, target) = (trio.replica.url(), trio.far.target.url());
    let primary = trio.far.source.server().url();
    let cleanup = |more: &[&str]| {
        let words = [
            "cleanup",
            "--source",
            &source,
            "--target",
            &target,
            "--execute",
        ];
        Oxferry::new([&words, more].concat()).program(env!("CARGO_BIN_EXE_oxferry"))
    };
    let unnamed = cleanup(&[]).run(LIMIT).await.unwrap();
    check_code(&unnamed, 64);
    assert!(
        unnamed.text().contains("--source-primary"),
        "{}",
        unnamed.text()
    );
    let cleaned = cleanup(&["--source-primary", &primary])
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&cleaned, 0);
    assert!(
        cleaned.text().contains("server=\"primary\""),
        "{}",
        cleaned.text()
    );
    let (here, there) = trio.far.tables().await;
    assert_eq!((here, there), (vec!["t".to_owned()], Vec::new()));
    let replica = eventually(LIMIT, "the replica without marks", async || {
        let mut conn = trio.replica.conn_to(trio.far.source.name()).await.unwrap();
        let tables: Vec<String> = conn.query("SHOW TABLES").await.unwrap();
        (tables == ["t"]).then_some(())
    });
    replica.await.unwrap();
}

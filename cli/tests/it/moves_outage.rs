//! Servers that go away while a move is at work, and wires that are cut.

use std::net::SocketAddr;

use mysql_async::prelude::Queryable;
use oxferry_testkit::tool::{Oxferry, Running};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::{
    far::run,
    held::{TRIGGER, stopped_in_its_switch},
    own::Own,
    world::LIMIT,
};

/// How often a move may be called until it has come to its end.
const CALLS_MAX: u32 = 6;

/// Waits for the end of a move, and calls it again for as long as it only asks
/// for that.
async fn to_its_end(running: Running, again: Oxferry) {
    let mut finished = running.wait_exit(LIMIT).await.unwrap();
    for _ in 0..CALLS_MAX {
        if finished.code == Some(0) {
            return;
        }
        let text = finished.text();
        assert!(
            matches!(finished.code, Some(69 | 75)),
            "{:?} {text}",
            finished.code
        );
        finished = again.run(LIMIT).await.unwrap();
    }
    panic!("it doesn't end: {}", finished.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_restarted_in_mid_run_gets_every_row() {
    for (phase, kill) in [("copy", false), ("copy", true), ("verify", false)] {
        let mut own = Own::new(20_000).await;
        let writers = own.writers().await;
        let moves = own.moves(own.ports());
        let mut running = moves.spawn().unwrap();
        running.wait_phase(phase, LIMIT).await.unwrap();
        if kill {
            own.target.kill();
            own.target.start_again().await.unwrap();
        } else {
            own.target.restart().await.unwrap();
        }
        to_its_end(running, moves).await;
        own.check_with(writers).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postponed_move_survives_a_restart_of_its_target() {
    let mut own = Own::new(2_000).await;
    let writers = own.writers().await;
    let moves = own.moves(own.ports()).arg("--cutover").arg("manual");
    let mut running = moves.spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    own.target.restart().await.unwrap();
    writers.wait_for_commits(50, LIMIT).await.unwrap();
    let mut target = own.target.conn_to("d").await.unwrap();
    run(&mut target, &["DROP TABLE IF EXISTS _t_oxsentinel"]).await;
    to_its_end(running, moves).await;
    own.check_with(writers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_restarted_in_mid_run_loses_no_change() {
    for phase in ["copy", "deferred"] {
        let mut own = Own::new(20_000).await;
        let moves = own.moves(own.ports()).arg("--cutover").arg("manual");
        let mut running = moves.spawn().unwrap();
        running.wait_phase(phase, LIMIT).await.unwrap();
        let mut source = own.source.conn_to("d").await.unwrap();
        run(&mut source, &["UPDATE t SET c = 'before' WHERE id < 500"]).await;
        own.source.restart().await.unwrap();
        let mut source = own.source.conn_to("d").await.unwrap();
        let after = [
            "UPDATE t SET c = 'after' WHERE id < 300",
            "DELETE FROM t WHERE id > 19990",
        ];
        run(&mut source, &after).await;
        let mut target = own.target.conn_to("d").await.unwrap();
        run(&mut target, &["DROP TABLE IF EXISTS _t_oxsentinel"]).await;
        to_its_end(running, moves).await;
        own.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_dies_in_the_switch_leaves_no_source_shut() {
    let mut own = Own::new(500).await;
    let mut source = own.source.conn_to("d").await.unwrap();
    run(&mut source, &TRIGGER).await;
    let moves = own.moves(own.ports());
    let manual = own.moves(own.ports()).arg("--cutover").arg("manual");
    let connect = async || own.target.conn_to("d").await.unwrap();
    let (running, _reader) = stopped_in_its_switch(manual, connect).await;
    own.target.kill();
    let finished = running.wait_exit(LIMIT).await.unwrap();
    assert_ne!(finished.code, Some(0), "{}", finished.text());
    run(&mut source, &["UPDATE t SET c = 'it is open' WHERE id = 7"]).await;
    own.target.start_again().await.unwrap();
    to_its_end(moves.spawn().unwrap(), moves).await;
    own.check().await;
}

/// What leads to a server, until it is cut; new sessions are led there again.
struct Wire {
    local: SocketAddr,
    cuts: watch::Sender<u32>,
    task: JoinHandle<()>,
}

impl Wire {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let (cuts, told) = watch::channel(0);
        let task = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut told = told.clone();
                told.mark_unchanged();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        _ = told.changed() => {}
                    }
                });
            }
        });
        Self { local, cuts, task }
    }

    fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wires_that_are_cut_in_mid_run_cost_no_row() {
    let own = Own::new(20_000).await;
    let writers = own.writers().await;
    let wires = (
        Wire::to(own.source.port()).await,
        Wire::to(own.target.port()).await,
    );
    let moves = own.moves((wires.0.local.port(), wires.1.local.port()));
    for wire in [&wires.0, &wires.1] {
        let mut running = moves.spawn().unwrap();
        running.wait_phase("copy", LIMIT).await.unwrap();
        wire.cut();
        let finished = running.wait_exit(LIMIT).await.unwrap();
        let text = finished.text();
        assert!(
            matches!(finished.code, Some(0 | 69 | 75)),
            "{:?} {text}",
            finished.code
        );
        if finished.code == Some(0) {
            break;
        }
    }
    let mut target = own.target.conn().await.unwrap();
    let done: Option<u64> = target
        .query_first("SELECT COUNT(*) = 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd'")
        .await
        .unwrap();
    if done != Some(1) {
        to_its_end(moves.spawn().unwrap(), moves).await;
    }
    own.check_with(writers).await;
}

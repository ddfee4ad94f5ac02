//! Binary logs that are emptied, by `RESET BINARY LOGS AND GTIDS`, while they are
//! read: the first file is followed by one of the same name.

use mysql_async::prelude::Queryable;
use oxferry_testkit::server::{Server, ServerOptions};

use crate::{far::run, own::Own, world::LIMIT};

const RESET: &str = "RESET BINARY LOGS AND GTIDS";

/// Empties a server's log, and writes enough to the new one that no log which
/// is emptied later gets as far in the test.
async fn fill_first_file(server: &Server) {
    let mut conn = server.conn().await.unwrap();
    run(
        &mut conn,
        &[
            RESET,
            "CREATE DATABASE filled",
            "CREATE TABLE filled.t (a LONGBLOB)",
        ],
    )
    .await;
    let fill = "INSERT INTO filled.t VALUES (REPEAT('x', 4 << 20))";
    run(&mut conn, &[fill]).await;
}

/// Which server's log is emptied.
#[derive(Clone, Copy, Debug)]
enum Side {
    Source,
    Target,
}

/// A move that waits for its switch, makes it after the log of one side was
/// emptied and a row of the moved table written there, and must not succeed.
async fn expect_found(side: Side, gtid: bool, verify: &str) {
    let options = || ServerOptions::new().gtid(gtid);
    let own = Own::on((options(), options()), 200).await;
    fill_first_file(&own.source).await;
    fill_first_file(&own.target).await;
    let moves = own.moves(own.ports()).arg("--verify").arg(verify);
    let mut running = moves.arg("--cutover").arg("manual").spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    let server = match side {
        Side::Source => &own.source,
        Side::Target => &own.target,
    };
    let insert = "INSERT INTO d.t (k, c, pad) VALUES (7, 'missed', 'missed')";
    run(&mut server.conn().await.unwrap(), &[RESET, insert]).await;
    let go_on = "DROP TABLE d._t_oxsentinel";
    run(&mut own.target.conn().await.unwrap(), &[go_on]).await;
    let finished = running.wait_exit(LIMIT).await.unwrap();
    let text = finished.text();
    assert_eq!(finished.code, Some(74), "{side:?} {gtid} {verify}: {text}");
    assert!(
        text.contains("was reset"),
        "{side:?} {gtid} {verify}: {text}"
    );
    let tables: Vec<String> = own
        .source
        .conn_to("d")
        .await
        .unwrap()
        .query("SHOW TABLES LIKE 't'")
        .await
        .unwrap();
    assert_eq!(tables, ["t"], "the source is open again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_the_source_that_is_emptied_ends_a_move_that_compares_nothing() {
    expect_found(Side::Source, false, "off").await;
    expect_found(Side::Source, true, "off").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_the_source_that_is_emptied_ends_a_move_that_compares() {
    expect_found(Side::Source, false, "iterative").await;
    expect_found(Side::Source, true, "iterative").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_the_target_that_is_emptied_ends_a_move() {
    expect_found(Side::Target, false, "off").await;
    expect_found(Side::Target, true, "off").await;
}

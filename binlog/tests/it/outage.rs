//! Servers that fall silent, and servers that take another one's place.

use std::time::Duration;

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_binlog::{MysqlStream, StreamConfig, StreamError, StreamEvent};
use oxferry_testkit::server::{Server, ServerOptions};
use tokio::net::TcpListener;

use crate::{
    follow::{drain, failure, follow_as, next, position, run, server},
    proxy::Proxy,
};

const HEARTBEAT: Duration = Duration::from_millis(400);

async fn shop(gtid: bool) -> (Server, Conn) {
    let server = server(ServerOptions::new().gtid(gtid)).await;
    let mut conn = server.conn().await.unwrap();
    run(&mut conn, &["CREATE TABLE shop.t (id INT PRIMARY KEY)"]).await;
    (server, conn)
}

#[tokio::test]
async fn a_silent_connection_is_given_up_and_the_log_read_on_over_another() {
    let (server, mut conn) = shop(true).await;
    let proxy = Proxy::start(&server).await;
    let config = proxy.config(&server).with_heartbeat(HEARTBEAT);
    let mut stream = follow_as(&server, "t", config).await;
    run(&mut conn, &["INSERT INTO shop.t VALUES (1)"]).await;
    assert_eq!(drain(&mut stream, &mut conn).await.len(), 1);
    proxy.fall_silent();
    run(&mut conn, &["INSERT INTO shop.t VALUES (2), (3)"]).await;
    assert_eq!(drain(&mut stream, &mut conn).await.len(), 2);
}

#[tokio::test]
async fn an_idle_server_that_sends_heartbeats_is_not_taken_for_silent() {
    let (server, mut conn) = shop(true).await;
    let proxy = Proxy::start(&server).await;
    let heartbeat = Duration::from_millis(500);
    let config = proxy.config(&server).with_heartbeat(heartbeat);
    let config = config.with_reconnect_for(Duration::ZERO);
    let mut stream = follow_as(&server, "t", config).await;
    let idle = tokio::time::timeout(heartbeat * 6, async {
        loop {
            if let Err(error) = next(&mut stream).await {
                break error;
            }
        }
    });
    assert!(idle.await.is_err());
    run(&mut conn, &["INSERT INTO shop.t VALUES (1)"]).await;
    assert_eq!(drain(&mut stream, &mut conn).await.len(), 1);
}

#[tokio::test]
async fn a_silence_without_end_ends_the_stream() {
    let (server, _conn) = shop(true).await;
    let proxy = Proxy::start(&server).await;
    let config = proxy.config(&server).with_heartbeat(HEARTBEAT);
    let config = config.with_reconnect_for(Duration::ZERO);
    let mut stream = follow_as(&server, "t", config).await;
    proxy.fall_silent();
    let error = failure(&mut stream).await;
    assert!(
        matches!(error, StreamError::Silent { seconds: 1 }),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_address_that_never_answers_is_given_up() {
    let (server, mut conn) = shop(true).await;
    let from = position(&mut conn).await;
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mysql://root@{}", deaf.local_addr().unwrap());
    let config = StreamConfig::new(Opts::from_url(&url).unwrap());
    let error = MysqlStream::open(config, from, Vec::new())
        .await
        .unwrap_err();
    assert!(matches!(error, StreamError::Silent { .. }), "{error:?}");
    drop(server);
}

/// A stream that followed one server, and finds another in its place.
struct Replaced {
    stream: MysqlStream,
    /// The GTIDs read from the first server.
    read: String,
    second: Server,
    _first: Server,
    _proxy: Proxy,
}

async fn replaced(gtid: bool) -> Replaced {
    let (first, mut conn) = shop(gtid).await;
    let (second, _) = shop(gtid).await;
    let proxy = Proxy::start(&first).await;
    let config = proxy.config(&first);
    let config = config.with_reconnect_for(Duration::from_millis(300));
    let mut stream = follow_as(&first, "t", config).await;
    run(&mut conn, &["INSERT INTO shop.t VALUES (1)"]).await;
    assert_eq!(drain(&mut stream, &mut conn).await.len(), 1);
    let read = position(&mut conn).await.gtids;
    proxy.lead_to(&second);
    Replaced {
        stream,
        read: read.map(|gtids| gtids.to_string()).unwrap_or_default(),
        second,
        _first: first,
        _proxy: proxy,
    }
}

#[tokio::test]
async fn a_server_that_lacks_transactions_does_not_take_anothers_place() {
    let mut place = replaced(true).await;
    let error = failure(&mut place.stream).await;
    let StreamError::ServerBehind { missing, .. } = error else {
        unreachable!("{error:?}");
    };
    assert_eq!(missing, place.read);
}

#[tokio::test]
async fn no_server_takes_anothers_place_without_gtids() {
    let mut place = replaced(false).await;
    let error = failure(&mut place.stream).await;
    assert!(
        matches!(error, StreamError::ServerChanged { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_server_that_has_every_transaction_takes_anothers_place() {
    let mut place = replaced(true).await;
    let mut conn = place.second.conn().await.unwrap();
    let purged = format!("SET GLOBAL gtid_purged = '{}'", place.read);
    let insert = "INSERT INTO shop.t VALUES (2)";
    run(&mut conn, &["RESET BINARY LOGS AND GTIDS", &purged, insert]).await;
    loop {
        if let StreamEvent::Commit { gtid, .. } = next(&mut place.stream).await.unwrap() {
            let server: Option<String> = conn.query_first("SELECT @@server_uuid").await.unwrap();
            assert_eq!(gtid.unwrap().to_string(), format!("{}:1", server.unwrap()));
            break;
        }
    }
}

#[tokio::test]
async fn a_server_whose_log_was_reset_is_refused() {
    let (server, mut conn) = shop(true).await;
    let proxy = Proxy::start(&server).await;
    let mut stream = follow_as(&server, "t", proxy.config(&server)).await;
    run(&mut conn, &["INSERT INTO shop.t VALUES (1)"]).await;
    assert_eq!(drain(&mut stream, &mut conn).await.len(), 1);
    proxy.lead_to(&server);
    run(&mut conn, &["RESET BINARY LOGS AND GTIDS"]).await;
    run(&mut conn, &["INSERT INTO shop.t VALUES (2)"]).await;
    let error = failure(&mut stream).await;
    assert!(matches!(error, StreamError::Refused { .. }), "{error:?}");
}

//! Logging in, and failing to.

use mysql_async::prelude::Queryable;
use oxferry_schema::{ConnectError, Remedy, ServerUrl, SslMode, connect};
use oxferry_testkit::server::Server;

use crate::place::Place;

#[tokio::test]
async fn a_session_has_the_settings_that_every_part_relies_on() {
    let mut place = Place::new().await;
    let settings: Option<(String, String, String, u32, u32, u32)> = place
        .conn
        .query_first(
            "SELECT @@time_zone, @@sql_mode, @@transaction_isolation, @@lock_wait_timeout, \
             @@innodb_lock_wait_timeout, @@foreign_key_checks",
        )
        .await
        .unwrap();
    assert_eq!(
        settings.unwrap(),
        (
            "+00:00".to_owned(),
            "NO_AUTO_VALUE_ON_ZERO,STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION"
                .to_owned(),
            "READ-COMMITTED".to_owned(),
            10,
            5,
            1
        )
    );
    let charset: Option<(String, u64, u64)> = place
        .conn
        .query_first(
            "SELECT @@character_set_client, @@sql_select_limit, @@information_schema_stats_expiry",
        )
        .await
        .unwrap();
    assert_eq!(charset.unwrap(), ("utf8mb4".to_owned(), u64::MAX, 0));
}

#[tokio::test]
async fn old_tables_impossible_dates_and_key_zero_are_kept() {
    let mut place = Place::new().await;
    place
        .run("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, d DATE NOT NULL)")
        .await;
    place
        .run("INSERT INTO t VALUES (0, '0000-00-00'), (1, '2021-02-31')")
        .await;
    let rows: Vec<(i32, String)> = place
        .conn
        .query("SELECT id, CAST(d AS CHAR) FROM t ORDER BY id")
        .await
        .unwrap();
    assert_eq!(
        rows,
        [(0, "0000-00-00".to_owned()), (1, "2021-02-31".to_owned())]
    );
    assert!(
        place
            .conn
            .query_drop("INSERT INTO t VALUES (2147483648, '2021-02-28')")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn the_connection_is_encrypted_where_the_url_asks_for_it() {
    let place = Place::new().await;
    for (mode, encrypted) in [("disabled", false), ("preferred", true), ("required", true)] {
        let url =
            ServerUrl::parse(&format!("{}?ssl-mode={mode}", place.schema.url()), None).unwrap();
        let mut conn = connect(&url, "tests").await.unwrap();
        let cipher: Option<(String, String)> = conn
            .query_first("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
            .await
            .unwrap();
        assert_eq!(!cipher.unwrap().1.is_empty(), encrypted, "{mode}");
    }
}

#[tokio::test]
async fn a_certificate_is_checked_against_the_given_authority() {
    let place = Place::new().await;
    let data = place.schema.server().data_dir();
    let url = |mode: &str, ca: &str| {
        let ca = data.join(ca);
        let text = format!(
            "{}?ssl-mode={mode}&ssl-ca={}",
            place.schema.url(),
            ca.display()
        );
        ServerUrl::parse(&text, None).unwrap()
    };
    let foreign = url("verify_ca", "no-such-ca.pem");
    assert_eq!(foreign.tls().mode, SslMode::VerifyCa);
    let error = connect(&foreign, "tests").await.unwrap_err();
    assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");
    assert_eq!(error.remedy(), Remedy::Usage);
    // The server's own certificate names no host.
    let error = connect(&url("verify_identity", "ca.pem"), "tests")
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");
}

#[tokio::test]
async fn failures_to_log_in_are_told_apart() {
    let mut place = Place::new().await;
    let server = place.schema.server();
    let at = |user: &str, password: &str, database: &str| {
        ServerUrl::parse(&server.url_for(user, password, database), None).unwrap()
    };
    let wrong = at("root", "geheim", "");
    let error = connect(&wrong, "tests").await.unwrap_err();
    assert!(matches!(error, ConnectError::Denied { .. }), "{error:?}");
    assert_eq!(error.remedy(), Remedy::Privileges);
    assert!(!format!("{error} {error:?}").contains("geheim"));
    let error = connect(&at("root", "", "no_such_db"), "tests")
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ConnectError::UnknownDatabase { database, .. } if database == "no_such_db")
    );
    assert_eq!(error.remedy(), Remedy::Usage);
    let user = at("poor", "pw", place.schema.name());
    place
        .run("CREATE USER IF NOT EXISTS poor IDENTIFIED BY 'pw'")
        .await;
    let error = connect(&user, "tests").await.unwrap_err();
    assert!(matches!(error, ConnectError::Denied { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let url = ServerUrl::parse(&format!("mysql://root@127.0.0.1:{port}"), None).unwrap();
    let error = connect(&url, "tests").await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Unreachable, "{error:?}");
    assert!(
        error
            .to_string()
            .contains(&format!("root@127.0.0.1:{port}"))
    );
    let nowhere = ServerUrl::parse("mysql://root@host.invalid", None).unwrap();
    assert_eq!(
        connect(&nowhere, "tests").await.unwrap_err().remedy(),
        Remedy::Unreachable
    );
    let socket = ServerUrl::parse("mysql://root@localhost?socket=/no/such.sock", None).unwrap();
    assert_eq!(
        connect(&socket, "tests").await.unwrap_err().remedy(),
        Remedy::Unreachable
    );
}

#[tokio::test]
async fn a_socket_serves_as_well() {
    let server = Server::fresh_schema().await.unwrap();
    let mut conn = server.conn().await.unwrap();
    let socket: Option<String> = conn.query_first("SELECT @@socket").await.unwrap();
    let data = server.server().data_dir();
    let socket = data.join(socket.unwrap());
    let url = format!(
        "mysql://root@localhost/{}?socket={}",
        server.name(),
        socket.display()
    );
    let url = ServerUrl::parse(&url, None).unwrap();
    let mut conn = connect(&url, "tests").await.unwrap();
    let database: Option<String> = conn.query_first("SELECT DATABASE()").await.unwrap();
    assert_eq!(database.as_deref(), Some(server.name()));
}

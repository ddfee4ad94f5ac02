//! Prepared XA transactions.

use oxferry_schema::{ServerUrl, connect, prepared_xa};

use crate::place::Place;

#[tokio::test]
async fn a_prepared_transaction_is_told_as_it_can_be_ended() {
    let mut place = Place::new().await;
    let (global, other) = (place.schema.name().to_owned(), "it's \u{1F600}");
    place.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let hex = |text: &str| {
        text.bytes()
            .map(|byte| format!("{byte:02X}"))
            .collect::<String>()
    };
    let xid = format!("X'{}',X'{}',7", hex(&global), hex(other));
    place.run(&format!("XA START {xid}")).await;
    place.run("INSERT INTO t VALUES (1)").await;
    place.run(&format!("XA END {xid}")).await;
    assert!(
        !prepared_xa(&mut Place::new().await.conn)
            .await
            .unwrap()
            .contains(&xid)
    );
    place.run(&format!("XA PREPARE {xid}")).await;
    let told = prepared_xa(&mut Place::new().await.conn).await.unwrap();
    assert!(told.contains(&xid), "{xid} isn't among {told:?}");
    place.run(&format!("XA ROLLBACK {xid}")).await;
    assert!(!prepared_xa(&mut place.conn).await.unwrap().contains(&xid));
}

#[tokio::test]
async fn an_account_that_may_not_look_sees_none() {
    let mut place = Place::new().await;
    let user = format!("u{}", place.schema.name());
    let user: String = user.chars().take(32).collect();
    place.run(&format!("CREATE USER `{user}`")).await;
    let url = place.schema.url().replace("//root@", &format!("//{user}@"));
    let (server, _database) = url.rsplit_once('/').unwrap();
    let url = ServerUrl::parse(server, None).unwrap();
    let mut conn = connect(&url, "tests").await.unwrap();
    let xid = format!("'{}'", place.schema.name());
    for step in ["START", "END", "PREPARE"] {
        place.run(&format!("XA {step} {xid}")).await;
    }
    assert_eq!(prepared_xa(&mut conn).await.unwrap(), Vec::<String>::new());
    place.run(&format!("XA ROLLBACK {xid}")).await;
    place.run(&format!("DROP USER `{user}`")).await;
}

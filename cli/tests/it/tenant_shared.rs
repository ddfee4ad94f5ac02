//! A tenant moves to a server that already holds others.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_testkit::tool::{Finished, Oxferry, Running, Signal};

use crate::{
    far::run,
    shops::{Shops, Traders, texts},
    world::{LIMIT, check_code, options},
};

/// Renames the source's tables back, as an operator does who moves one shop
/// after another.
const BACK: &str = "RENAME TABLE _shops_oxold TO shops, _orders_oxold TO orders, \
                    _items_oxold TO items, _notes_oxold TO notes";

/// Puts shop 1 on the target, and opens the source again.
async fn shops_with_one_moved() -> Shops {
    let shops = Shops::new().await;
    check_code(&shops.moves_shop(1).run(LIMIT).await.unwrap(), 0);
    shops.check_shop(1).await;
    run(&mut shops.source().await, &[BACK]).await;
    shops
}

fn moves_another(shops: &Shops, shop: u32) -> Oxferry {
    let moves = shops.moves_shop(shop).arg("--target-tables");
    moves.arg("matching")
}

/// A move of shop 2 that waits for a word to switch.
async fn postponed(moves: Oxferry) -> Running {
    let moves = moves.arg("--cutover").arg("manual");
    let mut running = moves.spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    running
}

async fn ends(shops: &Shops, running: Running) -> Finished {
    let mut target = shops.target().await;
    run(&mut target, &["DROP TABLE _items_oxsentinel"]).await;
    running.wait_exit(LIMIT).await.unwrap()
}

/// All that the target holds of a shop.
async fn estate(conn: &mut Conn, shop: u32) -> Vec<String> {
    let owned = format!("WHERE order_id IN (SELECT id FROM orders WHERE shop_id = {shop})");
    let queries = [
        format!("SELECT * FROM shops WHERE id = {shop}"),
        format!("SELECT * FROM orders WHERE shop_id = {shop} ORDER BY 1"),
        format!("SELECT * FROM items {owned} ORDER BY 1"),
        format!("SELECT * FROM notes {owned} ORDER BY 1"),
    ];
    let mut all = Vec::new();
    for query in queries {
        all.extend(texts(conn, &query).await);
    }
    all
}

/// Checks that the target holds what the source, renamed away, does of a shop.
async fn check_moved(shops: &Shops, shop: u32) {
    run(&mut shops.source().await, &[BACK]).await;
    let here = estate(&mut shops.source().await, shop).await;
    let there = estate(&mut shops.target().await, shop).await;
    let differs = here.iter().zip(&there).find(|(here, there)| here != there);
    assert_eq!(differs, None);
    assert_eq!(here.len(), there.len());
    assert!(here.len() > 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_holds_another_tenant_keeps_it_as_it_is() {
    let shops = shops_with_one_moved().await;
    let traders = Traders::start(&shops, Some(2), 2).await;
    let running = postponed(moves_another(&shops, 2)).await;
    // The other shop is open on the target.
    let writes = [
        "UPDATE orders SET note = 'on the target' WHERE shop_id = 1",
        "INSERT INTO orders (id, shop_id, note) VALUES (-1, 1, 'there')",
        "INSERT INTO items (id, order_id, amount) VALUES (-1, -1, 5), (-2, -1, 6)",
        "DELETE FROM notes WHERE code = 'N3'",
        "UPDATE shops SET name = 'renamed' WHERE id = 1",
    ];
    let mut target = shops.target().await;
    run(&mut target, &writes).await;
    let before = estate(&mut target, 1).await;
    traders.more(50).await;
    check_code(&ends(&shops, running).await, 0);
    traders.stop().await;
    assert_eq!(estate(&mut target, 1).await, before);
    check_moved(&shops, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenant_trades_on_the_target_while_one_moves_there() {
    let shops = shops_with_one_moved().await;
    let (here, there) = (
        Traders::start(&shops, Some(2), 2).await,
        Traders::start_on_target(&shops, 1, 2).await,
    );
    let mut running = postponed(moves_another(&shops, 2)).await;
    here.more(100).await;
    there.more(100).await;
    running.signal(Signal::SIGKILL).unwrap();
    assert_eq!(running.wait_exit(LIMIT).await.unwrap().code, None);
    there.more(20).await;
    running = postponed(moves_another(&shops, 2)).await;
    there.more(100).await;
    check_code(&ends(&shops, running).await, 0);
    here.stop().await;
    there.stop().await;
    check_moved(&shops, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_write_to_the_tenants_rows_on_the_target_ends_the_move() {
    let shops = shops_with_one_moved().await;
    for (write, key) in [
        (
            "UPDATE orders SET note = 'foreign' WHERE id = 1",
            "orders, key 1,",
        ),
        (
            "UPDATE items SET amount = 77 WHERE order_id = 1 LIMIT 1",
            "1 row was updated in ",
        ),
        ("UPDATE shops SET name = 'foreign' WHERE id = 1", "no"),
        ("DELETE FROM notes WHERE code = 'N4'", "notes, key 'N4'"),
    ] {
        let running = postponed(moves_another(&shops, 2).arg("--fresh")).await;
        run(&mut shops.target().await, &[write]).await;
        if key == "no" {
            check_code(&ends(&shops, running).await, 0);
            run(&mut shops.source().await, &[BACK]).await;
            continue;
        }
        let finished = running.wait_exit(LIMIT).await.unwrap();
        assert_eq!(finished.code, Some(74), "{write}: {}", finished.text());
        let text = finished.text();
        assert!(
            text.contains("somebody else writes to the target"),
            "{text}"
        );
        assert!(text.contains(key), "{key}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_write_while_the_move_was_down_ends_it_if_it_is_the_tenants() {
    let shops = shops_with_one_moved().await;
    let running = postponed(moves_another(&shops, 2)).await;
    running.signal(Signal::SIGKILL).unwrap();
    assert_eq!(running.wait_exit(LIMIT).await.unwrap().code, None);
    let writes = [
        "UPDATE items SET amount = 5 WHERE order_id IN (SELECT id FROM orders WHERE shop_id = 1)",
        "UPDATE notes SET text = 'foreign' WHERE code = 'N1'",
    ];
    run(&mut shops.target().await, &writes).await;
    let finished = moves_another(&shops, 2).run(LIMIT).await.unwrap();
    assert_eq!(finished.code, Some(74), "{}", finished.text());
    assert!(
        finished.text().contains("notes, key 'N1'"),
        "{}",
        finished.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_move_left_is_written_over_by_a_fresh_one() {
    let shops = shops_with_one_moved().await;
    let before = estate(&mut shops.target().await, 1).await;
    let running = postponed(moves_another(&shops, 2)).await;
    running.signal(Signal::SIGKILL).unwrap();
    assert_eq!(running.wait_exit(LIMIT).await.unwrap().code, None);
    let changes = [
        "DELETE FROM orders WHERE shop_id = 2 AND id < 100",
        "DELETE FROM items WHERE order_id BETWEEN 100 AND 130",
        "UPDATE notes SET text = 'later' WHERE order_id > 130",
    ];
    run(&mut shops.source().await, &changes).await;
    let fresh = postponed(moves_another(&shops, 2).arg("--fresh")).await;
    check_code(&ends(&shops, fresh).await, 0);
    assert_eq!(estate(&mut shops.target().await, 1).await, before);
    check_moved(&shops, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_another_tenant_has_on_the_target_ends_the_move_and_stays_theirs() {
    let shops = shops_with_one_moved().await;
    let mut target = shops.target().await;
    // Order 4 is shop 2's on the source, and shop 1's on the target.
    let taken = ["INSERT INTO orders (id, shop_id, note) VALUES (4, 1, 'ours')"];
    run(&mut target, &taken).await;
    let theirs = "SELECT * FROM orders WHERE shop_id = 1 ORDER BY id";
    let before = texts(&mut target, theirs).await;
    let finished = moves_another(&shops, 2).run(LIMIT).await.unwrap();
    assert_eq!(finished.code, Some(65), "{}", finished.text());
    assert!(finished.text().contains("orders"), "{}", finished.text());
    assert_eq!(texts(&mut target, theirs).await, before);
    let tables: Vec<String> = shops.source().await.query("SHOW TABLES").await.unwrap();
    assert!(tables.contains(&"orders".to_owned()), "{tables:?}");
}

/// Two tenants' rows on both servers; an owner may be spelled as it likes.
async fn spelled() -> Shops {
    let tables = [
        "CREATE TABLE owners (code VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, shop INT, KEY (shop))",
        "CREATE TABLE owned (id INT PRIMARY KEY, owner VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, v INT, KEY (owner), \
         CONSTRAINT belongs FOREIGN KEY (owner) REFERENCES owners (code))",
    ];
    let rows = [
        "INSERT INTO owners VALUES ('ANNA', 1), ('BERT', 2)",
        "INSERT INTO owned VALUES (1, 'anna', 1), (2, 'bert', 1), (3, NULL, 1)",
    ];
    let shops = Shops::on(options(), &[&tables[..], &rows[..]].concat()).await;
    let create = format!("CREATE DATABASE `{}`", shops.source.name());
    run(&mut shops.target.conn().await.unwrap(), &[create]).await;
    let others = [
        "INSERT INTO owners VALUES ('BERT', 2)",
        "SET foreign_key_checks = 0",
        "INSERT INTO owned VALUES (2, 'bert', 1), (7, 'nobody', 1)",
    ];
    run(
        &mut shops.target().await,
        &[&tables[..], &others[..]].concat(),
    )
    .await;
    shops
}

fn moves_spelled(shops: &Shops) -> Oxferry {
    let db = shops.source.name();
    let joined = format!(
        "{{table=\"{db}.owned\", column=\"owner\", owner=\"{db}.owners\", owner_key=\"code\"}}"
    );
    let moves = shops.moves("shop=1").arg("--joined").arg(joined);
    moves.arg("--target-tables").arg("matching")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_of_another_tenant_on_the_target_is_not_the_moves() {
    let shops = spelled().await;
    check_code(&moves_spelled(&shops).run(LIMIT).await.unwrap(), 0);
    let ids: Vec<u32> = shops
        .target()
        .await
        .query("SELECT id FROM owned ORDER BY id")
        .await
        .unwrap();
    assert_eq!(ids, [1, 2, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_write_is_the_tenants_however_its_owner_is_spelled() {
    let shops = spelled().await;
    let moves = moves_spelled(&shops).arg("--cutover").arg("manual");
    let mut running = moves.spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    let writes = [
        "UPDATE owned SET v = 2 WHERE id = 2",
        "UPDATE owned SET v = 2 WHERE id = 1",
    ];
    run(&mut shops.target().await, &writes).await;
    let finished = running.wait_exit(LIMIT).await.unwrap();
    assert_eq!(finished.code, Some(74), "{}", finished.text());
    let text = finished.text();
    assert!(
        text.contains("somebody else writes to the target"),
        "{text}"
    );
    assert!(text.contains("owned, key "), "{text}");
}

//! The rows of one tenant move, and nobody else's.

use mysql_async::{Row, prelude::Queryable};
use oxferry_testkit::{
    server::ServerOptions,
    tool::{Oxferry, Signal},
    wait::eventually,
};

use crate::{
    far::run,
    shops::{ROWS, Shops, TABLES, Traders, texts},
    world::{LIMIT, check_code, options},
};

/// A table whose rows tell their tenant by a text, in this collation.
fn texts_in(collation: &str) -> [String; 2] {
    [
        format!(
            "CREATE TABLE t (id INT PRIMARY KEY, shop VARCHAR(20) COLLATE {collation}, v INT, KEY (shop))"
        ),
        "INSERT INTO t VALUES (1, 'acme', 1), (2, 'ACME', 2), (3, 'acmé', 3), (4, 'acme ', 4), (5, 'b', 5), (6, NULL, 6)"
            .to_owned(),
    ]
}

async fn moves_texts(collation: &str, expected: &[&str]) {
    let statements = texts_in(collation);
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    let shops = Shops::on(options(), &statements).await;
    let mut running = shops
        .moves("shop=acme")
        .arg("--cutover")
        .arg("manual")
        .spawn()
        .unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    let changes = [
        "INSERT INTO t VALUES (11, 'acme', 11), (12, 'AcMe', 12), (13, 'ácme', 13), (14, 'acme  ', 14), (15, 'b', 15)",
        "UPDATE t SET v = v + 100",
    ];
    run(&mut shops.source().await, &changes).await;
    run(&mut shops.target().await, &["DROP TABLE _t_oxsentinel"]).await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    let rows: Vec<String> = shops
        .target()
        .await
        .query("SELECT CONCAT(id, ' ', v) FROM t ORDER BY id")
        .await
        .unwrap();
    assert_eq!(rows, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_name_is_what_the_server_takes_for_it() {
    let all = ["1 101", "2 102", "3 103", "11 111", "12 112", "13 113"];
    moves_texts("utf8mb4_0900_ai_ci", &all).await;
    let padded = ["1 101", "2 102", "4 104", "11 111", "12 112", "14 114"];
    moves_texts("utf8mb4_general_ci", &with_accents(&padded)).await;
    moves_texts("utf8mb4_bin", &["1 101", "4 104", "11 111", "14 114"]).await;
}

/// `utf8mb4_general_ci` compares letters without their accents, and pads.
fn with_accents<'a>(padded: &[&'a str]) -> Vec<&'a str> {
    let mut all = padded.to_vec();
    all.insert(2, "3 103");
    all.insert(6, "13 113");
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_changes_its_tenant_stops_the_move() {
    for change in [
        "UPDATE orders SET shop_id = 3 WHERE shop_id = 2 LIMIT 1",
        "UPDATE orders SET shop_id = 2 WHERE shop_id = 3 LIMIT 1",
    ] {
        let shops = Shops::new().await;
        let only = |name: &str| format!("{}.{name}", shops.source.name());
        let moves = ["items", "notes", "shops"]
            .iter()
            .fold(shops.moves("shop_id=2"), |moves, name| {
                moves.arg("--exclude").arg(only(name))
            });
        let mut running = moves.arg("--cutover").arg("manual").spawn().unwrap();
        running.wait_phase("deferred", LIMIT).await.unwrap();
        run(&mut shops.source().await, &[change]).await;
        let finished = running.wait_exit(LIMIT).await.unwrap();
        assert_eq!(finished.code, Some(74), "{}", finished.text());
        let text = finished.text();
        assert!(
            text.contains("changed its tenant") || text.contains("may not change its tenant"),
            "{text}"
        );
        assert!(text.contains(&only("orders")), "{text}");
        let key = if change.contains("WHERE shop_id = 2") {
            "row 1 "
        } else {
            "row 2 "
        };
        assert!(text.contains(key), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_the_tenant_is_not_known_of_is_refused() {
    let shops = Shops::new().await;
    let finished = shops.moves("shop_id=2").run(LIMIT).await.unwrap();
    assert_eq!(finished.code, Some(64), "{}", finished.text());
    for table in ["items", "notes", "shops"] {
        let what = format!(
            "table {}.{table} has no column shop_id",
            shops.source.name()
        );
        assert!(finished.text().contains(&what), "{}", finished.text());
    }
}

async fn moves_a_shop_under_traders(options: ServerOptions) {
    let shops = Shops::on(options, &[&TABLES[..], &ROWS[..]].concat()).await;
    let traders = Traders::start(&shops, None, 3).await;
    let mut running = shops
        .moves_shop(2)
        .arg("--cutover")
        .arg("manual")
        .spawn()
        .unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    traders.more(100).await;
    assert_eq!(
        texts(&mut shops.target().await, "SELECT * FROM shops").await,
        [""; 0]
    );
    // What is owned goes with its owner, and alone.
    let deletes = [
        "DELETE FROM orders WHERE id = 1 + 3 * 100",
        "DELETE FROM items WHERE order_id = 1 + 3 * 101",
        "DELETE FROM notes WHERE order_id = 1 + 3 * 102",
    ];
    run(&mut shops.source().await, &deletes).await;
    run(&mut shops.target().await, &["DROP TABLE _items_oxsentinel"]).await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    traders.stop().await;
    shops.check_shop(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_tenants_rows_arrive_with_gtids() {
    moves_a_shop_under_traders(options()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_tenants_rows_arrive_without_gtids() {
    moves_a_shop_under_traders(options().gtid(false)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_move_of_a_tenant_loses_nothing() {
    let shops = Shops::new().await;
    let traders = Traders::start(&shops, None, 3).await;
    for (phase, commits) in [("copy", 0), ("copy", 30), ("verify", 10), ("cutover", 0)] {
        let mut running = shops.moves_shop(3).spawn().unwrap();
        if running.wait_phase(phase, LIMIT).await.is_err() {
            check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
            break;
        }
        if commits > 0 {
            traders.more(commits).await;
        }
        // It may have ended by itself already.
        let _gone = running.signal(Signal::SIGKILL);
        let finished = running.wait_exit(LIMIT).await.unwrap();
        if finished.code == Some(0) {
            break;
        }
        assert_eq!(finished.code, None, "{}", finished.text());
    }
    if !shops.is_done().await {
        check_code(&shops.moves_shop(3).run(LIMIT).await.unwrap(), 0);
    }
    traders.stop().await;
    shops.check_shop(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_resume_position_follows_while_nothing_of_the_tenant_happens() {
    let shops = Shops::new().await;
    let mut running = shops
        .moves_shop(2)
        .arg("--cutover")
        .arg("manual")
        .spawn()
        .unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    let traders = Traders::start(&shops, Some(1), 2).await;
    traders.more(300).await;
    let mut source = shops.source().await;
    let status: Option<Row> = source.query_first("SHOW BINARY LOG STATUS").await.unwrap();
    let status = status.unwrap();
    let file: String = status.get("File").unwrap();
    let offset: u64 = status.get("Position").unwrap();
    let wanted = (number(&file), offset);
    let mut target = shops.target().await;
    let reached = eventually(LIMIT, "the checkpoint's position", async || {
        let saved: Option<String> = target
            .query_first(
                "SELECT payload ->> '$.position.file' FROM _items_oxstate WHERE job NOT LIKE '(mark%'",
            )
            .await
            .unwrap();
        let saved = saved?;
        let (file, offset) = saved.rsplit_once(':')?;
        ((number(file), offset.parse::<u64>().ok()?) >= wanted).then_some(())
    });
    reached.await.unwrap();
    traders.stop().await;
    run(&mut target, &["DROP TABLE _items_oxsentinel"]).await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    shops.check_shop(2).await;
}

/// The number of a binary log's file.
fn number(file: &str) -> u64 {
    file.rsplit_once('.').unwrap().1.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_an_index_on_the_column_moves_with_a_warning() {
    let statements = [
        "CREATE TABLE t (id INT PRIMARY KEY, shop BIGINT UNSIGNED, v VARCHAR(9), KEY other (v, shop))",
        "CREATE TABLE u (shop BIGINT UNSIGNED, id INT, PRIMARY KEY (shop, id))",
        "INSERT INTO t VALUES (1, 18446744073709551615, 'a'), (2, 7, 'b'), (3, 18446744073709551615, 'c')",
        "INSERT INTO u SELECT shop, id FROM t",
    ];
    let shops = Shops::on(options(), &statements).await;
    let plan = shops
        .planned("shop=18446744073709551615")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&plan, 0);
    let text = plan.text();
    let warning = "t has no index that begins with shop";
    assert!(text.contains(warning), "{text}");
    assert!(!text.contains("u has no index"), "{text}");
    assert!(
        text.contains("read_by=\"PRIMARY\"") || text.contains("read_by=PRIMARY"),
        "{text}"
    );
    let moved = shops
        .moves("shop=18446744073709551615")
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&moved, 0);
    assert!(moved.text().contains(warning), "{}", moved.text());
    let rows: Vec<String> = shops
        .target()
        .await
        .query("SELECT CONCAT(id, v) FROM t UNION ALL SELECT id FROM u ORDER BY 1")
        .await
        .unwrap();
    assert_eq!(rows, ["1", "1a", "3", "3c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settings_file_says_whose_rows_move() {
    let shops = Shops::new().await;
    let db = shops.source.name();
    let joined = |table: &str| {
        format!(
            "[[joined]]\ntable = '{db}.{table}'\ncolumn = 'order_id'\nowner = '{db}.orders'\nowner_key = 'id'\n"
        )
    };
    let toml = format!(
        "tenant = 'shop_id=2'\nlock-source = 'rename'\n{}{}[[root]]\ntable = '{db}.shops'\ncolumn = 'id'\n",
        joined("items"),
        joined("notes")
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.toml");
    std::fs::write(&file, &toml).unwrap();
    let oxferry = |words: &[&str]| {
        Oxferry::new(words.iter().copied())
            .program(env!("CARGO_BIN_EXE_oxferry"))
            .arg("--config")
            .arg(&file)
    };
    let printed = oxferry(&["config", "move", "--print"])
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&printed, 0);
    let text = printed.text();
    for line in [
        "tenant = shop_id=2  # file",
        &format!("{db}.items"),
        &format!("{db}.shops"),
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let (source, target) = (shops.source.server().url(), shops.target.url());
    let moves = [
        "move",
        "--source",
        &source,
        "--target",
        &target,
        "--database",
        db,
    ];
    check_code(&oxferry(&moves).run(LIMIT).await.unwrap(), 0);
    shops.check_shop(2).await;
    std::fs::write(&file, toml.replace("owner_key", "ownerkey")).unwrap();
    let refused = oxferry(&moves).run(LIMIT).await.unwrap();
    assert_eq!(refused.code, Some(64), "{}", refused.text());
    assert!(refused.text().contains("ownerkey"), "{}", refused.text());
}

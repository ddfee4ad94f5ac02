//! The images of every type against what the server selects.

use mysql_async::Value;
use oxferry_binlog::RowChange;
use oxferry_testkit::server::ServerOptions;

use crate::{
    follow::{drain, follow, run, server},
    zoo::{Zoo, plain},
};

#[track_caller]
fn check(images: &[Vec<Value>], rows: &[Vec<Value>]) {
    assert_eq!(images.len(), rows.len());
    let mut wrong = Vec::new();
    for (image, row) in images.iter().zip(rows) {
        assert_eq!(image.len(), row.len());
        for (at, (decoded, selected)) in image.iter().zip(row).enumerate().skip(1) {
            if plain(decoded) != plain(selected) {
                let short = |value| format!("{value:?}").chars().take(300).collect::<String>();
                let (decoded, selected) = (short(decoded), short(selected));
                wrong.push(format!("c{}: {decoded} for {selected}", at - 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

type Images = (Vec<Vec<Value>>, Vec<Vec<Value>>);

fn images(changes: Vec<RowChange>) -> Images {
    let mut images = (Vec::new(), Vec::new());
    for change in changes {
        images
            .0
            .extend(change.before.map(|row| row.values().to_vec()));
        images
            .1
            .extend(change.after.map(|row| row.values().to_vec()));
    }
    images
}

async fn check_zoo(compression: &str, checksum: &str) {
    let options = ServerOptions::new().arg(format!("--binlog-checksum={checksum}"));
    let server = server(options).await;
    let mut conn = server.conn().await.unwrap();
    let zoo = Zoo::new();
    zoo.create(&mut conn).await;
    let compress = format!("SET binlog_transaction_compression = {compression}");
    run(&mut conn, &[&compress]).await;
    let mut stream = follow(&server, "zoo").await;

    zoo.insert(&mut conn).await;
    let rows = zoo.selected(&mut conn).await;
    let (before, after) = images(drain(&mut stream, &mut conn).await);
    assert!(before.is_empty());
    check(&after, &rows);

    zoo.update(&mut conn).await;
    let updated = zoo.selected(&mut conn).await;
    let (before, after) = images(drain(&mut stream, &mut conn).await);
    check(&before, &rows);
    check(&after, &updated);

    zoo.delete(&mut conn).await;
    let (before, after) = images(drain(&mut stream, &mut conn).await);
    check(&before, &updated);
    assert!(after.is_empty());
}

#[tokio::test]
async fn images_equal_what_the_server_selects() {
    check_zoo("OFF", "CRC32").await;
}

#[tokio::test]
async fn images_out_of_compressed_transactions_equal_what_the_server_selects() {
    check_zoo("ON", "CRC32").await;
}

#[tokio::test]
async fn images_out_of_compressed_transactions_come_without_checksums_too() {
    check_zoo("ON", "NONE").await;
}

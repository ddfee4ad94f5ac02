//! What the operator says about comparing the rows of a move.

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    tables::TableSpec,
    tool::{Finished, Oxferry},
};

use crate::{
    far::Far,
    held::Gate,
    world::{LIMIT, check_code},
};

/// A table with a compressed column, and one that nobody needs to compare.
async fn far() -> Far {
    let far = Far::new(TableSpec::sysbench, 100).await;
    let mut source = far.source.conn().await.unwrap();
    for statement in [
        "CREATE TABLE z (id INT PRIMARY KEY, b BLOB, note VARCHAR(20), KEY by_note (note, id))",
        "INSERT INTO z SELECT id, SUBSTRING(COMPRESS(REPEAT('abc', id)), 5), 'a' FROM t",
    ] {
        source.query_drop(statement).await.unwrap();
    }
    far
}

/// Runs a move whose target changes each row of `z` on its way in.
async fn spoiled(far: &Far, moves: Oxferry, change: &str) -> Finished {
    let gate = Gate::closed();
    let moves = gate.hold(moves).arg("--detect-foreign-writes").arg("off");
    let mut running = moves.spawn().unwrap();
    running.wait_phase("copy", LIMIT).await.unwrap();
    let trigger = format!("CREATE TRIGGER spoil BEFORE INSERT ON z FOR EACH ROW SET {change}");
    far.target_conn().await.query_drop(trigger).await.unwrap();
    gate.open();
    running.wait_exit(LIMIT).await.unwrap()
}

fn of(far: &Far, option: &str, value: &str) -> Oxferry {
    let value = format!("{}.{value}", far.source.name());
    far.moves().arg(option).arg(value)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ignored_column_may_differ_after_a_move() {
    let far = far().await;
    let change = "NEW.note = 'b'";
    check_code(&spoiled(&far, far.moves(), change).await, 65);
    let fresh = of(&far, "--ignore-column", "z.note").arg("--fresh");
    check_code(&spoiled(&far, fresh.arg("--yes"), change).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_column_is_compared_by_what_it_holds_after_a_move() {
    // The same text in one stored block: 3 times `abc` of row 3 alone.
    let far = far().await;
    let stored = "x'7801010900f6ff616263616263616263113d0373'";
    let same = format!("NEW.b = IF(NEW.id = 3, {stored}, NEW.b)");
    check_code(&spoiled(&far, far.moves(), &same).await, 65);
    let fresh = of(&far, "--compressed", "z.b=zlib").arg("--fresh");
    check_code(&spoiled(&far, fresh.arg("--yes"), &same).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_column_that_holds_something_else_ends_the_move() {
    let far = far().await;
    let moves = of(&far, "--compressed", "z.b=zlib");
    let other = "NEW.b = IF(NEW.id = 3, SUBSTRING(COMPRESS('abd'), 5), NEW.b)";
    let finished = spoiled(&far, moves, other).await;
    check_code(&finished, 65);
    assert!(finished.text().contains("key 3 "), "{}", finished.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_compared_by_a_forced_index() {
    let far = far().await;
    let moves = of(&far, "--force-index", "z=by_note");
    check_code(&moves.run(LIMIT).await.unwrap(), 0);
    far.check_rows("_z_oxold", "z").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_about_columns_and_indexes_that_are_not_there_is_refused() {
    let far = far().await;
    for (option, value, why) in [
        ("--ignore-column", "z.nothing", "has none of that name"),
        ("--ignore-column", "z.id", "part of the key"),
        ("--ignore-column", "y.id", "isn't compared"),
        ("--compressed", "z.note=zlib", "VARBINARY"),
        ("--compressed", "z.b=rar", "rar"),
        ("--force-index", "z=nothing", "no index"),
        ("--force-index", "y=PRIMARY", "isn't compared"),
    ] {
        let refused = of(&far, option, value).run(LIMIT).await.unwrap();
        check_code(&refused, 64);
        let text = refused.text();
        assert!(text.contains(why), "{option} {value}: {text}");
    }
    let (_, there) = far.tables().await;
    assert_eq!(there, Vec::<String>::new());
}

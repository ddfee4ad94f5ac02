//! What hangs on tables that are taken back: foreign keys, counters.

use mysql_async::prelude::Queryable;
use oxferry_testkit::tables::TableSpec;

use crate::{
    far::target_options,
    far::{Far, run},
    way::Way,
    world::{LIMIT, check_code, options},
};

/// Parents `t`, and children that go with them.
async fn family(gtid: bool) -> Way {
    let servers = (options().gtid(gtid), target_options().gtid(gtid));
    let far = Far::on(servers, TableSpec::sysbench, 200).await;
    let child = [
        "CREATE TABLE child (id INT PRIMARY KEY AUTO_INCREMENT, t_id INT NOT NULL, \
         CONSTRAINT of_t FOREIGN KEY (t_id) REFERENCES t (id) ON DELETE CASCADE ON UPDATE CASCADE)",
        "INSERT INTO child (t_id) SELECT id FROM t",
    ];
    run(&mut far.source.conn().await.unwrap(), &child).await;
    Way::of(far)
}

async fn check_family_comes_back(gtid: bool) {
    let way = family(gtid).await;
    let mut running = way.moves().spawn().unwrap();
    running
        .wait_line("both sides were compared", LIMIT)
        .await
        .unwrap();
    let there = [
        // Their children go, and follow.
        "DELETE FROM t WHERE id BETWEEN 10 AND 20",
        "UPDATE t SET id = 100000 WHERE id = 30",
        "INSERT INTO t (k, c, pad) VALUES (1, 'new', 'new')",
        "INSERT INTO child (t_id) VALUES (LAST_INSERT_ID()), (5)",
        // A number that was given out, and whose row is gone.
        "INSERT INTO child (id, t_id) VALUES (7000, 5)",
        "DELETE FROM child WHERE id = 7000",
    ];
    run(&mut way.far.target_conn().await, &there).await;
    let (code, text) = way.ctl(&["cutover", "--reverse"]).await;
    assert_eq!(code, Some(0), "{text}");
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    way.far.check_rows("t", "_t_oxold").await;
    assert_eq!(way.far.check_rows("child", "_child_oxold").await, 191);
    let mut source = way.far.source.conn().await.unwrap();
    run(&mut source, &["INSERT INTO child (t_id) VALUES (5)"]).await;
    let next: Option<u64> = source.query_first("SELECT LAST_INSERT_ID()").await.unwrap();
    assert!(next > Some(7000), "{next:?}");
    let orphan = source
        .query_drop("INSERT INTO child (t_id) VALUES (10)")
        .await;
    assert!(orphan.unwrap_err().to_string().contains("of_t"));
    run(&mut source, &["DELETE FROM t WHERE id = 100000"]).await;
    let children = "SELECT COUNT(*) FROM child WHERE t_id = 100000";
    let children: Option<u64> = source.query_first(children).await.unwrap();
    assert_eq!(children, Some(0), "they go with their parent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_family_of_tables_is_taken_back_with_gtids() {
    check_family_comes_back(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_family_of_tables_is_taken_back_without_gtids() {
    check_family_comes_back(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_tells_of_the_switch_and_of_the_way_back() {
    let way = family(true).await;
    let options = ["--lock-source", "rename", "--reverse-for", "90m"];
    let planned = way.far.call(&["plan", "move"], &options);
    let planned = planned.run(LIMIT).await.unwrap();
    check_code(&planned, 0);
    let text = planned.text();
    for fact in [
        "are renamed, and stay so",
        "reverse_for=1h 30m",
        "_child_oxreverse",
    ] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
}

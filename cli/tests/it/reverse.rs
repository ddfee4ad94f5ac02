//! Moves that are taken back.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use oxferry_testkit::{
    server::{Schema, Server, ServerOptions},
    tables::TableSpec,
    tool::Signal,
};

use crate::{
    far::{Far, target_options},
    way::Way,
    world::{LIMIT, check_code, options},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_taken_back_without_losing_a_write_with_gtids() {
    Way::new(5_000).await.there_and_back("_t_oxold").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_taken_back_without_losing_a_write_without_gtids() {
    let servers = (options().gtid(false), target_options().gtid(false));
    let far = Far::on(servers, TableSpec::with_unique, 2_000).await;
    Way::of(far).there_and_back("_t_oxold").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_taken_back_between_servers_that_are_shut_as_a_whole() {
    let start = async |options: ServerOptions| Arc::new(Server::start(options).await.unwrap());
    let source = Schema::on(start(options()).await).await.unwrap();
    let table = TableSpec::sysbench(source.name(), "t", 1_000);
    let mut conn = source.conn().await.unwrap();
    table.create(&mut conn, 11).await.unwrap();
    let far = Far {
        source,
        target: start(target_options()).await,
        table,
    };
    let mut way = Way::of(far);
    (way.user, way.lock) = ("app", "read-only");
    for server in [way.far.source.server(), &way.far.target] {
        let mut conn = server.conn().await.unwrap();
        let user = [
            "CREATE USER app@'%'",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON *.* TO app@'%'",
        ];
        for statement in user {
            conn.query_drop(statement).await.unwrap();
        }
    }
    way.there_and_back("t").await;
    let mut target = way.far.target_conn().await;
    let shut: Option<bool> = target.query_first("SELECT @@read_only").await.unwrap();
    assert_eq!(shut, Some(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_back_that_is_killed_goes_on_and_is_taken_by_a_table() {
    let way = Way::new(3_000).await;
    let mut running = way.moved().await;
    let there = way.writers_there(47).await;
    for phase in ["reverse", "reverse", "cutover"] {
        there.wait_for_commits(60, LIMIT).await.unwrap();
        if phase == "cutover" {
            way.there("CREATE TABLE _t_oxreverse (a INT)").await;
            running
                .wait_line("is to be taken back", LIMIT)
                .await
                .unwrap();
        }
        running.signal(Signal::SIGKILL).unwrap();
        let finished = running.wait_exit(LIMIT).await.unwrap();
        assert_eq!(finished.code, None, "{}", finished.text());
        if phase == "cutover" {
            break;
        }
        running = way.moves().spawn().unwrap();
        running.wait_phase("reverse", LIMIT).await.unwrap();
    }
    // Killed somewhere on the way back, or in the cleaning up, or after it.
    let is_back = (vec!["t".to_owned()], vec!["_t_oxold".to_owned()]);
    if way.far.tables().await != is_back {
        check_code(&way.moves().run(LIMIT).await.unwrap(), 0);
    }
    way.check_back(there, "_t_oxold").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_announcement_leaves_the_applications_on_the_target() {
    let way = Way::new(500).await;
    let no = "sh -c 'test $OXFERRY_DIRECTION = forward'";
    let moves = || way.moves().arg("--hook-switched").arg(no);
    let mut running = moves().arg("--hook-attempts").arg("1").spawn().unwrap();
    running
        .wait_line("both sides were compared", LIMIT)
        .await
        .unwrap();
    let there = way.writers_there(59).await;
    way.ctl(&["cutover", "--reverse"]).await;
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 75);
    let tables = way.far.tables().await;
    assert!(tables.0.contains(&"_t_oxold".to_owned()), "{tables:?}");
    assert!(tables.1.contains(&"t".to_owned()), "{tables:?}");
    there.stop().await;
    let there = way.writers_there(61).await;
    there.wait_for_commits(50, LIMIT).await.unwrap();
    let mut running = way.moves().spawn().unwrap();
    running
        .wait_line("both sides were compared", LIMIT)
        .await
        .unwrap();
    let (code, text) = way.ctl(&["cutover", "--reverse"]).await;
    assert_eq!(code, Some(0), "{text}");
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    way.check_back(there, "_t_oxold").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_back_ends_when_its_time_is_over() {
    let way = Way::new(100).await;
    let moves = way.plain().arg("--reverse-for").arg("2s");
    let finished = moves.run(LIMIT).await.unwrap();
    check_code(&finished, 0);
    assert!(way.far.is_done().await, "{:?}", way.far.tables().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stragglers_write_to_the_source_ends_the_way_back() {
    let way = Way::new(100).await;
    let running = way.moved().await;
    way.here("INSERT INTO _t_oxold (id, k, c, pad) VALUES (1000000, 7, 'a', 'b')")
        .await;
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 74);
    let text = finished.text();
    assert!(
        text.contains("somebody still writes to the source"),
        "{text}"
    );
    assert!(
        text.contains("_t_oxold, key") && text.contains("1000000"),
        "{text}"
    );
    // It is found again by whoever goes on, until the way is given up.
    let again = way.moves().run(LIMIT).await.unwrap();
    check_code(&again, 74);
    check_code(&way.plain().run(LIMIT).await.unwrap(), 0);
    assert!(way.far.is_done().await, "{:?}", way.far.tables().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_definition_of_the_targets_table_ends_the_way_back() {
    let way = Way::new(100).await;
    let running = way.moved().await;
    way.there("ALTER TABLE t ADD COLUMN extra INT").await;
    let finished = running.wait_exit(LIMIT).await.unwrap();
    check_code(&finished, 74);
    let text = finished.text();
    assert!(text.contains("ADD COLUMN extra"), "{text}");
    assert!(text.contains("can't be taken back any more"), "{text}");
    check_code(&way.moves().run(LIMIT).await.unwrap(), 74);
    check_code(&way.plain().run(LIMIT).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_with_triggers_are_not_moved_with_a_way_back() {
    let way = Way::new(10).await;
    way.here("CREATE TRIGGER more BEFORE INSERT ON t FOR EACH ROW SET NEW.k = NEW.k + 1")
        .await;
    let finished = way.moves().run(LIMIT).await.unwrap();
    check_code(&finished, 64);
    let text = finished.text();
    assert!(text.contains("trigger more of"), "{text}");
    assert!(text.contains("--reverse-for"), "{text}");
}

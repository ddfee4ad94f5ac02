//! Triggers and foreign keys on their way to the new table.

use mysql_async::{Conn, Opts, OptsBuilder, Row, prelude::Queryable};
use oxferry_cutover::{CutoverError, SwapPlan, complete, detach, drop_old, swap};
use oxferry_schema::{Attached, Ident, Remedy, TableName, temporary_name};
use std::time::Duration;

use crate::{
    bystander::Writer,
    proxy::{Cut, Proxy},
    toy::{Place, Way, pair},
};

impl Place {
    /// A plan that carries what hangs on the table now.
    async fn carrying(&self) -> SwapPlan {
        let mut conn = self.conn().await;
        let attached = Attached::read(&mut conn, &self.pair.source).await.unwrap();
        self.plan().with_attached(attached)
    }

    async fn swapped(&self) -> SwapPlan {
        let plan = self.carrying().await;
        let mut toy = self.toy(Way::Copy);
        swap(&self.opts(), &plan, &mut toy).await.unwrap();
        plan
    }

    async fn now(&self) -> Attached {
        let mut conn = self.conn().await;
        Attached::read(&mut conn, &self.pair.source).await.unwrap()
    }

    async fn definition(&self, table: &str) -> String {
        let show = format!("SHOW CREATE TABLE {table}");
        let row: Row = self.conn().await.query_first(show).await.unwrap().unwrap();
        row.get::<String, _>(1).unwrap()
    }

    fn named(&self, table: &str) -> TableName {
        TableName::new(self.pair.source.schema.clone(), Ident::new(table).unwrap())
    }

    /// Parents in this and another database, and a self-reference.
    async fn with_foreign_keys(&self, other: &Self) {
        for name in [&self.pair.source, &self.pair.shadow] {
            self.run(&format!(
                "ALTER TABLE {name} ADD up INT, ADD x INT, ADD y INT, ADD KEY up (up), ADD KEY xy (x, y)"
            ))
            .await;
        }
        self.run("CREATE TABLE p (id INT PRIMARY KEY)").await;
        self.run(&format!(
            "ALTER TABLE t ADD CONSTRAINT named FOREIGN KEY (up) REFERENCES p (id) \
             ON DELETE CASCADE ON UPDATE SET NULL, \
             ADD FOREIGN KEY (x, y) REFERENCES t (writer, number) ON DELETE SET NULL, \
             ADD FOREIGN KEY (x, y) REFERENCES {} (writer, number)",
            other.pair.source
        ))
        .await;
    }

    /// Children in this and another database, one with an index that the
    /// server has made.
    async fn with_children(&self, other: &Self) {
        let references = format!("REFERENCES {} (writer, number)", self.pair.source);
        self.run(&format!(
            "CREATE TABLE child (id INT PRIMARY KEY, x INT, y INT, \
             CONSTRAINT child_up FOREIGN KEY (x, y) {references} ON DELETE CASCADE)"
        ))
        .await;
        other
            .run(&format!(
                "CREATE TABLE child2 (id INT PRIMARY KEY, x INT, y INT, KEY own (x, y), \
                 FOREIGN KEY (x, y) {references} ON UPDATE CASCADE, \
                 CONSTRAINT twice FOREIGN KEY (x, y) {references})"
            ))
            .await;
    }
}

/// A session whose statements are taken in this character set and mode.
async fn session(place: &Place, charset: &str, mode: &str) -> Conn {
    let mut conn = place.conn().await;
    let set = format!("SET character_set_client = {charset}, sql_mode = '{mode}'");
    conn.query_drop(set).await.unwrap();
    conn
}

/// Two triggers of every moment; their order isn't that of their creation, nor
/// that of their names.
async fn with_triggers(place: &Place) {
    place
        .run("CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(99))")
        .await;
    let mut latin = session(place, "latin1", "ANSI_QUOTES").await;
    let mut gbk = session(place, "gbk", "NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT").await;
    for (timing, event, row) in [
        ("BEFORE", "INSERT", "NEW"),
        ("AFTER", "INSERT", "NEW"),
        ("BEFORE", "UPDATE", "NEW"),
        ("AFTER", "UPDATE", "OLD"),
        ("BEFORE", "DELETE", "OLD"),
        ("AFTER", "DELETE", "OLD"),
    ] {
        let name = format!("a_{timing}_{event}");
        let mut first = format!(
            "CREATE DEFINER=\"no\"\"body\"@\"%\" TRIGGER {name} {timing} {event} ON t FOR EACH ROW \
             INSERT INTO log (what) VALUES (CONCAT('caf"
        )
        .into_bytes();
        first.push(0xE9);
        first.extend(format!("{timing} {event} ', {row}.number)) -- why").as_bytes());
        latin.query_drop(first).await.unwrap();
        // The second byte of this character is a backslash.
        let mut second = format!(
            "CREATE TRIGGER z{name} {timing} {event} ON t FOR EACH ROW PRECEDES {name} \
             BEGIN SET @a = '"
        )
        .into_bytes();
        second.extend([0xD5, 0x5C]);
        second.extend(b"' || ';'; SET @b = 1; END");
        gbk.query_drop(second).await.unwrap();
    }
}

#[tokio::test]
async fn triggers_come_out_byte_by_byte_the_same_and_in_their_order() {
    let place = Place::new().await;
    with_triggers(&place).await;
    let before = place.now().await;
    assert_eq!(before.triggers.len(), 12);
    assert!(before.triggers[0].name.as_str().starts_with('z'));
    assert!(before.triggers[1].body.contains(&0xE9));
    assert_eq!(before.triggers[1].definer, "`no\"body`@`%`");
    let plan = place.swapped().await;
    assert_eq!(before.differences(&place.now().await), [""; 0]);
    let mut conn = place.conn().await;
    drop_old(&mut conn, &place.pair.old, Duration::from_secs(1))
        .await
        .unwrap();
    complete(&place.opts(), &plan).await.unwrap();
    assert_eq!(before.differences(&place.now().await), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_is_audited_once_while_the_tables_change_places() {
    let place = Place::new().await;
    place
        .run("CREATE TABLE log (writer INT, number INT, KEY (writer, number))")
        .await;
    place
        .run(
            "CREATE TRIGGER audit AFTER INSERT ON t FOR EACH ROW \
             INSERT INTO log VALUES (NEW.writer, NEW.number)",
        )
        .await;
    let mut writers = Vec::new();
    for number in 0..3 {
        writers.push(Writer::start(&place, number).await);
    }
    for writer in &mut writers {
        writer.commits(20).await;
    }
    place.swapped().await;
    for writer in &mut writers {
        writer.commits(20).await;
    }
    let mut committed = 0;
    for writer in writers {
        committed += writer.stop().await;
    }
    assert_eq!(place.count(&place.named("log")).await, committed);
    assert_eq!(place.count(&place.pair.source).await, committed);
}

#[tokio::test]
async fn a_child_keeps_its_foreign_keys_and_their_names() {
    let (place, other) = (Place::new().await, Place::new().await);
    place.with_foreign_keys(&other).await;
    let before = place.definition("t").await;
    place.swapped().await;
    assert_eq!(place.definition("t").await, before);
    assert!(!place.definition("_t_oxold").await.contains("CONSTRAINT"));
    // They hold: the parent in the same database, the table itself.
    place.run("INSERT INTO p VALUES (1)").await;
    place
        .run("INSERT INTO t VALUES (1, 1, 1, NULL, NULL)")
        .await;
    let refused = "INSERT INTO t VALUES (1, 2, 7, NULL, NULL)";
    place.conn().await.query_drop(refused).await.unwrap_err();
    place.run("DELETE FROM p").await;
    assert_eq!(place.count(&place.pair.source).await, 0);
}

#[tokio::test]
async fn children_refer_to_the_new_table_by_the_same_names() {
    let (place, other) = (Place::new().await, Place::new().await);
    place.with_children(&other).await;
    let child2 = other.named("child2").to_string();
    let before = (
        place.definition("child").await,
        place.definition(&child2).await,
    );
    place.swapped().await;
    let after = (
        place.definition("child").await,
        place.definition(&child2).await,
    );
    assert_eq!(after, before);
    let mut conn = place.conn().await;
    drop_old(&mut conn, &place.pair.old, Duration::from_secs(1))
        .await
        .unwrap();
    place.run("INSERT INTO t VALUES (1, 1)").await;
    place.run("INSERT INTO child VALUES (1, 1, 1)").await;
    place.run("DELETE FROM t").await;
    assert_eq!(place.count(&place.named("child")).await, 0);
}

#[tokio::test]
async fn a_child_and_its_parent_change_places_together() {
    let place = Place::new().await;
    let parent = pair(&place.schema, "parent");
    place.create(&parent).await;
    place
        .run("ALTER TABLE t ADD FOREIGN KEY (writer, number) REFERENCES parent (writer, number)")
        .await;
    let before = place.definition("t").await;
    let own = [place.pair.source.clone(), parent.source.clone()];
    let mut conn = place.conn().await;
    let of_parent = Attached::read(&mut conn, &parent.source).await.unwrap();
    let plan = place
        .carrying()
        .await
        .with_pair(parent)
        .with_attached(of_parent.without_children(&own));
    let mut toy = place.toy(Way::Copy);
    swap(&place.opts(), &plan, &mut toy).await.unwrap();
    assert_eq!(place.definition("t").await, before);
    for old in ["_parent_oxold", "_t_oxold"] {
        let old = place.named(old);
        drop_old(&mut conn, &old, Duration::from_secs(1))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_trigger_that_was_changed_meanwhile_stops_the_swap() {
    let place = Place::new().await;
    let create = "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = ";
    place.run(&format!("{create} 1")).await;
    let plan = place.carrying().await;
    place.run("DROP TRIGGER x").await;
    let mut toy = place.toy(Way::Copy);
    for (statement, said) in [
        (String::new(), "was dropped"),
        (format!("{create} 2"), "was changed"),
    ] {
        if !statement.is_empty() {
            place.run(&statement).await;
        }
        let error = swap(&place.opts(), &plan, &mut toy).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(error.remedy(), Remedy::Retry);
    }
    place.expect_writes_flow().await;
}

/// Everything at once: what hangs on it, and what hangs on that.
async fn loaded() -> (Place, Place) {
    let (place, other) = (Place::new().await, Place::new().await);
    place.with_foreign_keys(&other).await;
    place.with_children(&other).await;
    with_triggers(&place).await;
    (place, other)
}

async fn swap_through(place: &Place, cut: Cut) -> (SwapPlan, Result<(), CutoverError>) {
    let proxy = Proxy::start(place.opts(), Some(cut)).await;
    let plan = place.carrying().await;
    let plan = plan.with_attempts_max(2.try_into().unwrap());
    let mut toy = place.toy(Way::Copy);
    let swapped = swap(&proxy.opts(), &plan, &mut toy).await;
    (plan, swapped.map(|_| ()))
}

#[tokio::test]
async fn a_connection_lost_before_the_rename_leaves_the_shadow_bare_for_the_next_attempt() {
    let (place, _other) = loaded().await;
    let before = (place.now().await, place.definition("t").await);
    swap_through(&place, Cut::Before).await.1.unwrap();
    assert_eq!(before.0.differences(&place.now().await), [""; 0]);
    assert_eq!(place.definition("t").await, before.1);
}

#[tokio::test]
async fn a_connection_lost_after_the_rename_is_found_and_the_rest_completed() {
    let (place, _other) = loaded().await;
    let before = (place.now().await, place.definition("t").await);
    swap_through(&place, Cut::After).await.1.unwrap();
    assert_eq!(before.0.differences(&place.now().await), [""; 0]);
    assert_eq!(place.definition("t").await, before.1);
    assert_eq!(place.tables().await, ["_t_oxold", "child", "log", "p", "t"]);
}

/// As a server that dies right after the rename leaves it.
#[tokio::test]
async fn what_a_crash_leaves_behind_is_completed_step_by_step() {
    let (place, _other) = loaded().await;
    let before = (
        place.now().await,
        place.definition("t").await,
        place.definition("child").await,
    );
    let plan = place.carrying().await;
    let source = &place.pair.source;
    let mut conn = place.conn().await;
    for (at, trigger) in before.0.triggers.iter().enumerate() {
        let name = temporary_name(source, "tr", at + 1);
        let statement = trigger.statement(&mut conn, &name, &place.pair.shadow);
        let packet = statement.await.unwrap().packet;
        conn.query_drop(packet).await.unwrap();
        conn.query_drop("SET NAMES utf8mb4").await.unwrap();
    }
    for (at, key) in before.0.foreign_keys.iter().enumerate() {
        let name = temporary_name(source, "fk", at + 1);
        let parent = if key.was.parent == *source {
            &place.pair.shadow
        } else {
            &key.was.parent
        };
        let add = key.becomes.add_clause(&name, parent);
        place
            .run(&format!("ALTER TABLE {} {add}", place.pair.shadow))
            .await;
    }
    place.run("RENAME TABLE t TO _t_oxold, _t_oxnew TO t").await;
    // One trigger had lost its temporary name and not got its own yet; the
    // server had been about to rebuild a child.
    let first = temporary_name(source, "tr", 1);
    place.run(&format!("DROP TRIGGER {first}")).await;
    let name = temporary_name(&place.named("child"), "fk", 1);
    let kept = temporary_name(&place.named("child"), "ix", 1);
    place
        .run(&format!(
            "ALTER TABLE child DROP FOREIGN KEY child_up, RENAME INDEX child_up TO {kept}, \
             ADD CONSTRAINT {name} FOREIGN KEY (x, y) REFERENCES t (writer, number) ON DELETE CASCADE"
        ))
        .await;
    for _ in 0..2 {
        complete(&place.opts(), &plan).await.unwrap();
        assert_eq!(before.0.differences(&place.now().await), [""; 0]);
        assert_eq!(place.definition("t").await, before.1);
        assert_eq!(place.definition("child").await, before.2);
    }
    drop_old(&mut conn, &place.pair.old, Duration::from_secs(1))
        .await
        .unwrap();
}

#[tokio::test]
async fn what_a_killed_attempt_gave_the_shadow_is_taken_off_again() {
    let place = Place::new().await;
    let plan = {
        with_triggers(&place).await;
        place.carrying().await
    };
    place.run("CREATE TABLE p (id INT PRIMARY KEY)").await;
    place
        .run(
            "ALTER TABLE _t_oxnew ADD KEY (writer), \
             ADD CONSTRAINT _t_oxfk1 FOREIGN KEY (writer) REFERENCES p (id)",
        )
        .await;
    place
        .run("CREATE TRIGGER _t_oxtr1 BEFORE INSERT ON _t_oxnew FOR EACH ROW SET @a = 1")
        .await;
    let mut conn = place.conn().await;
    detach(&mut conn, &plan).await.unwrap();
    let shadow = Attached::read(&mut conn, &place.pair.shadow).await.unwrap();
    assert!(shadow.is_empty(), "{shadow:?}");
}

/// The session is as the packet of a trigger that failed leaves it.
#[tokio::test]
async fn what_hangs_on_a_shadow_is_found_whatever_character_set_a_trigger_left_behind() {
    let place = Place::new().await;
    let table = pair(&place.schema, "t\u{e9}");
    place.create(&table).await;
    let on = |table: &TableName, name: &str| {
        format!("CREATE TRIGGER `{name}` BEFORE INSERT ON {table} FOR EACH ROW SET @a = 1")
    };
    place.run(&on(&table.source, "x\u{e9}")).await;
    let mut conn = place.conn().await;
    let attached = Attached::read(&mut conn, &table.source).await.unwrap();
    let plan = SwapPlan::new(table.clone()).with_attached(attached);
    for charset in ["latin1", "gbk"] {
        place.run(&on(&table.shadow, "y\u{e9}")).await;
        let mut left = session(&place, charset, "ANSI_QUOTES,NO_BACKSLASH_ESCAPES").await;
        detach(&mut left, &plan).await.unwrap();
        let shadow = Attached::read(&mut conn, &table.shadow).await.unwrap();
        assert!(shadow.is_empty(), "{charset}: {shadow:?}");
    }
}

#[tokio::test]
async fn a_completion_that_fails_under_its_lock_leaves_no_lock() {
    let place = Place::new().await;
    place
        .run("CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1")
        .await;
    let mut plan = place.carrying().await;
    place.run("DROP TRIGGER x").await;
    place.run("CREATE TABLE other (id INT PRIMARY KEY)").await;
    // Its name is taken on another table, which isn't locked: error 1100.
    place
        .run("CREATE TRIGGER x BEFORE INSERT ON other FOR EACH ROW SET @a = 2")
        .await;
    plan.attempts_max = 1.try_into().unwrap();
    let error = complete(&place.opts(), &plan).await.unwrap_err();
    assert!(
        matches!(error, CutoverError::Incomplete { .. }),
        "{error:?}"
    );
    place.expect_writes_flow().await;
}

#[tokio::test]
async fn a_foreign_key_that_the_user_may_not_see_stops_the_swap() {
    let (place, other) = (Place::new().await, Place::new().await);
    let source = &place.pair.source;
    let (schema, user) = (&source.schema, source.schema.as_str().to_owned());
    place.run(&format!("CREATE USER `{user}`")).await;
    place
        .run(&format!("GRANT ALL ON {schema}.* TO `{user}`"))
        .await;
    place
        .run(&format!(
            "GRANT PROCESS, REPLICATION CLIENT, BACKUP_ADMIN ON *.* TO `{user}`"
        ))
        .await;
    let opts = OptsBuilder::from_opts(place.opts())
        .user(Some(&user))
        .pass(None::<String>);
    let opts = Opts::from(opts);
    let plan = place.carrying().await;
    other
        .run(&format!(
            "CREATE TABLE child (id INT PRIMARY KEY, x INT, y INT, \
             FOREIGN KEY (x, y) REFERENCES {source} (writer, number))"
        ))
        .await;
    let mut toy = place.toy(Way::Copy);
    let error = swap(&opts, &plan, &mut toy).await.unwrap_err();
    assert!(error.to_string().contains("may not see"), "{error:?}");
    place.expect_writes_flow().await;
    place.run(&format!("DROP USER `{user}`")).await;
}

#[tokio::test]
async fn a_childs_indexes_keep_their_names_however_long_or_odd() {
    let place = Place::new().await;
    let long = "k".repeat(64);
    place
        .run(&format!(
            "CREATE TABLE child (id INT PRIMARY KEY, x INT, y INT, KEY x_oxix (x), \
             CONSTRAINT {long} FOREIGN KEY (x, y) REFERENCES {} (writer, number))",
            place.pair.source
        ))
        .await;
    let before = place.definition("child").await;
    assert!(before.contains(&format!("KEY `{long}` (")), "{before}");
    let plan = place.swapped().await;
    assert_eq!(place.definition("child").await, before);
    complete(&place.opts(), &plan).await.unwrap();
    assert_eq!(place.definition("child").await, before);
}

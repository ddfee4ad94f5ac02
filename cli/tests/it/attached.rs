//! Tables with triggers and foreign keys, migrated while applications write.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{Attached, Ident, TableName};
use oxferry_testkit::{
    compare::compare_tables, server::ServerOptions, tables::TableSpec, tool::Signal,
    wait::eventually,
};
use tokio::task::JoinHandle;

use crate::world::{LIMIT, World, check_code};

/// An application that runs the same statements over and over, each with a
/// number of its own, until it is told to stop. No statement may fail.
struct App {
    task: JoinHandle<u64>,
    rounds: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl App {
    /// `#` stands for a number that no other round has.
    async fn start(world: &World, first: u64, statements: &[&str]) -> Self {
        let mut conn = world.conn().await;
        let statements: Vec<String> = statements.iter().map(|s| (*s).to_owned()).collect();
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&rounds));
        let task = tokio::spawn(async move {
            let mut number = first;
            while !stopped.load(Ordering::Relaxed) {
                for statement in &statements {
                    let statement = statement.replace('#', &number.to_string());
                    conn.query_drop(&statement).await.unwrap();
                }
                number += 1;
                AtomicU64::fetch_add(&counter, 1, Ordering::Relaxed);
            }
            number - first
        });
        let app = Self { task, rounds, stop };
        app.more(5).await;
        app
    }

    async fn more(&self, rounds: u64) {
        let goal = self.rounds.load(Ordering::Relaxed) + rounds;
        eventually(LIMIT, "the application to write", async || {
            assert!(!self.task.is_finished(), "the application failed");
            (self.rounds.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await
        .unwrap();
    }

    /// Returns how many rounds there were.
    async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

impl World {
    async fn run(&self, statements: &[&str]) {
        let mut conn = self.conn().await;
        for statement in statements {
            conn.query_drop(*statement).await.unwrap();
        }
    }

    fn named(&self, table: &str) -> TableName {
        let name = |text: &str| Ident::new(text).unwrap();
        TableName::new(name(self.schema.name()), name(table))
    }

    async fn attached(&self) -> Attached {
        let mut conn = self.conn().await;
        Attached::read(&mut conn, &self.named("t")).await.unwrap()
    }

    async fn definition(&self, table: &str) -> String {
        let show = format!("SHOW CREATE TABLE {table}");
        let row: Option<(String, String)> = self.conn().await.query_first(show).await.unwrap();
        row.unwrap().1
    }

    async fn number(&self, query: &str) -> u64 {
        self.conn().await.query_first(query).await.unwrap().unwrap()
    }
}

const AUDIT: [&str; 7] = [
    "CREATE TABLE audit (id BIGINT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(40), row_id INT)",
    "CREATE TRIGGER bi BEFORE INSERT ON t FOR EACH ROW INSERT INTO audit (what, row_id) VALUES ('bi', NEW.id)",
    "CREATE TRIGGER ai AFTER INSERT ON t FOR EACH ROW BEGIN INSERT INTO audit (what, row_id) VALUES ('ai', NEW.id); END",
    "CREATE TRIGGER bu BEFORE UPDATE ON t FOR EACH ROW INSERT INTO audit (what, row_id) VALUES ('bu', OLD.id)",
    "CREATE TRIGGER au AFTER UPDATE ON t FOR EACH ROW INSERT INTO audit (what, row_id) VALUES ('au', NEW.id)",
    "CREATE TRIGGER bd BEFORE DELETE ON t FOR EACH ROW INSERT INTO audit (what, row_id) VALUES ('bd', OLD.id)",
    "CREATE TRIGGER ad AFTER DELETE ON t FOR EACH ROW INSERT INTO audit (what, row_id) VALUES ('ad', OLD.id)",
];

/// Another account's, of another mode and character set, before the others.
async fn with_old_trigger(world: &World) {
    let mut conn = world.conn().await;
    let schema = world.schema.name();
    for statement in [
        "CREATE USER IF NOT EXISTS nobody@'10.%'".to_owned(),
        format!("GRANT TRIGGER ON `{schema}`.* TO nobody@'10.%'"),
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    conn.query_drop("SET sql_mode = 'ANSI_QUOTES', character_set_client = latin1")
        .await
        .unwrap();
    let mut create = b"CREATE DEFINER=\"nobody\"@\"10.%\" TRIGGER z_first BEFORE INSERT ON t \
        FOR EACH ROW PRECEDES bi SET @said = 'caf"
        .to_vec();
    create.push(0xE9);
    create.extend(b"' -- as ever");
    conn.query_drop(create).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_act_once_for_each_write_and_come_out_as_they_were() {
    let world = World::new(TableSpec::sysbench, 3_000).await;
    world.run(&AUDIT).await;
    with_old_trigger(&world).await;
    let before = world.attached().await;
    assert_eq!(before.triggers.len(), 7);
    let insert = "INSERT INTO t (id, k, c, pad) VALUES (#, 1, 'c', 'p')";
    let delete = "DELETE FROM t WHERE id = #";
    let update = "UPDATE t SET k = k + 1 WHERE id = #";
    let one = App::start(&world, 1_000_000, &[insert, update, delete]).await;
    let two = App::start(&world, 2_000_000, &[insert, update]).await;
    let migrate = world.migrate("ADD COLUMN extra INT NOT NULL DEFAULT 7, FORCE");
    check_code(&migrate.run(LIMIT).await.unwrap(), 0);
    one.more(5).await;
    two.more(5).await;
    let (one, two) = (one.stop().await, two.stop().await);
    for (what, expected) in [
        ("bi", one + two),
        ("ai", one + two),
        ("bu", one + two),
        ("au", one + two),
        ("bd", one),
        ("ad", one),
    ] {
        let count = format!("SELECT COUNT(*) FROM audit WHERE what = '{what}'");
        assert_eq!(world.number(&count).await, expected, "{what}");
    }
    let after = world.attached().await;
    assert_eq!(before.differences(&after), [""; 0]);
    assert_eq!(after.triggers[1].name.as_str(), "bi");
    assert!(
        after
            .triggers
            .iter()
            .any(|trigger| trigger.definer == "`nobody`@`10.%`"
                && trigger.sql_mode == "ANSI_QUOTES"
                && trigger.body.contains(&0xE9))
    );
    assert_eq!(world.tables_beside().await, ["audit"]);
}

/// What the cascades do to the table they do to another one as well, that
/// nobody migrates.
#[tokio::test(flavor = "multi_thread")]
async fn cascades_during_the_copy_reach_the_new_table_and_go_on_there() {
    let world = World::new(TableSpec::sysbench, 3_000).await;
    let add = |name: &str| {
        format!(
            "ALTER TABLE {name} ADD CONSTRAINT {name}_gone FOREIGN KEY (gone) REFERENCES p (id) \
             ON DELETE CASCADE ON UPDATE CASCADE, \
             ADD CONSTRAINT {name}_null FOREIGN KEY (nil) REFERENCES p (id) \
             ON DELETE SET NULL ON UPDATE SET NULL, \
             ADD FOREIGN KEY (up) REFERENCES {name} (id) ON DELETE SET NULL"
        )
    };
    world
        .run(&[
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "INSERT INTO p SELECT id FROM t",
            "ALTER TABLE t ADD gone INT, ADD nil INT, ADD up INT",
            "UPDATE t SET gone = id, nil = id",
            "UPDATE t SET up = id - 1 WHERE id > 1",
            "CREATE TABLE control LIKE t",
            "INSERT INTO control SELECT * FROM t",
            &add("t"),
            &add("control"),
        ])
        .await;
    let before = world.definition("t").await;
    let insert = |table: &str| {
        format!("INSERT INTO {table} (id, k, c, pad, gone, nil) VALUES (#, 1, 'c', 'p', #, #)")
    };
    let new = App::start(
        &world,
        701_500,
        &[
            "BEGIN",
            "INSERT INTO p VALUES (#)",
            &insert("t"),
            &insert("control"),
            "COMMIT",
            "UPDATE p SET id = id + 9000000 WHERE id = # - 700000",
        ],
    )
    .await;
    let old = App::start(&world, 500, &["DELETE FROM p WHERE id = #"]).await;
    let migrate = world.migrate("RENAME COLUMN up TO up2, ADD extra INT, FORCE");
    check_code(&migrate.run(LIMIT).await.unwrap(), 0);
    new.more(5).await;
    old.more(5).await;
    new.stop().await;
    old.stop().await;
    let after = world.definition("t").await;
    let keys_of = |definition: &str| {
        let lines = definition
            .lines()
            .filter(|line| line.contains("CONSTRAINT"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected: Vec<String> = keys_of(&before)
        .iter()
        .map(|line| line.replace("(`up`)", "(`up2`)"))
        .collect();
    assert_eq!(keys_of(&after), expected);
    world.run(&["ALTER TABLE t RENAME COLUMN up2 TO up"]).await;
    let columns = ["id", "k", "c", "pad", "gone", "nil", "up"];
    let mut conn = world.conn().await;
    compare_tables(&mut conn, "control", "t", &["id"], &columns)
        .await
        .unwrap();
    assert_eq!(world.tables_beside().await, ["control", "p"]);
}

/// Two children, in two databases; returns the second one's name, and what both
/// are.
async fn with_children(world: &World, other: &World) -> (String, [String; 2]) {
    let references = format!("REFERENCES {} (id)", world.named("t"));
    let child = format!(
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT child_p FOREIGN KEY (p) \
         {references} ON DELETE CASCADE)"
    );
    world.run(&[&child]).await;
    let child =
        format!("CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) {references})");
    other.run(&[&child]).await;
    let second = other.named("child").to_string();
    let definitions = [
        world.definition("child").await,
        world.definition(&second).await,
    ];
    (second, definitions)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_is_refused_with_the_list_of_its_children() {
    let world = World::new(TableSpec::sysbench, 10).await;
    let other = World::new(TableSpec::sysbench, 1).await;
    with_children(&world, &other).await;
    let refused = world.migrate("FORCE").run(LIMIT).await.unwrap();
    check_code(&refused, 64);
    for fact in [
        "child_p of",
        "child_ibfk_1 of",
        other.schema.name(),
        "--rebuild-foreign-keys",
    ] {
        assert!(refused.text().contains(fact), "{}", refused.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_in_two_databases_follow_the_new_table_when_asked_for() {
    let world = World::new(TableSpec::sysbench, 2_000).await;
    let other = World::new(TableSpec::sysbench, 1).await;
    let (child2, before) = with_children(&world, &other).await;
    let insert = "INSERT INTO t (id, k, c, pad) VALUES (#, 1, 'c', 'p')";
    let own = "INSERT INTO child VALUES (#, #)";
    let delete = "DELETE FROM t WHERE id = # - 3";
    let first = App::start(&world, 1_000_000, &[insert, own, delete]).await;
    let insert2 = format!("INSERT INTO {child2} VALUES (#, #)");
    let second = App::start(&world, 2_000_000, &[insert, &insert2]).await;
    let migrate = |clauses| world.migrate(clauses).arg("--rebuild-foreign-keys");
    let under_writers = migrate("ADD COLUMN more INT, FORCE").run(LIMIT).await;
    check_code(&under_writers.unwrap(), 0);
    first.more(5).await;
    second.more(5).await;
    let (first, second) = (first.stop().await, second.stop().await);
    let at_rest = migrate("RENAME COLUMN id TO number, FORCE")
        .run(LIMIT)
        .await;
    check_code(&at_rest.unwrap(), 0);
    let renamed = before.map(|text| text.replace("`t` (`id`)", "`t` (`number`)"));
    assert_eq!(world.definition("child").await, renamed[0]);
    assert_eq!(world.definition(&child2).await, renamed[1]);
    // Each of the first's rows but the last three went with its parent.
    let rows = world.number("SELECT COUNT(*) FROM child").await;
    assert_eq!(rows, 3.min(first));
    let count = format!("SELECT COUNT(*) FROM {child2}");
    assert_eq!(world.number(&count).await, second);
    let orphan = "INSERT INTO child VALUES (9, 999999)";
    world.conn().await.query_drop(orphan).await.unwrap_err();
    assert_eq!(world.tables_beside().await, ["child"]);
}

/// Neither could be changed alone: the key's two sides must be of one type.
#[tokio::test(flavor = "multi_thread")]
async fn a_parent_and_its_child_are_changed_by_one_job() {
    let world = World::new(TableSpec::sysbench, 500).await;
    world
        .run(&[
            "CREATE TABLE child (id INT PRIMARY KEY, up INT, CONSTRAINT kept FOREIGN KEY (up) \
             REFERENCES t (id) ON DELETE CASCADE)",
            "CREATE TRIGGER tr BEFORE INSERT ON child FOR EACH ROW SET @a = NEW.up",
            "INSERT INTO child SELECT id, id FROM t",
        ])
        .await;
    let insert = "INSERT INTO t (id, k, c, pad) VALUES (#, 1, 'c', 'p')";
    let own = "INSERT INTO child VALUES (#, #)";
    let delete = "DELETE FROM t WHERE id = # - 1000000";
    let app = App::start(&world, 1_000_001, &[insert, own, delete]).await;
    let job = |statements: &[&str]| {
        let migrate = world.oxferry("migrate").arg("--native-ddl").arg("off");
        statements
            .iter()
            .fold(migrate, |job, one| job.arg("--statement").arg(*one))
    };
    let parent = "ALTER TABLE t MODIFY id BIGINT NOT NULL";
    let both = job(&[parent, "ALTER TABLE child CHANGE up parent BIGINT"]);
    check_code(&both.run(LIMIT).await.unwrap(), 64);
    world
        .run(&[
            "DROP TRIGGER tr",
            "CREATE TRIGGER tr BEFORE INSERT ON child FOR EACH ROW SET @a = 1",
        ])
        .await;
    check_code(&both.run(LIMIT).await.unwrap(), 0);
    app.more(5).await;
    let rounds = app.stop().await;
    let keys = "CONSTRAINT `kept` FOREIGN KEY (`parent`) REFERENCES `t` (`id`) ON DELETE CASCADE";
    let child = world.definition("child").await;
    assert!(child.contains(keys), "{child}");
    assert!(child.contains("`parent` bigint"), "{child}");
    let gone = rounds.min(500);
    let rows = world.number("SELECT COUNT(*) FROM child").await;
    assert_eq!(rows, 500 + rounds - gone);
    let orphans = "SELECT COUNT(*) FROM child LEFT JOIN t ON t.id = parent WHERE t.id IS NULL";
    assert_eq!(world.number(orphans).await, 0);
    assert_eq!(world.tables_beside().await, ["child"]);
}

/// A run that is killed between the attaching and the rename leaves a new table
/// that refers to another one: neither could be dropped before the other.
#[tokio::test(flavor = "multi_thread")]
async fn new_tables_that_refer_to_each_other_are_dropped_together() {
    let world = World::new(TableSpec::sysbench, 50).await;
    world
        .run(&[
            "CREATE TABLE child (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES t (id))",
        ])
        .await;
    let job = || {
        let migrate = world.oxferry("migrate").arg("--native-ddl").arg("off");
        let tables = ["t", "child"].into_iter();
        tables.fold(migrate, |job, table| {
            let statement = format!("ALTER TABLE {table} FORCE");
            job.arg("--statement").arg(statement)
        })
    };
    for way in ["cleanup", "fresh"] {
        let mut running = job().arg("--defer-cutover").spawn().unwrap();
        running.wait_phase("deferred", LIMIT).await.unwrap();
        running.signal(Signal::SIGKILL).unwrap();
        running.wait_exit(LIMIT).await.unwrap();
        let attach = "ALTER TABLE _child_oxnew ADD CONSTRAINT _child_oxfk1 \
                      FOREIGN KEY (up) REFERENCES _t_oxnew (id)";
        world.run(&[attach]).await;
        let again = match way {
            "cleanup" => {
                let cleanup = world.oxferry("cleanup").arg("--execute");
                cleanup.arg("--job").arg("child")
            }
            _ => job().arg("--fresh").arg("--yes"),
        };
        check_code(&again.run(LIMIT).await.unwrap(), 0);
        assert_eq!(world.tables_beside().await, ["child"], "{way}");
    }
}

/// A table on which everything hangs, and what was there before.
async fn loaded(rows: u64) -> (World, Attached, [String; 2]) {
    let world = World::new(TableSpec::sysbench, rows).await;
    world.run(&AUDIT).await;
    with_old_trigger(&world).await;
    world
        .run(&[
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "INSERT INTO p VALUES (1)",
            "ALTER TABLE t ADD up INT, ADD FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE, \
             ADD CONSTRAINT own FOREIGN KEY (up) REFERENCES t (id)",
            "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (id))",
        ])
        .await;
    let attached = world.attached().await;
    let definitions = [world.definition("t").await, world.definition("child").await];
    (world, attached, definitions)
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_around_the_cutover_leaves_nothing_behind_that_a_resume_does_not_mend() {
    for seen in ["phase=cutover", "renaming", "phase=cleanup"] {
        let (world, before, definitions) = loaded(300).await;
        let migrate = || world.migrate("FORCE").arg("--rebuild-foreign-keys");
        let mut running = migrate().spawn().unwrap();
        running.wait_line(seen, LIMIT).await.unwrap();
        running.signal(Signal::SIGKILL).unwrap();
        running.wait_exit(LIMIT).await.unwrap();
        let again = migrate().run(LIMIT).await.unwrap();
        check_code(&again, 0);
        assert_eq!(
            before.differences(&world.attached().await),
            [""; 0],
            "{seen}"
        );
        let now = [world.definition("t").await, world.definition("child").await];
        assert_eq!(now, definitions);
        assert_eq!(world.tables_beside().await, ["audit", "child", "p"]);
        assert_eq!(world.number("SELECT COUNT(*) FROM audit").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_to_hang_on_a_table_in_mid_run_stops_the_job_until_it_is_gone() {
    let world = World::new(TableSpec::sysbench, 1_000).await;
    let other = World::new(TableSpec::sysbench, 1).await;
    let migrate = || {
        world
            .migrate("ADD COLUMN extra INT, FORCE")
            .arg("--defer-cutover")
    };
    let child = format!(
        "CREATE TABLE child (p INT, FOREIGN KEY late (p) REFERENCES {} (id))",
        world.named("t")
    );
    let trigger = format!(
        "CREATE TRIGGER {}.late BEFORE INSERT ON {} FOR EACH ROW SET @a = 1",
        world.named("t").schema,
        world.named("t")
    );
    for (place, create, undo, said) in [
        (
            &other,
            child,
            "DROP TABLE child",
            "foreign key child_ibfk_1",
        ),
        (&world, trigger, "DROP TRIGGER late", "trigger late"),
    ] {
        let mut running = migrate().spawn().unwrap();
        running.wait_phase("deferred", LIMIT).await.unwrap();
        place.run(&[&create]).await;
        let finished = running.wait_exit(LIMIT).await.unwrap();
        check_code(&finished, 75);
        assert!(finished.text().contains(said), "{}", finished.text());
        place.run(&[undo]).await;
    }
    let mut running = migrate().spawn().unwrap();
    running.wait_phase("deferred", LIMIT).await.unwrap();
    world.run(&["DROP TABLE _t_oxsentinel"]).await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_carried_over_is_refused_before_anything_is_made() {
    let (world, ..) = loaded(10).await;
    world
        .run(&[
            "CREATE TRIGGER names_c BEFORE UPDATE ON t FOR EACH ROW SET @c = NEW.c",
            "DELETE FROM p",
        ])
        .await;
    for (clauses, facts) in [
        ("DROP COLUMN c, FORCE", ["names_c", "Unknown column 'c'"]),
        ("MODIFY up BIGINT, FORCE", ["t_ibfk_1", "incompatible"]),
        ("DROP INDEX own, FORCE", ["own of", "index on (up)"]),
        ("DROP COLUMN up, FORCE", ["t_ibfk_1", "column up"]),
        ("MODIFY id BIGINT, FORCE", ["child_ibfk_1", "incompatible"]),
        (
            "ADD CONSTRAINT more FOREIGN KEY (k) REFERENCES p (id), FORCE",
            ["more", "add it directly"],
        ),
    ] {
        for command in ["migrate", "plan"] {
            let finished = if command == "plan" {
                let url = world.schema.url();
                let words = [
                    "plan", "migrate", "--source", &url, "--table", "t", "--alter", clauses,
                ];
                oxferry_testkit::tool::Oxferry::new(words)
                    .program(env!("CARGO_BIN_EXE_oxferry"))
                    .arg("--rebuild-foreign-keys")
                    .run(LIMIT)
                    .await
                    .unwrap()
            } else {
                let migrate = world.migrate(clauses).arg("--rebuild-foreign-keys");
                migrate.run(LIMIT).await.unwrap()
            };
            check_code(&finished, 64);
            for fact in facts {
                assert!(
                    finished.text().contains(fact),
                    "{clauses}: {}",
                    finished.text()
                );
            }
        }
    }
    assert_eq!(world.tables_beside().await, ["audit", "child", "p"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cascades_that_the_server_does_not_log_are_refused() {
    let options = ServerOptions::new().arg("--innodb-native-foreign-keys=ON");
    let world = World::on(options, TableSpec::sysbench, 10).await;
    world
        .run(&[
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "ALTER TABLE t ADD up INT, ADD FOREIGN KEY (up) REFERENCES p (id) ON DELETE SET NULL",
        ])
        .await;
    let refused = world.migrate("FORCE").run(LIMIT).await.unwrap();
    check_code(&refused, 64);
    assert!(refused.text().contains("binary log"), "{}", refused.text());
    world
        .run(&[
            "ALTER TABLE t DROP FOREIGN KEY t_ibfk_1",
            "ALTER TABLE t ADD FOREIGN KEY (up) REFERENCES p (id)",
        ])
        .await;
    check_code(&world.migrate("FORCE").run(LIMIT).await.unwrap(), 0);
}

/// A user who may do no more than he must.
async fn user(world: &World, conn: &mut Conn, name: &str) -> oxferry_testkit::tool::Oxferry {
    let schema = world.schema.name();
    for statement in [
        format!("CREATE USER '{name}'@'%'"),
        format!("GRANT REPLICATION SLAVE, REPLICATION CLIENT, PROCESS ON *.* TO '{name}'@'%'"),
        format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, LOCK TABLES, TRIGGER \
             ON `{schema}`.* TO '{name}'@'%'"
        ),
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    let port = world.schema.server().port();
    let url = format!("mysql://{name}@127.0.0.1:{port}/{schema}");
    let words = [
        "migrate", "--source", &url, "--table", "t", "--alter", "FORCE",
    ];
    oxferry_testkit::tool::Oxferry::new(words).program(env!("CARGO_BIN_EXE_oxferry"))
}

#[tokio::test(flavor = "multi_thread")]
async fn privileges_that_triggers_and_foreign_keys_need_are_named_with_their_grant() {
    let world = World::new(TableSpec::sysbench, 10).await;
    let mut conn = world.conn().await;
    let name = format!(
        "v{}",
        &world.schema.name()[world.schema.name().len().saturating_sub(20)..]
    );
    let migrate = user(&world, &mut conn, &name).await;
    world
        .run(&[
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "ALTER TABLE t ADD up INT, ADD FOREIGN KEY (up) REFERENCES p (id)",
        ])
        .await;
    let refused = migrate.run(LIMIT).await.unwrap();
    check_code(&refused, 77);
    assert!(
        refused.text().contains("GRANT REFERENCES ON"),
        "{}",
        refused.text()
    );
    let grant = format!(
        "GRANT REFERENCES ON `{}`.* TO '{name}'@'%'",
        world.schema.name()
    );
    world
        .run(&[
            &grant,
            "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
        ])
        .await;
    let refused = migrate.run(LIMIT).await.unwrap();
    check_code(&refused, 77);
    assert!(refused.text().contains("tr"), "{}", refused.text());
    world.run(&["DROP TRIGGER tr"]).await;
    check_code(&migrate.run(LIMIT).await.unwrap(), 0);
}

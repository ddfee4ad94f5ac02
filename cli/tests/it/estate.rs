//! What a move takes along besides rows, and what it refuses beforehand.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_testkit::{
    tables::TableSpec,
    tool::{Finished, Oxferry},
};

use crate::{
    far::{Far, run},
    world::{LIMIT, check_code},
};

fn owned(statements: &[&str]) -> Vec<String> {
    statements.iter().map(|text| (*text).to_owned()).collect()
}

fn last_line(finished: &Finished) -> String {
    let last = finished.lines.last();
    last.map(|line| line.text.clone()).unwrap_or_default()
}

async fn definition(conn: &mut Conn, table: &str) -> String {
    let shown: Option<(String, String)> = conn
        .query_first(format!("SHOW CREATE TABLE `{table}`"))
        .await
        .unwrap();
    shown.unwrap().1
}

/// Two tables that refer to each other and to a third one, and triggers.
const HANGING: [&str; 5] = [
    "CREATE TABLE hen (id INT PRIMARY KEY, egg INT, t BIGINT, KEY (egg), KEY (t), CONSTRAINT held FOREIGN KEY (t) REFERENCES t (id))",
    "CREATE TABLE egg (id INT PRIMARY KEY, hen INT, FOREIGN KEY (hen) REFERENCES hen (id) ON DELETE CASCADE)",
    "ALTER TABLE hen ADD CONSTRAINT laid FOREIGN KEY (egg) REFERENCES egg (id) ON UPDATE CASCADE",
    "CREATE TRIGGER second BEFORE INSERT ON egg FOR EACH ROW SET NEW.hen = COALESCE(NEW.hen, 1)",
    "CREATE TRIGGER first BEFORE INSERT ON egg FOR EACH ROW PRECEDES second SET @seen = 'é'",
];

#[tokio::test(flavor = "multi_thread")]
async fn foreign_keys_in_a_circle_and_triggers_arrive_with_the_rows() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let mut source = far.source.conn().await.unwrap();
    let kind = "SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() \
                AND TABLE_NAME = 't' AND COLUMN_NAME = 'id'";
    let kind: Option<String> = source.query_first(kind).await.unwrap();
    let kind = kind.unwrap();
    let hanging = HANGING.map(|text| text.replace("t BIGINT", &format!("t {kind}")));
    run(&mut source, &hanging).await;
    let rows = [
        "INSERT INTO hen VALUES (1, NULL, 7), (2, NULL, NULL)",
        "INSERT INTO egg VALUES (5, NULL), (6, 2)",
        "UPDATE hen SET egg = 5 WHERE id = 1",
    ];
    run(&mut source, &owned(&rows)).await;
    let tables = ["t", "hen", "egg"];
    let mut was = Vec::new();
    for table in tables {
        was.push(definition(&mut source, table).await);
    }
    let triggers = "SELECT TRIGGER_NAME, ACTION_ORDER, ACTION_STATEMENT, DEFINER, SQL_MODE, \
                    CHARACTER_SET_CLIENT FROM information_schema.TRIGGERS \
                    WHERE TRIGGER_SCHEMA = DATABASE() ORDER BY ACTION_ORDER";
    type Found = (String, u32, String, String, String, String);
    let made: Vec<Found> = source.query(triggers).await.unwrap();
    check_code(&far.moves().run(LIMIT).await.unwrap(), 0);
    let mut target = far.target_conn().await;
    for (table, was) in tables.iter().zip(was) {
        assert_eq!(definition(&mut target, table).await, was);
        far.check_rows(&format!("_{table}_oxold"), table).await;
    }
    let arrived: Vec<Found> = target.query(triggers).await.unwrap();
    assert_eq!(arrived, made);
    assert_eq!(arrived.len(), 2);
}

/// A user of its own on each side, and the move as that user.
struct Users {
    name: String,
    source: Conn,
    target: Conn,
    database: String,
}

impl Users {
    async fn new(far: &Far) -> Self {
        let database = far.source.name().to_owned();
        let name: String = format!("u_{database}").chars().take(32).collect();
        let mut users = Self {
            source: far.source.conn().await.unwrap(),
            target: far.target.conn().await.unwrap(),
            name,
            database,
        };
        let create = format!("CREATE USER '{}'@'%' IDENTIFIED BY 'pw'", users.name);
        let create = [create];
        run(&mut users.source, &create).await;
        run(&mut users.target, &create).await;
        users
    }

    async fn grant(&mut self, on_source: bool, privileges: &str, on_server: bool) {
        let scope = if on_server {
            "*.*".to_owned()
        } else {
            format!("`{}`.*", self.database)
        };
        let grant = format!("GRANT {privileges} ON {scope} TO '{}'@'%'", self.name);
        let conn = if on_source {
            &mut self.source
        } else {
            &mut self.target
        };
        run(conn, &[grant]).await;
    }

    fn moves(&self, far: &Far) -> Oxferry {
        let url = |port: u16| format!("mysql://{}@127.0.0.1:{port}", self.name);
        let (source, target) = (url(far.source.server().port()), url(far.target.port()));
        let words = [
            "move",
            "--source",
            &source,
            "--target",
            &target,
            "--database",
            &self.database,
        ];
        let program = env!("CARGO_BIN_EXE_oxferry");
        let moves = Oxferry::new(words).program(program);
        moves
            .arg("--lock-source")
            .arg("rename")
            .env("OXFERRY_SOURCE_PASSWORD", "pw")
            .env("OXFERRY_TARGET_PASSWORD", "pw")
    }
}

const SERVER: &str = "REPLICATION SLAVE, REPLICATION CLIENT";

#[tokio::test(flavor = "multi_thread")]
async fn users_with_exactly_the_listed_privileges_can_move() {
    let far = Far::new(TableSpec::sysbench, 500).await;
    let mut users = Users::new(&far).await;
    let source = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER";
    users.grant(true, SERVER, true).await;
    users.grant(false, SERVER, true).await;
    users.grant(true, source, false).await;
    users
        .grant(false, &format!("{source}, TRIGGER"), false)
        .await;
    let refused = users.moves(&far).run(LIMIT).await.unwrap();
    check_code(&refused, 77);
    let told = refused.text();
    assert!(told.contains("on the source: TRIGGER on"), "{told}");
    assert!(told.contains("on the target: INDEX on"), "{told}");
    users.grant(true, "TRIGGER", false).await;
    users.grant(false, "INDEX", false).await;
    check_code(&users.moves(&far).run(LIMIT).await.unwrap(), 0);
    far.check_rows("_t_oxold", "t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_the_target_will_not_take_ends_the_move_before_a_row_is_copied() {
    let far = Far::new(TableSpec::sysbench, 10).await;
    let trigger = "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1";
    let mut users = Users::new(&far).await;
    run(&mut users.source, &owned(&[trigger])).await;
    for on_source in [true, false] {
        users.grant(on_source, SERVER, true).await;
        users.grant(on_source, "ALL", false).await;
    }
    // The trigger acts as somebody else, which takes SET_ANY_DEFINER.
    let refused = users.moves(&far).run(LIMIT).await.unwrap();
    check_code(&refused, 77);
    let last = last_line(&refused);
    assert!(last.contains("trigger x"), "{last}");
    let rows: Option<u64> = far
        .target_conn()
        .await
        .query_first("SELECT COUNT(*) FROM t")
        .await
        .unwrap();
    assert_eq!(rows, Some(0));
    users.grant(false, "SUPER, SYSTEM_USER", true).await;
    check_code(&users.moves(&far).run(LIMIT).await.unwrap(), 0);
    far.check_rows("_t_oxold", "t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_moved_is_listed_by_the_plan() {
    let far = Far::new(TableSpec::sysbench, 10).await;
    let mut source = far.source.conn().await.unwrap();
    let statements = [
        "CREATE VIEW v AS SELECT 1 AS a",
        "CREATE PROCEDURE p() SELECT 1",
    ];
    run(&mut source, &owned(&statements)).await;
    let program = env!("CARGO_BIN_EXE_oxferry");
    let (here, there) = (far.source.server().url(), far.target.url());
    let words = [
        "plan",
        "move",
        "--source",
        &here,
        "--target",
        &there,
        "--database",
        far.source.name(),
        "--lock-source",
        "rename",
    ];
    let planned = Oxferry::new(words)
        .program(program)
        .run(LIMIT)
        .await
        .unwrap();
    check_code(&planned, 0);
    let (told, database) = (planned.text(), far.source.name());
    assert!(
        told.contains(&format!("1 views not moved: {database}.v")),
        "{told}"
    );
    assert!(
        told.contains(&format!("1 routines not moved: procedure {database}.p")),
        "{told}"
    );
}

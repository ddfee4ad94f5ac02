//! A move's definitions, between real servers.

use std::collections::BTreeSet;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{
    Blueprint, EstateProblem, Ident, LeftBehind, Part, Place, Remedy, Rename, Selection, ServerUrl,
    Sides, TableName, TargetSide, TargetTables, Wanted, connect, next_auto_increment,
    raise_auto_increment, read_databases, read_found,
};
use oxferry_testkit::server::{Server, ServerOptions};

/// Two servers, so that nothing but the server tells the sides apart.
struct Pair {
    servers: (Server, Server),
    source: Conn,
    target: Conn,
}

const SIDES: Sides = Sides {
    source_lower_case: 0,
    target_lower_case: 0,
    same_server: false,
};

async fn session(server: &Server) -> Conn {
    let url = ServerUrl::parse(&server.url(), None).unwrap();
    connect(&url, "tests").await.unwrap()
}

async fn run(conn: &mut Conn, statements: &[&str]) {
    for statement in statements {
        let done = conn.query_drop(*statement).await;
        done.unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
}

impl Pair {
    async fn new() -> Self {
        let source = Server::start(ServerOptions::default());
        let target = Server::start(ServerOptions::default());
        let servers = futures::try_join!(source, target).unwrap();
        Self {
            source: session(&servers.0).await,
            target: session(&servers.1).await,
            servers,
        }
    }

    async fn parts(&mut self, selection: &Selection) -> Vec<Part> {
        let mut parts = Vec::new();
        for chosen in &selection.tables {
            parts.extend(Part::read(&mut self.source, &chosen.source).await.unwrap());
        }
        parts
    }

    async fn choose(&mut self, wanted: &Wanted) -> Selection {
        let found = read_found(&mut self.source).await.unwrap();
        Selection::choose(&found, wanted, SIDES).unwrap()
    }

    async fn draw(
        &mut self,
        wanted: &Wanted,
        existing: TargetTables,
    ) -> Result<(Blueprint, Vec<Part>), Vec<String>> {
        let selection = self.choose(wanted).await;
        let parts = self.parts(&selection).await;
        let side = TargetSide::read(&mut self.target, &selection, &parts);
        let side = side.await.unwrap();
        let databases = read_databases(&mut self.source).await.unwrap();
        let drawn = Blueprint::draw(&selection, &databases, &parts, &side, existing);
        let told = |p: Vec<EstateProblem>| {
            assert!(p.iter().all(|problem| !problem.fix().is_empty()));
            p.iter().map(ToString::to_string).collect()
        };
        drawn.map(|blueprint| (blueprint, parts)).map_err(told)
    }

    async fn create(&mut self, wanted: &Wanted) -> Blueprint {
        let (blueprint, parts) = self.draw(wanted, TargetTables::Refuse).await.unwrap();
        blueprint.create(&mut self.target, &parts).await.unwrap();
        blueprint
    }
}

async fn definition(conn: &mut Conn, table: &TableName) -> String {
    let row: Option<(String, String)> = conn
        .query_first(format!("SHOW CREATE TABLE {table}"))
        .await
        .unwrap();
    row.unwrap().1
}

fn database(name: &str) -> Wanted {
    Wanted {
        databases: vec![Ident::new(name).unwrap()],
        ..Wanted::default()
    }
}

const LONG: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

const ZOO: [&str; 15] = [
    "CREATE DATABASE `a.b` CHARACTER SET latin1 COLLATE latin1_german1_ci",
    "CREATE DATABASE zoo CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "CREATE TABLE `a.b`.`p``q` (id INT PRIMARY KEY, x INT, UNIQUE KEY (x)) COMMENT 'it''s \\\\ \\n ) ENGINE'",
    "CREATE TABLE zoo.parts (id INT NOT NULL, d DATETIME, v INT, PRIMARY KEY (id, v)) PARTITION BY RANGE (v) \
     SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION `p,)0` VALUES LESS THAN (10) COMMENT 'a '')b', \
     PARTITION rest VALUES LESS THAN MAXVALUE)",
    "CREATE TABLE zoo.listed (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1) PARTITION BY KEY (id) PARTITIONS 3",
    "CREATE TABLE zoo.computed (id INT PRIMARY KEY, a INT, j JSON, s INT AS (a * 2) STORED, w INT AS (a + 1) VIRTUAL INVISIBLE, \
     KEY f ((a * 3)), KEY g ((CAST(j->'$.x' AS UNSIGNED ARRAY))), UNIQUE KEY u (s DESC, a) INVISIBLE, \
     CONSTRAINT positive CHECK (a > 0), CHECK (a <> 7) NOT ENFORCED, CHECK (id < 1000))",
    "CREATE TABLE zoo.texts (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin \
     DEFAULT 'é''\\\\', b TEXT COLLATE utf8mb4_0900_as_cs COMMENT 'quote '' ` \" \\\\ \\n', e ENUM('x''y','a,b','(') DEFAULT 'a,b', \
     s SET('a','b'), n BINARY(3) DEFAULT x'FF0041', d VARCHAR(40) DEFAULT (UUID()), KEY pre (b(7), a), FULLTEXT KEY ft (b) WITH PARSER ngram) \
     AUTO_INCREMENT = 4711 DEFAULT CHARSET = utf8mb3 ROW_FORMAT = COMPRESSED KEY_BLOCK_SIZE = 8 STATS_PERSISTENT = 0",
    "CREATE TABLE zoo.places (id INT PRIMARY KEY, g GEOMETRY NOT NULL SRID 4326, p POINT NOT NULL SRID 0, SPATIAL KEY (g))",
    "SET SESSION sql_mode = ''",
    "CREATE TABLE zoo.legacy (id INT PRIMARY KEY, d DATE NOT NULL DEFAULT '0000-00-00', t TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00', \
     m TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), y YEAR, b BIT(9) DEFAULT b'101', n TIMESTAMP NOT NULL, z TIMESTAMP NULL) \
     ROW_FORMAT = REDUNDANT COMPRESSION = 'zlib'",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES'",
    "CREATE TABLE zoo.tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES tree (id) ON DELETE SET NULL)",
    "CREATE TABLE zoo.hen (id INT PRIMARY KEY, egg INT, other INT, KEY (egg), CONSTRAINT `far``away` FOREIGN KEY (other) \
     REFERENCES `a.b`.`p``q` (x) ON DELETE CASCADE ON UPDATE RESTRICT)",
    "CREATE TABLE zoo.egg (id INT PRIMARY KEY, hen INT, FOREIGN KEY (hen) REFERENCES hen (id) ON UPDATE CASCADE)",
    "ALTER TABLE zoo.hen ADD CONSTRAINT laid FOREIGN KEY (egg) REFERENCES egg (id)",
];

const TRIGGERS: [&str; 4] = [
    "CREATE TRIGGER zoo.second BEFORE INSERT ON zoo.tree FOR EACH ROW SET NEW.up = NULL",
    "CREATE DEFINER = `nobody``x`@`%` TRIGGER zoo.first BEFORE INSERT ON zoo.tree FOR EACH ROW PRECEDES second BEGIN SET @a = 'é'; END",
    "SET SESSION sql_mode = 'ANSI_QUOTES'",
    "CREATE TRIGGER zoo.`after)` AFTER DELETE ON zoo.tree FOR EACH ROW INSERT INTO \"parts\" (id, v) VALUES (OLD.id, 1)",
];

async fn zoo(conn: &mut Conn) -> Vec<TableName> {
    run(conn, &ZOO).await;
    let long = format!("CREATE TABLE zoo.{LONG} ({LONG} INT PRIMARY KEY)");
    run(conn, &[&long]).await;
    run(conn, &TRIGGERS).await;
    run(conn, &["SET SESSION sql_mode = 'STRICT_ALL_TABLES'"]).await;
    let names = [
        "parts", "listed", "computed", "texts", "places", "legacy", "tree", "hen", "egg", LONG,
    ];
    let zoo = Ident::new("zoo").unwrap();
    let names = names.into_iter();
    let mut tables: Vec<_> = names
        .map(|name| TableName::new(zoo.clone(), Ident::new(name).unwrap()))
        .collect();
    tables.push(TableName::new(
        Ident::new("a.b").unwrap(),
        Ident::new("p`q").unwrap(),
    ));
    tables
}

#[tokio::test]
async fn every_definition_arrives_letter_by_letter_with_its_keys_and_triggers() {
    let mut pair = Pair::new().await;
    let tables = zoo(&mut pair.source).await;
    let blueprint = pair.create(&Wanted::default()).await;
    assert_eq!(blueprint.tables.len(), tables.len());
    let objections = blueprint.try_finish(&mut pair.target).await.unwrap();
    assert!(objections.is_empty(), "{objections:?}");
    // The second time finds all of it there.
    blueprint.finish(&mut pair.target).await.unwrap();
    blueprint.finish(&mut pair.target).await.unwrap();
    for table in &tables {
        let source = definition(&mut pair.source, table).await;
        assert_eq!(definition(&mut pair.target, table).await, source);
        let source = Part::read(&mut pair.source, table).await.unwrap().unwrap();
        let target = Part::read(&mut pair.target, table).await.unwrap().unwrap();
        assert_eq!(target.triggers, source.triggers);
        assert_eq!(target.foreign_keys, source.foreign_keys);
    }
    for database in ["a.b", "zoo"] {
        let show = format!("SHOW CREATE DATABASE `{database}`");
        let source: Option<(String, String)> = pair.source.query_first(&show).await.unwrap();
        let target: Option<(String, String)> = pair.target.query_first(&show).await.unwrap();
        assert_eq!(target, source);
    }
    blueprint.take_off(&mut pair.target, &[]).await.unwrap();
    for table in &tables {
        let target = Part::read(&mut pair.target, table).await.unwrap().unwrap();
        assert!(target.triggers.is_empty() && target.foreign_keys.is_empty());
    }
    drop(pair.servers);
}

#[tokio::test]
async fn renamed_tables_take_their_constraints_and_parents_along() {
    let mut pair = Pair::new().await;
    zoo(&mut pair.source).await;
    run(&mut pair.source, &["DROP TRIGGER zoo.`after)`"]).await;
    let renames = [
        "zoo=`z.2`",
        "zoo.computed=calc.c2",
        "zoo.egg=`z.2`.ei",
        "`a.b`=ab",
    ];
    let wanted = Wanted {
        renames: renames.iter().map(|r| Rename::parse(r).unwrap()).collect(),
        ..Wanted::default()
    };
    let blueprint = pair.create(&wanted).await;
    blueprint.finish(&mut pair.target).await.unwrap();
    let name = |schema: &str, table: &str| {
        TableName::new(Ident::new(schema).unwrap(), Ident::new(table).unwrap())
    };
    let hen = definition(&mut pair.target, &name("z.2", "hen")).await;
    assert!(hen.contains("REFERENCES `ab`.`p``q` (`x`)"), "{hen}");
    assert!(hen.contains("REFERENCES `ei` (`id`)"), "{hen}");
    let egg = definition(&mut pair.target, &name("z.2", "ei")).await;
    assert!(egg.contains("CONSTRAINT `ei_ibfk_1` FOREIGN KEY"), "{egg}");
    let calc = definition(&mut pair.target, &name("calc", "c2")).await;
    assert!(calc.contains("CONSTRAINT `c2_chk_1`") && calc.contains("CONSTRAINT `positive`"));
    let triggers: Option<u64> = pair
        .target
        .query_first(
            "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = 'z.2'",
        )
        .await
        .unwrap();
    assert_eq!(triggers, Some(2));
}

#[tokio::test]
async fn a_server_that_cannot_make_one_table_is_left_as_it_was() {
    let mut pair = Pair::new().await;
    run(
        &mut pair.source,
        &[
            "CREATE DATABASE shop",
            "CREATE TABLE shop.a (id INT PRIMARY KEY)",
            "CREATE TABLE shop.b (id INT, UNIQUE KEY (id))",
        ],
    )
    .await;
    run(
        &mut pair.target,
        &["SET GLOBAL sql_require_primary_key = ON"],
    )
    .await;
    let mut target = session(&pair.servers.1).await;
    let (blueprint, parts) = pair
        .draw(&database("shop"), TargetTables::Refuse)
        .await
        .unwrap();
    let error = blueprint.create(&mut target, &parts).await.unwrap_err();
    assert!(error.to_string().contains("shop.b"), "{error}");
    assert_ne!(error.remedy(), Remedy::Bug);
    let left: Vec<String> = target.query("SHOW DATABASES LIKE 'shop'").await.unwrap();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn a_table_of_the_target_is_refused_unless_it_may_be_used() {
    let mut pair = Pair::new().await;
    let same = [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT, w VARCHAR(9) COLLATE utf8mb4_bin, KEY (v))",
    ];
    run(&mut pair.source, &same).await;
    run(&mut pair.target, &same).await;
    let shop = database("shop");
    let problems = pair.draw(&shop, TargetTables::Refuse).await.unwrap_err();
    assert_eq!(problems, ["table shop.t exists on the target"]);
    for existing in [TargetTables::Empty, TargetTables::Matching] {
        let (blueprint, parts) = pair.draw(&shop, existing).await.unwrap();
        assert_eq!(blueprint.tables[0].create, None);
        blueprint.create(&mut pair.target, &parts).await.unwrap();
    }
    run(&mut pair.target, &["INSERT INTO shop.t VALUES (1, 2, 'x')"]).await;
    let problems = pair.draw(&shop, TargetTables::Empty).await.unwrap_err();
    assert_eq!(problems, ["table shop.t on the target holds rows"]);
    assert!(pair.draw(&shop, TargetTables::Matching).await.is_ok());
    run(
        &mut pair.target,
        &[
            "ALTER TABLE shop.t MODIFY v BIGINT, MODIFY w VARCHAR(9) COLLATE utf8mb4_general_ci, DROP KEY v",
            "CREATE TRIGGER shop.x BEFORE INSERT ON shop.t FOR EACH ROW SET NEW.v = 1",
            "CREATE TABLE shop.child (id INT PRIMARY KEY, CONSTRAINT down FOREIGN KEY (id) REFERENCES t (id))",
        ],
    )
    .await;
    let problems = pair.draw(&shop, TargetTables::Matching).await.unwrap_err();
    let differs = "table shop.t on the target isn't as the source's:";
    assert_eq!(
        problems,
        [
            format!("{differs} column w has collation utf8mb4_general_ci, the source's utf8mb4_bin"),
            format!("{differs} column v is `v` bigint DEFAULT NULL, the source's `v` int DEFAULT NULL"),
            format!("{differs} it has no index v"),
            "trigger x on shop.t on the target would act on every row that is moved".to_owned(),
            "foreign key down of shop.child to shop.t on the target refers to a table that rows are moved into".to_owned(),
        ]
    );
}

#[tokio::test]
async fn what_a_rename_or_a_parent_stands_in_the_way_of_is_refused() {
    let mut pair = Pair::new().await;
    run(
        &mut pair.source,
        &[
            "CREATE DATABASE shop COLLATE utf8mb4_bin",
            "CREATE TABLE shop.p (id INT PRIMARY KEY)",
            "CREATE TABLE shop.c (id INT PRIMARY KEY, p INT, CONSTRAINT up FOREIGN KEY (p) REFERENCES p (id))",
            "CREATE TRIGGER shop.tr BEFORE INSERT ON shop.c FOR EACH ROW SET @n = (SELECT MAX(id) FROM shop.p)",
        ],
    )
    .await;
    run(&mut pair.target, &["CREATE DATABASE other COLLATE utf8mb4_general_ci",
        "CREATE TABLE other.x (id INT PRIMARY KEY, y INT, CONSTRAINT up FOREIGN KEY (y) REFERENCES x (id))"]).await;
    let mut wanted = database("shop");
    wanted.exclude = vec![Place::parse("shop.p").unwrap()];
    wanted.renames = vec![Rename::parse("shop=other").unwrap()];
    let problems = pair.draw(&wanted, TargetTables::Refuse).await.unwrap_err();
    assert_eq!(
        problems,
        [
            "foreign key up of shop.c to shop.p needs table other.p, which is neither moved nor on the target",
            "trigger tr on shop.c was made in a database with collation utf8mb4_bin, and other on the target has utf8mb4_general_ci",
            "trigger tr on shop.c names shop, which is called otherwise on the target",
            "foreign key up of shop.c has a name that other on the target holds already",
        ]
    );
}

#[tokio::test]
async fn a_trigger_that_writes_to_a_table_that_stays_is_noted() {
    let mut pair = Pair::new().await;
    let statements = [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY)",
        "CREATE TABLE shop.audit (id INT PRIMARY KEY)",
        "CREATE TABLE shop.other (id INT PRIMARY KEY)",
        "CREATE TRIGGER shop.x AFTER INSERT ON shop.t FOR EACH ROW INSERT INTO audit VALUES (NEW.id)",
    ];
    run(&mut pair.source, &statements).await;
    let wanted = Wanted {
        tables: vec![TableName::new(
            Ident::new("shop").unwrap(),
            Ident::new("t").unwrap(),
        )],
        ..Wanted::default()
    };
    let (blueprint, _) = pair.draw(&wanted, TargetTables::Refuse).await.unwrap();
    assert_eq!(
        blueprint.notes,
        ["trigger x on shop.t names shop.audit, which is not moved"]
    );
}

#[tokio::test]
async fn an_orphan_is_found_with_its_keys_values() {
    let mut pair = Pair::new().await;
    run(
        &mut pair.source,
        &[
            "CREATE DATABASE shop",
            "CREATE TABLE shop.p (a INT, b VARCHAR(9), PRIMARY KEY (a, b))",
            "CREATE TABLE shop.c (id INT PRIMARY KEY, a INT, b VARCHAR(9), FOREIGN KEY (a, b) REFERENCES p (a, b))",
        ],
    )
    .await;
    let blueprint = pair.create(&database("shop")).await;
    run(
        &mut pair.target,
        &["INSERT INTO shop.c VALUES (1, NULL, 'x'), (2, 5, 'y')"],
    )
    .await;
    blueprint.finish(&mut pair.target).await.unwrap();
    let keys: Vec<_> = blueprint
        .tables
        .iter()
        .flat_map(|t| &t.foreign_keys)
        .collect();
    assert!(keys.iter().all(|key| blueprint.moves_parent(key)));
    let among = |condition: &str| {
        let condition = condition.to_owned();
        let keys = keys.clone().into_iter();
        keys.map(move |key| (key, (condition.clone(), Vec::new())))
    };
    let target = &mut pair.target;
    let orphans = blueprint.orphans(target, among("")).await.unwrap();
    assert_eq!(orphans[0].values, ["5", "y"]);
    let others = blueprint.orphans(target, among(" AND (`id` = 1)")).await;
    assert!(others.unwrap().is_empty());
    let checks: Option<u8> = pair
        .target
        .query_first("SELECT @@foreign_key_checks")
        .await
        .unwrap();
    assert_eq!(checks, Some(1));
    run(&mut pair.target, &["INSERT INTO shop.p VALUES (5, 'y')"]).await;
    assert!(
        blueprint
            .orphans(&mut pair.target, among(""))
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn the_next_automatic_value_is_read_under_a_lock_and_raised() {
    let mut pair = Pair::new().await;
    let make = [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        "CREATE TABLE shop.plain (id INT PRIMARY KEY)",
    ];
    run(&mut pair.source, &make).await;
    let blueprint = pair.create(&database("shop")).await;
    let mut holder = session(&pair.servers.0).await;
    run(
        &mut holder,
        &[
            "INSERT INTO shop.t (v) VALUES (1), (2), (3)",
            "DELETE FROM shop.t",
            "LOCK TABLES shop.t WRITE, shop.plain WRITE",
        ],
    )
    .await;
    let mut nexts = Vec::new();
    for table in &blueprint.tables {
        let next = next_auto_increment(&mut pair.source, &table.source)
            .await
            .unwrap();
        if let Some(next) = next {
            raise_auto_increment(&mut pair.target, &table.target, next)
                .await
                .unwrap();
            let is = next_auto_increment(&mut pair.target, &table.target)
                .await
                .unwrap();
            assert_eq!(is, Some(next));
        }
        nexts.push(next);
    }
    nexts.sort_unstable();
    assert_eq!(nexts, [None, Some(4)]);
}

#[tokio::test]
async fn what_is_not_moved_is_listed_by_name() {
    let mut pair = Pair::new().await;
    run(
        &mut pair.source,
        &[
            "CREATE DATABASE sh_op",
            "CREATE TABLE sh_op.t (id INT PRIMARY KEY)",
            "CREATE VIEW sh_op.v AS SELECT * FROM sh_op.t",
            "CREATE PROCEDURE sh_op.p() SELECT 1",
            "CREATE FUNCTION sh_op.f() RETURNS INT DETERMINISTIC RETURN 1",
            "CREATE EVENT sh_op.e ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1",
            "CREATE USER clerk",
            "GRANT SELECT ON `sh\\_op`.* TO clerk",
        ],
    )
    .await;
    let selection = pair.choose(&database("sh_op")).await;
    let databases = selection.source_databases();
    let left = LeftBehind::read(&mut pair.source, &databases);
    let left = left.await.unwrap();
    assert_eq!(left.views, ["sh_op.v"]);
    assert_eq!(left.routines, ["function sh_op.f", "procedure sh_op.p"]);
    assert_eq!(left.events, ["sh_op.e"]);
    assert_eq!(left.grants, ["'clerk'@'%' on sh_op"]);
    let none: BTreeSet<&Ident> = BTreeSet::new();
    assert!(
        LeftBehind::read(&mut pair.source, &none)
            .await
            .unwrap()
            .is_empty()
    );
}

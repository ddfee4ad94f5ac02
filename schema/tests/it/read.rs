//! Tables as a real server describes them.

use futures::StreamExt;
use mysql_async::{BinlogStreamRequest, binlog::events::EventData, prelude::Queryable};
use oxferry_schema::{
    Generated, Ident, ReadError, Remedy, ServerInfo, ServerUrl, Table, TableName, connect,
    current_position,
};

use crate::place::Place;

const RICH: &str = "(id BIGINT UNSIGNED AUTO_INCREMENT, a ENUM('x''y','a,b','back\\\\slash','nl\\n','é','\"') \
    CHARACTER SET latin1 NOT NULL, s SET('a','b'), `q``c` JSON, v VARCHAR(3) COLLATE utf8mb4_bin INVISIBLE, \
    g INT AS (CHAR_LENGTH(v)) VIRTUAL, h INT AS (CHAR_LENGTH(v)) STORED, PRIMARY KEY (id), \
    UNIQUE KEY u (v(1), s DESC) INVISIBLE, KEY f ((CHAR_LENGTH(v))), FULLTEXT KEY ft (v)) AUTO_INCREMENT = 77";

#[tokio::test]
async fn enum_members_come_with_quotes_commas_and_backslashes() {
    let mut place = Place::new().await;
    place.run(&format!("CREATE TABLE t {RICH}")).await;
    let table = place.read("t").await;
    assert_eq!(
        table.columns[1].members,
        ["x'y", "a,b", "back\\slash", "nl\n", "é", "\""]
    );
    assert_eq!(table.columns[2].members, ["a", "b"]);
}

#[tokio::test]
async fn columns_and_indexes_are_described_in_order() {
    let mut place = Place::new().await;
    place.run(&format!("CREATE TABLE t {RICH}")).await;
    let table = place.read("t").await;
    let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["id", "a", "s", "q`c", "v", "g", "h"]);
    assert_eq!(table.columns[0].column_type, "bigint unsigned");
    assert!(table.columns[0].auto_increment && !table.columns[0].nullable);
    assert_eq!(table.columns[1].charset.as_deref(), Some("latin1"));
    assert_eq!(table.columns[4].collation.as_deref(), Some("utf8mb4_bin"));
    assert!(table.columns[4].invisible && !table.columns[3].invisible);
    assert_eq!(table.columns[5].generated, Some(Generated::Virtual));
    assert_eq!(table.columns[6].generated, Some(Generated::Stored));
    let indexes: Vec<&str> = table.indexes.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(indexes, ["PRIMARY", "u", "f", "ft"]);
    let unique = &table.indexes[1];
    assert!(unique.unique && !unique.visible);
    assert_eq!(unique.parts[0].prefix, Some(1));
    assert!(unique.parts[1].descending && unique.parts[1].nullable);
    assert_eq!(table.indexes[2].parts[0].column, None);
    assert_eq!(table.indexes[3].kind, "FULLTEXT");
    assert_eq!(
        (table.engine.as_str(), table.auto_increment),
        ("InnoDB", Some(77))
    );
    assert!(table.create_statement.starts_with("CREATE TABLE `t`"));
    assert!(!table.is_partitioned());
}

#[tokio::test]
async fn names_are_compared_exactly_and_never_as_patterns() {
    let mut place = Place::new().await;
    let long = "x".repeat(64);
    let odd = [
        "a_b",
        "axb",
        "A_B",
        "sel`ect.%",
        "select",
        "é",
        "e",
        long.as_str(),
    ];
    for (at, name) in odd.iter().enumerate() {
        let name = place.name(name);
        place
            .run(&format!(
                "CREATE TABLE {name} (id INT PRIMARY KEY, c{at} INT)"
            ))
            .await;
    }
    for (at, name) in odd.iter().enumerate() {
        let table = place.read(name).await;
        assert_eq!(table.name, place.name(name));
        assert_eq!(table.columns[1].name.as_str(), format!("c{at}"));
    }
    let missing = place.name("a%b");
    assert_eq!(Table::read(&mut place.conn, &missing).await.unwrap(), None);
    let elsewhere = TableName::new(Ident::new("no_such_db").unwrap(), Ident::new("t").unwrap());
    assert_eq!(
        Table::read(&mut place.conn, &elsewhere).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn a_view_is_refused() {
    let mut place = Place::new().await;
    place.run("CREATE VIEW v AS SELECT 1 AS a").await;
    let name = place.name("v");
    let error = Table::read(&mut place.conn, &name).await.unwrap_err();
    assert!(
        matches!(&error, ReadError::NotATable { kind, .. } if kind == "view"),
        "{error:?}"
    );
    assert_eq!(error.remedy(), Remedy::Usage);
}

#[tokio::test]
async fn the_hidden_primary_key_and_partitions_show() {
    let mut place = Place::new().await;
    place
        .run("SET SESSION sql_generate_invisible_primary_key = ON")
        .await;
    place.run("CREATE TABLE hidden (a INT)").await;
    let table = place.read("hidden").await;
    assert_eq!(table.columns[0].name.as_str(), "my_row_id");
    assert!(table.columns[0].invisible);
    assert_eq!(table.row_key().unwrap().ordinals, [0]);
    assert!(table.row_key().unwrap().is_client_ordered());
    for partitions in [
        "PARTITION BY HASH (id)",
        "PARTITION BY KEY (id)",
        "PARTITION BY LIST COLUMNS (id) (PARTITION p VALUES IN (1))",
    ] {
        place.run("DROP TABLE IF EXISTS p").await;
        place
            .run(&format!(
                "CREATE TABLE p (id INT PRIMARY KEY) COMMENT 'x' {partitions}"
            ))
            .await;
        let table = place.read("p").await;
        assert!(table.is_partitioned(), "{}", table.create_statement);
    }
}

#[tokio::test]
async fn estimates_are_fresh() {
    let mut place = Place::new().await;
    place
        .run("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(100))")
        .await;
    assert_eq!(place.read("t").await.row_estimate, 0);
    place.run("INSERT INTO t (a) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT 'x' FROM n").await;
    place.run("ANALYZE TABLE t").await;
    let table = place.read("t").await;
    assert_eq!(
        (table.row_estimate, table.auto_increment.unwrap() > 900),
        (900, true)
    );
    assert!(table.size_bytes > 0);
}

#[tokio::test]
async fn foreign_keys_and_triggers_are_found_from_any_database() {
    let mut place = Place::new().await;
    let other = Place::new().await;
    place.run("CREATE TABLE parent (id INT PRIMARY KEY)").await;
    let (parent, child) = (place.name("parent"), other.name("child"));
    place
        .run(&format!(
            "CREATE TABLE {child} (id INT, CONSTRAINT f FOREIGN KEY (id) REFERENCES {parent} (id))"
        ))
        .await;
    place
        .run("CREATE TRIGGER tr BEFORE INSERT ON parent FOR EACH ROW SET NEW.id = NEW.id")
        .await;
    let referencing = Table::referencing_foreign_keys(&mut place.conn, &parent)
        .await
        .unwrap();
    let own = Table::foreign_keys(&mut place.conn, &child).await.unwrap();
    assert_eq!(referencing, own);
    assert_eq!(
        (own[0].name.as_str(), &own[0].child, &own[0].parent),
        ("f", &child, &parent)
    );
    assert!(
        Table::foreign_keys(&mut place.conn, &parent)
            .await
            .unwrap()
            .is_empty()
    );
    let triggers = Table::triggers(&mut place.conn, &parent).await.unwrap();
    assert_eq!(
        (triggers[0].name.as_str(), triggers[0].when.as_str()),
        ("tr", "BEFORE INSERT")
    );
    assert!(
        Table::triggers(&mut place.conn, &child)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn row_images_hold_every_listed_column() {
    let mut place = Place::new().await;
    place.run(&format!("CREATE TABLE t {RICH}")).await;
    let info = ServerInfo::read(&mut place.conn).await.unwrap();
    let start = current_position(&mut place.conn, &info.version)
        .await
        .unwrap();
    place.run("INSERT INTO t (a, s) VALUES ('é', 'a,b')").await;
    let table = place.read("t").await;
    let url = ServerUrl::parse(&place.schema.url(), None).unwrap();
    let stream = connect(&url, "binlog").await.unwrap();
    let request = BinlogStreamRequest::new(4_000_001)
        .with_filename(start.file.as_bytes())
        .with_pos(start.offset_bytes)
        .with_non_blocking();
    let mut stream = stream.get_binlog_stream(request).await.unwrap();
    let mut seen = None;
    while let Some(event) = stream.next().await {
        let event = event.unwrap();
        if let Some(EventData::TableMapEvent(map)) = event.read_data().unwrap()
            && map.database_name() == place.schema.name()
        {
            seen = Some(map.columns_count());
        }
    }
    assert_eq!(seen, Some(table.stored_columns().len() as u64));
}

#[tokio::test]
async fn the_position_moves_with_every_transaction() {
    let mut place = Place::new().await;
    let info = ServerInfo::read(&mut place.conn).await.unwrap();
    assert!(info.log_bin && info.binlog_order_commits && !info.server_uuid.is_empty());
    assert_eq!(
        info.version.to_string(),
        format!("MySQL {}", info.version.text.split('-').next().unwrap())
    );
    let one = current_position(&mut place.conn, &info.version)
        .await
        .unwrap();
    place.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let two = current_position(&mut place.conn, &info.version)
        .await
        .unwrap();
    assert!((one.file, one.offset_bytes) < (two.file, two.offset_bytes));
    let names: Option<u8> = place
        .conn
        .query_first("SELECT @@lower_case_table_names")
        .await
        .unwrap();
    assert_eq!(names, Some(info.lower_case_table_names));
}

//! The shadow table itself.

use mysql_async::prelude::Queryable;
use oxferry_schema::{Alter, Remedy, ShadowError, ShadowNames, Table, create_shadow};

use crate::place::Place;

async fn shadow(place: &mut Place, clauses: &str) -> Result<Table, ShadowError> {
    let source = place.read("t").await;
    let names = ShadowNames::beside(&source.name);
    let alter = Alter::clauses(clauses).unwrap();
    create_shadow(&mut place.conn, &source, &names.shadow, &alter).await
}

#[tokio::test]
async fn the_next_automatic_value_is_kept_unless_the_statement_gives_one() {
    let mut place = Place::new().await;
    place
        .run("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT)")
        .await;
    place
        .run("INSERT INTO t (a) VALUES (1), (2), (3), (4), (5)")
        .await;
    place.run("DELETE FROM t WHERE id > 2").await;
    for (clauses, next) in [
        ("ADD b INT", Some(6)),
        ("AUTO_INCREMENT = 100", Some(100)),
        ("MODIFY id INT", None),
    ] {
        let made = shadow(&mut place, clauses).await.unwrap();
        assert_eq!(made.auto_increment, next, "{clauses}");
        place.run("DROP TABLE _t_oxnew").await;
    }
}

#[tokio::test]
async fn an_existing_table_is_left_alone() {
    let mut place = Place::new().await;
    place.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
    place.run("CREATE TABLE _t_oxnew (precious INT)").await;
    let error = shadow(&mut place, "ADD a INT").await.unwrap_err();
    assert!(matches!(error, ShadowError::Exists { .. }), "{error:?}");
    assert_eq!(error.remedy(), Remedy::Usage);
    assert_eq!(
        place.read("_t_oxnew").await.columns[0].name.as_str(),
        "precious"
    );
}

#[tokio::test]
async fn a_refused_statement_leaves_no_table() {
    let mut place = Place::new().await;
    place.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let error = shadow(&mut place, "DROP nothing").await.unwrap_err();
    assert!(matches!(error, ShadowError::Statement { .. }), "{error:?}");
    let tables: Vec<String> = place.conn.query("SHOW TABLES").await.unwrap();
    assert_eq!(tables, ["t"]);
}

#[tokio::test]
async fn a_long_name_gets_a_shadow_too() {
    let mut place = Place::new().await;
    let long = "é".repeat(64);
    let name = place.name(&long);
    place
        .run(&format!("CREATE TABLE {name} (id INT PRIMARY KEY)"))
        .await;
    let source = place.read(&long).await;
    let names = ShadowNames::beside(&source.name);
    let alter = Alter::clauses("ADD a INT").unwrap();
    let made = create_shadow(&mut place.conn, &source, &names.shadow, &alter)
        .await
        .unwrap();
    assert_eq!(made.name, names.shadow);
}

#[tokio::test]
async fn checks_get_their_names_back_when_the_tables_are_swapped() {
    let mut place = Place::new().await;
    place
        .run(
            "CREATE TABLE t (id INT PRIMARY KEY, a INT CHECK (a > 0), b VARCHAR(9) CHECK (b <> 'x\ny%'), \
             c INT, CONSTRAINT `po``s` CHECK (c > a), CONSTRAINT lax CHECK (c > 5) NOT ENFORCED, \
             CONSTRAINT gone CHECK (c < 99))",
        )
        .await;
    place.run("ALTER TABLE t DROP CHECK t_chk_1").await;
    let clauses = "DROP CHECK GONE, ALTER CHECK lax ENFORCED, ADD CONSTRAINT fresh CHECK (c > 1), ADD CHECK (c > 2)";
    shadow(&mut place, clauses).await.unwrap();
    place.run("RENAME TABLE t TO _t_oxold, _t_oxnew TO t").await;
    let create = place.read("t").await.create_statement;
    let checks: Vec<&str> = create
        .lines()
        .filter_map(|line| line.trim().strip_prefix("CONSTRAINT "))
        .map(|line| line.trim_end_matches(','))
        .collect();
    assert_eq!(
        checks,
        [
            "`_lax` CHECK ((`c` > 5))",
            "`_po``s` CHECK ((`c` > `a`))",
            "`fresh` CHECK ((`c` > 1))",
            "`t_chk_2` CHECK ((`b` <> _utf8mb4'x\\ny%'))",
            "`t_chk_3` CHECK ((`c` > 2))",
        ]
    );
    place.run("DROP TABLE _t_oxold").await;
    let again = shadow(&mut place, "DROP CHECK _lax").await.unwrap();
    assert!(again.create_statement.contains("CONSTRAINT `po``s` CHECK"));
}

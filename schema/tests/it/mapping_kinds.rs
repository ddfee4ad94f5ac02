//! What columns become in tables of every kind.

use crate::place::Place;

#[tokio::test]
async fn generated_columns_are_followed_in_keys_and_through_renaming() {
    let mut place = Place::new().await;
    let definition = "(a INT NOT NULL, s INT AS (a * 2) STORED NOT NULL, v INT AS (a + 1) VIRTUAL, \
        w VARCHAR(20) AS (CONCAT('x', a)) VIRTUAL, PRIMARY KEY (s, a), UNIQUE KEY (v), KEY (w))";
    for (clauses, story) in [
        ("FORCE", "a>a =s =v =w"),
        (
            "RENAME COLUMN v TO vv, RENAME COLUMN s TO ss",
            "a>a =ss =vv =w",
        ),
        ("CHANGE v V INT AS (a + 1) VIRTUAL", "a>a =s =V =w"),
        ("MODIFY v BIGINT AS (a + 5) VIRTUAL", "a>a =s =v =w"),
        ("DROP v, DROP w, ADD v INT", "a>a -v -w +v =s"),
        ("MODIFY s INT NOT NULL", "a>a s>s =v =w"),
        (
            "DROP w, ADD w VARCHAR(20) AS (a) STORED FIRST",
            "a>a -w =w =s =v",
        ),
    ] {
        let told = place.story(definition, clauses).await;
        assert_eq!(told, story, "{clauses}");
    }
}

#[tokio::test]
async fn names_of_64_characters_and_invisible_columns_are_followed() {
    let mut place = Place::new().await;
    let (long, other) = ("é".repeat(64), format!("{}x", "é".repeat(63)));
    let definition = format!(
        "(`{long}` INT, `{other}` INT INVISIBLE, PRIMARY KEY (`{long}`), KEY `{long}` (`{other}`))"
    );
    let clauses =
        format!("RENAME COLUMN `{long}` TO `{other}`, RENAME COLUMN `{other}` TO `{long}`");
    let story = format!("{long}>{other} {other}>{long}");
    assert_eq!(place.story(&definition, &clauses).await, story);
    let clauses = format!("ALTER `{other}` SET VISIBLE, ADD `i` INT INVISIBLE DEFAULT 3 FIRST");
    let story = format!("{long}>{long} {other}>{other} +i");
    assert_eq!(place.story(&definition, &clauses).await, story);
}

#[tokio::test]
async fn long_lists_of_members_are_followed() {
    let mut place = Place::new().await;
    let members: Vec<String> = (0..500).map(|i| format!("'m{i},'''")).collect();
    let fewer = members.get(..300).unwrap().join(",");
    let definition = format!(
        "(id INT PRIMARY KEY, e ENUM({}), s SET('a','b'))",
        members.join(",")
    );
    let clauses = format!("CHANGE e s ENUM({fewer}), CHANGE s e VARCHAR(20)");
    assert_eq!(place.story(&definition, &clauses).await, "id>id e>s s>e");
}

#[tokio::test]
async fn defaults_that_are_expressions_do_not_disturb() {
    let mut place = Place::new().await;
    let definition = "(id INT PRIMARY KEY, j JSON DEFAULT (JSON_ARRAY()), k JSON NOT NULL DEFAULT (JSON_OBJECT()), \
        b BLOB DEFAULT ('x'), g POINT DEFAULT (POINT(1, 2)), d DATE DEFAULT (CURRENT_DATE), \
        t TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6))";
    for (clauses, story) in [
        ("FORCE", "id>id j>j k>k b>b g>g d>d t>t"),
        (
            "RENAME COLUMN j TO k, RENAME COLUMN k TO j, DROP b",
            "id>id j>k k>j g>g d>d t>t -b",
        ),
        (
            "DROP j, ADD j JSON DEFAULT (JSON_ARRAY())",
            "id>id k>k b>b g>g d>d t>t -j +j",
        ),
    ] {
        let told = place.story(definition, clauses).await;
        assert_eq!(told, story, "{clauses}");
    }
}

#[tokio::test]
async fn geometries_with_a_reference_system_and_vectors_are_followed() {
    let mut place = Place::new().await;
    let definition = "(id INT PRIMARY KEY, p POINT NOT NULL SRID 4326, q GEOMETRY NOT NULL SRID 0, \
        v VECTOR(4) NOT NULL, SPATIAL INDEX (p), SPATIAL INDEX q (q))";
    for (clauses, story) in [
        ("FORCE", "id>id p>p q>q v>v"),
        ("RENAME COLUMN p TO r, ADD p INT", "id>id p>r q>q v>v +p"),
        (
            "DROP INDEX p, CHANGE p g POINT SRID 4326, DROP q, CHANGE v w VECTOR(8)",
            "id>id p>g v>w -q",
        ),
    ] {
        let told = place.story(definition, clauses).await;
        assert_eq!(told, story, "{clauses}");
    }
}

#[tokio::test]
async fn partitions_are_added_changed_and_removed() {
    let mut place = Place::new().await;
    let columns = "(id INT, d DATE NOT NULL, n INT, PRIMARY KEY (id, d), KEY (n))";
    let partitioned = format!(
        "{columns} PARTITION BY RANGE (YEAR(d)) (PARTITION p0 VALUES LESS THAN (2000), \
         PARTITION p1 VALUES LESS THAN MAXVALUE)"
    );
    for (definition, clauses) in [
        (columns, "PARTITION BY KEY () PARTITIONS 3"),
        (&partitioned, "REMOVE PARTITIONING"),
        (&partitioned, "PARTITION BY HASH (id) PARTITIONS 2"),
        (&partitioned, "FORCE"),
    ] {
        let told = place.story(definition, clauses).await;
        assert_eq!(told, "id>id d>d n>n", "{clauses}");
    }
    let clauses = "RENAME COLUMN n TO m, ADD n INT PARTITION BY HASH (id) PARTITIONS 2";
    assert_eq!(place.story(&partitioned, clauses).await, "id>id d>d n>m +n");
}

#[tokio::test]
async fn other_tablespaces_and_row_formats_do_not_disturb() {
    let mut place = Place::new().await;
    let columns = "(id INT PRIMARY KEY, a INT, b TEXT)";
    for options in [
        "TABLESPACE innodb_system",
        "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8",
        "ROW_FORMAT=REDUNDANT",
    ] {
        let told = place
            .story(&format!("{columns} {options}"), "CHANGE a c BIGINT, DROP b")
            .await;
        assert_eq!(told, "id>id a>c -b", "{options}");
    }
}

#[tokio::test]
async fn an_invisible_generated_key_is_followed_or_replaced() {
    let mut place = Place::new().await;
    place
        .run("SET SESSION sql_generate_invisible_primary_key = ON")
        .await;
    let definition = "(a INT, b INT)";
    assert_eq!(
        place.story(definition, "ADD c INT").await,
        "my_row_id>my_row_id a>a b>b +c"
    );
    assert_eq!(
        place.story(definition, "ALTER my_row_id SET VISIBLE").await,
        "my_row_id>my_row_id a>a b>b"
    );
    assert_eq!(
        place
            .story(
                definition,
                "DROP PRIMARY KEY, DROP my_row_id, ADD PRIMARY KEY (a)"
            )
            .await,
        "a>a b>b -my_row_id"
    );
}

#[tokio::test]
async fn checks_are_dropped_and_changed_by_the_names_that_the_source_has() {
    let mut place = Place::new().await;
    let definition = "(id INT PRIMARY KEY, a INT CHECK (a > 0), b INT, CONSTRAINT pos CHECK (b > 0), \
        CONSTRAINT `o``dd` CHECK (b < 99) NOT ENFORCED)";
    for (clauses, story) in [
        ("DROP CHECK pos, RENAME COLUMN a TO a", "id>id a>a b>b"),
        (
            "DROP CONSTRAINT `O``DD`, DROP CHECK pos, RENAME COLUMN b TO c",
            "id>id a>a b>c",
        ),
        ("DROP CHECK t_chk_1, RENAME COLUMN a TO x", "id>id a>x b>b"),
        ("ALTER CHECK pos NOT ENFORCED", "id>id a>a b>b"),
        (
            "DROP CHECK pos, ADD CONSTRAINT pos CHECK (b > 1), ADD c INT CONSTRAINT fresh CHECK (c > 0)",
            "id>id a>a b>b +c",
        ),
    ] {
        assert_eq!(place.story(definition, clauses).await, story, "{clauses}");
    }
}

#[tokio::test]
async fn checks_that_a_copy_could_not_name_are_refused_with_the_reason() {
    use oxferry_schema::{Alter, ProbeError, Remedy, probe};

    let mut place = Place::new().await;
    let alter = Alter::clauses("ADD z INT").unwrap();
    for (length, fits) in [(49, true), (50, false), (58, false)] {
        let name = "n".repeat(length);
        place
            .run(&format!(
                "CREATE TABLE {name} (id INT PRIMARY KEY, CHECK (id > 0))"
            ))
            .await;
        let source = place.read(&name).await;
        match probe(&mut place.conn, &source, &alter).await {
            Ok(_) => assert!(fits, "{length}"),
            Err(error) => {
                assert!(!fits, "{length}: {error:?}");
                assert!(matches!(error, ProbeError::LongChecks { .. }), "{error:?}");
                assert_eq!(error.remedy(), Remedy::Usage);
            }
        }
    }
}

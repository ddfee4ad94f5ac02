//! What columns become, followed by their indexes.

use oxferry_schema::{ProbeError, Remedy};

use crate::place::Place;

const PLAIN: &str = "(id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY (a), KEY ab (a, b))";

#[tokio::test]
async fn columns_are_followed_through_any_clause() {
    let mut place = Place::new().await;
    for (clauses, story) in [
        ("FORCE", "id>id a>a b>b"),
        ("ADD c INT", "id>id a>a b>b +c"),
        ("DROP a", "id>id b>b -a"),
        ("MODIFY a BIGINT NOT NULL", "id>id a>a b>b"),
        ("RENAME COLUMN a TO x", "id>id a>x b>b"),
        ("CHANGE a x BIGINT", "id>id a>x b>b"),
        ("CHANGE a A INT", "id>id a>A b>b"),
        ("CHANGE a b INT, CHANGE b a VARCHAR(30)", "id>id a>b b>a"),
        (
            "RENAME COLUMN a TO b, RENAME COLUMN b TO a",
            "id>id a>b b>a",
        ),
        ("DROP a, ADD a INT", "id>id b>b -a +a"),
        ("DROP a, CHANGE b a VARCHAR(20)", "id>id b>a -a"),
        ("RENAME COLUMN a TO x, ADD a INT", "id>id a>x b>b +a"),
        (
            "MODIFY a INT FIRST, MODIFY b VARCHAR(20) AFTER a",
            "a>a b>b id>id",
        ),
        (
            "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "id>id a>a b>b",
        ),
        (
            "CONVERT TO CHARACTER SET latin1, CHANGE b c VARCHAR(5)",
            "id>id a>a b>c",
        ),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (a, id)", "id>id a>a b>b"),
        ("DROP PRIMARY KEY", "id>id a>a b>b"),
        (
            "DROP PRIMARY KEY, DROP id, ADD k BIGINT AUTO_INCREMENT PRIMARY KEY",
            "a>a b>b -id +k",
        ),
        (
            "DROP PRIMARY KEY, CHANGE id a INT, CHANGE a id INT PRIMARY KEY",
            "id>a a>id b>b",
        ),
        (
            "DROP INDEX a, DROP INDEX ab, RENAME COLUMN a TO x",
            "id>id a>x b>b",
        ),
        ("MODIFY a ENUM('x','y'), MODIFY b INT", "id>id a>a b>b"),
        (
            "DROP INDEX a, DROP INDEX ab, CHANGE b x BLOB, CHANGE a y CHAR(1)",
            "id>id a>y b>x",
        ),
        (
            "DROP INDEX a, DROP INDEX ab, CHANGE a x LONGTEXT, ADD a TEXT",
            "id>id a>x b>b +a",
        ),
        (
            "DROP INDEX a, DROP INDEX ab, CHANGE a x TEXT FIRST, CHANGE id y VARBINARY(30), CHANGE b z JSON",
            "a>x id>y b>z",
        ),
        ("DROP b, ADD j JSON", "id>id a>a -b +j"),
        ("ADD g INT AS (a + 1) STORED", "id>id a>a b>b =g"),
        ("PARTITION BY HASH (id) PARTITIONS 3", "id>id a>a b>b"),
        ("ENGINE=InnoDB ROW_FORMAT=COMPRESSED", "id>id a>a b>b"),
    ] {
        let definition = format!("{PLAIN} CHARSET latin1");
        assert_eq!(place.story(&definition, clauses).await, story, "{clauses}");
    }
}

#[tokio::test]
async fn a_hundred_columns_and_many_indexes_are_followed_in_groups() {
    let mut place = Place::new().await;
    let columns: Vec<String> = (0..100).map(|i| format!("c{i} VARCHAR(30)")).collect();
    let indexes: Vec<String> = (0..50).map(|i| format!("KEY (c{i})")).collect();
    let definition = format!(
        "(id INT PRIMARY KEY, {}, {})",
        columns.join(", "),
        indexes.join(", ")
    );
    let added: Vec<String> = (50..60).map(|i| format!("ADD INDEX (c{i})")).collect();
    let clauses = format!(
        "RENAME COLUMN c0 TO c1, RENAME COLUMN c1 TO c0, DROP c99, {}",
        added.join(", ")
    );
    let story = place.story(&definition, &clauses).await;
    assert!(story.starts_with("id>id c0>c1 c1>c0 c2>c2 "), "{story}");
    assert!(story.ends_with(" c98>c98 -c99"), "{story}");
    assert_eq!(story.split(' ').count(), 101);
}

#[tokio::test]
async fn a_table_full_of_indexes_is_followed_by_marks_or_refused() {
    let mut place = Place::new().await;
    for (kind, clauses, begins, ends) in [
        (
            "INT",
            "RENAME COLUMN c0 TO c1, RENAME COLUMN c1 TO c0, DROP c62",
            "id>id c0>c1 c1>c0 c2>c2 ",
            " -c62",
        ),
        (
            "VARCHAR(9)",
            "DROP c0, DROP INDEX c1, CHANGE c2 c0 TEXT, DROP INDEX c2, ADD z INT",
            "id>id c1>c1 c2>c0 c3>c3 ",
            "-c0 +z",
        ),
    ] {
        let columns: Vec<String> = (0..63).map(|i| format!("c{i} {kind}")).collect();
        let indexes: Vec<String> = (0..63).map(|i| format!("KEY (c{i})")).collect();
        let (columns, indexes) = (columns.join(", "), indexes.join(", "));
        let definition = format!("(id INT PRIMARY KEY, {columns}, {indexes})");
        let story = place.story(&definition, clauses).await;
        assert!(story.starts_with(begins), "{story}");
        assert!(story.ends_with(ends), "{story}");
    }
}

#[tokio::test]
async fn generated_columns_are_filled_only_where_they_become_plain() {
    let mut place = Place::new().await;
    let definition =
        "(id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a + 2) STORED)";
    for (clauses, story) in [
        ("FORCE", "id>id a>a =v =s"),
        (
            "RENAME COLUMN v TO w, RENAME COLUMN s TO z",
            "id>id a>a =w =z",
        ),
        ("MODIFY s INT", "id>id a>a s>s =v"),
        ("DROP v, DROP s, ADD v INT", "id>id a>a -v -s +v"),
    ] {
        assert_eq!(place.story(definition, clauses).await, story, "{clauses}");
    }
}

#[tokio::test]
async fn partitioned_invisible_and_oddly_named_columns_are_followed() {
    let mut place = Place::new().await;
    let definition = "(`key` INT, `b``c` VARCHAR(9) INVISIBLE, `x.y` DATETIME(6), `é` BIT(64), \
        PRIMARY KEY (`key` DESC)) PARTITION BY RANGE (`key`) (PARTITION p VALUES LESS THAN MAXVALUE)";
    assert_eq!(
        place.story(definition, "CHANGE `b``c` `x.y` VARCHAR(9), CHANGE `x.y` `select` DATETIME, RENAME COLUMN `é` TO `É`").await,
        "key>key b`c>x.y x.y>select é>É"
    );
}

#[tokio::test]
async fn full_text_spatial_and_functional_indexes_do_not_disturb() {
    let mut place = Place::new().await;
    let definition = "(id INT PRIMARY KEY, t TEXT, g POINT NOT NULL SRID 4326, j JSON, n INT, FULLTEXT (t), \
        SPATIAL INDEX (g), KEY f ((n + 1)), KEY m ((CAST(j->'$.a' AS UNSIGNED ARRAY))), CHECK (n > 5))";
    assert_eq!(
        place.story(definition, "ADD z INT").await,
        "id>id t>t g>g j>j n>n +z"
    );
    assert_eq!(
        place
            .story(definition, "RENAME COLUMN t TO u, RENAME COLUMN g TO h")
            .await,
        "id>id t>u g>h j>j n>n"
    );
}

#[tokio::test]
async fn the_servers_refusal_comes_first_and_leaves_nothing() {
    let mut place = Place::new().await;
    for clauses in [
        "ADD a INT",
        "DROP nothing",
        "ADD x NOTATYPE",
        "ADD INDEX (b(100))",
        "MODIFY id INT AUTO_INCREMENT, DROP PRIMARY KEY",
    ] {
        let error = place.probe(PLAIN, clauses).await.unwrap_err();
        assert!(
            matches!(error, ProbeError::Statement { .. }),
            "{clauses}: {error:?}"
        );
        assert_eq!(error.remedy(), Remedy::Usage, "{clauses}");
    }
}

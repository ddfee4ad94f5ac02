//! What columns become whose types no index takes.

use oxferry_schema::{ProbeError, Remedy};

use crate::place::Place;

const DOCUMENTS: &str = "(id INT PRIMARY KEY, j JSON, k JSON NOT NULL, n INT NOT NULL, \
    g INT AS (k->'$.n') VIRTUAL, CONSTRAINT positive CHECK (n > 0))";

#[tokio::test]
async fn documents_are_followed_through_renaming_and_swapping() {
    let mut place = Place::new().await;
    for (clauses, story) in [
        ("RENAME COLUMN j TO x", "id>id j>x k>k n>n =g"),
        ("CHANGE j x JSON NOT NULL", "id>id j>x k>k n>n =g"),
        ("CHANGE j x TEXT", "id>id j>x k>k n>n =g"),
        ("MODIFY j JSON COMMENT 'same'", "id>id j>j k>k n>n =g"),
        ("DROP j, ADD j JSON", "id>id k>k n>n -j +j =g"),
        (
            "DROP j, ADD x JSON, ADD y JSON",
            "id>id k>k n>n -j +x +y =g",
        ),
        (
            "DROP g, CHANGE j k JSON, CHANGE k j JSON NOT NULL",
            "id>id j>k k>j n>n -g",
        ),
        (
            "DROP g, RENAME COLUMN j TO k, RENAME COLUMN k TO j",
            "id>id j>k k>j n>n -g",
        ),
        (
            "DROP g, CHANGE j x JSON, ADD j JSON, DROP k",
            "id>id j>x n>n -k -g +j",
        ),
        ("MODIFY n JSON", "id>id j>j k>k n>n =g"),
    ] {
        let told = place.story(DOCUMENTS, clauses).await;
        assert_eq!(told, story, "{clauses}");
    }
}

#[tokio::test]
async fn vectors_and_geometries_are_followed() {
    let mut place = Place::new().await;
    let definition = "(id INT PRIMARY KEY, v VECTOR(3), w VECTOR(3), p POINT, q GEOMETRY, \
        l LINESTRING, c CHAR(0), b BLOB)";
    for (clauses, story) in [
        ("FORCE", "id>id v>v w>w p>p q>q l>l c>c b>b"),
        (
            "CHANGE v w VECTOR(3), CHANGE w v VECTOR(3)",
            "id>id v>w w>v p>p q>q l>l c>c b>b",
        ),
        (
            "CHANGE p q POINT, CHANGE q p GEOMETRY",
            "id>id v>v w>w p>q q>p l>l c>c b>b",
        ),
        (
            "DROP p, ADD p POINT, CHANGE l m LINESTRING",
            "id>id v>v w>w q>q l>m c>c b>b -p +p",
        ),
    ] {
        assert_eq!(place.story(definition, clauses).await, story, "{clauses}");
    }
}

#[tokio::test]
async fn two_possible_answers_are_refused() {
    let mut place = Place::new().await;
    let error = place
        .probe(
            "(id INT PRIMARY KEY, d DATE)",
            "CHANGE d x JSON, ADD d JSON",
        )
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ProbeError::Ambiguous { column, .. } if column == "d"),
        "{error:?}"
    );
    assert_eq!(error.remedy(), Remedy::Usage);
}

#[tokio::test]
async fn the_sessions_sql_mode_survives() {
    use mysql_async::prelude::Queryable;

    let mut place = Place::new().await;
    let mode = |_: &()| "SELECT @@SESSION.sql_mode";
    let before: Option<String> = place.conn.query_first(mode(&())).await.unwrap();
    place.story(DOCUMENTS, "CHANGE j x JSON").await;
    let after: Option<String> = place.conn.query_first(mode(&())).await.unwrap();
    assert_eq!(before, after);
    assert!(after.unwrap().contains("STRICT_ALL_TABLES"));
}

#[tokio::test]
async fn a_float_default_that_the_server_would_round_later_is_refused() {
    let mut place = Place::new().await;
    let table = "(id INT PRIMARY KEY, b INT NOT NULL CHECK (b > 5), p POINT NOT NULL)";
    for (clauses, rounded) in [
        (
            "ADD COLUMN x FLOAT NOT NULL DEFAULT 16777217",
            Some("16777200"),
        ),
        ("ADD COLUMN x FLOAT DEFAULT 1.2345678", Some("1.23457")),
        (
            "ADD COLUMN x FLOAT NOT NULL DEFAULT 0.1, ADD COLUMN y FLOAT",
            None,
        ),
        ("ADD COLUMN x FLOAT DEFAULT (16777217)", None),
        ("ADD COLUMN x DOUBLE DEFAULT 16777217.25", None),
    ] {
        match (place.probe(table, clauses).await, rounded) {
            (Ok(_), None) => {}
            (Err(error @ ProbeError::UnstableDefault { .. }), Some(rounded)) => {
                let text = error.to_string();
                assert!(text.contains(rounded), "{text}");
                assert_eq!(error.remedy(), Remedy::Usage);
            }
            (other, _) => panic!("{clauses}: {other:?}"),
        }
    }
}

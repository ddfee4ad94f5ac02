//! Keys whose order and equality only the server knows.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use oxferry_schema::{Key, KeyPart};
use oxferry_verifier::{
    CompareError, FixedRanges, KeyOrder, Mismatch, MismatchKind, Verify, VerifyConfig, spots_agree,
};

use crate::{
    place::Place,
    writes::{Job, config, touched_in},
};

/// How a table of keys is planted on both sides.
struct Case {
    /// The key column on the source and on the target.
    types: [&'static str; 2],
    order: KeyOrder,
    /// Values of the source's rows.
    rows: &'static [&'static str],
    /// One of them that the target shall lack, and one that shall differ there.
    missing: &'static str,
    changed: &'static str,
    /// A value that the target alone shall have.
    surplus: &'static str,
}

const CASES: &[Case] = &[
    Case {
        types: ["varchar(20) collate utf8mb4_0900_ai_ci"; 2],
        order: KeyOrder::Server,
        rows: &["'b'", "'É'", "'a'", "'C '", "'ß'", "''", "'Zz'", "'d'"],
        missing: "'É'",
        changed: "'C '",
        surplus: "'x'",
    },
    Case {
        types: ["varchar(20) collate utf8mb4_general_ci"; 2],
        order: KeyOrder::Server,
        rows: &["'b'", "'A '", "'c'", "'a b'", "'z'"],
        missing: "'c'",
        changed: "'A '",
        surplus: "'q '",
    },
    Case {
        types: [
            "varchar(20) charset latin1 collate latin1_german1_ci",
            "varchar(20) charset utf8mb4 collate utf8mb4_0900_ai_ci",
        ],
        order: KeyOrder::Apart,
        rows: &["'b'", "'é'", "'Ä'", "'ß'", "'C '", "'~'", "'Zz'", "'_'"],
        missing: "'ß'",
        changed: "'é'",
        surplus: "'ü'",
    },
    Case {
        types: [
            "enum('c','b','a','e','d','f')",
            "enum('f','a','b','c','d','e')",
        ],
        order: KeyOrder::Apart,
        rows: &["'a'", "'b'", "'c'", "'d'", "'f'"],
        missing: "'b'",
        changed: "'c'",
        surplus: "'e'",
    },
    Case {
        types: ["int", "varchar(20)"],
        order: KeyOrder::Apart,
        rows: &["-7", "0", "9", "10", "100", "2000000000"],
        missing: "10",
        changed: "-7",
        surplus: "11",
    },
    Case {
        types: ["decimal(10,2)", "decimal(20,4)"],
        order: KeyOrder::Server,
        rows: &["-7.5", "0", "9.25", "10", "100", "2000.01"],
        missing: "10",
        changed: "-7.5",
        surplus: "11.11",
    },
    Case {
        types: ["datetime(3)"; 2],
        order: KeyOrder::Server,
        rows: &[
            "'2020-01-01'",
            "'2020-01-01 00:00:00.001'",
            "'1999-12-31'",
            "'2030-01-01'",
        ],
        missing: "'1999-12-31'",
        changed: "'2020-01-01 00:00:00.001'",
        surplus: "'2020-01-01 00:00:00.002'",
    },
    Case {
        types: ["varbinary(20)"; 2],
        order: KeyOrder::Shared,
        rows: &["x''", "x'00'", "x'61'", "x'6100'", "x'ff'"],
        missing: "x'6100'",
        changed: "x'00'",
        surplus: "x'610000'",
    },
];

async fn plant(place: &Place, case: &Case) {
    place.run("DROP TABLE IF EXISTS s, t").await;
    for (table, kind) in ["s", "t"].iter().zip(case.types) {
        let columns = format!("k {kind} NOT NULL PRIMARY KEY, v INT");
        place
            .run(&format!("CREATE TABLE {table} ({columns}) CHARSET utf8mb4"))
            .await;
    }
    for (at, value) in case.rows.iter().enumerate() {
        place
            .run(&format!("INSERT INTO s VALUES ({value}, {at})"))
            .await;
    }
    place.run("INSERT INTO t SELECT * FROM s").await;
}

async fn spoil(place: &Place, case: &Case) {
    let Case {
        missing,
        changed,
        surplus,
        ..
    } = case;
    place.run(&format!("DELETE FROM t WHERE k={missing}")).await;
    place
        .run(&format!("UPDATE t SET v=99 WHERE k={changed}"))
        .await;
    place
        .run(&format!("INSERT INTO t VALUES ({surplus}, 5)"))
        .await;
}

/// Compares, with repairs, in pages of two rows; the ranges have a border.
async fn verify(
    place: &Arc<Place>,
    case: &Case,
    border: Option<Key>,
) -> (Result<u64, CompareError>, Vec<Mismatch>, Arc<Job>) {
    let sides = place.sides("s", "t", &["k"]).await;
    let job = Job::with_keys(Arc::clone(place)).await;
    let mut small = config();
    small.limits.page_rows = 2.try_into().unwrap();
    let once = VerifyConfig {
        passes_max: 1.try_into().unwrap(),
        ..small
    };
    let ranges = || FixedRanges::new(crate::writes::split_at(border.clone()));
    let touched = touched_in(case.order);
    let first = Verify::new(vec![sides.clone()], Arc::clone(&job), touched, once);
    let found = match first.run(&mut ranges()).await {
        Err(CompareError::Different { found, .. }) => found.listed().to_vec(),
        Err(error) => return (Err(error), Vec::new(), job),
        Ok(_) => Vec::new(),
    };
    let second = Verify::new(vec![sides], Arc::clone(&job), touched_in(case.order), small);
    let clean = second.run(&mut ranges()).await;
    (clean.map(|clean| clean.rows_compared()), found, job)
}

/// The key of a row somewhere in the middle, in the source's order.
async fn middle(place: &Place) -> Key {
    let (source, _) = place.sides("s", "t", &["k"]).await;
    let all = 100.try_into().unwrap();
    let rows = oxferry_verifier::Fingerprints::page(&source, &oxferry_schema::KeyRange::ALL, all);
    rows.await.unwrap()[2].0.clone()
}

#[tokio::test]
async fn planted_differences_are_found_and_repaired_whatever_the_key() {
    let place = Arc::new(Place::start().await);
    for case in CASES {
        plant(&place, case).await;
        let border = middle(&place).await;
        let rows = u64::try_from(case.rows.len()).unwrap();
        let (clean, found, _) = verify(&place, case, Some(border.clone())).await;
        let clean = clean.unwrap_or_else(|e| panic!("{:?}: {e}", case.types));
        assert_eq!((clean, found.len()), (rows, 0), "{:?}", case.types);
        spoil(&place, case).await;
        let (source, target) = place.sides("s", "t", &["k"]).await;
        let spots = 100.try_into().unwrap();
        assert!(!spots_agree(&source, &target, spots, &[]).await.unwrap());
        let (clean, found, job) = verify(&place, case, Some(border)).await;
        let mut kinds: Vec<_> = found.iter().map(|m| m.kind).collect();
        kinds.sort_by_key(|kind| *kind as u8);
        let expected = [
            MismatchKind::MissingOnTarget,
            MismatchKind::MissingOnSource,
            MismatchKind::Different,
        ];
        assert_eq!(kinds, expected, "{:?}: {found:?}", case.types);
        assert_eq!(clean.unwrap(), rows, "{:?}", case.types);
        assert!(!job.repairs.lock().unwrap().is_empty());
        let keys = [found[0].key.clone()];
        let agree = spots_agree(&source, &target, spots, &keys).await.unwrap();
        assert!(agree, "{:?}", case.types);
    }
}

#[tokio::test]
async fn a_row_that_the_source_cannot_name_is_told_and_nothing_loops() {
    let place = Arc::new(Place::start().await);
    let case = &CASES[2];
    for (rows, foreign) in [("", "'中'"), ("'?', 'a?'", "'中'"), ("'?'", "'a中'")] {
        plant(&place, case).await;
        for row in rows.split(", ").filter(|row| !row.is_empty()) {
            for table in ["s", "t"] {
                place
                    .run(&format!("INSERT INTO {table} VALUES ({row}, 1)"))
                    .await;
            }
        }
        place
            .run(&format!("INSERT INTO t VALUES ({foreign}, 1)"))
            .await;
        let (clean, ..) = verify(&place, case, None).await;
        let error = clean.unwrap_err();
        let CompareError::Foreign { table, key } = &error else {
            panic!("{error:?}");
        };
        let read = foreign.replace('中', "?").replace('\'', "");
        let read = Key::new([KeyPart::Text(read.as_bytes().into())]);
        assert_eq!((table.as_str(), key), ("v.t", &read));
    }
}

#[tokio::test]
async fn a_key_that_changes_its_letters_only_is_compared_under_both() {
    let place = Arc::new(Place::start().await);
    let case = &CASES[0];
    plant(&place, case).await;
    let (source, target) = place.sides("s", "t", &["k"]).await;
    let job = Job::with_keys(Arc::clone(&place)).await;
    let touched = touched_in(case.order);
    let verify = Verify::new(vec![(source, target)], job, Arc::clone(&touched), config());
    let mut ranges = FixedRanges::new(crate::writes::split_at(None));
    let mut clean = verify.run(&mut ranges).await.unwrap();
    place.run("UPDATE s SET k='B' WHERE k='b'").await;
    let text = |text: &str| Key::new([KeyPart::Text(text.as_bytes().into())]);
    for key in ["b", "B"] {
        touched.lock().unwrap().handle_change(0, &text(key));
    }
    let mut conn = place.conn().await;
    let error = verify.finish_under_lock(&clean, &mut conn).await;
    let Err(CompareError::Diverged { found }) = error else {
        panic!("{error:?}");
    };
    let kinds: Vec<_> = found.listed().iter().map(|m| m.kind).collect();
    let expected = [MismatchKind::MissingOnTarget, MismatchKind::MissingOnSource];
    assert_eq!(kinds, expected, "{found}");
    verify.trim(&mut clean, &mut ranges).await.unwrap();
    let k: Option<String> = conn
        .query_first("SELECT k FROM t WHERE k='b'")
        .await
        .unwrap();
    assert_eq!(k.as_deref(), Some("B"));
    let _verified = verify.finish_under_lock(&clean, &mut conn).await.unwrap();
}

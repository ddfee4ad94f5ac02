//! The contract of [`CheckpointStore`], in executable form.
//!
//! Each function takes an empty store and leaves it empty.

use oxferry_schema::{Ident, Key, KeyPart, KeyRange, TableName};

use crate::{Advanced, Checkpoint, CheckpointStore, CopyMode, JobIdentity, Phase, TableProgress};

/// Runs every check of this suite.
///
/// # Panics
///
/// When the store breaks the contract.
pub async fn all(store: &impl CheckpointStore) {
    begins_empty(store).await;
    keeps_every_field(store).await;
    never_moves_backwards(store).await;
    forgets_when_told(store).await;
    refuses_what_could_not_be_read(store).await;
}

/// Checks that an empty store says so, and can be emptied again.
///
/// # Panics
///
/// When the store breaks the contract.
pub async fn begins_empty(store: &impl CheckpointStore) {
    store.clear().await.expect("an empty store can be cleared");
    assert_eq!(store.load().await.expect("an empty store loads"), None);
}

/// Checks that a checkpoint comes back as it was stored.
///
/// # Panics
///
/// When the store breaks the contract.
pub async fn keeps_every_field(store: &impl CheckpointStore) {
    for sequence in [1, 2, u64::MAX] {
        let stored = sample(sequence);
        advance(store, &stored, Advanced::Durable).await;
        assert_eq!(load(store).await, stored);
    }
    clear(store).await;
}

/// Checks that a stale checkpoint changes nothing, and an equal one neither.
///
/// # Panics
///
/// When the store breaks the contract.
pub async fn never_moves_backwards(store: &impl CheckpointStore) {
    let newest = sample(7);
    advance(store, &newest, Advanced::Durable).await;
    advance(store, &sample(6), Advanced::Stale { held: 7 }).await;
    assert_eq!(load(store).await, newest);
    let mut same_sequence = newest.clone();
    same_sequence.phase = Phase::Done;
    advance(store, &same_sequence, Advanced::Durable).await;
    assert_eq!(load(store).await, newest);
    advance(store, &sample(8), Advanced::Durable).await;
    assert_eq!(load(store).await, sample(8));
    clear(store).await;
}

/// Checks that clearing makes room for a job that starts anew.
///
/// # Panics
///
/// When the store breaks the contract.
pub async fn forgets_when_told(store: &impl CheckpointStore) {
    advance(store, &sample(9), Advanced::Durable).await;
    clear(store).await;
    assert_eq!(store.load().await.expect("a cleared store loads"), None);
    advance(store, &sample(1), Advanced::Durable).await;
    assert_eq!(load(store).await, sample(1));
    clear(store).await;
}

/// Checks that nothing gets in that could not be read again.
///
/// # Panics
///
/// When the store breaks the contract.
pub async fn refuses_what_could_not_be_read(store: &impl CheckpointStore) {
    let good = sample(1);
    advance(store, &good, Advanced::Durable).await;
    let mut bad = sample(2);
    for table in &mut bad.tables {
        table.closed.reverse();
    }
    assert!(store.advance(&bad).await.is_err(), "a bad one got in");
    assert_eq!(load(store).await, good);
    clear(store).await;
}

/// Returns a checkpoint with something in every field, hard characters too.
///
/// # Panics
///
/// Never: its names are valid.
#[must_use]
pub fn sample(sequence: u64) -> Checkpoint {
    let name = |table| TableName::new(ident("shop`s"), ident(table));
    let key = |value| Some(Key::new([KeyPart::Int(value), KeyPart::Int(-1)]));
    let statement = "ALTER TABLE t ADD x VARCHAR(9) DEFAULT 'ü\\'€😀\0'".to_owned();
    let job = JobIdentity::migrate(vec![name("t")], vec![statement]);
    let mut checkpoint = Checkpoint::new(job, "1.2.3", "3e11fa47-71ca-11e1-9e33-c80aa9429562");
    checkpoint.phase = Phase::CatchUp;
    checkpoint.position = Some(oxferry_binlog::Position {
        file: "binlog.000007:1234".parse().expect("it is a position"),
        gtids: None,
    });
    checkpoint.tables = vec![TableProgress {
        closed: vec![
            KeyRange {
                lower: None,
                upper: key(i128::from(i64::MIN)),
            },
            KeyRange {
                lower: key(0),
                upper: key(i128::from(u64::MAX)),
            },
        ],
        rows_copied: u64::MAX,
        changes_applied: 3,
        deferred_indexes: vec!["KEY `a` (`b`)".to_owned()],
        shadow_create: "CREATE TABLE `_t_oxnew` (\n  `id` int\n)".to_owned(),
        source_create: "CREATE TABLE `t` (\n  `id` int\n)".to_owned(),
        attached: serde_json::from_str(ATTACHED).expect("it is something that hangs on a table"),
        ..TableProgress::new(name("t"), name("_t_oxnew"), CopyMode::Ordered)
    }];
    checkpoint.saved_at = "2026-01-31T12:00:00Z".to_owned();
    checkpoint.sequence = sequence;
    checkpoint
}

const ATTACHED: &str = r#"{
    "triggers": [{
        "name": "tr", "table": {"schema": "shop`s", "table": "t"}, "when": "BEFORE INSERT",
        "order": 1, "definer": "`a`@`%`", "sql_mode": "", "client_charset": "latin1",
        "connection_collation": "latin1_swedish_ci", "database_collation": "utf8mb4_bin",
        "body": "ff00"
    }],
    "foreign_keys": [],
    "children": []
}"#;

fn ident(name: &str) -> Ident {
    Ident::new(name).expect("it is a name")
}

async fn load(store: &impl CheckpointStore) -> Checkpoint {
    let loaded = store.load().await.expect("the store loads");
    loaded.expect("the store holds a checkpoint")
}

async fn advance(store: &impl CheckpointStore, next: &Checkpoint, expected: Advanced) {
    let advanced = store.advance(next).await.expect("the store advances");
    assert_eq!(advanced, expected, "sequence {}", next.sequence);
}

async fn clear(store: &impl CheckpointStore) {
    store.clear().await.expect("the store clears");
}

//! Every format ever written stays readable.

use oxferry_state::{Checkpoint, JobKind, Phase};

#[test]
fn format_1_is_read_and_written_as_it_was() {
    let text = include_str!("../fixtures/format-1.json");
    let checkpoint = Checkpoint::from_json(text).unwrap();
    assert_eq!(checkpoint.phase, Phase::Copy);
    assert_eq!(checkpoint.sequence, 42);
    assert_eq!(checkpoint.tables[0].closed.len(), 2);
    assert_eq!(checkpoint.to_json().unwrap(), text.trim_end());
}

#[test]
fn format_1_of_several_tables_is_read_and_written_as_it_was() {
    let text = include_str!("../fixtures/format-1-several.json");
    let checkpoint = Checkpoint::from_json(text).unwrap();
    assert_eq!(checkpoint.phase, Phase::Cutover);
    assert_eq!(checkpoint.job.tables.len(), 2);
    assert_eq!(checkpoint.job.statements.len(), 2);
    let targets = checkpoint.tables.iter().map(|table| table.target.plain());
    let targets: Vec<String> = targets.collect();
    assert_eq!(targets, ["shop._orders_oxnew", "books._lines_oxnew"]);
    assert_eq!(checkpoint.to_json().unwrap(), text.trim_end());
}

#[test]
fn format_2_of_a_move_is_read_and_written_as_it_was() {
    let text = include_str!("../fixtures/format-2.json");
    let checkpoint = Checkpoint::from_json(text).unwrap();
    assert_eq!(checkpoint.job.kind, JobKind::Move);
    let target = checkpoint.target.as_ref().unwrap();
    assert_eq!(target.made.len(), 1);
    assert_eq!(target.blueprint.tables.len(), 1);
    assert_eq!(target.source_lock.as_deref(), Some("renamed"));
    let reverse = target.reverse.as_ref().unwrap();
    assert_eq!(reverse.source_shut, "renamed");
    assert_eq!(reverse.target_lock.as_deref(), Some("renamed announced"));
    assert_eq!(checkpoint.to_json().unwrap(), text.trim_end());
}

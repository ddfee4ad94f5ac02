//! Every format ever written stays readable.

use oxferry_state::{Checkpoint, Phase};

#[test]
fn format_1_is_read_and_written_as_it_was() {
    let text = include_str!("../fixtures/format-1.json");
    let checkpoint = Checkpoint::from_json(text).unwrap();
    assert_eq!(checkpoint.phase, Phase::Copy);
    assert_eq!(checkpoint.sequence, 42);
    assert_eq!(checkpoint.tables[0].closed.len(), 2);
    assert_eq!(checkpoint.to_json().unwrap(), text.trim_end());
}

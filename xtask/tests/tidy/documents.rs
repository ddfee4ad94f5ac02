//! Rules for ARCHITECTURE.md: each invariant names a test that holds it.

use std::collections::{BTreeMap, HashSet};

use crate::tree::{assert_none, members, read, root, rust_files};

/// How many invariants the architecture has: I1 and on.
const INVARIANTS: u32 = 9;

/// The tests that each line about an invariant names in backticks.
fn invariants(text: &str) -> BTreeMap<u32, Vec<String>> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim_start_matches(|c: char| "-*|# ".contains(c));
        let Some(rest) = line.strip_prefix('I') else {
            continue;
        };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let Ok(number) = digits.parse() else { continue };
        found
            .entry(number)
            .or_default()
            .extend(line.split('`').skip(1).step_by(2).filter_map(test_name));
    }
    found
}

/// A function's name out of `some::path::a_sentence_about_it`.
fn test_name(quoted: &str) -> Option<String> {
    let name = quoted.trim_end_matches("()").rsplit("::").next()?;
    let plain = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (plain && name.matches('_').count() >= 2).then(|| name.to_owned())
}

fn functions() -> HashSet<String> {
    let files = members().flat_map(rust_files);
    let mut names = HashSet::new();
    for path in files {
        for line in read(&path).lines() {
            let Some((_, rest)) = line.split_once("fn ") else {
                continue;
            };
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            names.insert(rest[..end.unwrap_or(rest.len())].to_owned());
        }
    }
    names
}

#[test]
fn every_invariant_names_tests_that_exist() {
    let named = invariants(&read(&root().join("ARCHITECTURE.md")));
    let functions = functions();
    let mut complaints = Vec::new();
    for number in 1..=INVARIANTS {
        let tests = named.get(&number).cloned().unwrap_or_default();
        if tests.is_empty() {
            complaints.push(format!("I{number} names no test"));
        }
        for test in tests.iter().filter(|test| !functions.contains(*test)) {
            complaints.push(format!("I{number} names {test}, which doesn't exist"));
        }
    }
    assert_none("an invariant without a test is a wish", &complaints);
}

#[test]
fn invariants_are_read_from_lists_and_tables() {
    let text =
        "- **I1** a `sim::a_test_that_holds_it`\n| I2 | b | `second_test_name` |\nIn between\n";
    let found = invariants(text);
    assert_eq!(found[&1], ["a_test_that_holds_it"]);
    assert_eq!(found[&2], ["second_test_name"]);
    assert_eq!(found.len(), 2);
}

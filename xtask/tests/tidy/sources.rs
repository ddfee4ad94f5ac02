//! Rules for single files.

use crate::tree::{assert_none, production, short};

/// What one can read in a sitting.
const LINES_MAX: usize = 500;
/// Names that say nothing about what is inside.
const FORBIDDEN: [&str; 5] = ["utils", "common", "helpers", "types", "misc"];

#[test]
fn no_file_outgrows_a_sitting() {
    let long = |(path, text): (std::path::PathBuf, String)| {
        let lines = text.lines().count();
        (lines > LINES_MAX).then(|| format!("{} has {lines} lines", short(&path)))
    };
    let complaints: Vec<_> = production().into_iter().filter_map(long).collect();
    assert_none(
        "a file has at most 500 lines of production code",
        &complaints,
    );
}

#[test]
fn no_module_is_named_after_nothing() {
    let mut complaints = Vec::new();
    for (path, _) in production() {
        let words = path
            .components()
            .filter_map(|part| part.as_os_str().to_str());
        for word in words.map(|word| word.trim_end_matches(".rs")) {
            if FORBIDDEN.contains(&word) {
                complaints.push(short(&path));
            }
        }
    }
    assert_none("a module is named after what it holds", &complaints);
}

#[test]
fn no_statement_drops_rows_in_silence() {
    let mut complaints = Vec::new();
    for (path, text) in production() {
        let code = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (number, line) in code {
            if line.to_ascii_uppercase().contains("INSERT IGNORE") {
                complaints.push(format!("{}:{}", short(&path), number + 1));
            }
        }
    }
    assert_none("INSERT IGNORE loses rows", &complaints);
}

#[test]
fn no_test_is_skipped() {
    let ignored = ["#[ign", "ore"].concat();
    let folders = crate::tree::members().flat_map(crate::tree::rust_files);
    let skipped = folders.filter(|path| crate::tree::read(path).contains(&ignored));
    let complaints: Vec<_> = skipped.map(|path| short(&path)).collect();
    assert_none("a test that never runs proves nothing", &complaints);
}

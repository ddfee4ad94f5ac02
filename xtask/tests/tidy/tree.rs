//! What the rules look at.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folder and package name of every library crate.
pub(crate) const LIBRARIES: [(&str, &str); 8] = [
    ("schema", "oxferry-schema"),
    ("binlog", "oxferry-binlog"),
    ("state", "oxferry-state"),
    ("throttle", "oxferry-throttle"),
    ("copier", "oxferry-copier"),
    ("verifier", "oxferry-verifier"),
    ("cutover", "oxferry-cutover"),
    ("testkit", "oxferry-testkit"),
];

/// The folders of all members.
pub(crate) fn members() -> impl Iterator<Item = &'static str> {
    LIBRARIES
        .iter()
        .map(|(folder, _)| *folder)
        .chain(["cli", "xtask"])
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every Rust file below `folder` of the workspace; nothing when it isn't there.
pub(crate) fn rust_files(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![root().join(folder)];
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The production code of every member, as file and text.
pub(crate) fn production() -> Vec<(PathBuf, String)> {
    let files = members().flat_map(|member| rust_files(Path::new(member).join("src")));
    let files = files.filter(|path| {
        !path
            .iter()
            .any(|part| part == "tests" || part == "tests.rs")
    });
    files
        .map(|path| (path.clone(), without_tests(&read(&path))))
        .collect()
}

/// The text before the tests at the bottom of a file.
fn without_tests(text: &str) -> String {
    let tests = "#[cfg(test)]\nmod tests";
    text.split(tests).next().unwrap_or_default().to_owned()
}

/// Fails with all complaints at once.
#[track_caller]
pub(crate) fn assert_none(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}:\n{}", complaints.join("\n"));
}

/// A path as a person would name it.
pub(crate) fn short(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

#[test]
fn tests_at_the_bottom_are_not_production_code() {
    let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
    assert_eq!(without_tests(text), "fn a() {}\n\n");
}

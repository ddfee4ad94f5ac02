//! Rules for crates: manifests, arrows, front pages.

use std::{fs, process::Command};

use crate::tree::{LIBRARIES, assert_none, members, read, root};

const BELOW_STATE: &[&str] = &["oxferry-schema", "oxferry-binlog", "oxferry-state"];

/// The workspace crates that a package may depend on outside of its tests.
fn allowed(package: &str) -> Option<Vec<&'static str>> {
    let below_state = BELOW_STATE.to_vec();
    Some(match package {
        "oxferry-schema" => vec![],
        "oxferry-binlog" => vec!["oxferry-schema"],
        "oxferry-state" => vec!["oxferry-schema", "oxferry-binlog"],
        "oxferry-throttle" | "oxferry-copier" | "oxferry-verifier" => below_state,
        // It takes the verifier's evidence by value.
        "oxferry-cutover" => [below_state, vec!["oxferry-verifier"]].concat(),
        "oxferry" => LIBRARIES
            .iter()
            .map(|(_, name)| *name)
            .filter(|name| *name != "oxferry-testkit")
            .collect(),
        // The simulated server pair has the real engine and verifier inside.
        "oxferry-testkit" => [
            below_state,
            vec!["oxferry-copier", "oxferry-verifier", "oxferry-cutover"],
        ]
        .concat(),
        "xtask" => vec!["oxferry-testkit"],
        _ => return None,
    })
}

fn metadata() -> serde_json::Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_dependency_arrows_are_the_architecture() {
    let mut complaints = Vec::new();
    for package in metadata()["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let Some(allowed) = allowed(name) else {
            complaints.push(format!("{name} has no place in the architecture"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            let inside = dependency["path"].is_string() && dependency["kind"].is_null();
            if inside && !allowed.contains(&other) {
                complaints.push(format!("{name} must not depend on {other}"));
            }
        }
    }
    assert_none("the arrows are fixed", &complaints);
}

#[test]
fn every_manifest_takes_the_workspace_lints() {
    let lacks = |member: &&str| {
        let manifest = read(&root().join(member).join("Cargo.toml"));
        !manifest.contains("[lints]\nworkspace = true")
    };
    let complaints: Vec<_> = members().filter(lacks).map(str::to_owned).collect();
    assert_none("[lints] workspace = true", &complaints);
}

#[test]
fn every_library_has_a_front_page_and_an_example() {
    let mut complaints = Vec::new();
    for (folder, _) in LIBRARIES {
        let folder = root().join(folder);
        if !folder.join("README.md").is_file() {
            complaints.push(format!("{} has no README.md", folder.display()));
        }
        let examples = fs::read_dir(folder.join("examples"));
        let mut examples = examples
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        if !examples.any(|path| path.extension().is_some_and(|extension| extension == "rs")) {
            complaints.push(format!("{} has no examples/*.rs", folder.display()));
        }
    }
    assert_none("a library can be understood alone", &complaints);
}

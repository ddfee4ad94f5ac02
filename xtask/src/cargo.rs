//! Cargo as a child: the same toolchain, at the workspace's root.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, bail};

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A call of the Cargo that runs this program.
pub(crate) fn command(words: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(words).current_dir(root());
    command
}

/// Runs Cargo to its end and returns its exit code.
pub(crate) fn run(words: &[&str]) -> anyhow::Result<ExitCode> {
    let status = command(words).status().context("running cargo failed")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds the `oxferry` program and returns its path.
pub(crate) fn build_oxferry(release: bool) -> anyhow::Result<PathBuf> {
    let mut build = command(&["build", "--package", "oxferry", "--bin", "oxferry"]);
    if release {
        build.arg("--release");
    }
    let status = build.status().context("running cargo failed")?;
    if !status.success() {
        bail!("building oxferry failed: cargo ended with {status}");
    }
    let profile = if release { "release" } else { "debug" };
    Ok(target_folder()?.join(profile).join("oxferry"))
}

/// Where Cargo puts what it builds, whatever the configuration says.
pub(crate) fn target_folder() -> anyhow::Result<PathBuf> {
    let words = ["metadata", "--no-deps", "--format-version", "1"];
    let output = command(&words)
        .output()
        .context("running cargo metadata failed")?;
    let known: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("reading cargo metadata failed")?;
    let folder = known
        .get("target_directory")
        .and_then(|folder| folder.as_str());
    folder
        .map(PathBuf::from)
        .context("cargo metadata names no target_directory")
}

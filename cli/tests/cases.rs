//! Every folder of `tests/cases` is a test: tables, a change, writers, and
//! the server's own `ALTER TABLE` as the judge. `tests/cases/README.md` says
//! what a folder holds.

#[path = "suite/case.rs"]
mod case;
#[path = "suite/harness.rs"]
mod harness;

use std::{fs, path::Path, process::ExitCode};

use anyhow::Context;

use crate::{
    case::Case,
    harness::{Wanted, run},
};

fn main() -> anyhow::Result<ExitCode> {
    let wanted = Wanted::read(std::env::args().skip(1));
    let cases = cases()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(run(cases, &wanted)))
}

/// All cases, by name.
fn cases() -> anyhow::Result<Vec<Case>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut folders = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    folders.iter().map(|folder| Case::read(folder)).collect()
}

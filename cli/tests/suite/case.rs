//! A case: a folder with SQL and what must come of it.

use std::{fs, path::Path};

use anyhow::{Context, bail};
use oxferry_testkit::{
    server::ServerOptions,
    trial::{Answer, Change, Expect, Refusal, Script, Trial, statements},
};
use serde::Deserialize;

/// A case, ready to be run.
#[derive(Debug)]
pub(crate) struct Case {
    /// The folder's name.
    pub(crate) name: String,
    pub(crate) trial: Trial,
    /// Further options of its server.
    pub(crate) server: Vec<String>,
    /// Why it can't succeed yet.
    pub(crate) pending: Option<String>,
}

/// `expect.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    /// The program's exit code; 0 if left out.
    exit: i32,
    /// What its log contains.
    error_contains: Vec<String>,
    /// The tables that a refusal leaves behind.
    leaves: Vec<String>,
    /// The table, or tables, where it isn't `t`.
    tables: Vec<String>,
    /// The server's own change in place is used.
    native: bool,
    /// Further options of the program.
    options: Vec<String>,
    /// Further options of the server.
    server: Vec<String>,
    /// Errors that writers may meet.
    accepted: Vec<u16>,
    /// Queries on the old table, `{old}`, each beside one on the new.
    project_old: Vec<String>,
    project_new: Vec<String>,
    /// Queries and their rows at the end.
    answers: Vec<Query>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    query: String,
    rows: Vec<String>,
}

impl Case {
    /// Reads a folder.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let name = folder.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        Self::of(&name, folder).with_context(|| format!("case {name}"))
    }

    fn of(name: &str, folder: &Path) -> anyhow::Result<Self> {
        let expected: Expected = match optional(folder, "expect.toml")? {
            Some(text) => toml::from_str(&text).context("expect.toml")?,
            None => Expected::default(),
        };
        let create = optional(folder, "create.sql")?.context("create.sql is missing")?;
        let alter = optional(folder, "alter")?.context("alter is missing")?;
        let mut trial = Trial::new(statements(&create), "");
        trial.change = change(alter.trim());
        trial.writers = writers(folder)?;
        trial.after = optional(folder, "after.sql")?.map(|text| Script::parse(&text));
        trial.mid = statements(&optional(folder, "mid.sql")?.unwrap_or_default());
        trial.seed = name.bytes().map(u64::from).sum();
        let pending = optional(folder, "pending")?.map(|why| why.trim().to_owned());
        let server = expected.server.clone();
        expected.apply(&mut trial)?;
        Ok(Self {
            name: name.to_owned(),
            trial,
            server,
            pending,
        })
    }

    /// The server that it needs.
    pub(crate) fn server_options(&self) -> ServerOptions {
        let base = ServerOptions::new()
            .max_binlog_size(64 << 10)
            .arg("--max-allowed-packet=128M");
        let words = self.server.iter();
        words.fold(base, |options, word| options.arg(word))
    }
}

impl Expected {
    fn apply(self, trial: &mut Trial) -> anyhow::Result<()> {
        if self.project_old.len() != self.project_new.len() {
            bail!("project_old and project_new are of different lengths");
        }
        trial.expect = match self.exit {
            0 if self.native => Expect::Native,
            0 => Expect::Copied,
            code => Expect::Refused(Refusal {
                code,
                contains: self.error_contains,
                leaves: self.leaves,
            }),
        };
        if !self.tables.is_empty() {
            trial.tables = self.tables;
        }
        trial.options = self.options;
        trial.accepted = self.accepted;
        trial.projections = self.project_old.into_iter().zip(self.project_new).collect();
        let answer = |Query { query, rows }| Answer { query, rows };
        trial.finals = self.answers.into_iter().map(answer).collect();
        Ok(())
    }
}

/// Whole statements, if the text begins with one; else clauses.
fn change(text: &str) -> Change {
    let word = text.split_whitespace().next().unwrap_or_default();
    let second = text.split_whitespace().nth(1).unwrap_or_default();
    let whole = match word.to_ascii_uppercase().as_str() {
        "ALTER" => second.eq_ignore_ascii_case("TABLE"),
        "CREATE" => true,
        "DROP" => text.to_ascii_uppercase().contains(" ON "),
        _ => false,
    };
    if whole {
        Change::Statements(statements(text))
    } else {
        Change::Clauses(text.to_owned())
    }
}

/// `writes.sql`, and `writes-2.sql` and on: one writer each.
fn writers(folder: &Path) -> anyhow::Result<Vec<Script>> {
    let mut found = Vec::new();
    for number in 1.. {
        let name = if number == 1 {
            "writes.sql".to_owned()
        } else {
            format!("writes-{number}.sql")
        };
        match optional(folder, &name)? {
            Some(text) => found.push(Script::parse(&text)),
            None => break,
        }
    }
    Ok(found)
}

fn optional(folder: &Path, name: &str) -> anyhow::Result<Option<String>> {
    let path = folder.join(name);
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(Some(text))
}

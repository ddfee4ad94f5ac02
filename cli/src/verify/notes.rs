//! What a comparison has found so far, and the file that keeps it.

use std::{
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use oxferry_schema::{Key, Remedy};
use oxferry_verifier::{Mismatch, MismatchKind};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// What a comparison has found so far.
#[derive(Debug)]
pub(crate) struct Notes {
    file: Option<PathBuf>,
    kept: Kept,
}

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    format: u32,
    /// What is compared with what.
    of: String,
    tables: Vec<TableNotes>,
}

/// What was found in one table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableNotes {
    pub(crate) source: String,
    pub(crate) target: String,
    /// Whether all of it has been compared.
    pub(crate) done: bool,
    /// The key from which on nothing has been compared; none at the beginning.
    pub(crate) from: Option<Key>,
    /// Rows of the source that were compared.
    pub(crate) rows: u64,
    /// Keys before `from` that differed and must be looked at again.
    pub(crate) suspects: Vec<Key>,
    #[serde(flatten)]
    pub(crate) tally: Tally,
}

/// Rows that differ, all counted, the first ones listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Rows that differ.
    pub(crate) different: u64,
    /// Rows that differed and were changed whenever they were looked at.
    pub(crate) changing: u64,
    /// Rows that differed until they were copied again.
    pub(crate) repaired: u64,
    pub(crate) listed: Vec<Listed>,
}

/// A row of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    pub(crate) key: String,
    pub(crate) kind: Kind,
    pub(crate) fate: Fate,
    pub(crate) source: Option<String>,
    pub(crate) target: Option<String>,
}

/// How a row differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    MissingOnTarget,
    OnlyOnTarget,
    Different,
}

/// What became of a row that differed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fate {
    /// It differs.
    Different,
    /// It was changed whenever it was looked at.
    Changing,
    /// It was copied again, and is equal now.
    Repaired,
}

/// The format that this version writes, and the only one that it reads.
const FORMAT: u32 = 1;

/// So many rows of a comparison are listed.
pub(crate) const LISTED_MAX: usize = 100;

impl Notes {
    /// Begins a comparison that `of` describes; nothing is kept.
    pub(crate) fn new(of: &str) -> Self {
        Self {
            file: None,
            kept: Kept {
                format: FORMAT,
                of: of.to_owned(),
                tables: Vec::new(),
            },
        }
    }

    /// Goes on with what a file holds, or begins it.
    ///
    /// # Errors
    ///
    /// A failure when the file can't be read, isn't one, is of a format that
    /// this version doesn't know, or of another comparison.
    pub(crate) fn load(path: &Path, of: &str) -> Result<Self, Failure> {
        let mut notes = Self::new(of);
        notes.file = Some(path.to_owned());
        let useless = |why: String| {
            let error = anyhow::anyhow!("{why}; remove it to begin anew, or name another file");
            let file = format!("going on with the state file {}", path.display());
            Failure::new(Remedy::State, error).context(file)
        };
        match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(useless(error.to_string())),
            Ok(text) => {
                notes.kept = parse(&text).map_err(&useless)?;
                if notes.kept.of != of {
                    return Err(useless(format!(
                        "it belongs to another comparison ({}), or a table has changed since",
                        notes.kept.of
                    )));
                }
                tracing::info!(file = %path.display(), "going on with an earlier comparison");
            }
        }
        notes.save()?;
        Ok(notes)
    }

    /// Makes room for the tables, by their names on source and target.
    pub(crate) fn expect(&mut self, tables: impl Iterator<Item = (String, String)>) {
        if self.kept.tables.is_empty() {
            let begun = |(source, target)| TableNotes {
                source,
                target,
                ..TableNotes::default()
            };
            self.kept.tables = tables.map(begun).collect();
        }
    }

    pub(crate) fn table(&self, at: usize) -> Option<&TableNotes> {
        self.kept.tables.get(at)
    }

    pub(crate) fn tables(&self) -> &[TableNotes] {
        &self.kept.tables
    }

    /// Puts a table's notes in their place, and keeps them.
    ///
    /// # Errors
    ///
    /// A failure when the file can't be written.
    pub(crate) fn store(&mut self, at: usize, table: &TableNotes) -> Result<(), Failure> {
        if let Some(place) = self.kept.tables.get_mut(at) {
            place.clone_from(table);
        }
        self.save()
    }

    /// Removes the file of a comparison that came to its end.
    ///
    /// # Errors
    ///
    /// A failure when the file can't be removed.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let removed = std::fs::remove_file(path);
        removed.map_err(|error| {
            let file = format!("removing the state file {}", path.display());
            Failure::new(Remedy::State, error).context(file)
        })
    }

    /// Writes a file beside, and renames it: a crash leaves the one or the other.
    fn save(&self) -> Result<(), Failure> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let mut beside = path.clone().into_os_string();
        beside.push(".tmp");
        let write = || {
            let text = serde_json::to_string_pretty(&self.kept)?;
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        write().map_err(|error| {
            let file = format!("writing the state file {}", path.display());
            Failure::new(Remedy::State, error).context(file)
        })
    }
}

fn parse(text: &str) -> Result<Kept, String> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
    }
    let wrong = |error: serde_json::Error| format!("it is no comparison's state ({error})");
    let head: Head = serde_json::from_str(text).map_err(wrong)?;
    if head.format != FORMAT {
        return Err(format!(
            "it is of format {}, this version reads format {FORMAT} only",
            head.format
        ));
    }
    serde_json::from_str(text).map_err(wrong)
}

impl Tally {
    /// Adds rows.
    pub(crate) fn add(&mut self, found: &[Mismatch], fate: Fate) {
        *match fate {
            Fate::Different => &mut self.different,
            Fate::Changing => &mut self.changing,
            Fate::Repaired => &mut self.repaired,
        } += found.len() as u64;
        let room = LISTED_MAX.saturating_sub(self.listed.len());
        let listed = found.iter().take(room);
        self.listed.extend(listed.map(|row| Listed::new(row, fate)));
    }

    /// Adds what another one has.
    pub(crate) fn merge(&mut self, other: Self) {
        self.different += other.different;
        self.changing += other.changing;
        self.repaired += other.repaired;
        let room = LISTED_MAX.saturating_sub(self.listed.len());
        self.listed.extend(other.listed.into_iter().take(room));
    }
}

impl Listed {
    fn new(found: &Mismatch, fate: Fate) -> Self {
        Self {
            key: found.key.to_string(),
            kind: match found.kind {
                MismatchKind::MissingOnTarget => Kind::MissingOnTarget,
                MismatchKind::MissingOnSource => Kind::OnlyOnTarget,
                MismatchKind::Different => Kind::Different,
            },
            fate,
            source: found.source.map(|row| row.to_string()),
            target: found.target.map(|row| row.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use oxferry_schema::KeyPart;

    use super::*;

    /// As the first version wrote it. A change of the format gets a number and a
    /// fixture of its own; this one stays.
    const FORMAT_1: &str = include_str!("../../tests/fixtures/verify-state-1.json");

    fn kept() -> Kept {
        let key = |n| Key::new([KeyPart::Int(n), KeyPart::Text(b"a"[..].into())]);
        Kept {
            format: 1,
            of: "a:3306 with b:3306: shop.t with shop.t: [`id`, `name`] []".to_owned(),
            tables: vec![TableNotes {
                source: "shop.t".to_owned(),
                target: "shop.t".to_owned(),
                done: false,
                from: Some(key(5000)),
                rows: 4999,
                suspects: vec![key(7)],
                tally: Tally {
                    different: 1,
                    changing: 0,
                    repaired: 0,
                    listed: vec![Listed {
                        key: "(3, 'a')".to_owned(),
                        kind: Kind::MissingOnTarget,
                        fate: Fate::Different,
                        source: Some("3f".repeat(32)),
                        target: None,
                    }],
                },
            }],
        }
    }

    #[test]
    fn format_1_is_read_and_written_as_ever() {
        assert_eq!(parse(FORMAT_1), Ok(kept()));
        let written = serde_json::to_string_pretty(&kept()).unwrap();
        assert_eq!(written, FORMAT_1.trim_end());
    }

    #[test]
    fn another_format_and_another_comparison_are_refused() {
        assert!(parse("{\"format\": 2}").unwrap_err().contains("format 2"));
        assert!(parse("{}").is_err());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        std::fs::write(&path, FORMAT_1).unwrap();
        let line = Notes::load(&path, "other").unwrap_err().line();
        assert!(line.contains("another comparison"), "{line}");
        let notes = Notes::load(&path, &kept().of).unwrap();
        assert_eq!(notes.kept, kept());
    }

    #[test]
    fn the_list_is_bounded_and_the_count_exact() {
        let mut tally = Tally::default();
        let found: Vec<Mismatch> = (0..150)
            .map(|n| Mismatch {
                table: 0,
                key: Key::new([KeyPart::Int(n)]),
                kind: MismatchKind::Different,
                source: None,
                target: None,
            })
            .collect();
        tally.add(&found, Fate::Different);
        tally.add(&found, Fate::Changing);
        assert_eq!((tally.different, tally.changing), (150, 150));
        assert_eq!(tally.listed.len(), LISTED_MAX);
    }
}

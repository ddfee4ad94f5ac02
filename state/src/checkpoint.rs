//! What a crash leaves behind.

use oxferry_binlog::Position;
use oxferry_schema::{Attached, Blueprint, KeyRange, TableName};
use serde::{Deserialize, Serialize};

use crate::{
    JobIdentity, JobKind, Mismatch, Phase,
    definition::difference,
    format::{FORMAT_MIGRATE, FORMAT_MOVE},
    same_definition,
};

/// What a crash leaves behind: enough to go on without losing one change.
///
/// Written only after the data that it speaks of (I5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Checkpoint {
    pub(crate) format: u32,
    /// The version of the program that wrote it; for people, never compared.
    pub tool_version: String,
    /// Whose checkpoint it is.
    pub job: JobIdentity,
    /// The source's `@@server_uuid`, which tells whether a file position means
    /// anything to the server at hand.
    pub server_uuid: String,
    /// The step that the job was in.
    pub phase: Phase,
    /// From where the binary log must be read, `None` before it was looked up.
    pub position: Option<Position>,
    /// The other server of a move; `None` in a migrate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetServer>,
    /// Whether the job has made its sentinel; one that is gone by then was
    /// dropped on purpose, and is not made again.
    pub postponed: bool,
    /// Each table's progress, in the order of [`JobIdentity::tables`].
    pub tables: Vec<TableProgress>,
    /// When it was written, in RFC 3339; for people, never compared.
    pub saved_at: String,
    /// How many checkpoints the job has written: grows with every one.
    pub sequence: u64,
}

/// The server that tables move to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a new part would be a new format"
)]
pub struct TargetServer {
    /// Its `@@server_uuid`.
    pub server_uuid: String,
    /// Up to where its binary log was looked through for writes of others;
    /// `None` while nobody looks.
    pub position: Option<Position>,
    /// The tables that the job has made there, or is about to make: starting
    /// anew drops them.
    pub made: Vec<TableName>,
    /// What the target gets, decided when the move began.
    pub blueprint: Blueprint,
    /// What the job does to the source so that nobody writes to it any more,
    /// noted before it is done; `None` while it does nothing.
    pub source_lock: Option<String>,
    /// Whether the switch was announced: from then on the target is the one
    /// that is written to.
    pub switched: bool,
    /// The way back to the source, noted just before the switch is announced;
    /// `None` where nobody wants one.
    pub reverse: Option<Reverse>,
}

/// What is needed to take a move back: changes of the target that flow into the
/// source's tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a new part would be a new format"
)]
pub struct Reverse {
    /// When the target was about to take over, in RFC 3339: the time that the
    /// way stays open is counted from here.
    pub since: String,
    /// From where the target's binary log must be read.
    pub position: Position,
    /// Up to where the source's binary log was looked through for writes of
    /// others.
    pub source_position: Position,
    /// How the source is shut, as [`TargetServer::source_lock`] was then: what
    /// must be undone before it takes over again.
    pub source_shut: String,
    /// What `SHOW CREATE TABLE` printed of each target, in the order of
    /// [`Checkpoint::tables`].
    pub definitions: Vec<String>,
    /// What the job does to the target so that nobody writes to it any more,
    /// noted before it is done; `None` while it does nothing.
    pub target_lock: Option<String>,
    /// Whether the move was taken back: from then on the source is the one that
    /// is written to.
    pub back: bool,
}

/// How far one table has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a new part would be a new format"
)]
pub struct TableProgress {
    /// Where rows come from.
    pub source: TableName,
    /// Where they go.
    pub target: TableName,
    /// The rules that the table is copied by.
    pub mode: CopyMode,
    /// The ranges whose rows are on the target for good: disjoint, merged and
    /// in key order, as [`merge_ranges`] makes them.
    pub closed: Vec<KeyRange>,
    /// Rows written by closed chunks.
    pub rows_copied: u64,
    /// Changes applied.
    pub changes_applied: u64,
    /// Definitions of the indexes still to be built, one each, as
    /// `SHOW CREATE TABLE` prints them.
    pub deferred_indexes: Vec<String>,
    /// What `SHOW CREATE TABLE` must print of the finished target.
    pub shadow_create: String,
    /// What `SHOW CREATE TABLE` printed of the source when the job began.
    pub source_create: String,
    /// What hung on the source when the job began, and what it becomes: what
    /// must hang on the new table once it has taken over. Not in checkpoints of
    /// earlier versions, which refused such tables.
    #[serde(default, skip_serializing_if = "Attached::is_empty")]
    pub attached: Attached,
}

/// The rules that a table is copied by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "the algorithm has two modes")]
pub enum CopyMode {
    /// Changes in ranges not opened yet are left to the chunk that will open;
    /// a range that is read again is emptied first.
    Ranged,
    /// Every change is applied, in the order of the binary log.
    Ordered,
}

impl Checkpoint {
    /// Begins the checkpoint of a new job: nothing done, never saved.
    #[must_use]
    pub fn new(
        job: JobIdentity,
        tool_version: impl Into<String>,
        server_uuid: impl Into<String>,
    ) -> Self {
        Self {
            format: FORMAT_MIGRATE,
            tool_version: tool_version.into(),
            job,
            server_uuid: server_uuid.into(),
            phase: Phase::Preflight,
            position: None,
            target: None,
            postponed: false,
            tables: Vec::new(),
            saved_at: String::new(),
            sequence: 0,
        }
    }

    /// Says that the job moves its tables to another server.
    #[must_use]
    pub fn to_server(mut self, server_uuid: impl Into<String>) -> Self {
        self.format = FORMAT_MOVE;
        self.target = Some(TargetServer {
            server_uuid: server_uuid.into(),
            position: None,
            made: Vec::new(),
            blueprint: Blueprint::default(),
            source_lock: None,
            switched: false,
            reverse: None,
        });
        self
    }

    /// Counts one more save, made at `saved_at` (RFC 3339).
    pub fn stamp(&mut self, saved_at: impl Into<String>) {
        self.sequence += 1;
        self.saved_at = saved_at.into();
    }

    /// Returns whether this checkpoint is one of the job `asked` for.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] names the first difference.
    pub fn resumes(&self, asked: &JobIdentity) -> Result<(), Mismatch> {
        self.job.matches(asked)
    }

    /// Returns whether this is of a move between these two servers, each given as
    /// its `@@server_uuid`.
    #[must_use]
    pub fn is_of_move_between(&self, source: &str, target: &str) -> bool {
        let held = self.target.as_ref().map(|target| &target.server_uuid);
        self.job.kind == JobKind::Move
            && self.server_uuid == source
            && held.is_some_and(|held| held == target)
    }
}

impl TableProgress {
    /// Begins a table's progress: nothing copied yet.
    #[must_use]
    pub const fn new(source: TableName, target: TableName, mode: CopyMode) -> Self {
        Self {
            source,
            target,
            mode,
            closed: Vec::new(),
            rows_copied: 0,
            changes_applied: 0,
            deferred_indexes: Vec::new(),
            shadow_create: String::new(),
            source_create: String::new(),
            attached: Attached::none(),
        }
    }

    /// Returns whether the source is still the table that the job began with,
    /// given what `SHOW CREATE TABLE` prints of it now.
    ///
    /// # Errors
    ///
    /// [`Mismatch::SourceChanged`] when it isn't.
    pub fn check_source(&self, create: &str) -> Result<(), Mismatch> {
        if same_definition(&self.source_create, create) {
            return Ok(());
        }
        Err(Mismatch::SourceChanged {
            table: self.source.clone(),
        })
    }

    /// Returns whether the target is the table that it must be once every
    /// deferred index is built, given what `SHOW CREATE TABLE` prints of it; the
    /// order of its indexes and its foreign keys don't count.
    ///
    /// # Errors
    ///
    /// [`Mismatch::ShadowChanged`] when it isn't.
    pub fn check_finished_shadow(&self, create: &str) -> Result<(), Mismatch> {
        match difference(&self.shadow_create, create) {
            None => Ok(()),
            Some(change) => Err(Mismatch::ShadowChanged {
                table: self.target.clone(),
                change,
            }),
        }
    }
}

/// Returns the same keys in as few ranges as can be, in key order.
///
/// Empty ranges vanish; ranges that overlap or touch become one.
#[must_use]
pub fn merge_ranges(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|range| !is_empty(range));
    // `None`, the open lower end, is the smallest `Option`.
    ranges.sort_by(|a, b| a.lower.cmp(&b.lower));
    let mut merged: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if !leaves_gap(last, &range) => {
                if reaches_beyond(&range, last) {
                    last.upper = range.upper;
                }
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns the first range that is empty or doesn't lie behind, with a gap,
/// the one before it, and that one.
pub(crate) fn misplaced(ranges: &[KeyRange]) -> Option<(&KeyRange, &KeyRange)> {
    let empty = ranges.iter().find(|range| is_empty(range));
    empty.map(|range| (range, range)).or_else(|| {
        let pairs = ranges.iter().zip(ranges.iter().skip(1));
        pairs.into_iter().find(|(a, b)| !leaves_gap(a, b))
    })
}

fn is_empty(range: &KeyRange) -> bool {
    matches!((&range.lower, &range.upper), (Some(lower), Some(upper)) if lower >= upper)
}

/// Returns whether keys lie between the end of `a` and the begin of `b`.
fn leaves_gap(a: &KeyRange, b: &KeyRange) -> bool {
    matches!((&a.upper, &b.lower), (Some(end), Some(begin)) if end < begin)
}

fn reaches_beyond(a: &KeyRange, b: &KeyRange) -> bool {
    match (&a.upper, &b.upper) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(a), Some(b)) => a > b,
    }
}

#[cfg(test)]
mod tests {
    use oxferry_schema::{Ident, Key, KeyPart};
    use proptest::prelude::*;

    use super::*;

    fn key(value: i128) -> Key {
        Key::new([KeyPart::Int(value)])
    }

    fn range(lower: impl Into<Option<i128>>, upper: impl Into<Option<i128>>) -> KeyRange {
        KeyRange {
            lower: lower.into().map(key),
            upper: upper.into().map(key),
        }
    }

    fn progress() -> TableProgress {
        let name = |table| TableName::new(Ident::new("d").unwrap(), Ident::new(table).unwrap());
        TableProgress::new(name("t"), name("_t_oxnew"), CopyMode::Ranged)
    }

    #[test]
    fn ranges_that_touch_become_one() {
        assert_eq!(
            merge_ranges(vec![
                range(5, 9),
                range(None, 5),
                range(20, None),
                range(7, 7)
            ]),
            vec![range(None, 9), range(20, None)]
        );
    }

    #[test]
    fn a_range_inside_another_one_changes_nothing() {
        assert_eq!(
            merge_ranges(vec![range(1, None), range(3, 4)]),
            vec![range(1, None)]
        );
    }

    #[test]
    fn every_stamp_grows_the_sequence() {
        let job = JobIdentity::migrate(vec![], vec![]);
        let mut checkpoint = Checkpoint::new(job, "1", "u");
        checkpoint.stamp("2026-01-31T12:00:00Z");
        checkpoint.stamp("2026-01-31T12:00:05Z");
        assert_eq!(checkpoint.sequence, 2);
        assert_eq!(checkpoint.saved_at, "2026-01-31T12:00:05Z");
    }

    #[test]
    fn a_changed_source_is_named() {
        let mut progress = progress();
        progress.source_create = "CREATE TABLE `t` (\n  `id` int\n) ENGINE=InnoDB".into();
        assert_eq!(progress.check_source(&progress.source_create), Ok(()));
        let now = progress.source_create.replace("int", "bigint");
        assert_eq!(
            progress.check_source(&now).unwrap_err().to_string(),
            "the table d.t was changed since the job began; start anew with --fresh"
        );
        assert!(progress.check_finished_shadow(&now).is_err());
    }

    prop_compose! {
        fn any_range()(lower in proptest::option::of(0_i128..50), upper in proptest::option::of(0_i128..50)) -> KeyRange {
            range(lower, upper)
        }
    }

    proptest! {
        #[test]
        fn merging_keeps_every_key_and_leaves_order(ranges in proptest::collection::vec(any_range(), 0..12)) {
            let merged = merge_ranges(ranges.clone());
            prop_assert_eq!(misplaced(&merged), None);
            for value in -1..51 {
                let inside = |ranges: &[KeyRange]| ranges.iter().any(|r| r.contains(&key(value)));
                prop_assert_eq!(inside(&ranges), inside(&merged));
            }
        }
    }
}

//! Which columns go where, and whether the target can take them.

use oxferry_schema::{Column, Ident, KeySide, RowKey, Table, TableName};

use crate::{
    RowFilter,
    engine::{KeyOrder, Mode},
};

mod error;
mod unique;

pub use error::PlanError;
pub use unique::new_unique_indexes;
pub(crate) use unique::{finding_index, holds_key, key_index};

/// Which source column goes to which target column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain lists")]
pub struct ColumnMap {
    /// Columns that are written: the source's, by its place in
    /// [`Table::columns`], and the target's.
    pub written: Vec<(usize, Ident)>,
    /// Columns that the server computes on both sides, so that they hold the
    /// same without being written.
    pub computed: Vec<(usize, Ident)>,
}

impl From<Vec<(usize, Ident)>> for ColumnMap {
    fn from(written: Vec<(usize, Ident)>) -> Self {
        Self {
            written,
            computed: Vec::new(),
        }
    }
}

/// How a written row meets rows that are on the target already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// It takes the place of its older self, and of every row that it shares a
    /// unique value with.
    Replaces,
    /// No unique index tells it from its older self: rows of its key are
    /// removed first. Then it is as above.
    RemovedFirst,
    /// The target has a unique index that the source doesn't vouch for: rows
    /// of its key are removed first, and whatever else it meets is an error.
    Exclusive,
}

/// What is copied from where to where; checked when it is made.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    source: Table,
    key: RowKey,
    target: TableName,
    columns: Vec<(usize, Column)>,
    source_side: KeySide,
    target_side: KeySide,
    mode: Mode,
    meeting: Meeting,
    filter: Option<RowFilter>,
    uniques: Vec<Vec<usize>>,
}

impl CopyPlan {
    /// Plans to copy `source`, whose rows `key` tells apart, onto `target`.
    ///
    /// The target needs an index that begins with the key's columns, which
    /// rows are found by; where none is unique over exactly them, rows of a key
    /// are removed before they are written.
    ///
    /// A unique index that the source doesn't imply makes every row that meets
    /// another one an error; such a plan [`is_exclusive`](Self::is_exclusive).
    ///
    /// In *ranged* mode the target may have no other unique index over columns
    /// that are written, unless the whole key is part of it or nothing is ever
    /// replaced. In *ordered* mode it may, but not beside one that the source
    /// doesn't imply.
    ///
    /// # Errors
    ///
    /// [`PlanError`] when the target can't take the rows.
    pub fn new(
        source: Table,
        key: RowKey,
        target: &Table,
        columns: impl Into<ColumnMap>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let columns = columns.into();
        check_columns(&source, target, &columns.written)?;
        let target_key = map_key((&source, &key), target, &columns)?;
        if finding_index(target, &target_key).is_none() {
            return Err(PlanError::NoTargetKey {
                table: target.name.clone(),
                columns: target_key,
            });
        }
        let meeting = meeting(&source, target, (&columns, &target_key), mode)?;
        let uniques = uniques(target, &columns.written);
        let source_side = key.side(&source)?;
        let target_side = key.side_in(target, &target_key)?;
        let plan = Self {
            source,
            key,
            target: target.name.clone(),
            columns: columns
                .written
                .into_iter()
                .filter_map(|(ordinal, name)| {
                    let mut targets = target.columns.iter();
                    Some((ordinal, targets.find(|to| to.name == name)?.clone()))
                })
                .collect(),
            source_side,
            target_side,
            mode,
            meeting,
            filter: None,
            uniques,
        };
        if mode == Mode::Ranged && plan.key_order() == KeyOrder::Server {
            return Err(PlanError::KeyOrder {
                table: plan.source.name,
                index: plan.key.index,
            });
        }
        Ok(plan)
    }

    /// Copies only the rows that `filter` selects, and takes the place of no
    /// other row of the target: a row that meets one is an error.
    ///
    /// Where the filter knows rows of the target by their key alone, the plan
    /// is in *ordered* mode from now on.
    #[must_use]
    pub fn with_filter(mut self, filter: RowFilter) -> Self {
        if filter.is_by_keys() {
            self.mode = Mode::Ordered;
        }
        self.filter = Some(filter);
        self
    }

    /// Reads the source by another name, which the same table has by now, and
    /// its rows by a filter that knows it by that name.
    #[must_use]
    pub fn renamed(mut self, source: TableName, filter: Option<RowFilter>) -> Self {
        self.source.name = source;
        self.filter = filter;
        self
    }

    /// Returns which rows alone are copied, `None` for all.
    #[must_use]
    pub const fn filter(&self) -> Option<&RowFilter> {
        self.filter.as_ref()
    }

    /// Returns who knows the order of the keys, on both sides.
    #[must_use]
    pub fn key_order(&self) -> KeyOrder {
        if self.key.is_client_ordered() && self.target_side.keeps_order() {
            KeyOrder::Client
        } else {
            KeyOrder::Server
        }
    }

    /// Returns whether a row that meets another one over a unique index is an
    /// error from the start; batches must then be applied one after the other.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.meeting == Meeting::Exclusive
    }

    /// Returns how many rows a chunk may have at most, where that is limited:
    /// some chunks' keys are held in memory.
    #[must_use]
    pub fn chunk_rows_max(&self) -> Option<u64> {
        let by_keys = self.filter.as_ref().is_some_and(RowFilter::is_by_keys);
        (by_keys || self.reads_keys_first()).then_some(KEYS_MAX)
    }

    /// Returns whether a range of the source's keys is one of the target's
    /// rows, which may be emptied.
    pub(crate) fn may_empty(&self) -> bool {
        let by_keys = self.filter.as_ref().is_some_and(RowFilter::is_by_keys);
        !by_keys && self.target_side.keeps_order()
    }

    /// Returns the target's unique indexes over whole columns that are written,
    /// each column as its place among [`CopyPlan::pairs`].
    pub(crate) fn uniques(&self) -> &[Vec<usize>] {
        &self.uniques
    }

    /// Returns whether a chunk reads its keys, to remove their rows first.
    pub(crate) fn reads_keys_first(&self) -> bool {
        let removes = self.mode == Mode::Ordered && self.meeting != Meeting::Replaces;
        removes && !self.target_side.keeps_order()
    }

    /// Returns how a written row meets those that are there.
    pub(crate) const fn meeting(&self) -> Meeting {
        self.meeting
    }

    /// Returns the source table.
    #[must_use]
    pub const fn source(&self) -> &Table {
        &self.source
    }

    /// Returns the source's key.
    #[must_use]
    pub const fn key(&self) -> &RowKey {
        &self.key
    }

    /// Returns the target table's name.
    #[must_use]
    pub const fn target(&self) -> &TableName {
        &self.target
    }

    /// Returns the target's columns that hold the source's key, in key order.
    #[must_use]
    pub fn target_key(&self) -> &[Ident] {
        self.target_side.columns()
    }

    /// Returns how the key stands in the source's statements.
    #[must_use]
    pub const fn source_side(&self) -> &KeySide {
        &self.source_side
    }

    /// Returns how the key stands in the target's statements.
    #[must_use]
    pub const fn target_side(&self) -> &KeySide {
        &self.target_side
    }

    /// Returns how the table is copied.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns each mapped source column, its place, and the target's column.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (usize, &Column, &Column)> {
        self.columns.iter().filter_map(|(ordinal, target)| {
            let column = self.source.columns.get(*ordinal)?;
            Some((*ordinal, column, target))
        })
    }
}

fn check_columns(
    source: &Table,
    target: &Table,
    columns: &[(usize, Ident)],
) -> Result<(), PlanError> {
    for (ordinal, name) in columns {
        if source.columns.get(*ordinal).is_none() {
            let (table, ordinal) = (source.name.clone(), *ordinal);
            return Err(PlanError::NoSourceColumn { table, ordinal });
        }
        let (table, column) = (target.name.clone(), name.clone());
        match target.columns.iter().find(|c| c.name == *name) {
            None => return Err(PlanError::NoTargetColumn { table, column }),
            Some(found) if found.generated.is_some() => {
                return Err(PlanError::Generated { table, column });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Lists the unique indexes that a written row's own values meet others by.
fn uniques(target: &Table, written: &[(usize, Ident)]) -> Vec<Vec<usize>> {
    let place = |part: &oxferry_schema::IndexPart| {
        let name = part.column.as_ref().filter(|_| part.prefix.is_none())?;
        written.iter().position(|(_, to)| to == name)
    };
    let unique = target.indexes.iter().filter(|index| index.unique);
    unique
        .filter_map(|index| index.parts.iter().map(place).collect())
        .collect()
}

/// Finds where the key's columns went.
fn map_key(
    (source, key): (&Table, &RowKey),
    target: &Table,
    columns: &ColumnMap,
) -> Result<Vec<Ident>, PlanError> {
    let map = |(name, ordinal): (&Ident, &usize)| {
        let find = |list: &[(usize, Ident)]| {
            let mapped = list.iter().find(|(from, _)| from == ordinal);
            mapped.map(|(_, to)| to.clone())
        };
        if let Some(to) = find(&columns.written) {
            return Ok(to);
        }
        let column = find(&columns.computed).ok_or_else(|| PlanError::KeyNotMapped {
            table: target.name.clone(),
            index: key.index.clone(),
            column: name.clone(),
        })?;
        let table = target.name.clone();
        if computes_alike((source, name), (target, &column), columns) {
            Ok(column)
        } else {
            Err(PlanError::KeyComputed { table, column })
        }
    };
    key.columns.iter().zip(&key.ordinals).map(map).collect()
}

/// Returns whether two generated columns have the same expression, over
/// columns whose types have not changed.
fn computes_alike(
    (source, name): (&Table, &Ident),
    (target, to): (&Table, &Ident),
    columns: &ColumnMap,
) -> bool {
    let before = expression(&source.create_statement, name);
    let Some(before) = before.filter(|b| expression(&target.create_statement, to) == Some(b))
    else {
        return false;
    };
    columns.written.iter().all(|(ordinal, to)| {
        let from = source.columns.get(*ordinal);
        let to = target.columns.iter().find(|column| column.name == *to);
        from.zip(to).is_some_and(|(from, to)| {
            let same = from.column_type == to.column_type && from.collation == to.collation;
            same || !before.contains(&from.name.to_string())
        })
    })
}

/// Returns the expression of a generated column, as `SHOW CREATE TABLE` prints
/// it: one line for each column.
fn expression<'a>(create_statement: &'a str, column: &Ident) -> Option<&'a str> {
    let begin = format!("{column} ");
    let mut lines = create_statement.lines().map(str::trim_start);
    let line = lines.find(|line| line.starts_with(&begin))?;
    let (_, rest) = line.split_once(" GENERATED ALWAYS AS (")?;
    let end = rest.rfind(") STORED").or_else(|| rest.rfind(") VIRTUAL"))?;
    rest.get(..end)
}

/// Decides how rows meet, and whether they may in this mode.
fn meeting(
    source: &Table,
    target: &Table,
    (columns, target_key): (&ColumnMap, &[Ident]),
    mode: Mode,
) -> Result<Meeting, PlanError> {
    let all: Vec<_> = columns
        .written
        .iter()
        .chain(&columns.computed)
        .cloned()
        .collect();
    let new = new_unique_indexes(source, target, &all, target_key);
    let own = key_index(target, target_key).map(|index| &index.name);
    let written = |name: &Ident| all.iter().any(|(_, to)| to == name);
    // A unique index none of whose columns is written (a new `AUTO_INCREMENT`
    // key) never meets a duplicate, and one that holds the key only its own.
    let other = target.indexes.iter().find(|index| {
        let meets = |part: &oxferry_schema::IndexPart| part.column.as_ref().is_none_or(written);
        index.unique
            && Some(&index.name) != own
            && !new.contains(&index.name)
            && !holds_key(index, target_key)
            && index.parts.iter().any(meets)
    });
    let table = target.name.clone();
    match (new.into_iter().next(), other, mode) {
        (Some(index), Some(_), _) => Err(PlanError::NewUnique { table, index }),
        (Some(_), None, _) => Ok(Meeting::Exclusive),
        (None, Some(index), Mode::Ranged) => Err(PlanError::UniqueInTheWay {
            table,
            index: index.name.clone(),
        }),
        (None, _, _) if own.is_some() => Ok(Meeting::Replaces),
        (None, _, _) => Ok(Meeting::RemovedFirst),
    }
}

/// Some megabytes of keys at most.
const KEYS_MAX: u64 = 10_000;

#[cfg(test)]
mod tests {
    use oxferry_schema::Index;

    use super::*;
    use crate::fixture::{column, ident, index, key, table};

    fn source() -> Table {
        let columns = ["id", "v"].map(|name| column(name, "int"));
        table("t", columns, [index("PRIMARY", true, &["id"])])
    }

    fn target(indexes: &[Index]) -> Table {
        let columns = ["id", "v", "n"].map(|name| column(name, "int"));
        table("_t_oxnew", columns, indexes.to_vec())
    }

    fn plan(target: &Table, columns: &[(usize, &str)], mode: Mode) -> Result<CopyPlan, PlanError> {
        let columns: Vec<_> = columns.iter().map(|(o, name)| (*o, ident(name))).collect();
        CopyPlan::new(
            source(),
            key("PRIMARY", &[("id", 0)]),
            target,
            columns,
            mode,
        )
    }

    const BOTH: [(usize, &str); 2] = [(0, "id"), (1, "v")];

    #[test]
    fn a_unique_index_is_new_unless_the_source_has_one_of_no_more_columns() {
        let columns = ["id", "v", "w"].map(|name| column(name, "int"));
        let uniques = [index("PRIMARY", true, &["id"]), index("uv", true, &["v"])];
        let source = table("t", columns.clone(), uniques);
        let mapped: Vec<_> = [(0, "id"), (1, "v"), (2, "w")]
            .map(|(at, name)| (at, ident(name)))
            .into();
        let new = |parts: &[&str]| {
            let indexes = [index("PRIMARY", true, &["id"]), index("x", true, parts)];
            let target = table("n", columns.clone(), indexes);
            !new_unique_indexes(&source, &target, &mapped, &[ident("id")]).is_empty()
        };
        assert!(!new(&["v"]));
        assert!(!new(&["w", "v"]));
        assert!(!new(&["id", "w"]));
        assert!(new(&["w"]));
        let target = table(
            "n",
            columns,
            [index("PRIMARY", true, &["w"]), index("id", true, &["id"])],
        );
        let plan = CopyPlan::new(
            source,
            key("PRIMARY", &[("id", 0)]),
            &target,
            mapped,
            Mode::Ordered,
        );
        assert!(plan.unwrap().is_exclusive());
    }

    #[test]
    fn a_renamed_key_column_is_followed() {
        let target = target(&[index("PRIMARY", true, &["n"])]);
        let plan = plan(&target, &[(0, "n"), (1, "v")], Mode::Ranged).unwrap();
        assert_eq!(plan.target_key(), [ident("n")]);
    }

    #[test]
    fn a_wider_key_finds_the_rows_and_one_that_begins_otherwise_does_not() {
        let wider = target(&[index("PRIMARY", true, &["id", "v"])]);
        for mode in [Mode::Ranged, Mode::Ordered] {
            let plan = plan(&wider, &BOTH, mode).unwrap();
            assert_eq!(plan.meeting(), Meeting::RemovedFirst);
        }
        let behind = target(&[index("PRIMARY", true, &["v", "id"])]);
        let error = plan(&behind, &BOTH, Mode::Ranged).unwrap_err();
        assert!(
            error.to_string().contains("no index that begins with id"),
            "{error}"
        );
    }

    #[test]
    fn a_primary_key_that_the_source_does_not_vouch_for_is_exclusive() {
        let moved = target(&[index("PRIMARY", true, &["v"]), index("i", false, &["id"])]);
        let plan = plan(&moved, &BOTH, Mode::Ranged).unwrap();
        assert!(plan.is_exclusive());
    }

    #[test]
    fn a_key_that_is_not_carried_over_is_refused() {
        let target = target(&[index("PRIMARY", true, &["id"])]);
        assert!(matches!(
            plan(&target, &[(1, "v")], Mode::Ranged),
            Err(PlanError::KeyNotMapped { .. })
        ));
    }

    #[test]
    fn ranged_mode_has_no_second_unique_index() {
        let two = target(&[index("PRIMARY", true, &["id"]), index("u", true, &["v"])]);
        let mut source = source();
        source.indexes = two.indexes.clone();
        let row_key = key("PRIMARY", &[("id", 0)]);
        let both: Vec<_> = BOTH.map(|(at, name)| (at, ident(name))).into();
        let plan = |mode| CopyPlan::new(source.clone(), row_key.clone(), &two, both.clone(), mode);
        assert_eq!(
            plan(Mode::Ranged).unwrap_err(),
            PlanError::UniqueInTheWay {
                table: two.name.clone(),
                index: ident("u"),
            }
        );
        assert_eq!(plan(Mode::Ordered).unwrap().meeting(), Meeting::Replaces);
    }

    #[test]
    fn a_new_automatic_key_is_not_in_the_way() {
        let two = target(&[index("PRIMARY", true, &["n"]), index("u", true, &["id"])]);
        assert!(plan(&two, &BOTH, Mode::Ranged).is_ok());
    }

    #[test]
    fn unknown_columns_are_refused() {
        let target = target(&[index("PRIMARY", true, &["id"])]);
        assert!(matches!(
            plan(&target, &[(7, "id")], Mode::Ranged),
            Err(PlanError::NoSourceColumn { ordinal: 7, .. })
        ));
        assert!(matches!(
            plan(&target, &[(0, "x")], Mode::Ranged),
            Err(PlanError::NoTargetColumn { .. })
        ));
    }
}

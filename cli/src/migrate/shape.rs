//! How one table is copied, worked out from what it is and what it becomes.

use oxferry_copier::{
    ColumnMap, CopyPlan, DeferredIndexes, PlanError, engine::Mode, new_unique_indexes,
};
use oxferry_schema::{ColumnPair, Ident, Mapping, Remedy, Table};
use oxferry_state::{CopyMode, TableProgress};

use super::job::JobTable;
use crate::failure::Failure;

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::new(Remedy::Usage, error)
    }
}

/// The shadow as it is while rows are copied.
pub(super) fn without(table: &Table, deferred: &DeferredIndexes) -> Table {
    let mut bare = table.clone();
    bare.indexes
        .retain(|index| !deferred.names().any(|name| *name == index.name));
    bare
}

/// What the checkpoint says of a table that is about to be copied.
pub(super) fn begin(
    table: &JobTable,
    plan: &CopyPlan,
    shadow: &Table,
    deferred: &DeferredIndexes,
) -> TableProgress {
    let mode = match plan.mode() {
        Mode::Ranged => CopyMode::Ranged,
        Mode::Ordered => CopyMode::Ordered,
    };
    let (source, target) = (table.source.name.clone(), table.names.shadow.clone());
    let mut progress = TableProgress::new(source, target, mode);
    progress.deferred_indexes = deferred.names().map(ToString::to_string).collect();
    progress.shadow_create.clone_from(&shadow.create_statement);
    progress
        .source_create
        .clone_from(&table.source.create_statement);
    progress
}

/// The unique indexes that the change adds, or makes stricter.
pub(super) fn new_uniques(table: &JobTable, mapping: &Mapping, shadow: &Table) -> Vec<Ident> {
    let key = shadow_key(table, mapping, shadow);
    let ColumnMap {
        mut written,
        computed,
    } = columns(mapping, shadow);
    written.extend(computed);
    new_unique_indexes(&table.source, shadow, &written, &key)
}

/// Which source column goes to which of the shadow's columns, and which are
/// computed on both sides.
fn columns(mapping: &Mapping, shadow: &Table) -> ColumnMap {
    let named = |pairs: &[ColumnPair]| {
        let pairs = pairs.iter();
        let named = pairs.filter_map(|pair| {
            let column = shadow.columns.get(pair.target)?;
            Some((pair.source, column.name.clone()))
        });
        named.collect()
    };
    ColumnMap {
        written: named(&mapping.pairs),
        computed: named(&mapping.computed),
    }
}

/// The shadow's columns that hold the source's key.
fn shadow_key(table: &JobTable, mapping: &Mapping, shadow: &Table) -> Vec<Ident> {
    let target_of = |source: &usize| {
        let mut pairs = mapping.pairs.iter().chain(&mapping.computed);
        let pair = pairs.find(|pair| pair.source == *source)?;
        Some(shadow.columns.get(pair.target)?.name.clone())
    };
    table.key.ordinals.iter().filter_map(target_of).collect()
}

/// The indexes of the shadow that are built after the copy.
pub(super) fn deferred(table: &JobTable, mapping: &Mapping, shadow: &Table) -> DeferredIndexes {
    DeferredIndexes::plan(shadow, &shadow_key(table, mapping, shadow))
}

/// Plans *ranged* copying where the shadow allows it, else *ordered*.
pub(super) fn plan(
    table: &JobTable,
    mapping: &Mapping,
    shadow: &Table,
) -> Result<CopyPlan, Failure> {
    let columns = columns(mapping, shadow);
    let plan = |mode| {
        CopyPlan::new(
            table.source.clone(),
            table.key.clone(),
            shadow,
            columns.clone(),
            mode,
        )
    };
    match plan(Mode::Ranged) {
        Err(PlanError::UniqueInTheWay { .. } | PlanError::KeyOrder { .. }) => {
            Ok(plan(Mode::Ordered)?)
        }
        other => Ok(other?),
    }
}

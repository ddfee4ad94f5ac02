//! How one table is copied, worked out from what it is and what it becomes.

use oxferry_copier::{ColumnMap, CopyPlan, DeferredIndexes};
use oxferry_schema::{ColumnPair, Ident, Mapping, Table};
use oxferry_verifier::RowExpressions;

use super::job::JobTable;
use crate::{failure::Failure, job::Columns};

/// The shadow as it is while rows are copied.
pub(super) fn without(table: &Table, deferred: &DeferredIndexes) -> Table {
    let mut bare = table.clone();
    bare.indexes
        .retain(|index| !deferred.names().any(|name| *name == index.name));
    bare
}

/// The unique indexes that the change adds, or makes stricter.
pub(super) fn new_uniques(table: &JobTable, mapping: &Mapping, shadow: &Table) -> Vec<Ident> {
    columns(table, mapping, shadow).new_uniques(shadow)
}

/// Which source column goes to which of the shadow's columns, and which are
/// computed on both sides.
pub(super) fn columns<'a>(table: &'a JobTable, mapping: &Mapping, shadow: &Table) -> Columns<'a> {
    let named = |pairs: &[ColumnPair]| {
        let pairs = pairs.iter();
        let named = pairs.filter_map(|pair| {
            let column = shadow.columns.get(pair.target)?;
            Some((pair.source, column.name.clone()))
        });
        named.collect()
    };
    Columns {
        source: &table.source,
        key: &table.key,
        map: ColumnMap {
            written: named(&mapping.pairs),
            computed: named(&mapping.computed),
        },
    }
}

/// The indexes of the shadow that are built after the copy.
pub(super) fn deferred(table: &JobTable, mapping: &Mapping, shadow: &Table) -> DeferredIndexes {
    columns(table, mapping, shadow).deferred(shadow)
}

/// Plans *ranged* copying where the shadow allows it, else *ordered*.
pub(super) fn plan(
    table: &JobTable,
    mapping: &Mapping,
    shadow: &Table,
) -> Result<CopyPlan, Failure> {
    columns(table, mapping, shadow).plan(shadow)
}

/// Checks that rows can be compared.
///
/// # Errors
///
/// A failure that names a column that can't be compared.
pub(super) fn check_comparable(
    table: &JobTable,
    mapping: &Mapping,
    shadow: &Table,
) -> Result<(), Failure> {
    let pairs = pairs(table, mapping, shadow);
    RowExpressions::new(&pairs, &table.key.columns, &[])?;
    Ok(())
}

/// Which columns hold the same on both sides.
pub(super) fn pairs(
    table: &JobTable,
    mapping: &Mapping,
    shadow: &Table,
) -> Vec<oxferry_verifier::ColumnPair> {
    let pair = |pair: &ColumnPair| {
        let source = table.source.columns.get(pair.source)?.clone();
        let target = shadow.columns.get(pair.target)?.clone();
        Some(oxferry_verifier::ColumnPair { source, target })
    };
    // Computed columns of the key as well: rows are told apart by them.
    let keys = mapping.computed.iter();
    let keys = keys.filter(|pair| table.key.ordinals.contains(&pair.source));
    let pairs = mapping.pairs.iter().chain(keys);
    pairs.filter_map(pair).collect()
}

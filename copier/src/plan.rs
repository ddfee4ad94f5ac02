//! Which columns go where, and whether the target can take them.

use oxferry_schema::{Column, Ident, Index, KeyError, KeySide, RowKey, Table, TableName};

use crate::engine::Mode;

/// What is copied from where to where; checked when it is made.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    source: Table,
    key: RowKey,
    target: TableName,
    columns: Vec<(usize, Ident)>,
    source_side: KeySide,
    target_side: KeySide,
    mode: Mode,
}

/// Why a table can't be copied onto its target in this way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A mapping names a source column that isn't there.
    #[error("source table {} has no column number {ordinal}", table.plain())]
    NoSourceColumn {
        /// The source table.
        table: TableName,
        /// The column's place, from 0.
        ordinal: usize,
    },
    /// A mapping names a target column that isn't there.
    #[error("target table {} has no column {column}", table.plain())]
    NoTargetColumn {
        /// The target table.
        table: TableName,
        /// The column.
        column: Ident,
    },
    /// The server computes the target column; nothing may be written to it.
    #[error("column {column} of target table {} is generated and takes no values", table.plain())]
    Generated {
        /// The target table.
        table: TableName,
        /// The column.
        column: Ident,
    },
    /// A column of the source's key has no counterpart.
    #[error(
        "column {column} of the source's key {index} is not carried over to {}; keep it, or give the \
         source another key",
        table.plain()
    )]
    KeyNotMapped {
        /// The target table.
        table: TableName,
        /// The source's key.
        index: Ident,
        /// The column.
        column: Ident,
    },
    /// The client can't tell in which range a key lies, in *ranged* mode.
    #[error("key {index} of source table {} is not ordered here as on the target: copy it in ordered mode", table.plain())]
    KeyOrder {
        /// The source table.
        table: TableName,
        /// Its key.
        index: Ident,
    },
    /// The key's columns are there, with types that don't do.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The target can't tell the source's rows apart.
    #[error(
        "target table {} has no PRIMARY or UNIQUE key over exactly the source's key columns; keep one \
         while rows are copied",
        table.plain()
    )]
    NoTargetKey {
        /// The target table.
        table: TableName,
    },
    /// A unique index that is new, and that can't be built after the copy.
    #[error(
        "unique index {index} of target table {} is new or stricter, and can't be built after the \
         rows are copied: rows that it forbids would vanish; add it in a change of its own",
        table.plain()
    )]
    NewUnique {
        /// The target table.
        table: TableName,
        /// The index.
        index: Ident,
    },
    /// A second unique index, in *ranged* mode.
    #[error(
        "unique index {index} of target table {} must be built after the rows are copied",
        table.plain()
    )]
    UniqueInTheWay {
        /// The target table.
        table: TableName,
        /// The index.
        index: Ident,
    },
}

/// Returns the unique indexes of `target`, over written columns and not over
/// exactly `target_key`, that no unique index of `source` implies: the source
/// may hold rows that they forbid.
///
/// One is implied where a unique index of the source has no other columns than
/// it, each whole, and of the same type and collation on both sides or of
/// integers on both.
#[must_use]
pub fn new_unique_indexes(
    source: &Table,
    target: &Table,
    columns: &[(usize, Ident)],
    target_key: &[Ident],
) -> Vec<Ident> {
    let own = key_index(target, target_key).map(|index| &index.name);
    let written = |name: &Ident| columns.iter().any(|(_, to)| to == name);
    let has_written = |index: &&Index| {
        index
            .parts
            .iter()
            .any(|part| part.column.as_ref().is_none_or(written))
    };
    let uniques = target
        .indexes
        .iter()
        .filter(|index| index.unique && Some(&index.name) != own);
    uniques
        .filter(has_written)
        .filter(|index| {
            let implies =
                |from: &Index| from.unique && is_implied(source, target, columns, (from, index));
            !source.indexes.iter().any(implies)
        })
        .map(|index| index.name.clone())
        .collect()
}

/// Returns whether rows that differ in the source's index `from` differ in the
/// target's index `to` too.
fn is_implied(
    source: &Table,
    target: &Table,
    columns: &[(usize, Ident)],
    (from, to): (&Index, &Index),
) -> bool {
    from.parts.iter().all(|part| {
        let name = part.column.as_ref().filter(|_| part.prefix.is_none());
        let Some(ordinal) = name.and_then(|name| source.ordinal_of(name.as_str())) else {
            return false;
        };
        let before = source.columns.get(ordinal);
        columns
            .iter()
            .filter(|(at, _)| *at == ordinal)
            .any(|(_, name)| {
                let after = target.columns.iter().find(|column| column.name == *name);
                let same = before.zip(after).is_some_and(|(before, after)| {
                    let same = before.column_type == after.column_type;
                    let integers = is_integer(before) && is_integer(after);
                    (same || integers) && before.collation == after.collation
                });
                let covered = to
                    .parts
                    .iter()
                    .any(|part| part.prefix.is_none() && part.column.as_ref() == Some(name));
                same && covered
            })
    })
}

impl CopyPlan {
    /// Plans to copy `source`, whose rows `key` tells apart, onto `target`.
    ///
    /// `columns` says which source column, by its place in `source.columns`,
    /// goes to which target column. The target needs a unique index over
    /// exactly the key's columns, which deletes and upserts go by.
    ///
    /// In *ranged* mode the target may have no other unique index over columns
    /// that are written. In *ordered* mode it may, but only such as the
    /// source's own unique indexes imply: rows would replace each other over
    /// another one.
    ///
    /// # Errors
    ///
    /// [`PlanError`] when the target can't take the rows.
    pub fn new(
        source: Table,
        key: RowKey,
        target: &Table,
        columns: Vec<(usize, Ident)>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        check_columns(&source, target, &columns)?;
        let target_key = map_key(&key, target, &columns)?;
        let Some(index) = key_index(target, &target_key) else {
            let table = target.name.clone();
            return Err(PlanError::NoTargetKey { table });
        };
        match mode {
            Mode::Ranged => check_only_unique(target, index, &columns)?,
            Mode::Ordered => check_implied(&source, target, (&columns, &target_key))?,
        }
        let source_side = key.side(&source)?;
        let target_side = key.side_in(target, &target_key)?;
        if mode == Mode::Ranged && !(key.is_client_ordered() && target_side.keeps_order()) {
            return Err(PlanError::KeyOrder {
                table: source.name,
                index: key.index,
            });
        }
        Ok(Self {
            source,
            key,
            target: target.name.clone(),
            columns,
            source_side,
            target_side,
            mode,
        })
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
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (usize, &Column, &Ident)> {
        self.columns.iter().filter_map(|(ordinal, target)| {
            let column = self.source.columns.get(*ordinal)?;
            Some((*ordinal, column, target))
        })
    }
}

/// Returns the index of `table` that is unique over exactly `columns`, in any
/// order; the primary key if it is one.
pub(crate) fn key_index<'a>(table: &'a Table, columns: &[Ident]) -> Option<&'a Index> {
    table.indexes.iter().find(|index| {
        index.unique
            && index.parts.len() == columns.len()
            && index.parts.iter().all(|part| {
                part.prefix.is_none() && part.column.as_ref().is_some_and(|c| columns.contains(c))
            })
    })
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

/// Finds where the key's columns went.
fn map_key(
    key: &RowKey,
    target: &Table,
    columns: &[(usize, Ident)],
) -> Result<Vec<Ident>, PlanError> {
    let map = |(name, ordinal): (&Ident, &usize)| {
        let mapped = columns.iter().find(|(from, _)| from == ordinal);
        mapped
            .map(|(_, to)| to.clone())
            .ok_or_else(|| PlanError::KeyNotMapped {
                table: target.name.clone(),
                index: key.index.clone(),
                column: name.clone(),
            })
    };
    key.columns.iter().zip(&key.ordinals).map(map).collect()
}

/// In *ordered* mode a written row takes the place of those that it meets,
/// which is right only where the source can't hold both.
fn check_implied(
    source: &Table,
    target: &Table,
    (columns, target_key): (&[(usize, Ident)], &[Ident]),
) -> Result<(), PlanError> {
    let new = new_unique_indexes(source, target, columns, target_key);
    new.into_iter().next().map_or(Ok(()), |index| {
        Err(PlanError::NewUnique {
            table: target.name.clone(),
            index,
        })
    })
}

fn is_integer(column: &Column) -> bool {
    matches!(
        column.data_type.as_str(),
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint"
    )
}

/// A unique index none of whose columns is written (a new `AUTO_INCREMENT`
/// key) never meets a duplicate, so it may stay.
fn check_only_unique(
    target: &Table,
    key_index: &Index,
    columns: &[(usize, Ident)],
) -> Result<(), PlanError> {
    let written = |name: &Ident| columns.iter().any(|(_, to)| to == name);
    let in_the_way = target.indexes.iter().find(|index| {
        index.unique
            && index.name != key_index.name
            && index
                .parts
                .iter()
                .any(|part| part.column.as_ref().is_none_or(written))
    });
    in_the_way.map_or(Ok(()), |index| {
        Err(PlanError::UniqueInTheWay {
            table: target.name.clone(),
            index: index.name.clone(),
        })
    })
}

#[cfg(test)]
mod tests {
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
        let columns = columns.iter().map(|(o, name)| (*o, ident(name))).collect();
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
        assert!(matches!(plan, Err(PlanError::NewUnique { .. })));
    }

    #[test]
    fn a_renamed_key_column_is_followed() {
        let target = target(&[index("PRIMARY", true, &["n"])]);
        let plan = plan(&target, &[(0, "n"), (1, "v")], Mode::Ranged).unwrap();
        assert_eq!(plan.target_key(), [ident("n")]);
    }

    #[test]
    fn a_target_without_the_key_is_refused() {
        let wider = target(&[
            index("PRIMARY", true, &["id", "v"]),
            index("i", false, &["id"]),
        ]);
        let table = wider.name.clone();
        assert_eq!(
            plan(&wider, &BOTH, Mode::Ordered).unwrap_err(),
            PlanError::NoTargetKey { table }
        );
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
        let index_name = ident("u");
        assert_eq!(
            plan(&two, &BOTH, Mode::Ranged).unwrap_err(),
            PlanError::UniqueInTheWay {
                table: two.name.clone(),
                index: index_name
            }
        );
        let mut source = source();
        source.indexes = two.indexes.clone();
        let row_key = key("PRIMARY", &[("id", 0)]);
        let both = BOTH.map(|(at, name)| (at, ident(name))).into();
        let plan = CopyPlan::new(source, row_key, &two, both, Mode::Ordered);
        assert!(plan.is_ok(), "{plan:?}");
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

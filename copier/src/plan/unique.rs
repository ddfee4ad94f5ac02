//! Which unique indexes of a target the source vouches for.

use oxferry_schema::{Column, Ident, Index, Table};

/// Returns the unique indexes of `target`, over written or computed columns,
/// that no unique index of `source` implies: the source may hold rows that
/// they forbid. The index over the source's own key is one of them where its
/// columns change so that two keys may become one.
///
/// One is implied where a unique index of the source has no other columns than
/// it, each whole, and each changed at most so that values that differ still
/// do.
#[must_use]
pub fn new_unique_indexes(
    source: &Table,
    target: &Table,
    columns: &[(usize, Ident)],
    target_key: &[Ident],
) -> Vec<Ident> {
    let written =
        |name: &Ident| columns.iter().any(|(_, to)| to == name) || target_key.contains(name);
    let has_written = |index: &&Index| {
        index
            .parts
            .iter()
            .any(|part| part.column.as_ref().is_none_or(written))
    };
    target
        .indexes
        .iter()
        .filter(|index| index.unique)
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
                let same = before.zip(after).is_some_and(|(a, b)| keeps_apart(a, b));
                let covered = to
                    .parts
                    .iter()
                    .any(|part| part.prefix.is_none() && part.column.as_ref() == Some(name));
                same && covered
            })
    })
}

/// Returns whether values that differ in column `before` differ in `after`,
/// where they fit.
fn keeps_apart(before: &Column, after: &Column) -> bool {
    let same_collation = before.collation == after.collation;
    if before.column_type == after.column_type && same_collation {
        return true;
    }
    let longer = || length(after) >= length(before);
    match (before.data_type.as_str(), after.data_type.as_str()) {
        ("char" | "varchar", "varchar") | ("char", "char") => {
            longer() && (same_collation || is_finer(before, after))
        }
        // Trailing spaces go, which may be all that two values differ in.
        ("varchar", "char") => longer() && !is_no_pad(before) && same_collation,
        ("binary", "binary" | "varbinary") | ("varbinary", "varbinary") => longer(),
        ("bit", "bit") | ("date", "datetime") => true,
        ("datetime" | "timestamp", "datetime" | "timestamp") | ("time", "time") => longer(),
        ("decimal", "decimal") => scale(after) >= scale(before),
        ("enum", "enum") => before.members.iter().all(|m| after.members.contains(m)),
        (a, "decimal") => is_integer(a),
        (a, b) => is_integer(a) && is_integer(b),
    }
}

/// Returns whether texts that differ by the collation of `before` differ by
/// that of `after` too: it compares by code points, and pads with spaces only
/// where the other one does.
fn is_finer(before: &Column, after: &Column) -> bool {
    let after_name = after.collation.as_deref().unwrap_or_default();
    after_name.ends_with("_bin") && (is_no_pad(after) || !is_no_pad(before))
}

/// Returns whether trailing spaces count. Source: MySQL 9.7 manual, "The
/// utf8mb4 Character Set", and the column `PAD_ATTRIBUTE` of
/// `INFORMATION_SCHEMA.COLLATIONS`.
fn is_no_pad(column: &Column) -> bool {
    let collation = column.collation.as_deref().unwrap_or_default();
    collation.contains("_0900_") || collation == "binary"
}

fn is_integer(data_type: &str) -> bool {
    matches!(
        data_type,
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint"
    )
}

/// Returns the first number in the type's brackets: a length, or the digits of
/// a fraction of a second.
fn length(column: &Column) -> u32 {
    numbers(column).next().unwrap_or_default()
}

fn scale(column: &Column) -> u32 {
    numbers(column).nth(1).unwrap_or_default()
}

fn numbers(column: &Column) -> impl Iterator<Item = u32> + '_ {
    let inside = column.column_type.split_once('(');
    let inside = inside.and_then(|(_, rest)| rest.split_once(')'));
    let inside = inside.map_or("", |(numbers, _)| numbers);
    inside.split(',').map_while(|n| n.trim().parse().ok())
}

/// Returns the index of `table` that is unique over exactly `columns`, in any
/// order; the primary key if it is one.
pub(crate) fn key_index<'a>(table: &'a Table, columns: &[Ident]) -> Option<&'a Index> {
    let mut indexes = table.indexes.iter();
    indexes.find(|index| {
        index.unique && index.parts.len() == columns.len() && begins_with(index, columns)
    })
}

/// Returns the index of `table` by which rows are found that have a key in
/// `columns`: the one that is unique over exactly them, or else one that begins
/// with them, in any order, the primary key if it does.
pub(crate) fn finding_index<'a>(table: &'a Table, columns: &[Ident]) -> Option<&'a Index> {
    let begins = |index: &&Index| index.kind == "BTREE" && begins_with(index, columns);
    key_index(table, columns).or_else(|| table.indexes.iter().find(begins))
}

fn begins_with(index: &Index, columns: &[Ident]) -> bool {
    let first = index.parts.iter().take(columns.len());
    let is_key = |part: &oxferry_schema::IndexPart| {
        part.prefix.is_none() && part.column.as_ref().is_some_and(|c| columns.contains(c))
    };
    index.parts.len() >= columns.len() && first.into_iter().all(is_key)
}

/// Returns whether no two rows with different keys meet in `index`.
pub(crate) fn holds_key(index: &Index, columns: &[Ident]) -> bool {
    columns.iter().all(|column| {
        let mut parts = index.parts.iter();
        parts.any(|part| part.prefix.is_none() && part.column.as_ref() == Some(column))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::column;

    fn text(column_type: &str, collation: &str) -> Column {
        let mut text = column("c", column_type);
        text.collation = Some(collation.to_owned());
        text
    }

    #[test]
    fn values_stay_apart_where_the_type_only_grows() {
        let apart = |a: &str, b: &str| keeps_apart(&column("c", a), &column("c", b));
        for (before, after) in [
            ("int", "bigint unsigned"),
            ("int", "decimal(20,0)"),
            ("binary(4)", "varbinary(9)"),
            ("datetime", "datetime(6)"),
            ("decimal(10,2)", "decimal(12,4)"),
        ] {
            assert!(apart(before, after), "{before} {after}");
        }
        for (before, after) in [
            ("datetime(6)", "datetime"),
            ("decimal(10,2)", "decimal(10,1)"),
            ("varbinary(4)", "binary(4)"),
            ("int", "double"),
        ] {
            assert!(!apart(before, after), "{before} {after}");
        }
    }

    #[test]
    fn texts_stay_apart_by_code_points() {
        let apart = |a: &str, b: &str| keeps_apart(&text("varchar(9)", a), &text("varchar(9)", b));
        assert!(apart("latin1_swedish_ci", "utf8mb4_bin"));
        assert!(apart("utf8mb4_0900_ai_ci", "utf8mb4_0900_bin"));
        assert!(!apart("utf8mb4_0900_ai_ci", "utf8mb4_bin"));
        assert!(!apart("utf8mb4_bin", "utf8mb4_general_ci"));
        assert!(!apart("utf8mb4_general_ci", "utf8mb4_0900_ai_ci"));
        let ci = "utf8mb4_0900_ai_ci";
        assert!(keeps_apart(
            &text("varchar(9)", ci),
            &text("varchar(20)", ci)
        ));
        assert!(!keeps_apart(&text("varchar(9)", ci), &text("char(9)", ci)));
    }
}

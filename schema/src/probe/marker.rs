//! How a column is marked so that it can be followed.

use crate::{Column, Ident};

/// Returns whether the column can have an index of its own.
///
/// Source: MySQL 9.7 manual, "CREATE INDEX Statement"; the refusals 3152 (JSON),
/// 1089 (`CHAR(0)`) and those of VECTOR were observed on 9.7.4. Geometry can only
/// be indexed as SPATIAL, and only where it is NOT NULL.
pub(super) fn is_indexable(column: &Column) -> bool {
    let empty = matches!(
        column.column_type.as_str(),
        "char(0)" | "varchar(0)" | "binary(0)" | "varbinary(0)"
    );
    !empty && column.data_type != "json" && (!is_opaque(column) || is_spatial(column))
}

/// Returns whether the column takes a SPATIAL index: geometry that is NOT NULL.
fn is_spatial(column: &Column) -> bool {
    is_opaque(column) && column.data_type != "vector" && !column.nullable
}

/// Returns which kind of index the column takes.
pub(super) fn index_kind(column: &Column, converted: bool) -> &'static str {
    if !converted && is_spatial(column) {
        "SPATIAL INDEX"
    } else {
        "INDEX"
    }
}

/// Writes the index part for the column: one character of a string.
pub(super) fn index_part(column: &Column, converted: bool) -> String {
    let prefix = if converted || is_string(column) {
        "(1)"
    } else {
        ""
    };
    format!("{}{prefix}", column.name)
}

/// Returns a value for the column that differs from those for other columns,
/// as SQL; `None` where this program knows none. Shapes are in the spatial
/// reference system `srid`.
pub(super) fn literal(column: &Column, at: usize, srid: u32) -> Option<String> {
    if column.generated.is_some() {
        return None;
    }
    // Marks stay apart from zero and one, which are defaults of many columns.
    let mark = at + 2;
    // A latitude is 90 at most, a table has 1017 columns at most.
    let m = if srid == 0 {
        mark.to_string()
    } else {
        format!("{}.{:02}", mark / 20, mark % 20 * 5)
    };
    let shape = match column.data_type.as_str() {
        "json" => return Some(format!("CAST('\"oxprobe-{mark}\"' AS JSON)")),
        "vector" => return vector(column, mark),
        "geometry" | "point" => format!("POINT({m} {m})"),
        "linestring" => format!("LINESTRING(0 0,{m} {m})"),
        "polygon" => format!("POLYGON((0 0,0 {m},{m} {m},0 0))"),
        "multipoint" => format!("MULTIPOINT(0 0,{m} {m})"),
        "multilinestring" => format!("MULTILINESTRING((0 0,{m} {m}))"),
        "multipolygon" => format!("MULTIPOLYGON(((0 0,0 {m},{m} {m},0 0)))"),
        "geomcollection" | "geometrycollection" => {
            format!("GEOMETRYCOLLECTION(POINT({m} {m}))")
        }
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => {
            return fits_text(column, mark).then(|| format!("'{mark}'"));
        }
        "smallint" | "mediumint" | "int" | "bigint" => return Some(mark.to_string()),
        _ => return None,
    };
    Some(format!("ST_GeomFromText('{shape}', {srid})"))
}

/// Writes an expression for the column's value that is the same text for the
/// same value in another column or type.
pub(super) fn expression(name: &Ident, column: &Column) -> String {
    if is_opaque(column) || is_binary(column) {
        format!("HEX({name})")
    } else {
        format!("HEX(CONVERT(CONCAT({name}) USING utf8mb4))")
    }
}

fn vector(column: &Column, mark: usize) -> Option<String> {
    let dimensions = column
        .column_type
        .strip_prefix("vector(")?
        .strip_suffix(')')?;
    let dimensions: usize = dimensions.parse().ok()?;
    let numbers = vec![mark.to_string(); dimensions];
    Some(format!("STRING_TO_VECTOR('[{}]')", numbers.join(",")))
}

/// A `VARCHAR(1)` has no room for two digits.
fn fits_text(column: &Column, mark: usize) -> bool {
    let room = column.column_type.split(['(', ')']).nth(1);
    let room = room.and_then(|digits| digits.parse::<usize>().ok());
    room.is_none_or(|room| room >= mark.to_string().len())
}

/// Returns whether a row needs a value for the column: even a lenient server
/// falls back to none. Observed on 9.7.4 for geometry.
pub(super) fn needs_value(column: &Column) -> bool {
    is_opaque(column) && !column.nullable && column.generated.is_none()
}

fn is_opaque(column: &Column) -> bool {
    matches!(
        column.data_type.as_str(),
        "vector"
            | "geometry"
            | "point"
            | "linestring"
            | "polygon"
            | "multipoint"
            | "multilinestring"
            | "multipolygon"
            | "geomcollection"
            | "geometrycollection"
    )
}

fn is_string(column: &Column) -> bool {
    let text = matches!(
        column.data_type.as_str(),
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext"
    );
    text || is_binary(column)
}

fn is_binary(column: &Column) -> bool {
    matches!(
        column.data_type.as_str(),
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn column(data_type: &str, column_type: &str) -> Column {
        Column {
            data_type: data_type.to_owned(),
            nullable: true,
            ..fixture::column("c", column_type)
        }
    }

    #[test]
    fn strings_are_indexed_by_one_character_and_numbers_whole() {
        assert_eq!(
            index_part(&column("varchar", "varchar(9)"), false),
            "`c`(1)"
        );
        assert_eq!(index_part(&column("longblob", "longblob"), false), "`c`(1)");
        assert_eq!(index_part(&column("enum", "enum('a')"), false), "`c`");
        assert_eq!(index_part(&column("json", "json"), true), "`c`(1)");
    }

    #[test]
    fn what_no_index_takes_is_known() {
        for (data_type, column_type) in [
            ("json", "json"),
            ("point", "point"),
            ("vector", "vector(3)"),
            ("char", "char(0)"),
        ] {
            assert!(
                !is_indexable(&column(data_type, column_type)),
                "{column_type}"
            );
        }
        assert!(is_indexable(&column("bit", "bit(1)")));
    }

    #[test]
    fn marks_differ_from_column_to_column() {
        for (data_type, column_type) in [
            ("json", "json"),
            ("point", "point"),
            ("vector", "vector(2)"),
            ("text", "text"),
            ("int", "int"),
        ] {
            let column = column(data_type, column_type);
            assert_ne!(
                literal(&column, 0, 0).unwrap(),
                literal(&column, 1, 0).unwrap()
            );
        }
        assert_eq!(literal(&column("varchar", "varchar(1)"), 50, 0), None);
        assert_eq!(literal(&column("date", "date"), 0, 0), None);
    }
}

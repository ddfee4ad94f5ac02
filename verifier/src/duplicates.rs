//! SQL that finds, on the source, rows that a unique index of the target can't
//! hold together.

use oxferry_schema::{Column, Ident, Index, IndexPart, RowKey, TableName};

use crate::{
    ColumnPair,
    column::{Kind, scale, type_numbers},
};

/// A query over the source for groups of rows that are one to a unique index of
/// the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateQuery {
    index: Ident,
    parts: usize,
    sql: String,
}

impl DuplicateQuery {
    /// Groups that a query returns at most: enough to see what is wrong.
    pub const GROUPS_MAX: usize = 5;

    /// Builds the query for `index` of the target, each part converted to what
    /// the target's column will hold, in its collation, cut to its prefix; rows
    /// with NULL in a part are never duplicates.
    ///
    /// `None` where a part can't be told from the source: an expression, a
    /// column that is added or generated, or one whose change has no equal in
    /// SQL. Building the index tells then.
    #[must_use]
    pub fn new(
        index: &Index,
        pairs: &[ColumnPair],
        source: &TableName,
        key: (&RowKey, &[Column]),
    ) -> Option<Self> {
        let parts: Option<Vec<String>> = index.parts.iter().map(|p| part(p, pairs)).collect();
        let parts = parts.filter(|parts| !parts.is_empty())?;
        let names: Vec<String> = (1..=parts.len()).map(|n| format!("v{n}")).collect();
        let selected: Vec<String> = parts
            .iter()
            .zip(&names)
            .map(|(part, name)| format!("{part} AS {name}"))
            .collect();
        let given: Vec<String> = names.iter().map(|n| format!("{n} IS NOT NULL")).collect();
        let sql = format!(
            "SELECT {names}, COUNT(*), MIN(k), MAX(k) FROM (SELECT {selected}, {key} AS k FROM \
             {source}) AS d WHERE {given} GROUP BY {names} HAVING COUNT(*) > 1 LIMIT {max}",
            names = names.join(", "),
            selected = selected.join(", "),
            key = key_text(key.0, key.1),
            given = given.join(" AND "),
            max = Self::GROUPS_MAX,
        );
        Some(Self {
            index: index.name.clone(),
            parts: parts.len(),
            sql,
        })
    }

    /// Returns the index's name.
    #[must_use]
    pub const fn index(&self) -> &Ident {
        &self.index
    }

    /// Returns how many values come first in each row; then come the number of
    /// rows, and the keys of two of them.
    #[must_use]
    pub const fn parts(&self) -> usize {
        self.parts
    }

    /// Returns the query, to be run in UTC, without strict mode.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }
}

/// A row's key as one text that no two rows share.
fn key_text(key: &RowKey, columns: &[Column]) -> String {
    let columns = key.ordinals.iter().filter_map(|at| columns.get(*at));
    let texts: Vec<String> = columns
        .map(|column| match Kind::of(column) {
            Some(Kind::Bit) => format!("{}+0", column.name),
            Some(kind) if kind.is_binary() => format!("CONCAT('0x',HEX({}))", column.name),
            _ => column.name.to_string(),
        })
        .collect();
    let text = format!("CONCAT_WS(', ',{})", texts.join(","));
    format!("CAST(CONVERT({text} USING utf8mb4) AS BINARY)")
}

/// Returns what one part of the index will hold.
fn part(part: &IndexPart, pairs: &[ColumnPair]) -> Option<String> {
    let name = part.column.as_ref()?;
    let pair = pairs.iter().find(|pair| pair.target.name == *name)?;
    if pair.target.generated.is_some() {
        return None;
    }
    let value = converted(&pair.source, &pair.target)?;
    Some(match part.prefix {
        Some(length) => format!("LEFT({value}, {length})"),
        None => value,
    })
}

/// Returns the source's value as the target's column will hold it.
fn converted(source: &Column, target: &Column) -> Option<String> {
    let name = &source.name;
    let (from, to) = (Kind::of(source)?, Kind::of(target)?);
    let is_same = source.column_type == target.column_type
        && source.charset == target.charset
        && source.collation == target.collation;
    if is_same {
        return Some(name.to_string());
    }
    let is_number = from.is_exact() || from.is_approximate();
    let is_time = matches!(from, Kind::Date | Kind::DateTime | Kind::Time);
    let numbers = type_numbers(target);
    let digits = numbers.first().copied().unwrap_or(0);
    Some(match to {
        Kind::Char | Kind::Text | Kind::Member if from.is_text() => {
            let text = text(&name.to_string(), target)?;
            if to == Kind::Char {
                format!("TRIM(TRAILING ' ' FROM {text})")
            } else {
                text
            }
        }
        Kind::Char | Kind::Text if from != Kind::Bit && (is_number || is_time) => {
            text(&format!("CAST({name} AS CHAR)"), target)?
        }
        Kind::FixedBinary if from.is_text() || from.is_binary() => {
            format!("CAST({name} AS BINARY({digits}))")
        }
        Kind::Binary if from.is_text() || from.is_binary() => format!("CAST({name} AS BINARY)"),
        Kind::Integer if from == Kind::Integer || from == Kind::Year => name.to_string(),
        Kind::Integer if is_number || from == Kind::Char || from == Kind::Text => {
            format!("CAST({name} AS DECIMAL(65,0))")
        }
        Kind::Decimal if is_number || from == Kind::Char || from == Kind::Text => {
            let digits = if digits == 0 { 10 } else { digits };
            format!("CAST({name} AS DECIMAL({digits},{}))", scale(target))
        }
        Kind::Float if is_number => format!("CAST({name} AS FLOAT)"),
        Kind::Double if is_number => format!("({name}+0e0)"),
        Kind::Date if is_time && from != Kind::Time => format!("CAST({name} AS DATE)"),
        Kind::DateTime if is_time && from != Kind::Time => {
            format!("CAST({name} AS DATETIME({digits}))")
        }
        Kind::Time if from == Kind::Time => format!("CAST({name} AS TIME({digits}))"),
        _ => return None,
    })
}

/// Returns a text in the target's character set and collation.
fn text(value: &str, target: &Column) -> Option<String> {
    let (charset, collation) = (target.charset.as_ref()?, target.collation.as_ref()?);
    Some(format!(
        "CONVERT({value} USING {charset}) COLLATE {collation}"
    ))
}

#[cfg(test)]
mod tests {
    use oxferry_schema::KeyKind;

    use super::*;

    fn name(text: &str) -> Ident {
        Ident::new(text).unwrap()
    }

    fn column(column_type: &str, charset: Option<&str>, collation: Option<&str>) -> Column {
        Column {
            name: name("v"),
            data_type: column_type.split('(').next().unwrap().to_owned(),
            column_type: column_type.to_owned(),
            charset: charset.map(str::to_owned),
            collation: collation.map(str::to_owned),
            nullable: true,
            invisible: false,
            generated: None,
            auto_increment: false,
            members: Vec::new(),
        }
    }

    fn query(source: Column, target: Column, prefix: Option<u32>) -> Option<DuplicateQuery> {
        let id = Column {
            name: name("id"),
            ..column("int", None, None)
        };
        let index = Index {
            name: name("u"),
            unique: true,
            visible: true,
            kind: "BTREE".to_owned(),
            parts: vec![IndexPart {
                column: Some(name("v")),
                prefix,
                nullable: true,
                descending: false,
            }],
        };
        let key = RowKey {
            index: name("PRIMARY"),
            columns: vec![name("id")],
            ordinals: vec![0],
            kinds: vec![KeyKind::Int { unsigned: false }],
        };
        let table = TableName::new(name("d"), name("t"));
        let pairs = [ColumnPair { source, target }];
        DuplicateQuery::new(&index, &pairs, &table, (&key, &[id]))
    }

    #[test]
    fn values_are_grouped_as_the_new_column_will_hold_them() {
        let from = column("varchar(20)", Some("latin1"), Some("latin1_bin"));
        let to = column("varchar(9)", Some("utf8mb4"), Some("utf8mb4_0900_ai_ci"));
        let found = query(from, to, Some(3)).unwrap();
        assert_eq!(
            found.sql(),
            "SELECT v1, COUNT(*), MIN(k), MAX(k) FROM (SELECT LEFT(CONVERT(`v` USING utf8mb4) \
             COLLATE utf8mb4_0900_ai_ci, 3) AS v1, CAST(CONVERT(CONCAT_WS(', ',`id`) USING utf8mb4) \
             AS BINARY) AS k FROM `d`.`t`) AS d WHERE v1 IS NOT NULL GROUP BY v1 HAVING COUNT(*) > 1 LIMIT 5"
        );
        assert_eq!(found.parts(), 1);
    }

    #[test]
    fn what_no_query_can_tell_is_left_to_the_index() {
        let int = || column("int", None, None);
        assert!(query(int(), column("json", None, None), None).is_none());
        let generated = Column {
            generated: Some(oxferry_schema::Generated::Stored),
            ..int()
        };
        assert!(query(int(), generated, None).is_none());
        assert!(query(int(), int(), None).is_some());
    }
}

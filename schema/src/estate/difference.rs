//! How two tables differ, column by column and index by index.

use super::definition::{Definition, Element, bare, follow_table};
use crate::{Column, Table};

/// Says how `target` differs from `source`: in its columns (name, place, type,
/// character set, collation, NULL, default, generation, visibility), indexes,
/// CHECK constraints and engine. Nothing when rows of one are rows of the
/// other, with all that guards them.
///
/// Comments, table options, foreign keys and partitions are not compared.
#[must_use]
pub fn differences(source: &Table, target: &Table) -> Vec<String> {
    let mut found = Vec::new();
    if !source.engine.eq_ignore_ascii_case(&target.engine) {
        let (is, was) = (&target.engine, &source.engine);
        found.push(format!("its engine is {is}, the source's {was}"));
    }
    let parse = |table: &Table| Definition::parse(&table.create_statement);
    let (Some(before), Some(now)) = (parse(source), parse(target)) else {
        found.push("its definition cannot be understood".to_owned());
        return found;
    };
    columns(source, target, &mut found);
    let before = Parts::of(&before, source, target);
    let now = Parts::of(&now, target, target);
    compare("column", &before.columns, &now.columns, &mut found);
    compare("index", &before.indexes, &now.indexes, &mut found);
    compare("check", &before.checks, &now.checks, &mut found);
    found
}

/// Returns whether both tables are partitioned alike, or neither is.
#[must_use]
pub fn same_partitions(source: &Table, target: &Table) -> bool {
    let partitions = |table: &Table| {
        let parsed = Definition::parse(&table.create_statement);
        parsed.map(|definition| definition.partitions().to_owned())
    };
    partitions(source) == partitions(target)
}

/// What only the server's description tells: the order, and what a text's
/// default character set and collation stand for.
fn columns(source: &Table, target: &Table, found: &mut Vec<String>) {
    for (at, column) in source.columns.iter().enumerate() {
        let name = column.name.as_str();
        let Some(place) = target.ordinal_of(name) else {
            // Told by the comparison of the elements.
            continue;
        };
        if place != at {
            let (here, there) = (place + 1, at + 1);
            found.push(format!(
                "column {name} is number {here}, the source's is {there}"
            ));
        }
        let text = |column: &Column| column.collation.clone().unwrap_or_default();
        let now = target.columns.get(place).map(text).unwrap_or_default();
        if now != text(column) {
            let was = text(column);
            found.push(format!(
                "column {name} has collation {now}, the source's {was}"
            ));
        }
    }
}

/// The named elements of a definition, in comparable form.
struct Parts {
    columns: Vec<(String, String)>,
    indexes: Vec<(String, String)>,
    checks: Vec<(String, String)>,
}

impl Parts {
    fn of(definition: &Definition, table: &Table, target: &Table) -> Self {
        let mut parts = Self {
            columns: Vec::new(),
            indexes: Vec::new(),
            checks: Vec::new(),
        };
        for (kind, element) in definition.kinds() {
            let text = bare(element);
            match kind {
                Element::Column(name) => parts.columns.push((name, text)),
                Element::Index(name) => parts.indexes.push((name, text)),
                Element::Check(name) => {
                    let renamed = follow_table(&name, "_chk_", &table.name, &target.name);
                    let rule = text.split_once("` CHECK ").map(|(_, rule)| rule.to_owned());
                    parts.checks.push((renamed, rule.unwrap_or(text)));
                }
                Element::ForeignKey(_) => {}
            }
        }
        parts
    }
}

/// Names are compared without regard to letter case, as the server compares
/// those of columns, indexes and constraints.
fn compare(
    kind: &str,
    before: &[(String, String)],
    now: &[(String, String)],
    found: &mut Vec<String>,
) {
    let same = |one: &str, other: &str| one.to_lowercase() == other.to_lowercase();
    for (name, text) in before {
        match now.iter().find(|(other, _)| same(name, other)) {
            None => found.push(format!("it has no {kind} {name}")),
            Some((_, other)) if other != text => {
                found.push(format!("{kind} {name} is {other}, the source's {text}"));
            }
            Some(_) => {}
        }
    }
    let known = |name: &str| before.iter().any(|(other, _)| same(name, other));
    let more = now.iter().filter(|(name, _)| !known(name));
    found.extend(more.map(|(name, _)| format!("it has {kind} {name}, the source hasn't")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ident, TableName};

    fn table(name: &str, create: &str, columns: &[(&str, &str)]) -> Table {
        Table {
            name: TableName::new(Ident::new("d").unwrap(), Ident::new(name).unwrap()),
            columns: columns
                .iter()
                .map(|(name, collation)| Column {
                    name: Ident::new(*name).unwrap(),
                    data_type: "int".to_owned(),
                    column_type: "int".to_owned(),
                    charset: None,
                    collation: Some((*collation).to_owned()),
                    nullable: true,
                    invisible: false,
                    generated: None,
                    auto_increment: false,
                    members: Vec::new(),
                })
                .collect(),
            indexes: Vec::new(),
            engine: "InnoDB".to_owned(),
            row_estimate: 0,
            size_bytes: 0,
            auto_increment: None,
            create_statement: format!("CREATE TABLE `{name}` (\n  {create}\n) ENGINE=InnoDB"),
        }
    }

    #[test]
    fn names_that_follow_their_table_and_comments_make_no_difference() {
        let check = |name: &str, comment: &str| {
            format!("`a` int COMMENT '{comment}',\n  CONSTRAINT `{name}_chk_1` CHECK ((`a` > 0))")
        };
        let source = table("t", &check("t", "x"), &[("a", "c")]);
        let target = table("u", &check("u", "y"), &[("a", "c")]);
        assert_eq!(differences(&source, &target), Vec::<String>::new());
        assert!(same_partitions(&source, &target));
    }

    #[test]
    fn every_difference_is_named() {
        let columns = [("a", "x"), ("b", "x"), ("c", "x")];
        let source = table(
            "t",
            "`a` int,\n  `b` int,\n  `c` int,\n  KEY `k` (`a`)",
            &columns,
        );
        let columns = [("b", "y"), ("a", "x"), ("d", "x")];
        let target = table(
            "t",
            "`b` bigint,\n  `a` int,\n  `d` int,\n  KEY `k` (`a`,`b`)",
            &columns,
        );
        assert_eq!(
            differences(&source, &target),
            [
                "column a is number 2, the source's is 1",
                "column b is number 1, the source's is 2",
                "column b has collation y, the source's x",
                "column b is `b` bigint, the source's `b` int",
                "it has no column c",
                "it has column d, the source hasn't",
                "index k is KEY `k` (`a`,`b`), the source's KEY `k` (`a`)",
            ]
        );
    }
}

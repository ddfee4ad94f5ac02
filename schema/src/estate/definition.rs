//! A table's definition as `SHOW CREATE TABLE` prints it, taken apart.
//!
//! The server prints every definition in one form, whatever the user wrote:
//! names in backticks with their own doubled, strings in single quotes with
//! backslashes and doubled quotes, one element of the list a line (seen on
//! MySQL 9.7.4). A name may hold a line break, so quotes decide, not lines.

use super::place::unquote;
use crate::{Ident, TableName};

/// A `CREATE TABLE` statement in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    /// Columns, indexes and constraints, one each, in the statement's order.
    pub(super) elements: Vec<String>,
    /// What stands behind the list: options, then partitions.
    pub(super) tail: String,
}

/// What an element of the list defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Column(String),
    /// By name; the primary key's is `PRIMARY`.
    Index(String),
    Check(String),
    ForeignKey(String),
}

impl Definition {
    /// Takes a statement apart; `None` for one of another form.
    pub(super) fn parse(create_statement: &str) -> Option<Self> {
        let rest = create_statement.strip_prefix("CREATE TABLE `")?;
        let (_, rest) = unquote(rest)?;
        let list = rest.strip_prefix(" (\n")?;
        let mut elements = Vec::new();
        let mut start = 0;
        let mut depth = 0_usize;
        for (at, symbol) in symbols(list) {
            match symbol {
                '(' => depth += 1,
                ')' if depth == 0 => {
                    elements.push(list.get(start..at)?.trim().to_owned());
                    let tail = list.get(at + 1..)?.trim_start().to_owned();
                    return Some(Self { elements, tail });
                }
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    elements.push(list.get(start..at)?.trim().to_owned());
                    start = at + 1;
                }
                _ => {}
            }
        }
        None
    }

    /// Writes the statement that makes the table under another name on another
    /// server, without its foreign keys.
    ///
    /// Constraints that the server named after the table are called after its
    /// new name, as when a table is renamed there. Where the source's files
    /// lie is left out; see [`Definition::places`].
    pub(super) fn statement(&self, source: &TableName, target: &TableName) -> String {
        let mut elements = Vec::with_capacity(self.elements.len());
        for element in &self.elements {
            match kind(element) {
                Some(Element::ForeignKey(_)) => {}
                Some(Element::Check(name)) => {
                    let renamed = follow_table(&name, "_chk_", source, target);
                    let (_, rule) = constraint(element).unwrap_or_default();
                    let renamed = Ident::new(renamed).map_or_else(|_| quote(&name), quoted);
                    elements.push(format!("CONSTRAINT {renamed} {rule}"));
                }
                _ => elements.push(element.clone()),
            }
        }
        let (tail, _) = without_places(&self.tail);
        format!(
            "CREATE TABLE {} {target} (\n  {}\n) {tail}",
            super::OWN_DDL_COMMENT,
            elements.join(",\n  ")
        )
    }

    /// Returns what of the definition says where the source keeps its files:
    /// `TABLESPACE`, `DATA DIRECTORY`, `INDEX DIRECTORY`.
    pub(super) fn places(&self) -> Vec<String> {
        without_places(&self.tail).1
    }

    /// Returns the elements with what they define.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (Element, &str)> {
        let elements = self.elements.iter();
        elements.filter_map(|element| Some((kind(element)?, element.as_str())))
    }

    /// Returns the partitions' clause; empty for a table without.
    pub(super) fn partitions(&self) -> &str {
        let words = [
            "/*!50100 PARTITION BY",
            "/*!50500 PARTITION BY",
            "PARTITION BY",
        ];
        let found = words
            .iter()
            .filter_map(|word| find_outside(&self.tail, word));
        let start = found.min().unwrap_or(self.tail.len());
        self.tail.get(start..).unwrap_or_default().trim()
    }
}

/// Returns what a constraint that the server named `TABLE_kind_NUMBER` is
/// called when its table is; any other keeps its name.
///
/// Source: MySQL 9.7 manual, "RENAME TABLE Statement"; seen on 9.7.4.
pub(super) fn follow_table(
    name: &str,
    kind: &str,
    source: &TableName,
    target: &TableName,
) -> String {
    let number = name
        .strip_prefix(source.table.as_str())
        .and_then(|rest| rest.strip_prefix(kind))
        .filter(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
    let renamed = number.map(|number| format!("{}{kind}{number}", target.table.as_str()));
    let fits = renamed.filter(|name| name.chars().count() <= Ident::LENGTH_MAX);
    fits.unwrap_or_else(|| name.to_owned())
}

/// Removes every `CHARACTER SET`, `COLLATE` and `COMMENT` of an element: the
/// first two are printed only where they aren't the table's own.
pub(super) fn bare(element: &str) -> String {
    let mut text = element.to_owned();
    for word in [" CHARACTER SET ", " COLLATE ", " COMMENT "] {
        while let Some(start) = find_outside(&text, word) {
            let value = start + word.len();
            let rest = text.get(value..).unwrap_or_default();
            let end = value + value_length(rest);
            text.replace_range(start..end, "");
        }
    }
    text
}

/// Reads what an element defines off its first words.
fn kind(element: &str) -> Option<Element> {
    if let Some(rest) = element.strip_prefix('`') {
        return Some(Element::Column(unquote(rest)?.0));
    }
    if let Some((name, rule)) = constraint(element) {
        return Some(if rule.starts_with("FOREIGN KEY") {
            Element::ForeignKey(name)
        } else {
            Element::Check(name)
        });
    }
    if element.starts_with("PRIMARY KEY") {
        return Some(Element::Index("PRIMARY".to_owned()));
    }
    let (_, rest) = element.split_once("KEY `")?;
    Some(Element::Index(unquote(rest)?.0))
}

/// Parts a constraint into its name and its rule.
fn constraint(element: &str) -> Option<(String, &str)> {
    let (name, rest) = unquote(element.strip_prefix("CONSTRAINT `")?)?;
    Some((name, rest.trim_start()))
}

/// Takes out where files lie, and returns what was taken out.
fn without_places(tail: &str) -> (String, Vec<String>) {
    let mut text = tail.to_owned();
    let mut taken = Vec::new();
    while let Some(start) = find_outside(&text, "/*!50100 TABLESPACE ") {
        let rest = text.get(start..).unwrap_or_default();
        let end = start + find_outside(rest, "*/").map_or(rest.len(), |at| at + 2);
        taken.push(take(&mut text, start, end));
    }
    let words = ["DATA DIRECTORY", "INDEX DIRECTORY", "TABLESPACE"];
    for word in words {
        while let Some(start) = find_outside(&text, word) {
            let rest = text.get(start + word.len()..).unwrap_or_default();
            let value = rest.trim_start_matches([' ', '=']);
            let end = text.len() - value.len() + value_length(value);
            taken.push(take(&mut text, start, end));
        }
    }
    (text.trim().to_owned(), taken)
}

fn take(text: &mut String, start: usize, end: usize) -> String {
    let taken = text.get(start..end).unwrap_or_default().to_owned();
    // One of the blanks around it goes, too.
    let blank = text.get(end..).is_some_and(|rest| rest.starts_with(' '));
    text.replace_range(start..end + usize::from(blank), "");
    taken.trim().to_owned()
}

/// How long the quoted text, name or word at the beginning is.
fn value_length(text: &str) -> usize {
    let mut chars = text.char_indices();
    match chars.next() {
        Some((_, quote @ ('\'' | '`'))) => closing(text, 0, quote),
        _ => text.find([' ', ',', ')']).unwrap_or(text.len()),
    }
}

/// Where `part` stands outside quotes.
fn find_outside(text: &str, part: &str) -> Option<usize> {
    let mut outside = symbols(text).map(|(at, _)| at);
    outside.find(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(part)))
}

/// The characters that stand outside quotes, with their places.
fn symbols(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut skip_to = 0;
    text.char_indices().filter(move |(at, c)| {
        if *at < skip_to {
            return false;
        }
        if matches!(c, '\'' | '`') {
            skip_to = closing(text, *at, *c);
            return false;
        }
        true
    })
}

/// Where the quoted text that begins at `start` has ended.
fn closing(text: &str, start: usize, quote: char) -> usize {
    let rest = text.get(start + 1..).unwrap_or_default();
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote == '\'' {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return start + 1 + at + 1;
        }
    }
    text.len()
}

fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[expect(clippy::needless_pass_by_value, reason = "fits map_or_else")]
fn quoted(name: Ident) -> String {
    name.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: &str = "CREATE TABLE `we``ird (` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  \
        `a,b) (` varchar(9) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT ' COLLATE x' \
        COMMENT 'it''s, `q` \\n \\\\ \\' \"x\" COMMENT',\n  `nl\n  CONSTRAINT` int DEFAULT NULL,\n  \
        PRIMARY KEY (`id`),\n  UNIQUE KEY `u``,` (`a,b) (`(3)),\n  \
        CONSTRAINT `f` FOREIGN KEY (`a,b) (`) REFERENCES `zb`.`p` (`x`) ON DELETE CASCADE,\n  \
        CONSTRAINT `we``ird (_chk_1` CHECK ((`id` <> _latin1'\\'é), (')),\n  \
        CONSTRAINT `own` CHECK ((`id` > 0)) /*!80016 NOT ENFORCED */\n\
        ) /*!50100 TABLESPACE `t*/s` */ ENGINE=InnoDB AUTO_INCREMENT=77 COMMENT='t '' DATA DIRECTORY ) ' \
        DATA DIRECTORY='/x y/'\n\
        /*!50100 PARTITION BY RANGE (`id`)\n\
        (PARTITION `p,1` VALUES LESS THAN (10) DATA DIRECTORY = '/a/' ENGINE = InnoDB) */";

    fn name(schema: &str, table: &str) -> TableName {
        TableName::new(Ident::new(schema).unwrap(), Ident::new(table).unwrap())
    }

    #[test]
    fn a_definition_is_taken_apart_outside_its_quotes() {
        let definition = Definition::parse(CREATE).unwrap();
        let kinds: Vec<Element> = definition.kinds().map(|(kind, _)| kind).collect();
        let text = str::to_owned;
        assert_eq!(
            kinds,
            [
                Element::Column(text("id")),
                Element::Column(text("a,b) (")),
                Element::Column(text("nl\n  CONSTRAINT")),
                Element::Index(text("PRIMARY")),
                Element::Index(text("u`,")),
                Element::ForeignKey(text("f")),
                Element::Check(text("we`ird (_chk_1")),
                Element::Check(text("own")),
            ]
        );
        assert!(definition.partitions().starts_with("/*!50100 PARTITION BY"));
    }

    #[test]
    fn the_statement_has_the_new_name_and_neither_foreign_keys_nor_files() {
        let definition = Definition::parse(CREATE).unwrap();
        let made = definition.statement(&name("d", "we`ird ("), &name("e", "n"));
        assert!(made.starts_with("CREATE TABLE /* oxferry */ `e`.`n` (\n  `id` int"));
        assert!(made.contains("CONSTRAINT `n_chk_1` CHECK ((`id` <> _latin1'\\'é), ('))"));
        assert!(made.contains("CONSTRAINT `own` CHECK ((`id` > 0)) /*!80016 NOT ENFORCED */\n)"));
        assert!(!made.contains("FOREIGN"));
        assert!(made.contains("ENGINE=InnoDB AUTO_INCREMENT=77 COMMENT='t '' DATA DIRECTORY ) '"));
        assert!(
            made.ends_with("VALUES LESS THAN (10) ENGINE = InnoDB) */"),
            "{made}"
        );
        assert_eq!(
            definition.places(),
            [
                "/*!50100 TABLESPACE `t*/s` */",
                "DATA DIRECTORY='/x y/'",
                "DATA DIRECTORY = '/a/'",
            ]
        );
    }

    #[test]
    fn charset_collation_and_comment_are_taken_off_outside_quotes() {
        let definition = Definition::parse(CREATE).unwrap();
        let column = definition.elements.get(1).unwrap();
        assert_eq!(bare(column), "`a,b) (` varchar(9) DEFAULT ' COLLATE x'");
    }

    #[test]
    fn only_names_that_the_server_made_follow_the_table() {
        let (from, to) = (name("d", "t"), name("e", "u"));
        let follow = |name| follow_table(name, "_ibfk_", &from, &to);
        assert_eq!(follow("t_ibfk_12"), "u_ibfk_12");
        for kept in ["t_ibfk_", "t_ibfk_1x", "x_ibfk_1", "t_chk_1", "f"] {
            assert_eq!(follow(kept), kept);
        }
    }

    #[test]
    fn another_form_is_not_guessed_at() {
        for text in [
            "",
            "CREATE VIEW `v` AS",
            "CREATE TABLE `t` (\n  `a` int",
            "CREATE TABLE t (a int)",
        ] {
            assert_eq!(Definition::parse(text), None, "{text}");
        }
    }
}

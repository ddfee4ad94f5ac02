//! The statements that copy and apply, as text.

use std::collections::BTreeMap;

use oxferry_schema::{KeySide, Predicate};

use crate::{CopyPlan, RowFilter, filter::Access, param};

/// The statements of one plan; none of them holds a value.
#[derive(Debug)]
pub(crate) struct Statements {
    /// Up to and with `WHERE`.
    insert_select: String,
    /// Up to and with `WHERE`.
    replace_select: String,
    /// Up to and with `WHERE`.
    delete: String,
    /// Up to and with `WHERE`.
    keys: String,
    /// Behind a condition on the source's rows: ` AND …`, or nothing.
    source_filter: String,
    /// The same for the target's.
    target_filter: String,
    target_side: KeySide,
    /// Up to and with `VALUES`.
    replace: String,
    /// Up to and with `VALUES`.
    insert: String,
    /// What stands behind the verb.
    into: String,
    /// One row's places: `(?,CAST(? AS DATE))`.
    places: String,
    /// The same, one by one.
    each_place: Vec<String>,
    /// The target's columns.
    each_column: Vec<String>,
}

impl Statements {
    /// Writes the statements for a plan.
    pub(crate) fn new(plan: &CopyPlan) -> Self {
        let join = |parts: Vec<String>| parts.join(", ");
        let targets = join(plan.pairs().map(|(_, _, to)| to.name.to_string()).collect());
        let sources = join(
            plan.pairs()
                .map(|(_, from, _)| from.name.to_string())
                .collect(),
        );
        let places: Vec<String> = plan
            .pairs()
            .map(|(_, from, to)| param::expression(from, to))
            .collect();
        let target = plan.target();
        let filter = plan.filter();
        let source = source(plan);
        let select = format!("INTO {target} ({targets}) SELECT {sources} FROM {source} WHERE ");
        Self {
            insert_select: format!("INSERT {select}"),
            replace_select: format!("REPLACE {select}"),
            delete: format!("DELETE FROM {target} WHERE "),
            keys: format!(
                "SELECT {} FROM {source} WHERE ",
                plan.source_side().select_list()
            ),
            source_filter: filter.map(|f| f.source_sql()).unwrap_or_default(),
            target_filter: filter.map(|f| f.target_sql()).unwrap_or_default(),
            target_side: plan.target_side().clone(),
            replace: format!("REPLACE INTO {target} ({targets}) VALUES "),
            insert: format!("INSERT INTO {target} ({targets}) VALUES "),
            into: format!("INTO {target} ({targets}) VALUES "),
            places: format!("({})", places.join(",")),
            each_place: places,
            each_column: plan.pairs().map(|(_, _, to)| to.name.to_string()).collect(),
        }
    }

    /// Copies the rows that `range`, over the source's key, selects; a row that
    /// is there already is an error, not something to hide.
    pub(crate) fn insert_select(&self, range: &Predicate) -> String {
        self.of_source(&self.insert_select, range)
    }

    /// Copies the rows that `range`, over the source's key, selects; a row that
    /// is there already is older, or its own change is still to come.
    pub(crate) fn replace_select(&self, range: &Predicate) -> String {
        self.of_source(&self.replace_select, range)
    }

    /// Empties what `range`, over the target's key columns, selects.
    pub(crate) fn empty(&self, range: &Predicate) -> String {
        format!("{}{}{}", self.delete, range.sql(), self.target_filter)
    }

    /// Reads the keys of the rows that `range`, over the source's key, selects.
    pub(crate) fn keys(&self, range: &Predicate) -> String {
        self.of_source(&self.keys, range)
    }

    /// Deletes `count` rows by key.
    pub(crate) fn delete(&self, count: usize) -> String {
        format!(
            "{}{}{}",
            self.delete,
            Predicate::keys_sql(count, &self.target_side),
            self.target_filter
        )
    }

    /// Deletes the rows that have one of `count` rows' values in these columns,
    /// counted among the written ones.
    pub(crate) fn delete_by(&self, columns: &[usize], count: usize) -> String {
        let list = |all: &[String]| {
            let parts = columns.iter().filter_map(|at| all.get(*at));
            parts.map(String::as_str).collect::<Vec<_>>().join(",")
        };
        let places = format!("({})", list(&self.each_place));
        format!(
            "{}({}) IN ({}){}",
            self.delete,
            list(&self.each_column),
            vec![places.as_str(); count].join(","),
            self.target_filter
        )
    }

    /// Ends a statement that begins with `head` with the condition that selects
    /// the source's rows.
    fn of_source(&self, head: &str, rows: &Predicate) -> String {
        format!("{head}{}{}", rows.sql(), self.source_filter)
    }

    /// Writes `count` whole rows.
    ///
    /// REPLACE and not `ON DUPLICATE KEY UPDATE`: where a row meets two others,
    /// one by its key and one by a secondary unique value, the latter changes
    /// one of them and leaves the other; REPLACE leaves exactly the new row,
    /// which is what both modes need.
    pub(crate) fn replace(&self, count: usize) -> String {
        self.rows(&self.replace, count)
    }

    /// Writes `count` whole rows; one that meets another row is an error.
    pub(crate) fn insert(&self, count: usize) -> String {
        self.rows(&self.insert, count)
    }

    /// Writes one row, of which `special` says the columns, counted among the
    /// written ones, that have an expression of their own. As
    /// [`Statements::replace`], or as [`Statements::insert`].
    pub(crate) fn special(&self, replaces: bool, special: &BTreeMap<usize, String>) -> String {
        let verb = if replaces {
            &self.replace
        } else {
            &self.insert
        };
        let places = self.each_place.iter().enumerate();
        let places: Vec<&str> = places
            .map(|(at, place)| special.get(&at).unwrap_or(place).as_str())
            .collect();
        format!("{verb}({})", places.join(","))
    }

    /// Writes one whole row as `verb`, INSERT or REPLACE, does, in the session's
    /// mode but for strictness: what doesn't fit is a warning.
    ///
    /// Source: MySQL 9.7 manual, "Variable-Setting Hint Syntax".
    pub(crate) fn lenient(&self, verb: &str) -> String {
        let verb = format!(
            "{verb} /*+ SET_VAR(sql_mode = '{LENIENT}') */ {}",
            self.into
        );
        self.rows(&verb, 1)
    }

    fn rows(&self, verb: &str, count: usize) -> String {
        let rows = vec![self.places.as_str(); count];
        format!("{verb}{}", rows.join(","))
    }
}

/// Names the source, and the index that its rows are read by.
pub(crate) fn source(plan: &CopyPlan) -> String {
    let table = &plan.source().name;
    let own = Access::Index(plan.key().index.clone());
    let access = plan.filter().map_or(&own, RowFilter::access);
    format!("{table}{}", access.sql())
}

/// The mode of [`oxferry_schema::connect`]'s sessions without
/// `STRICT_ALL_TABLES`.
const LENIENT: &str = "NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES";

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use oxferry_schema::{Key, KeyPart, KeyRange, KeySide};

    use super::*;
    use crate::{
        engine::Mode,
        fixture::{column, ident, index, key, table},
    };

    fn statements() -> Statements {
        let source = table(
            "t",
            [column("id", "int"), column("d", "date")],
            [index("PRIMARY", true, &["id"])],
        );
        let target = table(
            "n",
            [column("id", "int"), column("e", "date")],
            [index("PRIMARY", true, &["id"])],
        );
        let columns = vec![(0, ident("id")), (1, ident("e"))];
        let key = key("PRIMARY", &[("id", 0)]);
        Statements::new(&CopyPlan::new(source, key, &target, columns, Mode::Ranged).unwrap())
    }

    #[track_caller]
    fn check(found: &str, expected: Expect) {
        expected.assert_eq(found);
    }

    #[test]
    fn rows_are_copied_on_the_server() {
        let range = KeyRange {
            lower: Some(Key::new([KeyPart::Int(3)])),
            upper: None,
        };
        let range = Predicate::range(&range, &KeySide::of_integers(&[ident("id")]));
        check(
            &statements().insert_select(&range),
            expect![
                "INSERT INTO `d`.`n` (`id`, `e`) SELECT `id`, `d` FROM `d`.`t` FORCE INDEX (`PRIMARY`) WHERE `id` >= ?"
            ],
        );
        check(
            &statements().replace_select(&range),
            expect![
                "REPLACE INTO `d`.`n` (`id`, `e`) SELECT `id`, `d` FROM `d`.`t` FORCE INDEX (`PRIMARY`) WHERE `id` >= ?"
            ],
        );
        check(
            &statements().empty(&range),
            expect!["DELETE FROM `d`.`n` WHERE `id` >= ?"],
        );
    }

    #[test]
    fn changes_are_whole_rows_by_key() {
        let statements = statements();
        check(
            &statements.delete(2),
            expect!["DELETE FROM `d`.`n` WHERE `id` IN (?,?)"],
        );
        check(
            &statements.replace(2),
            expect![
                "REPLACE INTO `d`.`n` (`id`, `e`) VALUES (?,CAST(? AS DATE)),(?,CAST(? AS DATE))"
            ],
        );
    }
}

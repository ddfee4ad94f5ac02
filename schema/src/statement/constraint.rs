//! A statement's CHECK constraints, by the names that they have on a copy.

use super::{
    Alter, clause,
    lexeme::{self, Lexeme},
};
use crate::{
    Ident, Table, TableName,
    checks::{CheckNames, has_foreign_key},
};

impl Alter {
    /// Returns the same statement, which now knows which of its clauses `DROP
    /// CONSTRAINT` mean a foreign key of `table`.
    #[must_use]
    pub fn about(mut self, table: &Table) -> Self {
        for clause in &self.clauses {
            let name = dropped_constraint(&lexeme::read(clause).unwrap_or_default());
            let key = name.filter(|name| has_foreign_key(&table.create_statement, name));
            self.dropped_foreign_keys
                .extend(key.map(|name| name.to_lowercase()));
        }
        self.dropped_foreign_keys.sort();
        self.dropped_foreign_keys.dedup();
        self
    }

    /// Returns the statement that does to a copy what this one asks for.
    ///
    /// CHECK constraints get the names that `names` gives them there. Foreign
    /// keys aren't copied, so those that the statement drops are left out; what
    /// is left may be `ALTER TABLE name` alone, which changes nothing.
    pub(crate) fn statement_on_copy(&self, copy: &TableName, names: &CheckNames) -> String {
        let clauses = self.clauses_on_copy(names);
        format!("ALTER TABLE {copy} {clauses}")
            .trim_end()
            .to_owned()
    }

    /// Returns the clauses of [`Alter::statement_on_copy`], perhaps none.
    pub(crate) fn clauses_on_copy(&self, names: &CheckNames) -> String {
        let clauses: Vec<String> = self
            .clauses
            .iter()
            .filter_map(|clause| self.on_copy(clause, names))
            .collect();
        clauses.join(", ")
    }

    /// The clause as it is for a copy; `None` where a copy has nothing to change.
    fn on_copy(&self, clause: &str, names: &CheckNames) -> Option<String> {
        // It was read before, when the statement was.
        let lexemes = lexeme::read(clause).unwrap_or_default();
        let key = clause::dropped_foreign_key(&lexemes).or_else(|| dropped_constraint(&lexemes));
        let is_key = |key: String| self.dropped_foreign_keys.contains(&key.to_lowercase());
        if key.is_some_and(is_key) {
            return None;
        }
        let mut text = String::with_capacity(clause.len());
        let mut end = 0;
        for at in 0..lexemes.len() {
            let Some((lexeme, name)) = renamed(&lexemes, at, names) else {
                continue;
            };
            text += clause.get(end..lexeme.start).unwrap_or_default();
            text += &name.to_string();
            end = lexeme.start + lexeme.text.len();
        }
        text += clause.get(end..).unwrap_or_default();
        Some(text)
    }

    /// Returns whether nothing is left of the statement on a copy.
    pub(crate) const fn drops_foreign_keys_only(&self) -> bool {
        self.clauses.len() == self.dropped_foreign_keys.len()
    }

    /// Returns whether a clause `DROP FOREIGN KEY` drops a foreign key.
    #[must_use]
    pub const fn drops_foreign_keys(&self) -> bool {
        !self.dropped_foreign_keys.is_empty()
    }
}

/// `DROP CONSTRAINT name`.
fn dropped_constraint(clause: &[Lexeme<'_>]) -> Option<String> {
    match clause {
        [drop, constraint, name] if drop.word() == "DROP" && constraint.word() == "CONSTRAINT" => {
            name.name()
        }
        _ => None,
    }
}

/// The name that stands at this place, and what it is on the copy, if it names
/// a CHECK constraint.
fn renamed<'a, 't>(
    lexemes: &'a [Lexeme<'t>],
    at: usize,
    names: &CheckNames,
) -> Option<(&'a Lexeme<'t>, Ident)> {
    let lexeme = lexemes.get(at)?;
    let word = |at: Option<usize>| {
        at.and_then(|at| lexemes.get(at))
            .map(Lexeme::word)
            .unwrap_or_default()
    };
    let before = word(at.checked_sub(1));
    let name = Ident::new(lexeme.name()?).ok()?;
    let defines = before == "CONSTRAINT" && word(Some(at + 1)) == "CHECK";
    if defines {
        return Some((lexeme, names.of_added(&name)));
    }
    let refers = at == 2
        && matches!(before.as_str(), "CHECK" | "CONSTRAINT")
        && matches!(word(Some(0)).as_str(), "DROP" | "ALTER");
    if refers {
        return Some((lexeme, names.of_existing(&name)?));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(clauses: &str) -> String {
        let ident = |text: &str| Ident::new(text).unwrap();
        let name = |table: &str| TableName::new(ident("d"), ident(table));
        let create = "CREATE TABLE `t` (\n  `a` int,\n  CONSTRAINT `pos` CHECK ((`a` > 0)),\n  \
            CONSTRAINT `t_chk_2` CHECK ((`a` < 9))\n) ENGINE=InnoDB";
        let names = CheckNames::on_shadow(create, &name("t"), &name("_t_oxnew"));
        Alter::clauses(clauses)
            .unwrap()
            .statement_on_copy(&name("_t_oxnew"), &names)
    }

    #[test]
    fn checks_are_named_as_they_are_on_the_copy() {
        for (clauses, expected) in [
            ("DROP CHECK pos", "DROP CHECK `_pos`"),
            (
                "DROP CONSTRAINT `POS` , FORCE",
                "DROP CONSTRAINT `_pos`, FORCE",
            ),
            ("DROP CHECK t_chk_2", "DROP CHECK `_t_oxnew_chk_2`"),
            (
                "ALTER CHECK /* x */ pos NOT ENFORCED",
                "ALTER CHECK /* x */ `_pos` NOT ENFORCED",
            ),
            (
                "DROP CHECK pos, ADD CONSTRAINT pos CHECK (a > 5)",
                "DROP CHECK `_pos`, ADD CONSTRAINT `_pos` CHECK (a > 5)",
            ),
            (
                "ADD b INT CONSTRAINT fresh CHECK (b > 0)",
                "ADD b INT CONSTRAINT `fresh` CHECK (b > 0)",
            ),
            ("DROP CONSTRAINT some_unique", "DROP CONSTRAINT some_unique"),
            (
                "ADD CONSTRAINT pos UNIQUE (a)",
                "ADD CONSTRAINT pos UNIQUE (a)",
            ),
            ("DROP COLUMN pos", "DROP COLUMN pos"),
        ] {
            assert_eq!(
                told(clauses),
                format!("ALTER TABLE `d`.`_t_oxnew` {expected}"),
                "{clauses}"
            );
        }
    }

    #[test]
    fn foreign_keys_are_not_dropped_where_none_are() {
        assert_eq!(
            told("DROP FOREIGN KEY f, ADD b INT"),
            "ALTER TABLE `d`.`_t_oxnew` ADD b INT"
        );
        assert_eq!(told("DROP FOREIGN KEY f"), "ALTER TABLE `d`.`_t_oxnew`");
    }
}

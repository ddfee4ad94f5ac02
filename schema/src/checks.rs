//! CHECK constraints and what they are called on a copy of their table.
//!
//! A database holds each name once, so a copy can't have the names of its
//! source; and no statement renames a CHECK without reading every row. What the
//! server does by itself: renaming a table `t` renames each of its checks that
//! are called `t_chk_1` and so on. Observed on 9.7.4.

use std::collections::BTreeMap;

use crate::{Ident, ShadowNames, Table, TableName};

/// One CHECK constraint, as `SHOW CREATE TABLE` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: Ident,
    /// `CHECK (…)`, and whether it is enforced.
    pub(crate) rule: String,
}

/// What the source's checks are called on one copy of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckNames {
    /// By the name on the source in lower case.
    names: BTreeMap<String, Ident>,
    /// Whether the copy is only tried on: it takes no name that the shadow,
    /// which may stand beside it, has.
    scratch: Option<TableName>,
}

impl CheckNames {
    /// Names them on a scratch copy, where they are what `LIKE` made of them.
    ///
    /// `LIKE` numbers the checks in the order in which they are printed.
    pub(crate) fn on_scratch(source: &Table, scratch: &TableName, create_statement: &str) -> Self {
        let mut made = read(create_statement);
        let names = read(&source.create_statement).into_iter();
        let names = names
            .filter_map(|check| {
                let at = made.iter().position(|copy| copy.rule == check.rule)?;
                Some((key(&check.name), made.remove(at).name))
            })
            .collect();
        Self {
            names,
            scratch: Some(scratch.clone()),
        }
    }

    /// Chooses their names on the shadow table.
    ///
    /// A name that the server made is made again from the shadow's: the rename
    /// at the cutover turns it back. Any other gets an underscore in front, or
    /// loses it where it has one.
    pub(crate) fn on_shadow(
        create_statement: &str,
        source: &TableName,
        shadow: &TableName,
    ) -> Self {
        let checks = read(create_statement);
        let mut taken: Vec<String> = checks.iter().map(|check| key(&check.name)).collect();
        let mut names = BTreeMap::new();
        for check in &checks {
            let name = match generated(&check.name, source) {
                Some(number) => numbered(shadow, number),
                None => toggled(&check.name, &taken),
            };
            let Some(name) = name else { continue };
            taken.push(key(&name));
            names.insert(key(&check.name), name);
        }
        Self {
            names,
            scratch: None,
        }
    }

    /// Returns what a check of the source is called on the copy.
    pub(crate) fn of_existing(&self, name: &Ident) -> Option<Ident> {
        self.names.get(&key(name)).cloned()
    }

    /// Returns what a check that the statement adds is called on the copy.
    pub(crate) fn of_added(&self, name: &Ident) -> Ident {
        if let Some(name) = self.of_existing(name) {
            return name;
        }
        let beside = self.scratch.as_ref();
        let scratch = beside.and_then(|scratch| {
            let hash = ShadowNames::hash_of(name);
            Ident::new(format!("{}_{hash}", cut(scratch.table.as_str(), 50))).ok()
        });
        scratch.unwrap_or_else(|| name.clone())
    }
}

/// Returns the checks that are called otherwise when a copy has taken the
/// table's place, with both names.
#[must_use]
pub fn renamed_checks(source: &Table) -> Vec<(Ident, Ident)> {
    let shadow = ShadowNames::beside(&source.name).shadow;
    let names = CheckNames::on_shadow(&source.create_statement, &source.name, &shadow);
    read(&source.create_statement)
        .into_iter()
        .filter(|check| generated(&check.name, &source.name).is_none())
        .filter_map(|check| Some((check.name.clone(), names.of_existing(&check.name)?)))
        .collect()
}

/// Returns whether the server could not name the checks of a copy, or those of
/// the old table, in 64 characters: then it can make, or rename, neither.
/// Observed on 9.7.4, where error 3507 or 1059 says so.
pub(crate) fn are_too_long(source: &Table) -> bool {
    let checks = read(&source.create_statement);
    let numbers = checks
        .iter()
        .filter_map(|check| generated(&check.name, &source.name));
    let digits = numbers.map(str::len).max().unwrap_or(0);
    let digits = digits.max(checks.len().to_string().len());
    // The longest of a job's names.
    let probe = ShadowNames::beside(&source.name).probe;
    let length = probe.table.as_str().chars().count() + "_chk_".len() + digits;
    !checks.is_empty() && length > Ident::LENGTH_MAX
}

/// Returns the clauses that make the checks of a copy, which LIKE has just
/// made, those of the source, each by its name in `names`.
pub(crate) fn clauses(source: &Table, copy: &str, names: &CheckNames) -> Option<String> {
    let drops = read(copy).into_iter();
    let drops = drops.map(|check| format!("DROP CHECK {}", check.name));
    let adds = read(&source.create_statement).into_iter();
    let adds = adds.filter_map(|check| {
        let name = names.of_existing(&check.name)?;
        Some(format!("ADD CONSTRAINT {name} {}", check.rule))
    });
    let clauses: Vec<String> = drops.chain(adds).collect();
    (!clauses.is_empty()).then(|| clauses.join(", "))
}

/// Reads the checks out of a `SHOW CREATE TABLE`.
pub(crate) fn read(create_statement: &str) -> Vec<Check> {
    let constraints = constraints(create_statement);
    constraints
        .filter(|one| one.rule.starts_with("CHECK ("))
        .collect()
}

/// Returns whether a `SHOW CREATE TABLE` has a foreign key of this name; letter
/// case doesn't count.
pub(crate) fn has_foreign_key(create_statement: &str, name: &str) -> bool {
    constraints(create_statement)
        .filter(|one| one.rule.starts_with("FOREIGN KEY ("))
        .any(|one| key(&one.name) == name.to_lowercase())
}

/// Each constraint has a line of its own, line breaks in its text are printed
/// as `\n`.
fn constraints(create_statement: &str) -> impl Iterator<Item = Check> {
    create_statement.lines().filter_map(|line| {
        let rest = line.strip_prefix("  CONSTRAINT `")?;
        let end = end_of_name(rest)?;
        let name = Ident::new(rest.get(..end)?.replace("``", "`")).ok()?;
        let rule = rest.get(end..)?.strip_prefix("` ")?;
        let rule = rule.strip_suffix(',').unwrap_or(rule).to_owned();
        Some(Check { name, rule })
    })
}

/// Where the backtick is that ends a quoted name.
fn end_of_name(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '`' {
            continue;
        }
        if chars.next_if(|(_, next)| *next == '`').is_none() {
            return Some(at);
        }
    }
    None
}

/// The number in a name that the server made: `t_chk_1`.
fn generated<'a>(name: &'a Ident, table: &TableName) -> Option<&'a str> {
    let number = name.as_str().strip_prefix(table.table.as_str())?;
    let number = number.strip_prefix("_chk_")?;
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    digits.then_some(number)
}

fn numbered(table: &TableName, number: &str) -> Option<Ident> {
    Ident::new(format!("{}_chk_{number}", table.table.as_str())).ok()
}

/// The name without its leading underscore, or with one more; none that is
/// taken.
fn toggled(name: &Ident, taken: &[String]) -> Option<Ident> {
    let bare = name.as_str();
    let stripped = bare.strip_prefix('_').map(str::to_owned);
    let more = (1..=Ident::LENGTH_MAX).map(|count| {
        let room = Ident::LENGTH_MAX - count;
        format!("{}{}", "_".repeat(count), cut(bare, room))
    });
    stripped
        .into_iter()
        .chain(more)
        .filter_map(|name| Ident::new(name).ok())
        .find(|name| !taken.contains(&key(name)))
}

fn cut(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

fn key(name: &Ident) -> String {
    name.as_str().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: &str = "CREATE TABLE `t` (\n  `a` int DEFAULT NULL COMMENT 'CONSTRAINT `x` CHECK (1)',\n  \
        CONSTRAINT `_low` CHECK ((`a` > -(5))),\n  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`id`),\n  \
        CONSTRAINT `low` CHECK ((`a` <> _utf8mb4'x\\ny, ')) /*!80016 NOT ENFORCED */,\n  \
        CONSTRAINT `odd``,CHECK (` CHECK ((`a` > 0)),\n  CONSTRAINT `t_chk_3` CHECK ((`a` < 9))\n) ENGINE=InnoDB";

    fn name(table: &str) -> TableName {
        TableName::new(Ident::new("d").unwrap(), Ident::new(table).unwrap())
    }

    #[test]
    fn checks_are_read_with_their_rules() {
        let read = read(CREATE);
        let told: Vec<(&str, &str)> = read
            .iter()
            .map(|check| (check.name.as_str(), check.rule.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("_low", "CHECK ((`a` > -(5)))"),
                (
                    "low",
                    "CHECK ((`a` <> _utf8mb4'x\\ny, ')) /*!80016 NOT ENFORCED */"
                ),
                ("odd`,CHECK (", "CHECK ((`a` > 0))"),
                ("t_chk_3", "CHECK ((`a` < 9))"),
            ]
        );
    }

    #[test]
    fn each_check_gets_a_name_of_its_own_on_the_shadow() {
        let names = CheckNames::on_shadow(CREATE, &name("t"), &name("_t_oxnew"));
        for (source, shadow) in [
            ("_low", "__low"),
            ("low", "___low"),
            ("odd`,CHECK (", "_odd`,CHECK ("),
            ("t_chk_3", "_t_oxnew_chk_3"),
            ("LOW", "___low"),
        ] {
            let told = names.of_existing(&Ident::new(source).unwrap()).unwrap();
            assert_eq!(told.as_str(), shadow);
        }
        assert_eq!(names.of_existing(&Ident::new("x").unwrap()), None);
    }

    #[test]
    fn a_second_job_gives_the_first_names_back() {
        let create = "CREATE TABLE `t` (\n  `a` int,\n  CONSTRAINT `_pos` CHECK ((`a` > 0))\n)";
        let names = CheckNames::on_shadow(create, &name("t"), &name("_t_oxnew"));
        let told = names.of_existing(&Ident::new("_pos").unwrap()).unwrap();
        assert_eq!(told.as_str(), "pos");
    }

    #[test]
    fn a_name_of_64_characters_stays_one() {
        let long = "x".repeat(64);
        let create = format!("CREATE TABLE `t` (\n  CONSTRAINT `{long}` CHECK ((`a` > 0))\n)");
        let names = CheckNames::on_shadow(&create, &name("t"), &name("_t_oxnew"));
        let told = names.of_existing(&Ident::new(long).unwrap()).unwrap();
        assert_eq!(told.as_str(), format!("_{}", "x".repeat(63)));
    }
}

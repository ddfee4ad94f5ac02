//! What is wrong with what hangs on a table: its triggers and foreign keys.

use oxferry_schema::{Attached, CarriedKey, Ident, Remedy, TableName};

use crate::job::Problem;

/// What preflight looks at of what hangs on one table.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The table that is to change.
    pub(crate) table: TableName,
    /// What it is called after the cutover.
    pub(crate) old: TableName,
    /// What hangs on it.
    pub(crate) attached: Attached,
    /// Whether other tables refer to it that the user may not see.
    pub(crate) hidden: Hidden,
    /// Its database's default collation.
    pub(crate) database_collation: String,
    /// Whether the server logs what a change of a parent does to its children.
    pub(crate) logs_cascades: bool,
}

/// Tables that refer to one, and that the user may not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// There are none.
    None,
    /// There are some among these: all that refer to it, in the storage
    /// engine's spelling.
    Some(Vec<String>),
    /// The user isn't told.
    Unknown,
}

/// Returns what is wrong; `rebuild` is whether children are to be rebuilt.
pub(crate) fn problems(facts: &Facts, rebuild: bool) -> Vec<Problem> {
    let own = own_problems(facts).into_iter();
    own.chain(children_problem(facts, rebuild)).collect()
}

fn refusal(what: String, fix: &str) -> Problem {
    Problem {
        what,
        fix: fix.to_owned(),
        remedy: Remedy::Usage,
    }
}

fn own_problems(facts: &Facts) -> Vec<Problem> {
    let mut found = Vec::new();
    for trigger in &facts.attached.triggers {
        if trigger.database_collation != facts.database_collation {
            let what = format!(
                "{trigger} was created when the database's collation was {}, which is {} now",
                trigger.database_collation, facts.database_collation
            );
            found.push(refusal(
                what,
                "create it again: a new one acts by the new collation",
            ));
        }
    }
    for CarriedKey { was, .. } in &facts.attached.foreign_keys {
        if was.cascades() && !facts.logs_cascades {
            let what = format!(
                "{was} has ON DELETE {} ON UPDATE {}, which this server does without writing it to \
                 the binary log",
                was.on_delete, was.on_update
            );
            found.push(refusal(
                what,
                "drop it first, or migrate on MySQL 9.6 or later with innodb_native_foreign_keys = OFF",
            ));
        }
        if !has_room(&was.name, facts) {
            let what = format!(
                "{was} has a name that the server renames with the table, and beside {} there is no \
                 room for it",
                facts.old.plain()
            );
            found.push(refusal(
                what,
                "drop the foreign key and add it under a name of your own",
            ));
        }
    }
    found
}

/// A name of the server's own making gets the old table's name in front.
fn has_room(key: &Ident, facts: &Facts) -> bool {
    let number = key
        .as_str()
        .strip_prefix(facts.table.table.as_str())
        .filter(|rest| rest.starts_with("_ibfk_"));
    let length = number.map(|rest| (facts.old.table.as_str().chars().count(), rest.len()));
    length.is_none_or(|(old, rest)| old + rest <= Ident::LENGTH_MAX)
}

fn children_problem(facts: &Facts, rebuild: bool) -> Option<Problem> {
    let table = facts.table.plain();
    let children = facts.attached.children.iter();
    let mut names: Vec<String> = children
        .map(|key| format!("{} of {}", key.was.name.as_str(), key.was.child.plain()))
        .collect();
    match &facts.hidden {
        Hidden::Unknown => Some(Problem {
            what: format!("whether tables of other databases refer to {table} can't be seen"),
            fix: "GRANT PROCESS ON *.* TO the user".to_owned(),
            remedy: Remedy::Privileges,
        }),
        Hidden::Some(all) => {
            names.push(format!("of all of {}", all.join(", ")));
            Some(Problem {
                what: format!(
                    "{table} is referenced by foreign keys, some of tables that the user may not \
                     see: {}",
                    names.join(", ")
                ),
                fix: "let the user see those tables: GRANT SELECT on them".to_owned(),
                remedy: Remedy::Privileges,
            })
        }
        Hidden::None if rebuild || names.is_empty() => None,
        Hidden::None => Some(refusal(
            format!(
                "{table} is referenced by foreign keys: {}",
                names.join(", ")
            ),
            "--rebuild-foreign-keys has them refer to the new table, under a lock on their tables, too",
        )),
    }
}

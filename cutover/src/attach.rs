//! What must be done so that triggers and foreign keys end up on the new
//! table: decided from what is seen, without a connection.
//!
//! Before the rename the shadow gets every trigger and every foreign key of
//! its own, under a temporary name; so the rename doesn't leave the new table
//! without them, whoever dies. After it, the old table's are dropped and the new
//! table's get their names. A trigger can't be renamed: if the server dies
//! between its drop and its creation, that one is missing until the next run.
//! Every step is decided from what is seen on the server, so that it doesn't
//! matter where an earlier run stopped.

use std::collections::{BTreeMap, BTreeSet};

use oxferry_schema::{CarriedKey, ForeignKey, Ident, TableName, Trigger, temporary_name};

use crate::{SwapPair, SwapPlan};

/// A foreign key as it is seen on a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySeen {
    pub(crate) table: TableName,
    pub(crate) name: Ident,
    pub(crate) parent: TableName,
}

/// What is seen on the tables of a swap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) keys: Vec<KeySeen>,
    /// Of the children only: each index's table and name.
    pub(crate) indexes: Vec<(TableName, Ident)>,
    /// Each trigger's table and name.
    pub(crate) triggers: Vec<(TableName, Ident)>,
}

/// A foreign key with the name that stands in for its own meanwhile.
#[derive(Clone, Debug)]
struct Carried<'a> {
    key: &'a CarriedKey,
    temporary: Ident,
}

/// A trigger with the name that stands in for its own meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct CarriedTrigger<'a> {
    pub(crate) pair: &'a SwapPair,
    pub(crate) trigger: &'a Trigger,
    pub(crate) temporary: Ident,
}

impl Picture {
    fn key(&self, table: &TableName, name: &Ident) -> Option<&KeySeen> {
        let mut keys = self.keys_of(table);
        keys.find(|key| key.name == *name)
    }

    fn keys_of(&self, table: &TableName) -> impl Iterator<Item = &KeySeen> {
        self.keys.iter().filter(move |key| key.table == *table)
    }

    fn has_index(&self, table: &TableName, name: &Ident) -> bool {
        let mut indexes = self.indexes.iter();
        indexes.any(|(on, seen)| on == table && seen == name)
    }

    fn has_trigger(&self, table: &TableName, name: &Ident) -> bool {
        let mut triggers = self.triggers.iter();
        triggers.any(|(on, seen)| on == table && seen == name)
    }

    /// Returns what is to be seen right after the rename, given what was seen
    /// before: every table keeps its keys and triggers, and every key follows
    /// the table that it refers to, with foreign_key_checks off too (seen on
    /// MySQL 9.7.4).
    #[must_use]
    pub(crate) fn renamed(mut self, plan: &SwapPlan) -> Self {
        for key in &mut self.keys {
            let table = new_name(plan, &key.table);
            key.name = key_name_after(&key.name, &key.table, &table);
            key.parent = new_name(plan, &key.parent);
            key.table = table;
        }
        for (table, _) in &mut self.triggers {
            *table = new_name(plan, table);
        }
        self
    }
}

fn new_name(plan: &SwapPlan, table: &TableName) -> TableName {
    let renamed = plan.pairs.iter().find_map(|pair| {
        if *table == pair.source {
            Some(&pair.old)
        } else if *table == pair.shadow {
            Some(&pair.source)
        } else {
            None
        }
    });
    renamed.unwrap_or(table).clone()
}

/// The server renames a constraint with its table when it has made the name
/// itself: `t_ibfk_1`. (MySQL 9.7 manual, "RENAME TABLE Statement")
pub(crate) fn key_name_after(name: &Ident, from: &TableName, to: &TableName) -> Ident {
    let number = name
        .as_str()
        .strip_prefix(from.table.as_str())
        .and_then(|rest| rest.strip_prefix("_ibfk_"))
        .filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    let renamed = number.map(|number| format!("{}_ibfk_{number}", to.table.as_str()));
    renamed
        .and_then(|renamed| Ident::new(renamed).ok())
        .unwrap_or_else(|| name.clone())
}

impl SwapPlan {
    /// Returns whether anything is carried over.
    pub(crate) fn carries(&self) -> bool {
        self.attached.iter().any(|attached| !attached.is_empty())
    }

    /// Returns the tables beside the plan's own that are locked with them: a
    /// key can only be added under a lock on both its tables, which is better
    /// waited for at the start than under the other locks.
    pub(crate) fn other_tables(&self) -> BTreeSet<TableName> {
        let own = |table: &&TableName| {
            let is_own = |pair: &SwapPair| pair.source == **table || pair.shadow == **table;
            !self.pairs.iter().any(is_own)
        };
        let parents = self.attached.iter().flat_map(|a| &a.foreign_keys);
        let children = self.attached.iter().flat_map(|a| &a.children);
        let parents = parents.map(|key| &key.was.parent);
        let children = children.map(|key| &key.was.child);
        parents.chain(children).filter(own).cloned().collect()
    }

    /// Returns the children whose keys are rebuilt.
    pub(crate) fn child_tables(&self) -> BTreeSet<TableName> {
        self.children().into_keys().cloned().collect()
    }

    /// Returns every trigger of every table, in the order in which they act.
    pub(crate) fn triggers(&self) -> impl Iterator<Item = CarriedTrigger<'_>> {
        let pairs = self.pairs.iter().zip(&self.attached);
        pairs.flat_map(|(pair, attached)| {
            let numbered = attached.triggers.iter().enumerate();
            numbered.map(|(at, trigger)| CarriedTrigger {
                pair,
                trigger,
                temporary: temporary_name(&pair.source, "tr", at + 1),
            })
        })
    }

    /// Returns what gives the shadows their foreign keys.
    pub(crate) fn key_statements_before(&self) -> Vec<String> {
        let mut statements = Vec::new();
        for (pair, keys) in self.own_keys() {
            let adds = keys.iter().map(|carried| {
                let becomes = &carried.key.becomes;
                becomes.add_clause(&carried.temporary, &self.shadow_of(&becomes.parent))
            });
            statements.extend(alter(&pair.shadow, adds.collect()));
        }
        statements
    }

    /// Returns what takes off the shadows whatever hangs on them.
    pub(crate) fn statements_back(&self, seen: &Picture) -> Vec<String> {
        let mut statements = Vec::new();
        for pair in &self.pairs {
            let triggers = seen.triggers.iter();
            let on_shadow = triggers.filter(|(table, _)| *table == pair.shadow);
            statements.extend(
                on_shadow.map(|(_, name)| {
                    format!("DROP TRIGGER IF EXISTS {}.{name}", pair.shadow.schema)
                }),
            );
            let keys = seen.keys_of(&pair.shadow).map(drop_clause);
            statements.extend(alter(&pair.shadow, keys.collect()));
        }
        statements
    }

    /// Returns what is still to be done about foreign keys after the rename.
    ///
    /// A child's key is first replaced by one to the new table, under its
    /// temporary name, and then by one under its own: two of one name can't be
    /// dropped and added in one statement (error 1826, seen on MySQL 9.7.4).
    pub(crate) fn key_statements_after(&self, seen: &Picture) -> Vec<String> {
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for (child, keys) in self.children() {
            let (to_new, to_name) = rebuild(child, &keys, seen);
            first.extend(alter(child, to_new));
            last.extend(alter(child, to_name));
        }
        for (pair, keys) in self.own_keys() {
            let old = seen.keys_of(&pair.old).map(drop_clause);
            first.extend(alter(&pair.old, old.collect()));
            let clauses = keys.iter().flat_map(|carried| {
                let becomes = &carried.key.becomes;
                let own = seen.key(&pair.source, &becomes.name);
                let temporary = seen.key(&pair.source, &carried.temporary);
                let add = own.is_none().then(|| add_clause(becomes));
                temporary.map(drop_clause).into_iter().chain(add)
            });
            first.extend(alter(&pair.source, clauses.collect()));
        }
        first.extend(last);
        first
    }

    /// Returns the triggers that don't have their own name on the new table
    /// yet.
    pub(crate) fn triggers_after(&self, seen: &Picture) -> Vec<CarriedTrigger<'_>> {
        let is_done = |carried: &CarriedTrigger<'_>| {
            let source = &carried.pair.source;
            seen.has_trigger(source, &carried.trigger.name)
                && !seen.has_trigger(source, &carried.temporary)
        };
        self.triggers()
            .filter(|carried| !is_done(carried))
            .collect()
    }

    fn shadow_of(&self, parent: &TableName) -> TableName {
        let pair = self.pairs.iter().find(|pair| pair.source == *parent);
        pair.map_or(parent, |pair| &pair.shadow).clone()
    }

    fn own_keys(&self) -> impl Iterator<Item = (&SwapPair, Vec<Carried<'_>>)> {
        let pairs = self.pairs.iter().zip(&self.attached);
        pairs.map(|(pair, attached)| {
            let numbered = attached.foreign_keys.iter().enumerate();
            let keys = numbered.map(|(at, key)| Carried {
                key,
                temporary: temporary_name(&pair.source, "fk", at + 1),
            });
            (pair, keys.collect())
        })
    }

    fn children(&self) -> BTreeMap<&TableName, Vec<Carried<'_>>> {
        let mut children: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let keys = self.attached.iter().flat_map(|a| &a.children);
        for (at, key) in keys.enumerate() {
            let child = &key.was.child;
            children.entry(child).or_default().push(Carried {
                key,
                temporary: temporary_name(child, "fk", at + 1),
            });
        }
        children
    }
}

/// What replaces a child's keys: by those to the new table, then by name.
fn rebuild(child: &TableName, keys: &[Carried<'_>], seen: &Picture) -> (Vec<String>, Vec<String>) {
    let (mut to_new, mut to_name) = (Vec::new(), Vec::new());
    let mut rebuilt = BTreeSet::new();
    for carried in keys {
        let becomes = &carried.key.becomes;
        let own = seen.key(child, &becomes.name);
        let temporary = seen.key(child, &carried.temporary);
        if own.is_some_and(|own| own.parent == becomes.parent) {
            to_name.extend(temporary.map(drop_clause));
            continue;
        }
        if let Some(own) = own {
            to_new.push(drop_clause(own));
            if temporary.is_none() {
                to_new.push(becomes.add_clause(&carried.temporary, &becomes.parent));
            }
        }
        if own.is_some() || temporary.is_some() {
            to_name.push(format!("DROP FOREIGN KEY {}", carried.temporary));
        }
        to_name.push(add_clause(becomes));
        if own.is_some() {
            rebuilt.extend(&carried.key.indexes);
        }
    }
    for (name, kept) in kept_names(child, keys) {
        let (named, is_kept) = (seen.has_index(child, name), seen.has_index(child, &kept));
        if named && !is_kept && rebuilt.contains(name) {
            to_new.push(format!("RENAME INDEX {name} TO {kept}"));
            to_name.push(format!("RENAME INDEX {kept} TO {name}"));
        } else if is_kept && !named {
            // An earlier run had renamed it and not renamed it back.
            to_name.push(format!("RENAME INDEX {kept} TO {name}"));
        }
    }
    (to_new, to_name)
}

/// How the indexes of a child's keys are called while the keys are replaced.
///
/// One that the server has made for a key is dropped and built anew with it,
/// row by row, when the key's name changes; one that was renamed isn't: it
/// counts as the user's own. Seen on MySQL 9.7.4. Which ones are the server's
/// own can't be read.
fn kept_names<'a>(child: &TableName, keys: &[Carried<'a>]) -> Vec<(&'a Ident, Ident)> {
    let all = keys.iter().flat_map(|carried| &carried.key.indexes);
    let names: BTreeSet<&Ident> = all.collect();
    let numbered = names.into_iter().enumerate();
    let kept = numbered.map(|(at, name)| (name, temporary_name(child, "ix", at + 1)));
    kept.collect()
}

fn drop_clause(key: &KeySeen) -> String {
    format!("DROP FOREIGN KEY {}", key.name)
}

fn add_clause(key: &ForeignKey) -> String {
    key.add_clause(&key.name, &key.parent)
}

fn alter(table: &TableName, clauses: Vec<String>) -> Option<String> {
    (!clauses.is_empty()).then(|| format!("ALTER TABLE {table} {}", clauses.join(", ")))
}

//! What the target of a move gets.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    Chosen, Database, EstateProblem, ExistingTable, Part, Selection, TargetSide, body,
    definition::{Definition, Element, follow_table},
    difference::{differences, same_partitions},
};
use crate::{ForeignKey, Ident, TableName, Trigger};

/// Which tables of the target rows may be moved into. A table that the target
/// lacks is made in every case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "the option's values")]
pub enum TargetTables {
    /// None that exists.
    #[default]
    Refuse,
    /// One that is as the source's, and empty.
    Empty,
    /// One that is as the source's; it may hold rows.
    Matching,
}

/// What the target gets, before the copy and after it.
///
/// Decided in full before anything is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Blueprint {
    /// The databases that tables are moved into, by name.
    pub databases: Vec<DatabaseBlueprint>,
    /// The tables, in the selection's order: the largest first.
    pub tables: Vec<TableBlueprint>,
    /// What the operator should know and what is in nobody's way.
    pub notes: Vec<String>,
}

/// A database of the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DatabaseBlueprint {
    /// Its name.
    pub name: Ident,
    /// The statement that makes it; `None` where it exists.
    pub create: Option<String>,
}

/// A table of the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TableBlueprint {
    /// The table on the source.
    pub source: TableName,
    /// The table on the target.
    pub target: TableName,
    /// The statement that makes it, with its indexes and without its foreign
    /// keys; `None` where the target's own is used.
    pub create: Option<String>,
    /// The source's foreign keys, with the names that they, their child and
    /// their parent have on the target.
    pub foreign_keys: Vec<ForeignKey>,
    /// The source's triggers as they are on the target, in the order in which
    /// they act.
    pub triggers: Vec<Trigger>,
}

impl Blueprint {
    /// Decides what the target gets. `databases` are the source's; `parts` its
    /// tables, in any order; a chosen table without a part is left out.
    ///
    /// # Errors
    ///
    /// Everything that is in the way.
    pub fn draw(
        selection: &Selection,
        databases: &[Database],
        parts: &[Part],
        target: &TargetSide,
        existing: TargetTables,
    ) -> Result<Self, Vec<EstateProblem>> {
        let mut drawing = Drawing {
            selection,
            target,
            existing,
            problems: Vec::new(),
            blueprint: Self::default(),
        };
        drawing.databases(databases);
        for chosen in &selection.tables {
            if let Some(part) = parts.iter().find(|part| part.table.name == chosen.source) {
                drawing.table(chosen, part);
            }
        }
        drawing.taken_names(parts);
        drawing.neighbours(parts);
        if drawing.problems.is_empty() {
            Ok(drawing.blueprint)
        } else {
            Err(drawing.problems)
        }
    }

    /// Returns whether the parent of a key is moved by the same job, so that
    /// the source guarantees it.
    #[must_use]
    pub fn moves_parent(&self, key: &ForeignKey) -> bool {
        self.tables.iter().any(|table| table.target == key.parent)
    }
}

struct Drawing<'a> {
    selection: &'a Selection,
    target: &'a TargetSide,
    existing: TargetTables,
    problems: Vec<EstateProblem>,
    blueprint: Blueprint,
}

impl Drawing<'_> {
    fn databases(&mut self, sources: &[Database]) {
        for (name, from) in &self.selection.databases {
            let mut models = sources.iter().filter(|one| from.contains(&one.name));
            let existing = self.target.databases.iter().find(|one| one.name == *name);
            let model = existing.or_else(|| models.next());
            let notes = models.filter_map(|other| collation_note(name, model?, other));
            self.blueprint.notes.extend(notes);
            let create = match existing {
                Some(_) => None,
                None => model.map(|model| create_database(name, model)),
            };
            self.blueprint.databases.push(DatabaseBlueprint {
                name: name.clone(),
                create,
            });
        }
    }

    fn table(&mut self, chosen: &Chosen, part: &Part) {
        let Some(definition) = Definition::parse(&part.table.create_statement) else {
            let table = chosen.source.plain();
            self.problems.push(EstateProblem::Definition { table });
            return;
        };
        let existing = self.target.table(&chosen.target);
        let create = match existing {
            Some(existing) => {
                self.use_existing(chosen, part, existing);
                None
            }
            None => Some(definition.statement(&chosen.source, &chosen.target)),
        };
        let places = definition.places();
        if create.is_some() && !places.is_empty() {
            self.blueprint.notes.push(format!(
                "{} lies in a place of the source's own, which the target's isn't given: {}",
                chosen.source.plain(),
                places.join(", ")
            ));
        }
        let foreign_keys = self.foreign_keys(chosen, part);
        if let Some(existing) = existing {
            self.existing_keys(existing, &foreign_keys);
        }
        let triggers = self.triggers(chosen, part);
        self.blueprint.tables.push(TableBlueprint {
            source: chosen.source.clone(),
            target: chosen.target.clone(),
            create,
            foreign_keys,
            triggers,
        });
    }

    fn use_existing(&mut self, chosen: &Chosen, part: &Part, existing: &ExistingTable) {
        let table = chosen.target.plain();
        if self.existing == TargetTables::Refuse {
            self.problems.push(EstateProblem::TargetExists { table });
            return;
        }
        if self.existing == TargetTables::Empty && !existing.empty {
            let table = table.clone();
            self.problems.push(EstateProblem::TargetNotEmpty { table });
        }
        let found = differences(&part.table, &existing.table);
        self.problems.extend(
            found
                .into_iter()
                .map(|difference| EstateProblem::TargetDiffers {
                    table: table.clone(),
                    difference,
                }),
        );
        // Every row that is written would fire it, and it may write elsewhere.
        for trigger in &existing.triggers {
            let trigger = trigger.to_string();
            self.problems.push(EstateProblem::TargetTrigger { trigger });
        }
        if !same_partitions(&part.table, &existing.table) {
            let source = chosen.source.plain();
            let note = format!("{table} on the target isn't partitioned as {source}");
            self.blueprint.notes.push(note);
        }
    }

    /// The source's keys, as they will be on the target.
    fn foreign_keys(&mut self, chosen: &Chosen, part: &Part) -> Vec<ForeignKey> {
        let mut keys = Vec::with_capacity(part.foreign_keys.len());
        for key in &part.foreign_keys {
            let parent = self.selection.place_on_target(&key.parent);
            let moved = self.selection.target_of(&key.parent).is_some();
            if !moved && !self.target.parents.contains(&parent) {
                self.problems.push(EstateProblem::ParentMissing {
                    key: key.to_string(),
                    parent: parent.plain(),
                });
            }
            let name = follow_table(key.name.as_str(), "_ibfk_", &chosen.source, &chosen.target);
            keys.push(ForeignKey {
                name: Ident::new(name).unwrap_or_else(|_unfit| key.name.clone()),
                child: chosen.target.clone(),
                parent,
                ..key.clone()
            });
        }
        keys
    }

    /// A key that the target's table has already must be one of the source's.
    fn existing_keys(&mut self, existing: &ExistingTable, keys: &[ForeignKey]) {
        if self.existing == TargetTables::Refuse {
            return;
        }
        let only_there = existing
            .foreign_keys
            .iter()
            .filter(|key| !keys.contains(key));
        let own: Vec<_> = only_there.map(ToString::to_string).collect();
        let targets: BTreeSet<&TableName> = self
            .selection
            .tables
            .iter()
            .map(|one| &one.target)
            .collect();
        let outside = existing.children.iter();
        let outside = outside.filter(|key| !targets.contains(&key.child));
        let children: Vec<_> = outside.map(ToString::to_string).collect();
        let own = own
            .into_iter()
            .map(|key| EstateProblem::TargetForeignKey { key });
        let children = children
            .into_iter()
            .map(|key| EstateProblem::TargetChild { key });
        self.problems.extend(own.chain(children));
    }

    fn triggers(&mut self, chosen: &Chosen, part: &Part) -> Vec<Trigger> {
        let database = &chosen.target.schema;
        let existing = self
            .target
            .databases
            .iter()
            .find(|one| one.name == *database);
        let mut triggers = Vec::with_capacity(part.triggers.len());
        for trigger in &part.triggers {
            if let Some(existing) = existing
                && existing.collation != trigger.database_collation
            {
                self.problems.push(EstateProblem::TriggerCollation {
                    trigger: trigger.to_string(),
                    was: trigger.database_collation.clone(),
                    database: database.as_str().to_owned(),
                    is: existing.collation.clone(),
                });
            }
            self.renamed_in(trigger);
            triggers.push(Trigger {
                table: chosen.target.clone(),
                ..trigger.clone()
            });
        }
        triggers
    }

    /// A body that names what is called otherwise on the target is not
    /// rewritten: nobody but the server can read it without doubt.
    fn renamed_in(&mut self, trigger: &Trigger) {
        let renamed = self.selection.renamed_names();
        if renamed.is_empty() {
            return;
        }
        let Some(names) = body::names(trigger) else {
            self.problems.push(EstateProblem::TriggerUnreadable {
                trigger: trigger.to_string(),
                charset: trigger.client_charset.clone(),
            });
            return;
        };
        let found = renamed
            .into_iter()
            .filter(|name| names.contains(&name.to_lowercase()));
        self.problems
            .extend(found.map(|name| EstateProblem::TriggerNames {
                trigger: trigger.to_string(),
                name,
            }));
    }

    /// A database holds each name of a foreign key, a check and a trigger once.
    fn taken_names(&mut self, parts: &[Part]) {
        let mut taken: BTreeMap<(&str, String, String), String> = BTreeMap::new();
        for one in &self.target.taken {
            let key = (one.kind, one.database.clone(), one.name.to_lowercase());
            taken.insert(key, one.table.clone());
        }
        for table in &self.blueprint.tables {
            let part = parts.iter().find(|part| part.table.name == table.source);
            let database = table.target.schema.as_str();
            for (kind, name) in names_of(table, part) {
                let key = (kind, database.to_owned(), name.to_lowercase());
                let owner = table.target.table.as_str().to_owned();
                if taken
                    .insert(key, owner.clone())
                    .is_some_and(|other| other != owner)
                {
                    self.problems.push(EstateProblem::NameTaken {
                        kind,
                        name,
                        table: table.source.plain(),
                        database: database.to_owned(),
                    });
                }
            }
        }
    }

    /// Notes tables that a trigger seems to write to and that stay behind.
    fn neighbours(&mut self, parts: &[Part]) {
        for trigger in parts.iter().flat_map(|part| &part.triggers) {
            let names = body::names(trigger).unwrap_or_default();
            for table in &self.selection.staying {
                if names.contains(&table.table.as_str().to_lowercase()) {
                    let note = format!("{trigger} names {}, which is not moved", table.plain());
                    self.blueprint.notes.push(note);
                }
            }
        }
    }
}

/// The names that a table brings into its database.
fn names_of(table: &TableBlueprint, part: Option<&Part>) -> Vec<(&'static str, String)> {
    let keys = table.foreign_keys.iter();
    let keys = keys.map(|key| ("foreign key", key.name.as_str().to_owned()));
    let triggers = table.triggers.iter();
    let triggers = triggers.map(|trigger| ("trigger", trigger.name.as_str().to_owned()));
    let definition = part.and_then(|part| Definition::parse(&part.table.create_statement));
    let checks = definition.iter().flat_map(Definition::kinds);
    let checks = checks.filter_map(|(kind, _)| match kind {
        Element::Check(name) => {
            let name = follow_table(&name, "_chk_", &table.source, &table.target);
            Some(("check", name))
        }
        _ => None,
    });
    keys.chain(triggers).chain(checks).collect()
}

/// Says that a database of the source has another collation than the one that
/// its tables are moved into.
fn collation_note(name: &Ident, is: &Database, source: &Database) -> Option<String> {
    (is.collation != source.collation).then(|| {
        format!(
            "database {} has collation {} on the target, {} of the source has {}: each table keeps its own",
            name.as_str(),
            is.collation,
            source.name.as_str(),
            source.collation
        )
    })
}

/// An encrypted database stays one; any other gets what the target's own
/// `default_table_encryption` says.
///
/// Source: MySQL 9.7 manual, "CREATE DATABASE Statement".
fn create_database(name: &Ident, model: &Database) -> String {
    let encryption = if model.encrypted {
        " DEFAULT ENCRYPTION = 'Y'"
    } else {
        ""
    };
    format!(
        "CREATE DATABASE {name} DEFAULT CHARACTER SET {} COLLATE {}{encryption}",
        model.charset, model.collation
    )
}

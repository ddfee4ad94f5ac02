//! What hangs on a table, and what becomes of it when the table is replaced.

use mysql_async::Conn;
use serde::{Deserialize, Serialize};

use crate::{Altered, ForeignKey, Ident, ReadError, Table, TableName, Trigger};

/// What hangs on a table: its triggers, its foreign keys, and those of other
/// tables that refer to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Attached {
    /// The table's triggers, in the order in which they act.
    pub triggers: Vec<Trigger>,
    /// The table's own foreign keys, those that refer to itself too.
    pub foreign_keys: Vec<CarriedKey>,
    /// Those of other tables that refer to it.
    pub children: Vec<CarriedKey>,
}

/// A foreign key, and what it is once the altered tables have taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CarriedKey {
    /// As it was found.
    pub was: ForeignKey,
    /// What it becomes: the same between the same tables, where columns may
    /// have other names.
    pub becomes: ForeignKey,
    /// Of another table's key: the plain indexes of exactly its columns, one of
    /// which the server may have made for it.
    #[serde(default)]
    pub indexes: Vec<Ident>,
}

/// A column that a foreign key needs and that the altered table lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostColumn {
    /// The foreign key.
    pub key: ForeignKey,
    /// The table that loses the column.
    pub table: TableName,
    /// The column.
    pub column: Ident,
}

impl From<ForeignKey> for CarriedKey {
    /// One that stays as it is.
    fn from(key: ForeignKey) -> Self {
        Self {
            becomes: key.clone(),
            was: key,
            indexes: Vec::new(),
        }
    }
}

impl Attached {
    /// What hangs on a table on which nothing hangs.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            triggers: Vec::new(),
            foreign_keys: Vec::new(),
            children: Vec::new(),
        }
    }

    /// Reads what hangs on the table now, every foreign key as one that stays
    /// as it is. The children are those that the user may see.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer, or not as expected.
    pub async fn read(conn: &mut Conn, table: &TableName) -> Result<Self, ReadError> {
        let triggers = Table::triggers(conn, table).await?;
        let foreign_keys = Table::foreign_keys(conn, table).await?;
        let children = Table::referencing_foreign_keys(conn, table).await?;
        let mut others = Vec::new();
        for key in children.into_iter().filter(|key| key.child != key.parent) {
            let indexes = key.plain_indexes(conn).await?;
            others.push(CarriedKey {
                indexes,
                ..CarriedKey::from(key)
            });
        }
        Ok(Self {
            triggers,
            foreign_keys: foreign_keys.into_iter().map(CarriedKey::from).collect(),
            children: others,
        })
    }

    /// Returns whether nothing hangs on the table.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.triggers.is_empty() && self.foreign_keys.is_empty() && self.children.is_empty()
    }

    /// Leaves out the children among `tables`: each carries its own keys.
    #[must_use]
    pub fn without_children(mut self, tables: &[TableName]) -> Self {
        self.children.retain(|key| !tables.contains(&key.was.child));
        self
    }

    /// Follows the columns of the keys through the change of `source` to
    /// `altered`, wherever that table has a part in a key.
    ///
    /// # Errors
    ///
    /// The columns that a key needs and that the change drops.
    pub fn follow(&mut self, source: &Table, altered: &Altered) -> Result<(), Vec<LostColumn>> {
        let mut lost = Vec::new();
        for key in self.foreign_keys.iter_mut().chain(&mut self.children) {
            let CarriedKey { was, becomes, .. } = key;
            let mut follow = |table: &TableName, from: &[Ident], to: &mut [Ident]| {
                if *table != source.name {
                    return;
                }
                for (from, to) in from.iter().zip(to) {
                    match name_after(source, altered, from) {
                        Some(name) => *to = name,
                        None => lost.push(LostColumn {
                            key: was.clone(),
                            table: table.clone(),
                            column: from.clone(),
                        }),
                    }
                }
            };
            follow(&was.child, &was.columns, &mut becomes.columns);
            follow(
                &was.parent,
                &was.parent_columns,
                &mut becomes.parent_columns,
            );
        }
        if lost.is_empty() { Ok(()) } else { Err(lost) }
    }

    /// Says, thing by thing, what of `now` isn't as it was found; nothing when
    /// all is.
    #[must_use]
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let name = |trigger: &Trigger| trigger.name.to_string();
        compare(&self.triggers, &now.triggers, name, &mut found);
        let was = |keys: &[CarriedKey]| keys.iter().map(|key| key.was.clone()).collect::<Vec<_>>();
        for (before, now) in [
            (&self.foreign_keys, &now.foreign_keys),
            (&self.children, &now.children),
        ] {
            let name = |key: &ForeignKey| format!("{}.{}", key.child, key.name);
            compare(&was(before), &was(now), name, &mut found);
        }
        found
    }
}

/// `name` tells things of one kind apart.
fn compare<T: PartialEq + ToString>(
    before: &[T],
    now: &[T],
    name: impl Fn(&T) -> String,
    found: &mut Vec<String>,
) {
    let same = |one: &T, other: &T| name(one) == name(other);
    for one in now {
        match before.iter().find(|other| same(one, other)) {
            None => found.push(format!("{} was created", one.to_string())),
            Some(other) if other != one => found.push(format!("{} was changed", one.to_string())),
            Some(_) => {}
        }
    }
    let is_gone = |one: &&T| !now.iter().any(|other| same(one, other));
    let gone = before.iter().filter(is_gone);
    found.extend(gone.map(|one| format!("{} was dropped", one.to_string())));
}

/// What the source's column is called after the change.
fn name_after(source: &Table, altered: &Altered, column: &Ident) -> Option<Ident> {
    let at = source.ordinal_of(column.as_str())?;
    if altered.mapping.dropped.contains(&at) {
        return None;
    }
    let target = match altered.mapping.target_of(at) {
        Some(target) => target,
        // One that the server computes on both sides travels by its name only.
        None => altered.table.ordinal_of(column.as_str())?,
    };
    Some(altered.table.columns.get(target)?.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Column, Mapping,
        fixture::{self, ident},
    };

    fn name(table: &str) -> TableName {
        TableName::new(ident("d"), ident(table))
    }

    fn table(columns: &[&str]) -> Table {
        let column = |name: &&str| Column {
            nullable: true,
            ..fixture::column(name, "int")
        };
        fixture::table(columns.iter().map(column).collect::<Vec<_>>(), [])
    }

    fn key(name_of_key: &str, child: (&str, &str), parent: (&str, &str)) -> ForeignKey {
        ForeignKey {
            name: ident(name_of_key),
            child: name(child.0),
            parent: name(parent.0),
            columns: vec![ident(child.1)],
            parent_columns: vec![ident(parent.1)],
            on_delete: "NO ACTION".to_owned(),
            on_update: "NO ACTION".to_owned(),
        }
    }

    fn attached() -> Attached {
        Attached {
            triggers: Vec::new(),
            foreign_keys: vec![
                key("self", ("t", "a"), ("t", "id")).into(),
                key("up", ("t", "a"), ("p", "a")).into(),
            ],
            children: vec![key("down", ("c", "id"), ("t", "id")).into()],
        }
    }

    fn altered(columns: &[&str], to: &[Option<usize>]) -> Altered {
        let changed = table(columns);
        Altered {
            mapping: Mapping::of(&table(&["id", "a"]), &changed, to),
            table: changed,
        }
    }

    #[test]
    fn renamed_columns_are_followed_on_the_altered_tables_side_only() {
        let mut attached = attached();
        let change = altered(&["b", "id2"], &[Some(1), Some(0)]);
        attached.follow(&table(&["id", "a"]), &change).unwrap();
        let becomes = |key: &CarriedKey| {
            let columns = (&key.becomes.columns[0], &key.becomes.parent_columns[0]);
            format!("{} -> {}", columns.0, columns.1)
        };
        assert_eq!(becomes(&attached.foreign_keys[0]), "`b` -> `id2`");
        assert_eq!(becomes(&attached.foreign_keys[1]), "`b` -> `a`");
        assert_eq!(becomes(&attached.children[0]), "`id` -> `id2`");
        assert_eq!(attached.children[0].was.parent_columns, [ident("id")]);
    }

    #[test]
    fn a_dropped_column_is_named_with_each_key_that_needs_it() {
        let change = altered(&["id"], &[Some(0), None]);
        let lost = attached()
            .follow(&table(&["id", "a"]), &change)
            .unwrap_err();
        let names: Vec<_> = lost.iter().map(|lost| lost.key.name.as_str()).collect();
        assert_eq!(names, ["self", "up"]);
        assert_eq!(lost[0].column, ident("a"));
    }

    #[test]
    fn what_came_went_or_changed_is_said() {
        let before = attached();
        assert!(before.differences(&before).is_empty());
        let mut now = attached();
        now.foreign_keys.remove(0);
        now.foreign_keys[0].was.on_delete = "CASCADE".to_owned();
        now.children
            .push(key("new", ("e", "x"), ("t", "id")).into());
        assert_eq!(
            before.differences(&now),
            [
                "foreign key up of d.t to d.p was changed",
                "foreign key self of d.t to d.t was dropped",
                "foreign key new of d.e to d.t was created",
            ]
        );
    }

    #[test]
    fn the_job_carries_a_child_of_its_own_once() {
        let outside = attached().without_children(&[name("c"), name("t")]);
        assert!(outside.children.is_empty() && outside.foreign_keys.len() == 2);
    }
}

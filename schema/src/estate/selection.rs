//! Which tables a move takes, and what they are called on the target.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{EstateProblem, Found, Place, Rename};
use crate::{Ident, ShadowNames, TableName};

/// What the operator asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Whole databases. With no database and no table named, all databases but
    /// the server's own are meant.
    pub databases: Vec<Ident>,
    /// Single tables.
    pub tables: Vec<TableName>,
    /// What is left out of whole databases.
    pub exclude: Vec<Place>,
    /// What is called otherwise on the target. A table's rename comes before
    /// its database's.
    pub renames: Vec<Rename>,
}

impl Wanted {
    /// Returns whether a table of this name on the source is asked for, whether it
    /// is there or not. `lower_case` is `lower_case_table_names` of the source.
    #[must_use]
    pub fn takes(&self, table: &TableName, lower_case: u8) -> bool {
        let sides = Sides {
            source_lower_case: lower_case,
            target_lower_case: 0,
            same_server: false,
        };
        let choice = Choice::new(self, sides);
        !is_system(&table.schema)
            && !ShadowNames::is_own(&table.table)
            && (choice.names(table) || choice.wants_database(&table.schema))
            && !choice.excludes(table)
    }
}

/// What the two servers think of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// `lower_case_table_names` of the source.
    pub source_lower_case: u8,
    /// `lower_case_table_names` of the target.
    pub target_lower_case: u8,
    /// Whether source and target are one server.
    pub same_server: bool,
}

/// One table that is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chosen {
    /// The table on the source.
    pub source: TableName,
    /// What it is called on the target.
    pub target: TableName,
    /// The server's estimate of its size with indexes, in bytes.
    pub bytes: u64,
}

/// Something in a chosen database that isn't moved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The table.
    pub table: TableName,
    /// Why not, in a few words.
    pub why: &'static str,
}

/// What a move takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selection {
    /// The tables, the largest first, by the estimate; then by name.
    pub tables: Vec<Chosen>,
    /// Tables of oxferry's own and excluded ones. Views are not among them:
    /// see [`LeftBehind`](super::LeftBehind).
    pub left_out: Vec<LeftOut>,
    /// The databases that hold tables on the target, by name, each with the
    /// databases of the source that its tables come from.
    pub databases: BTreeMap<Ident, BTreeSet<Ident>>,
    /// What databases of the source are called on the target, where it is
    /// otherwise.
    renamed: BTreeMap<Ident, Ident>,
    /// All else in the databases of the source that tables come from.
    pub(super) staying: Vec<TableName>,
}

/// Databases of the server's own. Source: MySQL 9.7 manual, "The mysql System
/// Schema", "MySQL sys Schema", "ndbinfo: The NDB Cluster Information Database".
const SYSTEM: [&str; 5] = [
    "mysql",
    "information_schema",
    "performance_schema",
    "sys",
    "ndbinfo",
];

impl Selection {
    /// Chooses among what the source has.
    ///
    /// # Errors
    ///
    /// Everything that is in the way.
    pub fn choose(
        found: &[Found],
        wanted: &Wanted,
        sides: Sides,
    ) -> Result<Self, Vec<EstateProblem>> {
        let mut choice = Choice::new(wanted, sides);
        choice.system_databases();
        let taken = choice.take(found);
        choice.unmatched(found);
        choice.name(&taken);
        choice.stay(found, &taken);
        choice.unused_renames();
        choice.collisions();
        let Choice {
            problems,
            mut selection,
            ..
        } = choice;
        if problems.is_empty() && selection.tables.is_empty() {
            return Err(vec![EstateProblem::NoTables]);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        selection
            .tables
            .sort_by_key(|chosen| (Reverse(chosen.bytes), chosen.source.clone()));
        Ok(selection)
    }

    /// Returns the databases of the source that tables come from.
    #[must_use]
    pub fn source_databases(&self) -> BTreeSet<&Ident> {
        self.databases.values().flatten().collect()
    }

    /// Returns what a table of the source is called on the target, if it is
    /// moved.
    #[must_use]
    pub fn target_of(&self, source: &TableName) -> Option<&TableName> {
        let chosen = self.tables.iter().find(|chosen| chosen.source == *source)?;
        Some(&chosen.target)
    }
}

impl Selection {
    /// Returns what a table of the source is, or would be, called on the
    /// target.
    #[must_use]
    pub fn place_on_target(&self, source: &TableName) -> TableName {
        if let Some(target) = self.target_of(source) {
            return target.clone();
        }
        let schema = self.renamed.get(&source.schema).unwrap_or(&source.schema);
        TableName::new(schema.clone(), source.table.clone())
    }

    /// Returns the names of databases and tables that are others on the target.
    pub(super) fn renamed_names(&self) -> BTreeSet<String> {
        let changed = |was: &Ident, is: &Ident| (was != is).then(|| was.as_str().to_owned());
        let of_tables = self.tables.iter().flat_map(|chosen| {
            let Chosen { source, target, .. } = chosen;
            let schema = changed(&source.schema, &target.schema);
            [schema, changed(&source.table, &target.table)]
        });
        of_tables.flatten().collect()
    }
}

struct Choice<'a> {
    wanted: &'a Wanted,
    sides: Sides,
    /// Which renames are of any use.
    used: Vec<bool>,
    problems: Vec<EstateProblem>,
    selection: Selection,
}

impl<'a> Choice<'a> {
    fn new(wanted: &'a Wanted, sides: Sides) -> Self {
        Self {
            wanted,
            sides,
            used: vec![false; wanted.renames.len()],
            problems: Vec::new(),
            selection: Selection::default(),
        }
    }

    fn system_databases(&mut self) {
        let databases = self.wanted.databases.iter();
        let of_tables = self.wanted.tables.iter().map(|table| &table.schema);
        let to = self.wanted.renames.iter().map(|rename| match &rename.to {
            Place::Database(name) => name,
            Place::Table(name) => &name.schema,
        });
        let system: BTreeSet<&Ident> = databases
            .chain(of_tables)
            .chain(to)
            .filter(|name| is_system(name))
            .collect();
        self.problems.extend(
            system
                .into_iter()
                .map(|name| EstateProblem::SystemDatabase {
                    database: name.as_str().to_owned(),
                }),
        );
    }

    /// Takes what is asked for, and refuses what can't be taken.
    fn take(&mut self, found: &'a [Found]) -> Vec<&'a Found> {
        let mut taken = Vec::new();
        for one in found.iter().filter(|one| !is_system(&one.name.schema)) {
            let named = self.names(&one.name);
            if !named && !self.wants_database(&one.name.schema) {
                continue;
            }
            let excluded = self.excludes(&one.name);
            let table = one.name.plain();
            if named && excluded {
                self.problems.push(EstateProblem::Contradiction { table });
            } else if excluded {
                self.leave_out(one, "excluded");
            } else if !one.is_table() {
                if named {
                    let kind = one.kind.to_lowercase();
                    self.problems.push(EstateProblem::NotATable { table, kind });
                }
            } else if ShadowNames::is_own(&one.name.table) {
                if named {
                    self.problems.push(EstateProblem::OwnTable { table });
                } else {
                    self.leave_out(one, "made by oxferry");
                }
            } else if !one.engine.eq_ignore_ascii_case("InnoDB") {
                let engine = one.engine.clone();
                self.problems.push(EstateProblem::Engine { table, engine });
            } else {
                taken.push(one);
            }
        }
        taken
    }

    fn leave_out(&mut self, one: &Found, why: &'static str) {
        self.selection.left_out.push(LeftOut {
            table: one.name.clone(),
            why,
        });
    }

    /// Names the options that match nothing of the source.
    fn unmatched(&mut self, found: &[Found]) {
        let has_database = |name: &Ident| found.iter().any(|f| self.same(&f.name.schema, name));
        let databases = self.wanted.databases.iter().filter(|d| !has_database(d));
        let databases = databases.map(|name| ("--database", name.as_str().to_owned()));
        let has_table = |name: &TableName| found.iter().any(|f| self.same_table(name, &f.name));
        let tables = self.wanted.tables.iter().filter(|t| !has_table(t));
        let tables = tables.map(|name| ("--table", name.plain()));
        let excludes = self.wanted.exclude.iter().filter(|place| {
            let in_reach = |f: &&Found| self.wants_database(&f.name.schema) || self.names(&f.name);
            !found
                .iter()
                .filter(in_reach)
                .any(|f| self.covers(place, &f.name))
        });
        let excludes = excludes.map(|place| ("--exclude", place.plain()));
        let all: Vec<_> = databases.chain(tables).chain(excludes).collect();
        for (option, value) in all {
            self.problems
                .push(EstateProblem::NothingMatches { option, value });
        }
    }

    /// Finds each table's name on the target.
    fn name(&mut self, taken: &[&Found]) {
        for one in taken {
            let target = self.target(&one.name);
            if ShadowNames::is_own(&target.table) {
                let table = target.plain();
                self.problems.push(EstateProblem::OwnTable { table });
            }
            self.selection
                .databases
                .entry(target.schema.clone())
                .or_default()
                .insert(one.name.schema.clone());
            self.selection.tables.push(Chosen {
                source: one.name.clone(),
                target,
                bytes: one.bytes,
            });
        }
    }

    fn stay(&mut self, found: &[Found], taken: &[&Found]) {
        let sources = taken.iter().map(|one| &one.name.schema);
        let sources: BTreeSet<&Ident> = sources.collect();
        let moved: BTreeSet<&TableName> = taken.iter().map(|one| &one.name).collect();
        let near = found.iter().map(|one| &one.name);
        let near = near.filter(|name| sources.contains(&name.schema) && !moved.contains(name));
        self.selection.staying = near.cloned().collect();
    }

    fn target(&mut self, source: &TableName) -> TableName {
        let mut target = source.clone();
        let mut of_table = None;
        for (at, rename) in self.wanted.renames.iter().enumerate() {
            let used = match (&rename.from, &rename.to) {
                (Place::Database(from), Place::Database(to)) if self.same(from, &source.schema) => {
                    target.schema = to.clone();
                    let renamed = &mut self.selection.renamed;
                    renamed.insert(source.schema.clone(), to.clone());
                    true
                }
                (Place::Table(from), Place::Table(to)) if self.same_table(from, source) => {
                    of_table = Some(to.clone());
                    true
                }
                _ => false,
            };
            if let Some(known) = self.used.get_mut(at) {
                *known |= used;
            }
        }
        let target = of_table.unwrap_or(target);
        if self.sides.target_lower_case == 1 {
            // The server itself stores them so. Source: MySQL 9.7 manual,
            // "Identifier Case Sensitivity".
            return TableName::new(lowered(&target.schema), lowered(&target.table));
        }
        target
    }

    fn unused_renames(&mut self) {
        let renames = &self.wanted.renames;
        for (at, (rename, used)) in renames.iter().zip(&self.used).enumerate() {
            let place = rename.from.plain();
            if !used {
                self.problems.push(EstateProblem::NothingMatches {
                    option: "--rename",
                    value: place,
                });
            } else if renames
                .iter()
                .take(at)
                .any(|r| self.same_place(&r.from, &rename.from))
            {
                self.problems.push(EstateProblem::RenamedTwice { place });
            }
        }
    }

    fn collisions(&mut self) {
        let lower = self.sides.target_lower_case != 0;
        let folded = |name: &TableName| (fold(&name.schema, lower), fold(&name.table, lower));
        let mut targets: BTreeMap<_, &Chosen> = BTreeMap::new();
        let mut problems = Vec::new();
        for chosen in &self.selection.tables {
            if let Some(other) = targets.insert(folded(&chosen.target), chosen) {
                problems.push(EstateProblem::Collision {
                    one: other.source.plain(),
                    other: chosen.source.plain(),
                    target: chosen.target.plain(),
                });
            }
        }
        if self.sides.same_server {
            let sources = self.selection.tables.iter().map(|chosen| &chosen.source);
            let sources: BTreeSet<_> = sources.map(folded).collect();
            let onto = self.selection.tables.iter();
            let onto = onto.filter(|chosen| sources.contains(&folded(&chosen.target)));
            problems.extend(onto.map(|chosen| EstateProblem::SameServer {
                source_table: chosen.source.plain(),
                target: chosen.target.plain(),
            }));
        }
        self.problems.extend(problems);
    }

    /// Whether the table is asked for by its own name.
    fn names(&self, table: &TableName) -> bool {
        let mut named = self.wanted.tables.iter();
        named.any(|name| self.same_table(name, table))
    }

    fn excludes(&self, table: &TableName) -> bool {
        let mut excluded = self.wanted.exclude.iter();
        excluded.any(|place| self.covers(place, table))
    }

    fn wants_database(&self, database: &Ident) -> bool {
        let all = self.wanted.databases.is_empty() && self.wanted.tables.is_empty();
        all || self.wanted.databases.iter().any(|d| self.same(d, database))
    }

    fn covers(&self, place: &Place, table: &TableName) -> bool {
        match place {
            Place::Database(name) => self.same(name, &table.schema),
            Place::Table(name) => self.same_table(name, table),
        }
    }

    fn same_place(&self, one: &Place, other: &Place) -> bool {
        match (one, other) {
            (Place::Database(one), Place::Database(other)) => self.same(one, other),
            (Place::Table(one), Place::Table(other)) => self.same_table(one, other),
            _ => false,
        }
    }

    fn same_table(&self, one: &TableName, other: &TableName) -> bool {
        self.same(&one.schema, &other.schema) && self.same(&one.table, &other.table)
    }

    /// As the source compares names.
    fn same(&self, one: &Ident, other: &Ident) -> bool {
        let lower = self.sides.source_lower_case != 0;
        fold(one, lower) == fold(other, lower)
    }
}

/// Returns whether a database is the server's own. The names of two of them
/// are compared without regard to letter case on every system.
fn is_system(database: &Ident) -> bool {
    let name = database.as_str();
    SYSTEM.contains(&name)
        || SYSTEM
            .iter()
            .skip(1)
            .take(2)
            .any(|s| s.eq_ignore_ascii_case(name))
}

fn fold(name: &Ident, lower: bool) -> String {
    if lower {
        name.as_str().to_lowercase()
    } else {
        name.as_str().to_owned()
    }
}

fn lowered(name: &Ident) -> Ident {
    // A letter's lower case may be longer than the letter: then it stays.
    Ident::new(name.as_str().to_lowercase()).unwrap_or_else(|_longer| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Sides = Sides {
        source_lower_case: 0,
        target_lower_case: 0,
        same_server: false,
    };

    fn name(text: &str) -> TableName {
        match Place::parse(text).unwrap() {
            Place::Table(name) => name,
            Place::Database(_) => unreachable!("{text} is a table"),
        }
    }

    fn found(tables: &[(&str, u64)]) -> Vec<Found> {
        tables
            .iter()
            .map(|(table, bytes)| Found {
                name: name(table),
                kind: "BASE TABLE".to_owned(),
                engine: "InnoDB".to_owned(),
                bytes: *bytes,
            })
            .collect()
    }

    fn wanted(databases: &[&str], tables: &[&str], exclude: &[&str], renames: &[&str]) -> Wanted {
        Wanted {
            databases: databases.iter().map(|d| Ident::new(*d).unwrap()).collect(),
            tables: tables.iter().map(|t| name(t)).collect(),
            exclude: exclude.iter().map(|p| Place::parse(p).unwrap()).collect(),
            renames: renames.iter().map(|r| Rename::parse(r).unwrap()).collect(),
        }
    }

    fn story(selection: &Selection) -> Vec<String> {
        let told = |chosen: &Chosen| format!("{}>{}", chosen.source.plain(), chosen.target.plain());
        selection.tables.iter().map(told).collect()
    }

    fn choose(tables: &[(&str, u64)], wanted: &Wanted) -> Result<Vec<String>, Vec<String>> {
        let chosen = Selection::choose(&found(tables), wanted, EXACT);
        let problems = |p: Vec<EstateProblem>| p.iter().map(ToString::to_string).collect();
        chosen.map(|s| story(&s)).map_err(problems)
    }

    const SHOP: [(&str, u64); 5] = [
        ("shop.a", 1),
        ("shop.b", 9),
        ("mysql.user", 99),
        ("crm.c", 5),
        ("shop._a_oxold", 7),
    ];

    #[test]
    fn without_a_name_all_databases_of_users_are_taken_the_largest_table_first() {
        let all = choose(&SHOP, &Wanted::default()).unwrap();
        assert_eq!(all, ["shop.b>shop.b", "crm.c>crm.c", "shop.a>shop.a"]);
    }

    #[test]
    fn databases_tables_and_excludes_add_up() {
        let some = choose(&SHOP, &wanted(&["shop"], &["crm.c"], &["shop.b"], &[])).unwrap();
        assert_eq!(some, ["crm.c>crm.c", "shop.a>shop.a"]);
        let whole = choose(&SHOP, &wanted(&[], &[], &["crm"], &[])).unwrap();
        assert_eq!(whole, ["shop.b>shop.b", "shop.a>shop.a"]);
    }

    #[test]
    fn a_tables_rename_comes_before_its_databases() {
        let renames = ["shop=shop2", "shop.a=x.y"];
        let some = choose(&SHOP, &wanted(&["shop"], &[], &[], &renames)).unwrap();
        assert_eq!(some, ["shop.b>shop2.b", "shop.a>x.y"]);
    }

    #[test]
    fn a_table_that_is_not_there_is_asked_for_all_the_same() {
        let takes = |wanted: &Wanted, table: &str, lower| wanted.takes(&name(table), lower);
        let all = wanted(&[], &[], &["b", "a.x"], &[]);
        for (table, expected) in [
            ("a.t", true),
            ("a.x", false),
            ("b.t", false),
            ("mysql.user", false),
            ("a._t_oxold", false),
        ] {
            assert_eq!(takes(&all, table, 0), expected, "{table}");
        }
        let some = wanted(&["c"], &["a.t"], &[], &[]);
        assert!(takes(&some, "a.t", 0) && takes(&some, "c.u", 0));
        assert!(!takes(&some, "a.u", 0) && !takes(&some, "A.T", 0));
        assert!(takes(&some, "A.T", 1));
    }

    #[test]
    fn names_may_be_exchanged() {
        let renames = ["shop.a=shop.b", "shop.b=shop.a"];
        let some = choose(&SHOP, &wanted(&["shop"], &[], &[], &renames)).unwrap();
        assert_eq!(some, ["shop.b>shop.a", "shop.a>shop.b"]);
    }

    #[test]
    fn what_matches_nothing_is_named_all_at_once() {
        let renames = ["shap=x", "crm.c=crm.d", "shop.a=shop.z", "shop.a=shop.y"];
        let asked = wanted(&["shop", "Shop"], &["shop.z"], &["crm.c", "crm"], &renames);
        assert_eq!(
            choose(&SHOP, &asked).unwrap_err(),
            [
                "--database Shop matches nothing that is moved",
                "--table shop.z matches nothing that is moved",
                "--exclude crm.c matches nothing that is moved",
                "--exclude crm matches nothing that is moved",
                "--rename shap matches nothing that is moved",
                "--rename crm.c matches nothing that is moved",
                "shop.a is renamed twice",
            ]
        );
    }

    #[test]
    fn two_sources_of_one_target_are_refused() {
        let asked = wanted(&[], &["shop.a", "crm.c"], &[], &["crm.c=shop.a"]);
        assert_eq!(
            choose(&SHOP, &asked).unwrap_err(),
            ["shop.a and crm.c would both be shop.a on the target"]
        );
    }

    #[test]
    fn names_that_differ_in_letter_case_only_collide_where_the_target_folds_them() {
        let tables = found(&[("d.T", 2), ("d.t", 1)]);
        let all = Wanted::default();
        assert!(Selection::choose(&tables, &all, EXACT).is_ok());
        for target_lower_case in [1, 2] {
            let sides = Sides {
                target_lower_case,
                ..EXACT
            };
            let problems = Selection::choose(&tables, &all, sides).unwrap_err();
            assert!(matches!(problems[..], [EstateProblem::Collision { .. }]));
        }
    }

    #[test]
    fn a_target_that_stores_lower_case_gets_it() {
        let sides = Sides {
            target_lower_case: 1,
            ..EXACT
        };
        let chosen = Selection::choose(&found(&[("D.T", 1)]), &Wanted::default(), sides).unwrap();
        assert_eq!(story(&chosen), ["D.T>d.t"]);
    }

    #[test]
    fn a_source_that_folds_names_is_asked_in_any_letter_case() {
        let sides = Sides {
            source_lower_case: 1,
            ..EXACT
        };
        let asked = wanted(&["D"], &[], &["d.U"], &["D.T=e.f"]);
        let tables = found(&[("d.t", 1), ("d.u", 1)]);
        let chosen = Selection::choose(&tables, &asked, sides).unwrap();
        assert_eq!(story(&chosen), ["d.t>e.f"]);
    }

    #[test]
    fn on_one_server_no_table_is_moved_onto_one_that_is_moved() {
        let sides = Sides {
            same_server: true,
            ..EXACT
        };
        let tables = found(&[("d.t", 1), ("d.u", 1)]);
        let asked = wanted(&["d"], &[], &[], &["d.t=d.u", "d.u=d.v"]);
        let problems = Selection::choose(&tables, &asked, sides).unwrap_err();
        assert!(matches!(problems[..], [EstateProblem::SameServer { .. }]));
        let asked = wanted(&["d"], &[], &[], &["d=e"]);
        assert!(Selection::choose(&tables, &asked, sides).is_ok());
    }

    #[test]
    fn views_engines_and_systems_are_refused_where_they_are_asked_for() {
        let mut tables = found(&[("d.t", 1), ("d.v", 0), ("d.m", 1)]);
        tables[1].kind = "VIEW".to_owned();
        tables[2].engine = "MyISAM".to_owned();
        let problems = |asked| {
            let problems = Selection::choose(&tables, &asked, EXACT).unwrap_err();
            let told = problems.iter().map(ToString::to_string);
            told.collect::<Vec<_>>()
        };
        assert_eq!(
            problems(wanted(&[], &["d.v"], &[], &[])),
            ["d.v is a view, not a table"]
        );
        assert_eq!(
            problems(wanted(&["d"], &[], &[], &[])),
            ["d.m is a table of engine MyISAM"]
        );
        let system = problems(wanted(&["mysql"], &[], &[], &[]));
        assert_eq!(system[0], "database mysql is the server's own");
        let into = problems(wanted(&["d"], &[], &["d.m"], &["d=sys"]));
        assert_eq!(into, ["database sys is the server's own"]);
    }

    #[test]
    fn a_table_of_the_tools_own_is_left_out_with_a_note() {
        let chosen = Selection::choose(&found(&SHOP), &Wanted::default(), EXACT).unwrap();
        assert_eq!(chosen.left_out.len(), 1);
        assert_eq!(chosen.left_out[0].table, name("shop._a_oxold"));
        let asked = wanted(&[], &["shop.a", "shop.b"], &["shop.b"], &[]);
        assert_eq!(
            choose(&SHOP, &asked).unwrap_err(),
            ["table shop.b is asked for by --table and left out by --exclude"]
        );
        let only = wanted(&["shop"], &[], &["shop"], &[]);
        assert_eq!(
            choose(&SHOP, &only).unwrap_err(),
            ["there is no table to move"]
        );
    }
}

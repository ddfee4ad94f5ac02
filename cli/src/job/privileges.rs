//! Which privileges a job needs and lacks, read from `SHOW GRANTS`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use oxferry_schema::{Ident, TableName};

/// What the job does in the table's database.
///
/// Without `TRIGGER` the table's triggers can't even be seen. Source: MySQL 9.7
/// manual, "Privileges Provided by MySQL", and the test
/// `a_user_with_exactly_the_listed_privileges_can_migrate`.
pub(crate) const IN_DATABASE: [&str; 10] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "ALTER",
    "INDEX",
    "LOCK TABLES",
    "TRIGGER",
];

/// What the job does on the whole server: read the binary log.
pub(crate) const ON_SERVER: [&str; 2] = ["REPLICATION SLAVE", "REPLICATION CLIENT"];

/// What is done with a table that a foreign key of the job's tables refers to:
/// it is tried on a copy of its definition, and made under a lock on both.
pub(crate) const ON_PARENT: [&str; 3] = ["SELECT", "REFERENCES", "LOCK TABLES"];

/// What is done with a table whose foreign keys are rebuilt.
/// Source: MySQL 9.7 manual, "ALTER TABLE Statement", for `CREATE` and `INSERT`.
pub(crate) const ON_CHILD: [&str; 5] = ["SELECT", "INSERT", "CREATE", "ALTER", "LOCK TABLES"];

/// What a foreign key that refers to a table needs there.
pub(crate) const ON_REFERENCED: [&str; 1] = ["REFERENCES"];

/// Privileges that are missing at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The database; `None` for the whole server.
    pub(crate) database: Option<Ident>,
    /// What is missing there; never empty.
    pub(crate) privileges: Vec<&'static str>,
}

impl Missing {
    /// Returns the statement that grants what is missing.
    pub(crate) fn grant(&self) -> String {
        let scope = match &self.database {
            Some(database) => format!("{database}.*"),
            None => "*.*".to_owned(),
        };
        let privileges = self.privileges.join(", ");
        format!("GRANT {privileges} ON {scope} TO the user")
    }
}

impl fmt::Display for Missing {
    /// Writes the privileges, and where they are missing if not everywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.privileges.join(", "))?;
        match &self.database {
            Some(database) => write!(f, " on {}", database.as_str()),
            None => Ok(()),
        }
    }
}

/// Returns the privileges that `grants`, the lines of `SHOW GRANTS`, lack for a
/// migrate of `tables`: on the server, and on each database once.
pub(crate) fn missing(grants: &[String], tables: &[TableName]) -> Vec<Missing> {
    let databases: BTreeSet<&Ident> = tables.iter().map(|table| &table.schema).collect();
    let in_databases = databases
        .into_iter()
        .filter_map(|database| missing_in(grants, database, &IN_DATABASE));
    let on_server = missing_on_server(grants, &ON_SERVER);
    on_server.into_iter().chain(in_databases).collect()
}

/// Returns which of `needed` the user lacks on the whole server.
pub(crate) fn missing_on_server(grants: &[String], needed: &[&'static str]) -> Option<Missing> {
    lacking(grants, None, needed, |scope| scope == Scope::Server)
}

/// Returns which of `needed` the user lacks in a database, on whatever table.
///
/// Reads grants on `*.*` and on the database (as a pattern); those on single
/// tables and columns don't count; a partial revoke takes away.
pub(crate) fn missing_in(
    grants: &[String],
    database: &Ident,
    needed: &[&'static str],
) -> Option<Missing> {
    lacking(grants, Some(database), needed, |scope| match scope {
        Scope::Server => true,
        Scope::Database(pattern) => matches_pattern(pattern, database.as_str()),
        Scope::Table(_) => false,
    })
}

fn lacking(
    grants: &[String],
    database: Option<&Ident>,
    needed: &[&'static str],
    covers: impl Fn(Scope<'_>) -> bool,
) -> Option<Missing> {
    let lines: Vec<Grant<'_>> = grants
        .iter()
        .filter_map(|line| Grant::parse(line))
        .collect();
    let lacks = needed.iter().filter(|p| !held(&lines, p, &covers));
    let privileges: Vec<&'static str> = lacks.copied().collect();
    (!privileges.is_empty()).then(|| Missing {
        database: database.cloned(),
        privileges,
    })
}

/// Returns the privileges that `grants` lack on tables beside the job's own,
/// each with what is needed on it.
pub(crate) fn missing_on(
    grants: &[String],
    needs: &[(TableName, &'static [&'static str])],
) -> Vec<Missing> {
    let lines: Vec<Grant<'_>> = grants
        .iter()
        .filter_map(|line| Grant::parse(line))
        .collect();
    let mut missing: BTreeMap<&Ident, BTreeSet<&'static str>> = BTreeMap::new();
    for (table, privileges) in needs {
        let quoted = table.to_string();
        let covers = |scope: Scope<'_>| match scope {
            Scope::Server => true,
            Scope::Database(pattern) => matches_pattern(pattern, table.schema.as_str()),
            Scope::Table(name) => name == quoted,
        };
        for privilege in *privileges {
            if !held(&lines, privilege, covers) {
                missing.entry(&table.schema).or_default().insert(privilege);
            }
        }
    }
    let missing = missing.into_iter().map(|(database, privileges)| Missing {
        database: Some(database.clone()),
        privileges: privileges.into_iter().collect(),
    });
    missing.collect()
}

/// Returns whether the user may see the definition of every table.
pub(crate) fn sees_every_table(grants: &[String]) -> bool {
    let lines: Vec<Grant<'_>> = grants
        .iter()
        .filter_map(|line| Grant::parse(line))
        .collect();
    held(&lines, "SELECT", |scope| scope == Scope::Server)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope<'a> {
    Server,
    Database(&'a str),
    /// Quoted, with its database.
    Table(&'a str),
}

struct Grant<'a> {
    revokes: bool,
    privileges: Vec<&'a str>,
    scope: Scope<'a>,
}

impl<'a> Grant<'a> {
    /// Reads `GRANT a, b ON scope TO user`; a granted role has no `ON`.
    fn parse(line: &'a str) -> Option<Self> {
        let (revokes, rest) = match line.strip_prefix("GRANT ") {
            Some(rest) => (false, rest),
            None => (true, line.strip_prefix("REVOKE ")?),
        };
        let (privileges, rest) = rest.split_once(" ON ")?;
        let end = if revokes { " FROM " } else { " TO " };
        let (scope, _) = rest.rsplit_once(end)?;
        let scope = match scope.strip_suffix(".*") {
            Some("*") => Scope::Server,
            Some(database) => Scope::Database(database.trim_matches('`')),
            None => Scope::Table(scope),
        };
        Some(Self {
            revokes,
            // Dynamic privileges are printed without blanks.
            privileges: privileges.split(',').map(str::trim).collect(),
            scope,
        })
    }

    fn names(&self, privilege: &str) -> bool {
        self.privileges
            .iter()
            .any(|p| *p == privilege || *p == "ALL PRIVILEGES" || *p == "ALL")
    }
}

fn held(grants: &[Grant<'_>], privilege: &str, covers: impl Fn(Scope<'_>) -> bool) -> bool {
    let named = |revokes| {
        grants
            .iter()
            .any(|g| g.revokes == revokes && g.names(privilege) && covers(g.scope))
    };
    // A partial revoke names a database; what a database grant gives back is
    // printed as a grant on that database, never together with the revoke.
    named(false) && !named(true)
}

/// `_` and `%` in a grant's database name are wildcards unless escaped.
/// Source: MySQL 9.7 manual, "GRANT Statement", Database Privileges.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut chars = pattern.chars();
    match chars.next() {
        None => name.is_empty(),
        Some('%') => {
            let rest = chars.as_str();
            (0..=name.len()).any(|at| {
                name.get(at..)
                    .is_some_and(|tail| matches_pattern(rest, tail))
            })
        }
        Some(first) => {
            let wanted = if first == '\\' {
                chars.next()
            } else {
                Some(first)
            };
            let mut text = name.chars();
            let found = text.next();
            let any = first == '_' && found.is_some();
            (any || (found.is_some() && found == wanted))
                && matches_pattern(chars.as_str(), text.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(grants: &[&str]) -> Vec<&'static str> {
        let name = |text: &str| Ident::new(text).unwrap();
        let grants: Vec<String> = grants.iter().map(|g| (*g).to_owned()).collect();
        let tables = [TableName::new(name("my_db"), name("t"))];
        let missing = missing(&grants, &tables).into_iter();
        missing.flat_map(|missing| missing.privileges).collect()
    }

    const DATABASE: &str =
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX, ALTER, LOCK TABLES, TRIGGER ON";
    const SERVER: &str = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`";

    #[test]
    fn the_listed_privileges_are_enough() {
        assert!(lacks(&[SERVER, &format!("{DATABASE} `my_db`.* TO `u`@`%`")]).is_empty());
        assert!(lacks(&[SERVER, &format!("{DATABASE} `my\\_db`.* TO `u`@`%`")]).is_empty());
        assert!(lacks(&[SERVER, &format!("{DATABASE} `my%`.* TO `u`@`%`")]).is_empty());
        assert!(
            lacks(&["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"])
                .is_empty()
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(lacks(&[SERVER]), IN_DATABASE);
        assert_eq!(
            lacks(&[&format!("{DATABASE} `my_db`.* TO `u`@`%`")]),
            ON_SERVER
        );
        assert_eq!(
            lacks(&[SERVER, &format!("{DATABASE} `myx`.* TO `u`@`%`")]),
            IN_DATABASE
        );
        assert_eq!(
            lacks(&[SERVER, "GRANT SELECT (`a`) ON `my_db`.`t` TO `u`@`%`"]),
            IN_DATABASE
        );
    }

    #[test]
    fn dynamic_privileges_are_found_in_their_list() {
        let grants = [
            "GRANT BINLOG_ADMIN,SYSTEM_VARIABLES_ADMIN,XA_RECOVER_ADMIN ON *.* TO `u`@`%`"
                .to_owned(),
        ];
        assert_eq!(
            missing_on_server(&grants, &["SYSTEM_VARIABLES_ADMIN"]),
            None
        );
        let lacks = missing_on_server(&grants, &["SUPER", "BINLOG_ADMIN"]).unwrap();
        assert_eq!(lacks.privileges, ["SUPER"]);
    }

    #[test]
    fn a_partial_revoke_takes_away() {
        let all = "GRANT ALL PRIVILEGES ON *.* TO `u`@`%`";
        assert_eq!(
            lacks(&[all, "REVOKE DELETE ON `my_db`.* FROM `u`@`%`"]),
            ["DELETE"]
        );
    }
}

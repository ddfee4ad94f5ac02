//! Everything that must be right before a job may start, all at once.

use oxferry_schema::{Attached, CarriedKey, Remedy, ShadowNames, TableName};

use crate::job::{Problem, ServerFacts, log_problems, privileges, setting};

/// What preflight looks at of one table.
#[derive(Clone, Debug)]
pub(crate) struct TableFacts {
    /// The table that is to change.
    pub(crate) table: TableName,
    /// The table's engine.
    pub(crate) engine: String,
    /// What makes the table's key unfit, if anything.
    pub(crate) key_problem: Option<String>,
}

/// Returns what is wrong with the server, whatever the tables.
pub(crate) fn server_problems(facts: &ServerFacts) -> Vec<Problem> {
    let mut found = log_problems(facts);
    if facts.read_only {
        let fix = "connect to the server that takes the writes";
        found.push(setting("the server is read-only".to_owned(), fix));
    }
    found
}

/// Returns which privileges the user lacks for a job on `tables`.
pub(crate) fn privilege_problems(grants: &[String], tables: &[TableName]) -> Option<Problem> {
    let missing = privileges::missing(grants, tables);
    if missing.is_empty() {
        return None;
    }
    let what = join(missing.iter().map(ToString::to_string));
    let fix = join(missing.iter().map(privileges::Missing::grant));
    Some(setting(format!("missing privileges: {what}"), &fix))
}

/// Returns which privileges the user lacks for what hangs on the tables.
pub(crate) fn neighbour_privileges<'a>(
    grants: &[String],
    attached: impl Iterator<Item = &'a Attached>,
) -> Option<Problem> {
    let mut needs: Vec<(TableName, &'static [&'static str])> = Vec::new();
    // The tables beside the job's own are referred to, too.
    let beside = |table: &TableName| ShadowNames::beside(table).probe_other;
    for attached in attached {
        for CarriedKey { was, .. } in &attached.foreign_keys {
            needs.push((was.parent.clone(), &privileges::ON_PARENT));
            needs.push((beside(&was.child), &privileges::ON_REFERENCED));
        }
        for CarriedKey { was, .. } in &attached.children {
            needs.push((was.child.clone(), &privileges::ON_CHILD));
            needs.push((beside(&was.parent), &privileges::ON_REFERENCED));
        }
    }
    let missing = privileges::missing_on(grants, &needs);
    if missing.is_empty() {
        return None;
    }
    let what = join(missing.iter().map(ToString::to_string));
    let fix = join(missing.iter().map(privileges::Missing::grant));
    let what = format!("missing privileges for foreign keys: {what}");
    Some(setting(what, &fix))
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}

/// Returns what is wrong with one table; each problem names it.
pub(crate) fn table_problems(facts: &TableFacts) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut refuse = |what: String, fix: &str| {
        found.push(Problem {
            what,
            fix: fix.to_owned(),
            remedy: Remedy::Usage,
        });
    };
    let table = facts.table.plain();
    if !facts.engine.eq_ignore_ascii_case("InnoDB") {
        refuse(
            format!("{table} is a table of engine {}", facts.engine),
            "only InnoDB tables can be copied without locks",
        );
    }
    if let Some(problem) = &facts.key_problem {
        refuse(
            problem.clone(),
            "the table can't be migrated in this version",
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use oxferry_schema::Ident;

    use super::*;

    fn server() -> ServerFacts {
        ServerFacts::fit(&["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost`"])
    }

    fn name(schema: &str, table: &str) -> TableName {
        TableName::new(Ident::new(schema).unwrap(), Ident::new(table).unwrap())
    }

    fn table() -> TableFacts {
        TableFacts {
            table: name("d", "t"),
            engine: "InnoDB".to_owned(),
            key_problem: None,
        }
    }

    #[test]
    fn a_fit_server_and_table_have_no_problems() {
        assert_eq!(server_problems(&server()), []);
        assert_eq!(
            privilege_problems(&server().grants, &[name("d", "t")]),
            None
        );
        assert_eq!(table_problems(&table()), []);
    }

    #[test]
    fn all_problems_are_named_at_once() {
        let unfit = ServerFacts {
            log_bin: false,
            binlog_format: "STATEMENT".to_owned(),
            binlog_row_image: "MINIMAL".to_owned(),
            binlog_row_value_options: "PARTIAL_JSON".to_owned(),
            binlog_order_commits: false,
            binlog_checksum: "NONE".to_owned(),
            prepared_xa: vec!["X'61',X'',1".to_owned()],
            read_only: true,
            version_numbers: (5, 7, 44),
            ..server()
        };
        let mut found = server_problems(&unfit);
        assert_eq!(found.len(), 9);
        let unfit = TableFacts {
            engine: "MyISAM".to_owned(),
            key_problem: Some("no key".to_owned()),
            ..table()
        };
        let of_table = table_problems(&unfit);
        assert_eq!(of_table.len(), 2);
        found.splice(0..0, of_table);
        assert!(found.iter().all(|problem| !problem.fix.is_empty()));
        assert_eq!(
            crate::job::refuse(&found).unwrap_err().remedy(),
            Remedy::Privileges
        );
    }

    #[test]
    fn what_is_wrong_with_the_table_alone_is_a_wrong_call() {
        let found = table_problems(&TableFacts {
            engine: "MyISAM".to_owned(),
            ..table()
        });
        assert_eq!(
            crate::job::refuse(&found).unwrap_err().remedy(),
            Remedy::Usage
        );
        assert_eq!(found[0].what, "d.t is a table of engine MyISAM");
    }

    #[test]
    fn a_missing_privilege_comes_with_its_grant() {
        let all =
            "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX, ALTER, LOCK TABLES, TRIGGER";
        let grants = vec![
            format!("GRANT {all} ON `d`.* TO `u`@`%`"),
            format!("GRANT {} ON `e`.* TO `u`@`%`", all.replace("DROP, ", "")),
        ];
        let tables = [name("d", "t"), name("e", "a"), name("e", "b")];
        let found = privilege_problems(&grants, &tables).unwrap();
        assert_eq!(
            found.what,
            "missing privileges: REPLICATION SLAVE, REPLICATION CLIENT; DROP on e"
        );
        assert_eq!(
            found.fix,
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the user; GRANT DROP ON `e`.* TO the user"
        );
    }
}

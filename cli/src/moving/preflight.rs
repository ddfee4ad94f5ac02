//! Everything that must be right before a move may start, all at once.

use std::collections::BTreeSet;

use oxferry_schema::{ForeignKey, Ident, Part, Remedy, Table, TableName};

use crate::{
    args::LockSource,
    job::{Problem, ServerFacts, log_problems, privileges, setting},
};

/// What preflight looks at of both servers.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) source: Side,
    pub(super) target: Side,
    /// Whether every transaction of the source has a GTID.
    pub(super) source_has_gtids: bool,
    /// Whether the source logs what it gets from its own source.
    pub(super) logs_replicated: bool,
    /// Whether the source logs what a change of a parent does to its children.
    pub(super) logs_cascades: bool,
    /// Whether the target makes no table without a primary key.
    pub(super) needs_primary_key: bool,
    /// The collations that the target knows.
    pub(super) collations: BTreeSet<String>,
}

/// What preflight looks at of one of the two.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) server: ServerFacts,
    /// `@@server_uuid`.
    pub(super) uuid: String,
    /// `@@server_uuid` of the servers that it replicates from.
    pub(super) replicates: Vec<String>,
    /// `@@max_allowed_packet`.
    pub(super) packet_bytes: u64,
}

/// What the move is to do.
#[derive(Clone, Debug)]
pub(super) struct Asked<'a> {
    /// The tables of the source.
    pub(super) parts: &'a [Part],
    /// What they are called on the target.
    pub(super) targets: Vec<TableName>,
    /// The table of the marks on the server that the applications write to;
    /// `None` where there are none.
    pub(super) marks: Option<&'a TableName>,
    /// What shuts the applications out of the source.
    pub(super) lock: Option<LockSource>,
    /// Whether the target's binary log is looked through.
    pub(super) watches: bool,
    /// Whether the applications write to the source's primary instead of it.
    pub(super) is_replica: bool,
}

/// What the move does on every table that it makes or fills.
///
/// Without TRIGGER it could not even be seen whether a table has triggers.
/// Source: MySQL 9.7 manual, "Privileges Provided by MySQL".
const IN_TARGET: [&str; 9] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "TRIGGER",
];

/// What it does with its own table on the source.
const IN_MARKS: [&str; 6] = ["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP"];

/// What it does on a table of the source: read it, and see its triggers.
const ON_SOURCE: [&str; 2] = ["SELECT", "TRIGGER"];
const ON_LOCKED: [&str; 1] = ["LOCK TABLES"];
/// Source: MySQL 9.7 manual, "RENAME TABLE Statement".
const ON_RENAMED: [&str; 4] = ["ALTER", "DROP", "CREATE", "INSERT"];

/// Returns everything that is in the way of the move `asked` for.
pub(super) fn problems(facts: &Facts, asked: &Asked<'_>) -> Vec<Problem> {
    let mut found = source_problems(facts);
    found.extend(target_problems(facts));
    found.extend(privilege_problems(facts, asked));
    let tables = asked.parts.iter();
    found.extend(tables.flat_map(|part| table_problems(facts, part)));
    found
}

fn source_problems(facts: &Facts) -> Vec<Problem> {
    let source = &facts.source;
    let log = log_problems(&source.server).into_iter();
    let mut found: Vec<Problem> = log.map(|problem| on("source", problem)).collect();
    if !source.replicates.is_empty() && !facts.logs_replicated {
        let what = "the source is a replica, and log_replica_updates is OFF".to_owned();
        let fix = "start it with log-replica-updates, or name its own source: changes are read from the binary log";
        found.push(setting(what, fix));
    }
    if source.server.read_only && !facts.source_has_gtids {
        let what = "the source is read-only, and gtid_mode is not ON".to_owned();
        let fix = "name the server that takes the writes: without GTIDs a row must be written on the source";
        found.push(setting(what, fix));
    }
    found
}

fn target_problems(facts: &Facts) -> Vec<Problem> {
    let Facts { source, target, .. } = facts;
    let mut found = Vec::new();
    let (is, was) = (target.server.version_numbers, source.server.version_numbers);
    if target.server.mariadb || (is.0, is.1) < (was.0, was.1) {
        let what = format!(
            "the target is version {}, the source {}",
            target.server.version, source.server.version
        );
        let fix = "move to a MySQL of the same series or a later one: an older one may take rows for others";
        found.push(setting(what, fix));
    }
    if target.server.read_only {
        let what = "the target is read-only".to_owned();
        found.push(setting(what, "name the server that takes the writes"));
    }
    let log = &target.server;
    if log.log_bin && !log.binlog_format.eq_ignore_ascii_case("ROW") {
        let what = format!("on the target: binlog_format is {}", log.binlog_format);
        found.push(setting(what, "SET GLOBAL binlog_format = 'ROW' there"));
    }
    // Replication would bring what the move brings, or bring it back.
    for (one, other, names) in [
        (target, source, "the target replicates from the source"),
        (source, target, "the source replicates from the target"),
    ] {
        if one.uuid != other.uuid && one.replicates.contains(&other.uuid) {
            found.push(Problem {
                what: format!("{names}: rows would arrive by both ways"),
                fix: "end the replication between the two first, or let it do the move".to_owned(),
                remedy: Remedy::Usage,
            });
        }
    }
    found
}

fn table_problems(facts: &Facts, part: &Part) -> Vec<Problem> {
    let table = &part.table;
    let mut found = Vec::new();
    let mut refuse = |what: String, fix: &str, remedy: Remedy| {
        found.push(Problem {
            what,
            fix: fix.to_owned(),
            remedy,
        });
    };
    let name = table.name.plain();
    if let Some(key) = part.foreign_keys.iter().find(|key| key.cascades())
        && !facts.logs_cascades
    {
        let what = format!("{key} changes rows of {name} without a trace in the binary log");
        let fix = "drop it until the move is done, or move from MySQL 9.6 or later with innodb_native_foreign_keys = OFF";
        refuse(what, fix, Remedy::Usage);
    }
    let has_primary = table.indexes.iter().any(|i| i.name.as_str() == "PRIMARY");
    if facts.needs_primary_key && !has_primary {
        let what =
            format!("{name} has no primary key, and sql_require_primary_key is ON on the target");
        let fix = "SET GLOBAL sql_require_primary_key = OFF there, or give the table one";
        refuse(what, fix, Remedy::Privileges);
    }
    let (source, target) = (facts.source.packet_bytes, facts.target.packet_bytes);
    if target < source && longest_value(table) >= target {
        let what = format!(
            "{name} may hold rows that the target doesn't take: its max_allowed_packet is {target}, the source's {source}"
        );
        let fix = format!("SET GLOBAL max_allowed_packet = {source} on the target");
        refuse(what, &fix, Remedy::Privileges);
    }
    let lacks = table.columns.iter().filter_map(|c| c.collation.as_ref());
    let lacks: BTreeSet<&str> = lacks
        .filter(|collation| !facts.collations.contains(*collation))
        .map(String::as_str)
        .collect();
    if !lacks.is_empty() {
        let lacks: Vec<&str> = lacks.into_iter().collect();
        let what = format!(
            "the target doesn't know collation {} of {name}",
            lacks.join(", ")
        );
        refuse(
            what,
            "change it on the source, or move to a later version",
            Remedy::Usage,
        );
    }
    found
}

/// The most bytes that one value of the table may have.
///
/// Source: MySQL 9.7 manual, "Data Type Storage Requirements".
fn longest_value(table: &Table) -> u64 {
    let longest = |data_type: &str| match data_type {
        "longtext" | "longblob" | "json" | "geometry" | "point" | "linestring" | "polygon"
        | "multipoint" | "multilinestring" | "multipolygon" | "geomcollection" | "vector" => {
            u64::from(u32::MAX)
        }
        "mediumtext" | "mediumblob" => (1 << 24) - 1,
        _ => (1 << 16) - 1,
    };
    let columns = table.columns.iter();
    columns
        .map(|c| longest(c.data_type.as_str()))
        .max()
        .unwrap_or(0)
}

fn privilege_problems(facts: &Facts, asked: &Asked<'_>) -> Vec<Problem> {
    let source = source_privileges(&facts.source.server.grants, asked);
    let target = &facts.target.server;
    let watches = asked.watches && target.log_bin;
    let target = target_privileges(&target.grants, asked, watches);
    [("source", source), ("target", target)]
        .into_iter()
        .filter(|(_, missing)| !missing.is_empty())
        .map(|(side, missing)| {
            let what: Vec<String> = missing.iter().map(ToString::to_string).collect();
            let fix: Vec<String> = missing.iter().map(privileges::Missing::grant).collect();
            let what = format!("missing privileges on the {side}: {}", what.join("; "));
            setting(what, &fix.join("; "))
        })
        .collect()
}

fn source_privileges(grants: &[String], asked: &Asked<'_>) -> Vec<privileges::Missing> {
    let mut missing = Vec::new();
    missing.extend(privileges::missing_on_server(
        grants,
        &privileges::ON_SERVER,
    ));
    let on_source: &'static [&'static str] = &ON_SOURCE;
    let tables = asked.parts.iter();
    let needs: Vec<_> = tables
        .map(|part| (part.table.name.clone(), on_source))
        .collect();
    missing.extend(privileges::missing_on(grants, &needs));
    if !asked.is_replica {
        missing.extend(writer_privileges(grants, asked));
    }
    missing
}

/// What is missing on the server that the applications write to.
pub(super) fn writer_privileges(grants: &[String], asked: &Asked<'_>) -> Vec<privileges::Missing> {
    let mut missing = Vec::new();
    if asked.is_replica {
        missing.extend(privileges::missing_on_server(
            grants,
            &["REPLICATION CLIENT"],
        ));
    }
    // SUPER, which old users have, is as good.
    if asked.lock == Some(LockSource::ReadOnly)
        && privileges::missing_on_server(grants, &["SUPER"]).is_some()
    {
        let lacks = privileges::missing_on_server(grants, &["SYSTEM_VARIABLES_ADMIN"]);
        missing.extend(lacks);
    }
    let by_lock: &'static [&'static str] = match asked.lock {
        Some(LockSource::LockTables) => &ON_LOCKED,
        Some(LockSource::Rename) => &ON_RENAMED,
        _ => &[],
    };
    let tables = asked.parts.iter();
    let needs: Vec<_> = tables
        .map(|part| (part.table.name.clone(), by_lock))
        .collect();
    missing.extend(privileges::missing_on(grants, &needs));
    if let Some(marks) = asked.marks {
        missing.extend(privileges::missing_in(grants, &marks.schema, &IN_MARKS));
    }
    missing
}

fn target_privileges(
    grants: &[String],
    asked: &Asked<'_>,
    watches: bool,
) -> Vec<privileges::Missing> {
    let on_server: &[&'static str] = if watches {
        &privileges::ON_SERVER
    } else {
        &["REPLICATION CLIENT"]
    };
    let databases: BTreeSet<&Ident> = asked.targets.iter().map(|table| &table.schema).collect();
    let refers = asked.parts.iter().any(|part| !part.foreign_keys.is_empty());
    let mut needed = IN_TARGET.to_vec();
    needed.extend(refers.then_some("REFERENCES"));
    let in_databases = databases
        .into_iter()
        .filter_map(|database| privileges::missing_in(grants, database, &needed));
    let on_server = privileges::missing_on_server(grants, on_server);
    on_server.into_iter().chain(in_databases).collect()
}

/// Returns what the operator should know of tables that stay behind: `children`
/// are the foreign keys that refer to moved tables.
pub(super) fn notes(parts: &[Part], children: &[ForeignKey]) -> Vec<String> {
    let moved: BTreeSet<&TableName> = parts.iter().map(|part| &part.table.name).collect();
    let left = children.iter().filter(|key| !moved.contains(&key.child));
    left.map(|key| format!("{key} goes on referring to the source's table: its own isn't moved"))
        .collect()
}

fn on(side: &str, problem: Problem) -> Problem {
    Problem {
        what: format!("on the {side}: {}", problem.what),
        ..problem
    }
}

#[cfg(test)]
mod tests {
    use oxferry_schema::{Column, Index};

    use super::*;

    const ALL: &str = "GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost`";

    fn ident(text: &str) -> Ident {
        Ident::new(text).unwrap()
    }

    fn name(table: &str) -> TableName {
        TableName::new(ident("d"), ident(table))
    }

    fn side(uuid: &str) -> Side {
        Side {
            server: ServerFacts::fit(&[ALL]),
            uuid: uuid.to_owned(),
            replicates: Vec::new(),
            packet_bytes: 1 << 26,
        }
    }

    fn facts() -> Facts {
        Facts {
            source: side("s"),
            target: side("t"),
            source_has_gtids: true,
            logs_replicated: true,
            logs_cascades: true,
            needs_primary_key: true,
            collations: ["utf8mb4_bin".to_owned()].into(),
        }
    }

    fn key(on_delete: &str) -> ForeignKey {
        let key = r#"{"name":"f","child":{"schema":"d","table":"t"},"parent":{"schema":"d","table":"p"},
            "columns":["a"],"parent_columns":["a"],"on_update":"NO ACTION","on_delete":"#;
        serde_json::from_str(&format!("{key}\"{on_delete}\"}}")).unwrap()
    }

    fn table(data_type: &str, index: &str, collation: &str) -> Table {
        Table {
            name: name("t"),
            columns: vec![Column {
                name: ident("a"),
                data_type: data_type.to_owned(),
                column_type: data_type.to_owned(),
                charset: None,
                collation: Some(collation.to_owned()),
                nullable: false,
                invisible: false,
                generated: None,
                auto_increment: false,
                members: Vec::new(),
            }],
            indexes: vec![Index {
                name: ident(index),
                unique: true,
                visible: true,
                kind: "BTREE".to_owned(),
                parts: Vec::new(),
            }],
            engine: "InnoDB".to_owned(),
            row_estimate: 0,
            size_bytes: 0,
            auto_increment: None,
            create_statement: String::new(),
        }
    }

    fn asked<'a>(parts: &'a [Part], lock: LockSource) -> Asked<'a> {
        Asked {
            parts,
            targets: vec![name("t")],
            marks: None,
            lock: Some(lock),
            watches: true,
            is_replica: false,
        }
    }

    fn whats(problems: &[Problem]) -> Vec<&str> {
        assert!(problems.iter().all(|problem| !problem.fix.is_empty()));
        problems
            .iter()
            .map(|problem| problem.what.as_str())
            .collect()
    }

    #[test]
    fn two_fit_servers_have_no_problems() {
        let parts = [Part::new(
            table("longtext", "PRIMARY", "utf8mb4_bin"),
            vec![key("CASCADE")],
            Vec::new(),
        )];
        assert_eq!(problems(&facts(), &asked(&parts, LockSource::Rename)), []);
    }

    #[test]
    fn what_keeps_the_source_from_being_followed_is_named_with_its_side() {
        let mut unfit = facts();
        unfit.source.server.binlog_row_image = "MINIMAL".to_owned();
        unfit.source.replicates = vec!["other".to_owned()];
        unfit.logs_replicated = false;
        unfit.source.server.read_only = true;
        unfit.source_has_gtids = false;
        assert_eq!(
            whats(&problems(&unfit, &asked(&[], LockSource::Hook))),
            [
                "on the source: binlog_row_image is MINIMAL",
                "the source is a replica, and log_replica_updates is OFF",
                "the source is read-only, and gtid_mode is not ON",
            ]
        );
    }

    #[test]
    fn an_older_or_shut_target_and_one_that_replicates_are_refused() {
        let mut unfit = facts();
        unfit.target.server.version_numbers = (8, 0, 40);
        unfit.target.server.version = "8.0.40".to_owned();
        unfit.target.server.read_only = true;
        unfit.target.server.binlog_format = "STATEMENT".to_owned();
        unfit.target.replicates = vec!["s".to_owned()];
        assert_eq!(
            whats(&problems(&unfit, &asked(&[], LockSource::Hook))),
            [
                "the target is version 8.0.40, the source 9.7.4",
                "the target is read-only",
                "on the target: binlog_format is STATEMENT",
                "the target replicates from the source: rows would arrive by both ways",
            ]
        );
    }

    #[test]
    fn a_table_that_the_target_would_not_take_as_it_is_is_refused() {
        let mut unfit = facts();
        unfit.logs_cascades = false;
        unfit.target.packet_bytes = 1 << 20;
        let table = table("mediumblob", "u", "utf8mb4_xy");
        let parts = [Part::new(table, vec![key("SET NULL")], Vec::new())];
        assert_eq!(
            whats(&problems(&unfit, &asked(&parts, LockSource::Hook))),
            [
                "foreign key f of d.t to d.p changes rows of d.t without a trace in the binary log",
                "d.t has no primary key, and sql_require_primary_key is ON on the target",
                "d.t may hold rows that the target doesn't take: its max_allowed_packet is 1048576, the source's 67108864",
                "the target doesn't know collation utf8mb4_xy of d.t",
            ]
        );
    }

    #[test]
    fn missing_privileges_are_named_with_their_side_and_their_grants() {
        let mut poor = facts();
        let server = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`";
        let granted = |more: &str| vec![server.to_owned(), more.to_owned()];
        poor.source.server.grants = granted("GRANT SELECT, TRIGGER ON `d`.`t` TO `u`@`%`");
        poor.target.server.grants = granted(
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX ON `d`.* TO `u`@`%`",
        );
        let parts = [Part::new(
            table("int", "PRIMARY", "utf8mb4_bin"),
            vec![key("CASCADE")],
            Vec::new(),
        )];
        let (marks, mut asked) = (name("_t_oxstate"), asked(&parts, LockSource::ReadOnly));
        asked.marks = Some(&marks);
        let found = problems(&poor, &asked);
        assert_eq!(
            whats(&found),
            [
                "missing privileges on the source: SYSTEM_VARIABLES_ADMIN; SELECT, INSERT, UPDATE, DELETE, CREATE, DROP on d",
                "missing privileges on the target: TRIGGER, REFERENCES on d",
            ]
        );
        assert_eq!(
            found.get(1).unwrap().fix,
            "GRANT TRIGGER, REFERENCES ON `d`.* TO the user"
        );
    }

    #[test]
    fn a_child_that_stays_behind_is_noted() {
        let parts = [Part::new(
            table("int", "PRIMARY", "utf8mb4_bin"),
            Vec::new(),
            Vec::new(),
        )];
        let mut left = key("CASCADE");
        left.child = name("left");
        let notes = notes(&parts, &[key("CASCADE"), left]);
        assert_eq!(
            notes,
            [
                "foreign key f of d.left to d.p goes on referring to the source's table: its own isn't moved"
            ]
        );
    }
}

//! What a way back needs besides what the move itself does.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{Part, Remedy, ShadowNames};

use crate::{
    args::{LockSource, MoveArgs, TargetTables},
    failure::Failure,
    job::{Job, Problem, log_problems, privileges, setting, table_exists},
    moving::preflight::Facts,
};

/// What flows back is written so; the AUTO_INCREMENT value is raised at the end.
/// Where the source's tables are renamed, they have another name then, so that
/// the privileges are needed in the whole database.
const IN_SOURCE: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "ALTER"];

/// Returns what is in the way of taking the move back later; nothing where
/// nobody wants that. `conn` is on the target.
pub(in crate::moving) async fn check(
    args: &MoveArgs,
    core: &Job,
    parts: &[Part],
    (facts, conn): (&Facts, &mut Conn),
) -> Result<Vec<Problem>, Failure> {
    if args.switch.reverse_for.is_none() {
        return Ok(Vec::new());
    }
    let mut found = server_problems(args, facts);
    // A line for each table, and one for each option that says which rows go.
    if core.identity.statements.len() != core.tables.len() {
        found.push(Problem {
            what: "only some rows of the tables are moved, and others' would flow to the source"
                .to_owned(),
            fix: "leave out --reverse-for".to_owned(),
            remedy: Remedy::Usage,
        });
    }
    found.extend(table_problems(parts, logs_cascades(conn).await?));
    found.extend(privilege_problems(args, core, facts));
    let first = core.tables.iter().min_by_key(|table| &table.source.name);
    if let Some(first) = first {
        let request = ShadowNames::beside(&first.target).reverse;
        if table_exists(conn, &request).await? {
            found.push(Problem {
                what: format!(
                    "table {} on the target would take the move back at once",
                    request.plain()
                ),
                fix: "drop it".to_owned(),
                remedy: Remedy::Usage,
            });
        }
    }
    Ok(found)
}

fn server_problems(args: &MoveArgs, facts: &Facts) -> Vec<Problem> {
    let log = log_problems(&facts.target.server).into_iter();
    let mut found: Vec<Problem> = log
        .map(|problem| Problem {
            what: format!("on the target: {}", problem.what),
            ..problem
        })
        .collect();
    if facts.source.server.read_only {
        let what = "the source is read-only: nothing can flow back to it".to_owned();
        found.push(setting(
            what,
            "name the server that takes the writes, or leave out --reverse-for",
        ));
    }
    if args.target_tables == TargetTables::Matching {
        found.push(Problem {
            what: "rows that stood on the target before would flow to the source".to_owned(),
            fix: "leave out --reverse-for, or let the move make its tables".to_owned(),
            remedy: Remedy::Usage,
        });
    }
    found
}

fn table_problems(parts: &[Part], target_logs_cascades: bool) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut refuse = |what: String| {
        found.push(Problem {
            what,
            fix: "leave out --reverse-for, or drop it until the move is settled".to_owned(),
            remedy: Remedy::Usage,
        });
    };
    for part in parts {
        let table = part.table.name.plain();
        if let Some(trigger) = part.triggers.first() {
            refuse(format!(
                "trigger {} of {table} would act once more on what flows back",
                trigger.name.as_str()
            ));
        }
        let mut keys = part.foreign_keys.iter();
        if let Some(key) = keys.find(|key| key.cascades() && !target_logs_cascades) {
            refuse(format!(
                "{key} changes rows of {table} on the target without a trace in its binary log"
            ));
        }
    }
    found
}

fn privilege_problems(args: &MoveArgs, core: &Job, facts: &Facts) -> Vec<Problem> {
    let shuts = args.switch.lock_source == Some(LockSource::ReadOnly);
    let admin = |grants: &[String], needed: &'static [&'static str]| {
        // SUPER, which old users have, is as good.
        let super_user = privileges::missing_on_server(grants, &["SUPER"]).is_none();
        let missing = privileges::missing_on_server(grants, needed);
        missing.filter(|_| shuts && !super_user)
    };
    let source = &facts.source.server.grants;
    let databases = core.tables.iter().map(|table| &table.source.name.schema);
    let databases: std::collections::BTreeSet<_> = databases.collect();
    let mut on_source: Vec<_> = databases
        .into_iter()
        .filter_map(|database| privileges::missing_in(source, database, &IN_SOURCE))
        .collect();
    on_source.extend(admin(source, &["CONNECTION_ADMIN"]));
    let target = &facts.target.server.grants;
    let mut on_target: Vec<_> = privileges::missing_on_server(target, &privileges::ON_SERVER)
        .into_iter()
        .collect();
    on_target.extend(admin(
        target,
        &["SYSTEM_VARIABLES_ADMIN", "CONNECTION_ADMIN"],
    ));
    if args.switch.lock_source == Some(LockSource::LockTables) {
        let databases = core.tables.iter().map(|table| &table.target.schema);
        let databases: std::collections::BTreeSet<_> = databases.collect();
        let lacks = databases
            .into_iter()
            .filter_map(|database| privileges::missing_in(target, database, &["LOCK TABLES"]));
        on_target.extend(lacks);
    }
    [("source", on_source), ("target", on_target)]
        .into_iter()
        .filter(|(_, missing)| !missing.is_empty())
        .map(|(side, missing)| {
            let what: Vec<String> = missing.iter().map(ToString::to_string).collect();
            let fix: Vec<String> = missing.iter().map(privileges::Missing::grant).collect();
            let what = format!(
                "missing privileges on the {side} for --reverse-for: {}",
                what.join("; ")
            );
            setting(what, &fix.join("; "))
        })
        .collect()
}

/// Returns whether a server logs what a change of a parent does to its children.
///
/// Source: MySQL 9.7 manual, `innodb_native_foreign_keys`.
async fn logs_cascades(conn: &mut Conn) -> Result<bool, Failure> {
    let query = "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'";
    let native: Option<(String, String)> = conn.query_first(query).await.map_err(|error| {
        Failure::new(Remedy::Retry, error).context("reading the target's settings")
    })?;
    Ok(native.is_some_and(|(_, value)| value == "OFF"))
}

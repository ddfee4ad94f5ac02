//! A job before anything is written: what is asked for, and what stands.

use mysql_async::Conn;
use oxferry_schema::{
    Alter, Attached, KeyError, ReadError, Remedy, RowKey, ServerInfo, ServerUrl, ShadowNames,
    StatementError, Table, TableName,
};
use oxferry_state::JobIdentity;

use super::{
    attached, facts, neighbours, preflight,
    request::{Request, Rest},
};
use crate::{
    args::MigrateArgs,
    comparing::Comparing,
    failure::{Failure, remedied},
    job::{Job, Problem, ServerFacts, Settings, Site, refuse},
    source,
};

remedied!(KeyError, ReadError, StatementError);

/// A change of tables before anything is written.
#[derive(Debug)]
pub(crate) struct Migration {
    pub(crate) core: Job,
    pub(crate) args: MigrateArgs,
    /// The tables of `core`, in the same order, and what becomes of each.
    pub(crate) tables: Vec<JobTable>,
}

/// One table of a job, and what becomes of it.
#[derive(Debug)]
pub(crate) struct JobTable {
    pub(crate) source: Table,
    pub(crate) key: RowKey,
    pub(crate) names: ShadowNames,
    pub(crate) alter: Alter,
    /// What hangs on it; of its children only those that aren't tables of the
    /// job themselves.
    pub(crate) attached: Attached,
}

/// A table that was asked for and is there.
struct Looked {
    table: Table,
    key: Result<RowKey, KeyError>,
    alter: Alter,
    attached: Attached,
}

impl Migration {
    /// Looks at the server and the tables, and checks everything that must be
    /// right before a job may start.
    ///
    /// # Errors
    ///
    /// A failure for the first thing that can't be read; else one that counts
    /// the problems, each of which has been logged.
    pub(crate) async fn look(args: MigrateArgs, rest: Rest) -> Result<(Self, Conn), Failure> {
        let url = source::source_url(&args.server)?;
        let Rest { requests, done } = rest;
        let (site, mut conn) = Site::look(url).await?;
        let server = ServerFacts::read(&mut conn, &site.info).await?;
        let mut looked = Vec::with_capacity(requests.len());
        let (mut names, mut of_tables) = (Vec::new(), Vec::new());
        for request in requests {
            match look_at(&mut conn, request, &site.info).await? {
                Ok(table) => {
                    let key_error = table.key.as_ref().err();
                    let facts = facts::table(&table.table, key_error);
                    of_tables.extend(preflight::table_problems(&facts));
                    names.push(table.table.name.clone());
                    looked.push(table);
                }
                Err(missing) => {
                    of_tables.push(no_table(&missing, &site.url));
                    names.push(missing);
                }
            }
        }
        let mut problems = preflight::server_problems(&server);
        // By the names that the server has, as its grants have them.
        problems.extend(preflight::privilege_problems(&server.grants, &names));
        problems.extend(of_tables);
        let rebuild = args.cutover.rebuild_foreign_keys;
        problems.extend(neighbours(&mut conn, &mut looked, &server.grants, rebuild).await?);
        refuse(&problems)?;
        refuse_twice(&looked)?;
        let tables = looked.into_iter().map(JobTable::new);
        let tables = tables.collect::<Result<Vec<_>, KeyError>>()?;
        Ok((Self::new((args, site), tables, done)?, conn))
    }

    fn new(
        (args, site): (MigrateArgs, Site),
        tables: Vec<JobTable>,
        done: Vec<String>,
    ) -> Result<Self, Failure> {
        let Some(first) = tables.first() else {
            let error = anyhow::anyhow!("a job without a table");
            return Err(Failure::new(Remedy::Bug, error));
        };
        let names = tables.iter().map(|table| table.source.name.clone());
        // The same text whichever options gave it, so that either resumes the other's job.
        let statements = tables.iter().map(JobTable::statement).chain(done);
        let core = Job {
            settings: Settings {
                server: args.server.clone(),
                copy: args.copy.clone(),
                comparing: Comparing::default(),
                throttle: args.throttle.clone(),
                postpone: args.cutover.postpone.clone(),
                run: args.run.clone(),
            },
            sentinel: first.names.sentinel.clone(),
            state: first.names.state.clone(),
            marks: first.names.state.clone(),
            in_order: false,
            identity: JobIdentity::migrate(names.collect(), statements.collect()),
            source: site.clone(),
            primary: None,
            target: site,
            tables: tables.iter().map(JobTable::core).collect(),
        };
        Ok(Self { core, args, tables })
    }
}

impl JobTable {
    fn new(looked: Looked) -> Result<Self, KeyError> {
        let Looked {
            table,
            key,
            alter,
            attached,
        } = looked;
        Ok(Self {
            attached,
            names: ShadowNames::beside(&table.name),
            source: table,
            key: key?,
            alter,
        })
    }

    fn core(&self) -> crate::job::JobTable {
        crate::job::JobTable {
            source: self.source.clone(),
            key: self.key.clone(),
            target: self.names.shadow.clone(),
            rows: crate::job::Rows::All,
        }
    }

    /// Returns the statement that changes the table, with its full name.
    pub(crate) fn statement(&self) -> String {
        self.alter.statement_for(&self.source.name)
    }
}

/// Reads a table that was asked for; the inner error is the name of one that
/// isn't there.
async fn look_at(
    conn: &mut Conn,
    request: Request,
    info: &ServerInfo,
) -> Result<Result<Looked, TableName>, Failure> {
    let Request { table: name, alter } = request;
    let Some(table) = Table::read(conn, &name).await? else {
        return Ok(Err(name));
    };
    alter.check_table(&table.name, info.lower_case_table_names)?;
    let key = table.row_key();
    let attached = Attached::read(conn, &table.name).await?;
    Ok(Ok(Looked {
        table,
        key,
        alter,
        attached,
    }))
}

/// Returns what is wrong with what hangs on the tables, and leaves out of it
/// what the job's other tables bring themselves.
async fn neighbours(
    conn: &mut Conn,
    looked: &mut [Looked],
    grants: &[String],
    rebuild: bool,
) -> Result<Vec<Problem>, Failure> {
    let sources: Vec<TableName> = looked.iter().map(|one| one.table.name.clone()).collect();
    let mut problems = Vec::new();
    for one in looked.iter_mut() {
        let attached = std::mem::take(&mut one.attached);
        one.attached = attached.without_children(&sources);
        let facts = attached::facts(conn, &one.table.name, &one.attached, grants).await?;
        problems.extend(neighbours::problems(&facts, rebuild));
    }
    let all = looked.iter().map(|one| &one.attached);
    problems.extend(preflight::neighbour_privileges(grants, all));
    Ok(problems)
}

fn no_table(name: &TableName, url: &ServerUrl) -> Problem {
    Problem {
        what: format!("there is no table {} on {url}", name.plain()),
        fix: "write its name as SHOW TABLES prints it".to_owned(),
        remedy: Remedy::Usage,
    }
}

/// Two statements about one table would be two shadows of it.
///
/// The names are as the server has them, so they are one table's only if they
/// are equal, whatever the letter case that they were typed in.
fn refuse_twice(looked: &[Looked]) -> Result<(), Failure> {
    let names = || looked.iter().map(|one| &one.table.name);
    let twice = names()
        .enumerate()
        .find(|(at, name)| names().take(*at).any(|n| n == *name));
    let Some((_, name)) = twice else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "two statements change table {}: put all its clauses into one statement",
        name.plain()
    )))
}

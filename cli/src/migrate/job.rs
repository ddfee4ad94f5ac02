//! A job before anything is written: what is asked for, and what stands.

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_binlog::{FilePosition, Position};
use oxferry_schema::{
    Alter, Attached, ConnectError, Ident, KeyError, ReadError, Remedy, RowKey, ServerInfo,
    ServerInfoError, ServerUrl, ShadowNames, StatementError, Table, TableName, connect,
    current_position,
};
use oxferry_state::JobIdentity;

use super::{
    attached, facts, neighbours,
    preflight::{self, Problem},
    request::{Request, Rest},
};
use crate::{
    args::MigrateArgs,
    failure::{Failure, remedied},
    source,
};

remedied!(
    ConnectError,
    KeyError,
    ReadError,
    ServerInfoError,
    StatementError
);

/// A job before anything is written.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) args: MigrateArgs,
    pub(crate) url: ServerUrl,
    pub(crate) info: ServerInfo,
    /// The tables in the order in which they were given; their places in this
    /// list are their numbers everywhere else. Never empty.
    pub(crate) tables: Vec<JobTable>,
    /// The table that postpones the cutover; named after the first table.
    pub(crate) sentinel: TableName,
    /// The checkpoint's table; named after the first table.
    pub(crate) state: TableName,
    pub(crate) identity: JobIdentity,
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

impl Job {
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
        let mut conn = connect(&url, "preflight").await?;
        let url = url.settled(&conn);
        let info = ServerInfo::read(&mut conn).await?;
        let server = facts::server(&mut conn, &info).await?;
        let mut looked = Vec::with_capacity(requests.len());
        let (mut names, mut of_tables) = (Vec::new(), Vec::new());
        for request in requests {
            match look_at(&mut conn, request, &info).await? {
                Ok(table) => {
                    let key_error = table.key.as_ref().err();
                    let facts = facts::table(&table.table, key_error);
                    of_tables.extend(preflight::table_problems(&facts));
                    names.push(table.table.name.clone());
                    looked.push(table);
                }
                Err(missing) => {
                    of_tables.push(no_table(&missing, &url));
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
        Ok((Self::new((args, url, info), tables, done)?, conn))
    }

    fn new(
        (args, url, info): (MigrateArgs, ServerUrl, ServerInfo),
        tables: Vec<JobTable>,
        done: Vec<String>,
    ) -> Result<Self, Failure> {
        let Some(first) = tables.first() else {
            let error = anyhow::anyhow!("a job without a table");
            return Err(Failure::new(Remedy::Bug, error));
        };
        let (sentinel, state) = (first.names.sentinel.clone(), first.names.state.clone());
        let names = tables.iter().map(|table| table.source.name.clone());
        // The same text whichever options gave it, so that either resumes the other's job.
        let statements = tables.iter().map(JobTable::statement).chain(done);
        let identity = JobIdentity::migrate(names.collect(), statements.collect());
        Ok(Self {
            args,
            url,
            info,
            tables,
            sentinel,
            state,
            identity,
        })
    }

    /// Returns the client library's options for sessions that work for `purpose`.
    pub(crate) fn opts(&self, purpose: &str) -> Opts {
        self.url.opts(purpose)
    }

    /// Returns the names of the tables, in the job's order.
    pub(crate) fn sources(&self) -> Vec<TableName> {
        let names = self.tables.iter().map(|table| &table.source.name);
        names.cloned().collect()
    }

    /// Returns the server's estimate of the rows of all tables.
    pub(crate) fn row_estimate(&self) -> u64 {
        let rows = self.tables.iter().map(|table| table.source.row_estimate);
        rows.fold(0, u64::saturating_add)
    }

    /// Returns where the source's binary log ends now.
    pub(crate) async fn position(&self, conn: &mut Conn) -> Result<Position, Failure> {
        let now = current_position(conn, &self.info.version).await?;
        let unusable =
            |error| Failure::new(Remedy::Bug, error).context("reading the server's position");
        let file = FilePosition::new(&now.file, now.offset_bytes)
            .map_err(|e| unusable(anyhow::Error::new(e)))?;
        let gtids = if self.info.has_gtids() {
            Some(
                now.executed_gtids
                    .parse()
                    .map_err(|e| unusable(anyhow::Error::new(e)))?,
            )
        } else {
            None
        };
        Ok(Position { file, gtids })
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

    /// Returns about how many bytes a row takes, its share of the indexes
    /// included; 0 if that isn't known.
    pub(crate) fn row_bytes(&self) -> u64 {
        let bytes = self.source.size_bytes;
        bytes.checked_div(self.source.row_estimate).unwrap_or(0)
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

/// Logs each problem with what removes it, and counts them in the failure.
pub(super) fn refuse(problems: &[Problem]) -> Result<(), Failure> {
    let Some(first) = problems.first() else {
        return Ok(());
    };
    // One alone is the last line, which every error ends with.
    for problem in problems.iter().filter(|_| problems.len() > 1) {
        tracing::error!("{}: {}", problem.what, problem.fix);
    }
    let message = match problems.len() {
        1 => format!("{}: {}", first.what, first.fix),
        count => format!("{count} things are in the way, each named above"),
    };
    Err(Failure::new(
        preflight::remedy(problems),
        anyhow::anyhow!(message),
    ))
}

/// Returns whether a table of exactly this name exists.
pub(crate) async fn table_exists(conn: &mut Conn, name: &TableName) -> Result<bool, Failure> {
    let query =
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = ? AND table_name = ?";
    let (schema, table): (&Ident, &Ident) = (&name.schema, &name.table);
    let count: Option<u64> = conn
        .exec_first(query, (schema.as_str(), table.as_str()))
        .await
        .map_err(|error| {
            Failure::new(Remedy::Retry, error)
                .context(format!("looking for table {}", name.plain()))
        })?;
    Ok(count == Some(1))
}

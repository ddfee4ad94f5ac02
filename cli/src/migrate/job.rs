//! A job before anything is written: what is asked for, and what stands.

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_binlog::{FilePosition, Position};
use oxferry_schema::{
    Alter, ConnectError, Ident, KeyError, ReadError, Remedy, RowKey, ServerInfo, ServerInfoError,
    ServerUrl, ShadowNames, StatementError, Table, TableName, connect, current_position,
};
use oxferry_state::JobIdentity;

use super::preflight::{self, Facts, Problem};
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
    pub(crate) source: Table,
    pub(crate) key: RowKey,
    pub(crate) names: ShadowNames,
    pub(crate) alter: Alter,
    pub(crate) identity: JobIdentity,
}

/// What the operator asked for, read and checked without a server.
struct Request {
    table: TableName,
    alter: Alter,
}

impl Job {
    /// Looks at the server and the table, and checks everything that must be
    /// right before a job may start.
    ///
    /// # Errors
    ///
    /// A failure for the first thing that can't be read; else one that counts
    /// the problems, each of which has been logged.
    pub(crate) async fn look(args: MigrateArgs) -> Result<(Self, Conn), Failure> {
        let url = source::source_url(&args.server)?;
        let request = Request::new(&args, &url)?;
        let mut conn = connect(&url, "preflight").await?;
        let url = url.settled(&conn);
        let info = ServerInfo::read(&mut conn).await?;
        let table = Table::read(&mut conn, &request.table)
            .await?
            .ok_or_else(|| {
                Failure::usage(format!(
                    "there is no table {} on {url}",
                    request.table.plain()
                ))
            })?;
        request
            .alter
            .check_table(&table.name, info.lower_case_table_names)?;
        let key = fit_key(&table);
        let facts = facts(&mut conn, &info, &table, key.as_ref().err()).await?;
        refuse(&preflight::problems(&facts))?;
        let names = ShadowNames::beside(&table.name);
        // The same text whichever options gave it, so that either resumes the other's job.
        let statement = request.alter.statement_for(&table.name);
        let identity = JobIdentity::migrate(vec![table.name.clone()], vec![statement]);
        let alter = request.alter;
        Ok((
            Self {
                args,
                url,
                info,
                source: table,
                key: key?,
                names,
                alter,
                identity,
            },
            conn,
        ))
    }

    /// Returns the client library's options for sessions that work for `purpose`.
    pub(crate) fn opts(&self, purpose: &str) -> Opts {
        self.url.opts(purpose)
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

impl Request {
    fn new(args: &MigrateArgs, url: &ServerUrl) -> Result<Self, Failure> {
        match (args.statement.as_slice(), &args.table, &args.alter) {
            ([statement], None, None) => {
                let alter = Alter::parse(statement)?;
                let table = alter.table(url.database()).ok_or_else(|| {
                    Failure::usage("the statement names no database: add one there, or to the URL")
                })?;
                Ok(Self { table, alter })
            }
            ([], Some(table), Some(clauses)) => {
                let table = source::table_name(table, url)?;
                let alter = Alter::clauses(clauses)?;
                Ok(Self { table, alter })
            }
            ([_, _, ..], ..) => Err(Failure::usage(
                "several --statement options were given: this version changes one table a job",
            )),
            _ => Err(Failure::usage(
                "say what to change: --table NAME and --alter \"CLAUSES\", or --statement \"ALTER TABLE …\"",
            )),
        }
    }
}

/// Keys whose order only the server knows come with the next step.
fn fit_key(table: &Table) -> Result<RowKey, KeyError> {
    let key = table.row_key()?;
    if key.is_client_ordered() {
        return Ok(key);
    }
    Err(KeyError::UnsupportedType {
        table: table.name.plain(),
        index: key.index.as_str().to_owned(),
        column: key.columns.iter().map(ToString::to_string).collect(),
        column_type: "not of integers or bytes".to_owned(),
    })
}

async fn facts(
    conn: &mut Conn,
    info: &ServerInfo,
    table: &Table,
    key_error: Option<&KeyError>,
) -> Result<Facts, Failure> {
    let grants: Vec<String> = conn.query("SHOW GRANTS").await.map_err(|error| {
        Failure::new(Remedy::Retry, error).context("reading the user's privileges")
    })?;
    let foreign_keys = Table::foreign_keys(conn, &table.name).await?;
    let referenced_by = Table::referencing_foreign_keys(conn, &table.name).await?;
    let triggers = Table::triggers(conn, &table.name).await?;
    let prepared_xa = oxferry_schema::prepared_xa(conn).await?;
    Ok(Facts {
        table: table.name.clone(),
        version: info.version.text.clone(),
        version_numbers: info.version.numbers,
        mariadb: info.version.is_mariadb,
        log_bin: info.log_bin,
        binlog_format: info.binlog_format.clone(),
        binlog_row_image: info.binlog_row_image.clone(),
        binlog_row_value_options: info.binlog_row_value_options.clone(),
        binlog_order_commits: info.binlog_order_commits,
        binlog_checksum: info.binlog_checksum.clone(),
        prepared_xa,
        read_only: info.read_only || info.super_read_only,
        grants,
        engine: table.engine.clone(),
        key_problem: key_error.map(ToString::to_string),
        foreign_keys: foreign_keys
            .iter()
            .map(|key| key.name.as_str().to_owned())
            .collect(),
        referenced_by: referenced_by
            .iter()
            .map(|key| format!("{} of {}", key.name.as_str(), key.child.plain()))
            .collect(),
        triggers: triggers
            .iter()
            .map(|trigger| trigger.name.as_str().to_owned())
            .collect(),
    })
}

/// Logs each problem with what removes it, and counts them in the failure.
fn refuse(problems: &[Problem]) -> Result<(), Failure> {
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

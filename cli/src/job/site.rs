//! A server, as a job sees it.

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_binlog::{FilePosition, Position};
use oxferry_schema::{
    ConnectError, Ident, Remedy, ServerInfo, ServerInfoError, ServerUrl, TableName, connect,
    current_position,
};

use crate::failure::{Failure, remedied};

remedied!(ConnectError, ServerInfoError);

/// A server, and what was read of it.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) url: ServerUrl,
    pub(crate) info: ServerInfo,
}

impl Site {
    /// Connects for the first time, and reads what the server is.
    pub(crate) async fn look(url: ServerUrl) -> Result<(Self, Conn), Failure> {
        let mut conn = connect(&url, "preflight").await?;
        let url = url.settled(&conn);
        let info = ServerInfo::read(&mut conn).await?;
        Ok((Self { url, info }, conn))
    }

    /// Connects for work of `purpose`.
    pub(crate) async fn connect(&self, purpose: &str) -> Result<Conn, Failure> {
        Ok(connect(&self.url, purpose).await?)
    }

    /// Returns the client library's options for sessions that work for `purpose`.
    pub(crate) fn opts(&self, purpose: &str) -> Opts {
        self.url.opts(purpose)
    }

    /// Returns where the server's binary log ends now.
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

    /// The same, where the log was read up to `read` before the call.
    ///
    /// A log that is emptied while its first file is written goes on in a file
    /// of the same name, and the server doesn't tell a reader who is further
    /// on: it waits, and all that is written meanwhile counts as read.
    /// Observed on 9.7.4; a reader of any later file gets an error.
    pub(crate) async fn position_after(
        &self,
        conn: &mut Conn,
        read: Option<&FilePosition>,
    ) -> Result<Position, Failure> {
        let end = self.position(conn).await?;
        let Some(read) = read.filter(|read| **read > end.file) else {
            return Ok(end);
        };
        let why = LogReset {
            server: self.url.to_string(),
            read: read.clone(),
            end: end.file,
        };
        Err(Failure::new(Remedy::State, why))
    }
}

/// A binary log was emptied while it was read.
#[derive(Debug, thiserror::Error)]
#[error(
    "the binary log of {server} ends at {end}, but was read up to {read}: it was reset, and what was \
     written then is not known; start anew with --fresh"
)]
struct LogReset {
    server: String,
    read: FilePosition,
    end: FilePosition,
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

/// Drops tables in one statement, which may refer to each other; none is
/// dropped where one can't be. What isn't there is no error.
pub(crate) async fn drop_together(conn: &mut Conn, tables: &[&TableName]) -> Result<(), Failure> {
    if tables.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = tables.iter().map(ToString::to_string).collect();
    let names = names.join(", ");
    conn.query_drop(format!("DROP TABLE IF EXISTS {names}"))
        .await
        .map_err(|error| {
            let remedy = match oxferry_schema::classify(&error).remedy() {
                Remedy::Bug => Remedy::Retry,
                remedy => remedy,
            };
            Failure::new(remedy, error).context(format!("dropping {names}"))
        })
}

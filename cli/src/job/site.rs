//! A server, as a job sees it.

use mysql_async::{Conn, Opts};
use oxferry_binlog::{FilePosition, Position};
use oxferry_schema::{
    ConnectError, Remedy, ServerInfo, ServerInfoError, ServerUrl, connect, current_position,
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
}

//! Whom a server replicates from, and whether it does.

use mysql_async::{Conn, Row, prelude::Queryable};
use oxferry_schema::{ErrorClass, ServerInfo, classify};

use super::primary::failed;
use crate::failure::Failure;

/// One server that another one replicates from.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    /// The server, as `host:port`.
    pub(super) source: String,
    /// `@@server_uuid` of it; empty before the first connection.
    pub(super) source_uuid: String,
    /// The two threads: name, whether it runs and is connected, its last error.
    pub(super) threads: [(&'static str, bool, String); 2],
    /// What isn't replicated: `replicate_do_db=x`.
    pub(super) filters: Vec<String>,
}

impl Channel {
    /// Says which thread doesn't run, if one doesn't.
    pub(super) fn stopped(&self) -> Option<String> {
        let (name, _, error) = self.threads.iter().find(|(_, runs, _)| !runs)?;
        let colon = if error.is_empty() { "" } else { ": " };
        Some(format!("its {name} doesn't run{colon}{error}"))
    }

    /// Reads a row, whose columns have either of the two vocabularies.
    fn of(row: &Row) -> Self {
        let text = |names: [&str; 2]| {
            let mut values = names.into_iter();
            let value = values.find_map(|name| row.get_opt::<String, _>(name)?.ok());
            value.unwrap_or_default()
        };
        let port = ["Source_Port", "Master_Port"];
        let port = port
            .into_iter()
            .find_map(|name| row.get_opt::<u64, _>(name)?.ok());
        let filters = FILTERS.into_iter().filter_map(|name| {
            let value = row.get_opt::<String, _>(name)?.ok()?;
            (!value.is_empty()).then(|| format!("{}={value}", name.to_lowercase()))
        });
        let runs = |names| text(names) == "Yes";
        Self {
            source: format!(
                "{}:{}",
                text(["Source_Host", "Master_Host"]),
                port.unwrap_or_default()
            ),
            source_uuid: text(["Source_UUID", "Master_UUID"]),
            threads: [
                (
                    "receiver",
                    runs(["Replica_IO_Running", "Slave_IO_Running"]),
                    text(["Last_IO_Error", "Last_IO_Error"]),
                ),
                (
                    "applier",
                    runs(["Replica_SQL_Running", "Slave_SQL_Running"]),
                    text(["Last_SQL_Error", "Last_SQL_Error"]),
                ),
            ],
            filters: filters.collect(),
        }
    }
}

/// Returns whom a server replicates from; nobody, if the user isn't told: the
/// privilege is asked for in any case.
pub(super) async fn channels(conn: &mut Conn, info: &ServerInfo) -> Result<Vec<Channel>, Failure> {
    // Source: MySQL 8.0 manual, "SHOW REPLICA STATUS Statement".
    let statement = if info.version.is_mysql_at_least((8, 0, 22)) {
        "SHOW REPLICA STATUS"
    } else {
        "SHOW SLAVE STATUS"
    };
    let rows: Result<Vec<Row>, _> = conn.query(statement).await;
    match rows {
        Ok(rows) => Ok(rows.iter().map(Channel::of).collect()),
        Err(error) if classify(&error) == ErrorClass::Privileges => Ok(Vec::new()),
        Err(error) => Err(failed(error, "looking whom the server replicates from")),
    }
}

/// Source: MySQL 9.7 manual, "SHOW REPLICA STATUS Statement".
const FILTERS: [&str; 7] = [
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Rewrite_DB",
];

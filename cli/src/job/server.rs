//! What any job needs of a server.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{Remedy, ServerInfo};

use super::Problem;
use crate::failure::Failure;

/// What preflight looks at of a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerFacts {
    /// The server's version, as it prints it.
    pub(crate) version: String,
    /// Its numbers: major, minor, patch.
    pub(crate) version_numbers: (u16, u16, u16),
    /// Whether it is MariaDB.
    pub(crate) mariadb: bool,
    /// `@@log_bin`.
    pub(crate) log_bin: bool,
    /// `@@binlog_format`.
    pub(crate) binlog_format: String,
    /// `@@binlog_row_image`.
    pub(crate) binlog_row_image: String,
    /// `@@binlog_row_value_options`.
    pub(crate) binlog_row_value_options: String,
    /// `@@binlog_order_commits`.
    pub(crate) binlog_order_commits: bool,
    /// `@@binlog_checksum`.
    pub(crate) binlog_checksum: String,
    /// XA transactions that are prepared, as far as the user may see them.
    pub(crate) prepared_xa: Vec<String>,
    /// `@@read_only` or `@@super_read_only`.
    pub(crate) read_only: bool,
    /// The lines of `SHOW GRANTS`.
    pub(crate) grants: Vec<String>,
}

/// The oldest version that does all that a job needs.
///
/// `RENAME TABLE` under `LOCK TABLES` came with 8.0.13, casts to `DOUBLE` and
/// `FLOAT`, which fingerprints need, with 8.0.17.
/// Source: MySQL 8.0 manual, "RENAME TABLE Statement", and "Cast Functions and
/// Operators".
const VERSION_MIN: (u16, u16, u16) = (8, 0, 17);

impl ServerFacts {
    /// Reads what a job depends on, whatever its tables.
    pub(crate) async fn read(conn: &mut Conn, info: &ServerInfo) -> Result<Self, Failure> {
        let grants: Vec<String> = conn.query("SHOW GRANTS").await.map_err(|error| {
            Failure::new(Remedy::Retry, error).context("reading the user's privileges")
        })?;
        let prepared_xa = oxferry_schema::prepared_xa(conn).await?;
        Ok(Self {
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
        })
    }
}

/// A problem that a setting or a privilege removes.
pub(crate) fn setting(what: String, fix: &str) -> Problem {
    Problem {
        what,
        fix: fix.to_owned(),
        remedy: Remedy::Privileges,
    }
}

/// Returns what of a server keeps its changes from being followed.
pub(crate) fn log_problems(facts: &ServerFacts) -> Vec<Problem> {
    let mut found = Vec::new();
    if facts.mariadb || facts.version_numbers < VERSION_MIN {
        let what = format!("the server is version {}", facts.version);
        found.push(setting(what, "oxferry needs MySQL 8.0.17 or later"));
    }
    if !facts.log_bin {
        let fix = "start the server with log-bin: changes are read from the binary log";
        found.push(setting("log_bin is OFF".to_owned(), fix));
    }
    let expected = [
        ("binlog_format", &facts.binlog_format, "ROW"),
        ("binlog_row_image", &facts.binlog_row_image, "FULL"),
        (
            "binlog_row_value_options",
            &facts.binlog_row_value_options,
            "",
        ),
        // Damage in a compressed transaction would go unseen without it.
        ("binlog_checksum", &facts.binlog_checksum, "CRC32"),
    ];
    for (name, value, wanted) in expected {
        if !value.eq_ignore_ascii_case(wanted) {
            let fix = format!(
                "SET GLOBAL {name} = '{wanted}', then let the sessions that write reconnect"
            );
            found.push(setting(format!("{name} is {value}"), &fix));
        }
    }
    if !facts.binlog_order_commits {
        let fix = "SET GLOBAL binlog_order_commits = ON";
        found.push(setting("binlog_order_commits is OFF".to_owned(), fix));
    }
    if !facts.prepared_xa.is_empty() {
        let fix = "XA COMMIT or XA ROLLBACK them first: nobody can tell any more what they change";
        found.push(Problem {
            what: format!(
                "XA transactions are prepared: {}",
                facts.prepared_xa.join(", ")
            ),
            fix: fix.to_owned(),
            remedy: Remedy::Retry,
        });
    }
    found
}

#[cfg(test)]
impl ServerFacts {
    /// A server that a job can use, for tests; `grants` are its user's.
    pub(crate) fn fit(grants: &[&str]) -> Self {
        Self {
            version: "9.7.4".to_owned(),
            version_numbers: (9, 7, 4),
            mariadb: false,
            log_bin: true,
            binlog_format: "ROW".to_owned(),
            binlog_row_image: "FULL".to_owned(),
            binlog_row_value_options: String::new(),
            binlog_order_commits: true,
            binlog_checksum: "CRC32".to_owned(),
            prepared_xa: Vec::new(),
            read_only: false,
            grants: grants.iter().map(ToString::to_string).collect(),
        }
    }
}

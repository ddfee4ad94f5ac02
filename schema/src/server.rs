//! What kind of server is at the other end, and how far its binary log is.

use std::fmt;

use mysql_async::{Conn, Row, prelude::Queryable};

use crate::{Remedy, classify};

/// A server's version, compared number by number.
///
/// MariaDB's numbers and MySQL's mean different things: ask
/// [`ServerVersion::is_mariadb`] before comparing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerVersion {
    /// Major, minor and patch number.
    pub numbers: (u16, u16, u16),
    /// Whether the server is a MariaDB.
    pub is_mariadb: bool,
    /// What the server itself says.
    pub text: String,
}

/// The settings of a server that a job depends on.
///
/// A variable that the server does not know is an empty text, zero or `false`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Its version.
    pub version: ServerVersion,
    /// Tells servers apart; empty on MariaDB.
    pub server_uuid: String,
    /// `ON`, `OFF`, `ON_PERMISSIVE`, `OFF_PERMISSIVE`; empty on MariaDB.
    pub gtid_mode: String,
    /// Whether a binary log is written.
    pub log_bin: bool,
    /// `ROW`, `STATEMENT` or `MIXED`: what new sessions get.
    pub binlog_format: String,
    /// `FULL`, `MINIMAL` or `NOBLOB`: what new sessions get.
    pub binlog_row_image: String,
    /// `FULL` or `MINIMAL`: whether the log names columns.
    pub binlog_row_metadata: String,
    /// `PARTIAL_JSON` or empty: what new sessions get.
    pub binlog_row_value_options: String,
    /// Whether transactions commit in the order of the log.
    pub binlog_order_commits: bool,
    /// Whether new sessions compress their transactions.
    pub binlog_transaction_compression: bool,
    /// `CRC32` or `NONE`.
    pub binlog_checksum: String,
    /// Whether clients may not write.
    pub read_only: bool,
    /// Whether not even administrators may write.
    pub super_read_only: bool,
    /// The most bytes that the server takes in one packet.
    pub max_allowed_packet: u64,
    /// 0: names of tables differ by letter case; 1 or 2: they don't.
    pub lower_case_table_names: u8,
    /// Whether tables without a primary key are refused.
    pub sql_require_primary_key: bool,
}

/// Where a server's binary log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerPosition {
    /// The log file's name, without its folder.
    pub file: String,
    /// The offset of the next event, in bytes.
    pub offset_bytes: u64,
    /// `Executed_Gtid_Set` as the server prints it, line breaks removed; empty
    /// without GTIDs and on MariaDB.
    pub executed_gtids: String,
}

/// Why a server could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerInfoError {
    /// The server refused or broke off.
    #[error("cannot read {what} of the server")]
    Server {
        /// What was asked for.
        what: &'static str,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// The version is none.
    #[error("the server calls its version {text:?}, which has no numbers")]
    Version {
        /// What the server says.
        text: String,
    },
    /// No binary log is written.
    #[error("the server writes no binary log: start it with log_bin")]
    NoBinlog,
}

impl ServerInfoError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Server { source, .. } => classify(source).remedy(),
            Self::Version { .. } => Remedy::Bug,
            Self::NoBinlog => Remedy::Privileges,
        }
    }
}

impl ServerVersion {
    /// Reads what `SELECT VERSION()` answers.
    ///
    /// # Errors
    ///
    /// [`ServerInfoError::Version`] when the text does not begin with numbers.
    pub fn parse(text: &str) -> Result<Self, ServerInfoError> {
        let is_mariadb = text.to_ascii_lowercase().contains("mariadb");
        // MariaDB 10 put `5.5.5-` in front for the sake of old replicas.
        let bare = text
            .strip_prefix("5.5.5-")
            .filter(|_| is_mariadb)
            .unwrap_or(text);
        let mut numbers = bare
            .split(|c: char| !c.is_ascii_digit())
            .map(str::parse::<u16>)
            .take(3);
        let mut number = || numbers.next().and_then(Result::ok);
        match (number(), number(), number()) {
            (Some(major), Some(minor), patch) => Ok(Self {
                numbers: (major, minor, patch.unwrap_or(0)),
                is_mariadb,
                text: text.to_owned(),
            }),
            _ => Err(ServerInfoError::Version {
                text: text.to_owned(),
            }),
        }
    }

    /// Returns whether this is a MySQL of at least this version.
    #[must_use]
    pub fn is_mysql_at_least(&self, numbers: (u16, u16, u16)) -> bool {
        !self.is_mariadb && self.numbers >= numbers
    }

    /// Returns the statement that tells where the binary log ends.
    ///
    /// Source: MySQL 8.2 release notes (the new spelling), 8.4 (the old one is
    /// gone); MariaDB keeps the old one.
    #[must_use]
    pub fn binlog_status_statement(&self) -> &'static str {
        if self.is_mysql_at_least((8, 2, 0)) {
            "SHOW BINARY LOG STATUS"
        } else {
            "SHOW MASTER STATUS"
        }
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let product = if self.is_mariadb { "MariaDB" } else { "MySQL" };
        let (major, minor, patch) = self.numbers;
        write!(f, "{product} {major}.{minor}.{patch}")
    }
}

impl ServerInfo {
    /// Asks the server for its version and settings.
    ///
    /// # Errors
    ///
    /// [`ServerInfoError`] when it does not answer.
    pub async fn read(conn: &mut Conn) -> Result<Self, ServerInfoError> {
        let what = "version and settings";
        let ask = |source| ServerInfoError::Server { what, source };
        let version: Option<String> = conn.query_first("SELECT VERSION()").await.map_err(ask)?;
        let version = ServerVersion::parse(&version.unwrap_or_default())?;
        let rows: Vec<(String, String)> = conn
            .query(VARIABLES)
            .await
            .map_err(|source| ServerInfoError::Server { what, source })?;
        Ok(Self::from_variables(version, &rows))
    }

    fn from_variables(version: ServerVersion, rows: &[(String, String)]) -> Self {
        let text = |name: &str| {
            rows.iter()
                .find(|(found, _)| found == name)
                .map_or_else(String::new, |(_, value)| value.clone())
        };
        let switch = |name: &str| matches!(text(name).as_str(), "ON" | "1");
        Self {
            version,
            server_uuid: text("server_uuid"),
            gtid_mode: text("gtid_mode"),
            log_bin: switch("log_bin"),
            binlog_format: text("binlog_format"),
            binlog_row_image: text("binlog_row_image"),
            binlog_row_metadata: text("binlog_row_metadata"),
            binlog_row_value_options: text("binlog_row_value_options"),
            binlog_order_commits: switch("binlog_order_commits"),
            binlog_transaction_compression: switch("binlog_transaction_compression"),
            binlog_checksum: text("binlog_checksum"),
            read_only: switch("read_only"),
            super_read_only: switch("super_read_only"),
            max_allowed_packet: text("max_allowed_packet").parse().unwrap_or(0),
            lower_case_table_names: text("lower_case_table_names").parse().unwrap_or(0),
            sql_require_primary_key: switch("sql_require_primary_key"),
        }
    }

    /// Returns whether every transaction has a GTID.
    #[must_use]
    pub fn has_gtids(&self) -> bool {
        self.gtid_mode == "ON"
    }
}

/// Returns where the server's binary log ends now.
///
/// Needs the privilege REPLICATION CLIENT.
///
/// # Errors
///
/// [`ServerInfoError::NoBinlog`] when the server writes none,
/// [`ServerInfoError::Server`] when it does not answer.
pub async fn current_position(
    conn: &mut Conn,
    version: &ServerVersion,
) -> Result<ServerPosition, ServerInfoError> {
    let row: Option<Row> = conn
        .query_first(version.binlog_status_statement())
        .await
        .map_err(|source| ServerInfoError::Server {
            what: "the binary log's position",
            source,
        })?;
    let row = row.ok_or(ServerInfoError::NoBinlog)?;
    let text = |name: &str| row.get_opt::<String, _>(name).and_then(Result::ok);
    let offset_bytes = row.get_opt::<u64, _>("Position").and_then(Result::ok);
    let file = text("File").filter(|file| !file.is_empty());
    let (Some(file), Some(offset_bytes)) = (file, offset_bytes) else {
        return Err(ServerInfoError::NoBinlog);
    };
    Ok(ServerPosition {
        file,
        offset_bytes,
        executed_gtids: text("Executed_Gtid_Set")
            .unwrap_or_default()
            .replace('\n', ""),
    })
}

/// The global values: they rule the sessions of others, which make the log.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'gtid_mode', \
    'log_bin', 'binlog_format', 'binlog_row_image', 'binlog_row_metadata', \
    'binlog_row_value_options', 'binlog_order_commits', 'binlog_transaction_compression', \
    'binlog_checksum', 'read_only', 'super_read_only', 'max_allowed_packet', \
    'lower_case_table_names', 'sql_require_primary_key')";

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> ServerVersion {
        ServerVersion::parse(text).unwrap()
    }

    #[test]
    fn versions_are_read_with_whatever_follows_them() {
        assert_eq!(version("9.7.4-2").numbers, (9, 7, 4));
        assert_eq!(version("8.0.36-0ubuntu0.22.04.1").numbers, (8, 0, 36));
        assert_eq!(version("8.4.0").to_string(), "MySQL 8.4.0");
        let maria = version("5.5.5-10.11.19-MariaDB-log");
        assert_eq!((maria.numbers, maria.is_mariadb), ((10, 11, 19), true));
        assert!(ServerVersion::parse("nightly").is_err());
    }

    #[test]
    fn the_position_is_asked_for_in_the_servers_own_words() {
        assert_eq!(
            version("9.7.4").binlog_status_statement(),
            "SHOW BINARY LOG STATUS"
        );
        assert_eq!(
            version("8.0.36").binlog_status_statement(),
            "SHOW MASTER STATUS"
        );
        assert_eq!(
            version("11.8.1-MariaDB").binlog_status_statement(),
            "SHOW MASTER STATUS"
        );
    }

    #[test]
    fn unknown_variables_are_off() {
        let info = ServerInfo::from_variables(version("10.11.1-MariaDB"), &[]);
        assert!(!info.has_gtids() && !info.log_bin && info.server_uuid.is_empty());
    }
}

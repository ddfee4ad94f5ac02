//! Replicas that the source knows of.

use mysql_async::{Opts, OptsBuilder, Row};

use crate::{
    ProbeError,
    link::{Link, text},
};

/// A replica as the source lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// What it reports as its host: empty without `report_host`.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) server_uuid: String,
}

/// Asks the source for the replicas connected to it.
///
/// Readers of the binary log that are no servers, this program among them,
/// report no `server_uuid` and are left out. The old spelling is for servers
/// before 8.0.22. Source: MySQL 9.7 manual, "SHOW REPLICAS Statement".
pub(crate) async fn list(source: &mut Link) -> Result<Vec<Listed>, ProbeError> {
    const WHAT: &str = "its replicas";
    let rows = match source.query("SHOW REPLICAS", WHAT).await {
        Err(ProbeError::Query {
            source: mysql_async::Error::Server(error),
            ..
        }) if error.code == SYNTAX_ERROR => source.query("SHOW SLAVE HOSTS", WHAT).await?,
        rows => rows?,
    };
    Ok(rows.iter().filter_map(listed).collect())
}

/// Asks a server for its own `server_uuid` and for the delay that it was told
/// to keep, in seconds.
pub(crate) async fn identify(link: &mut Link) -> Result<(String, u64), ProbeError> {
    const WHAT: &str = "its server_uuid and delay";
    // No channel configured: no delay.
    let sql = "SELECT @@server_uuid AS uuid, CAST(COALESCE(MAX(DESIRED_DELAY), 0) AS CHAR) AS delay \
               FROM performance_schema.replication_applier_configuration";
    let rows = link.query(sql, WHAT).await?;
    rows.first()
        .and_then(|row| Some((text(row, "uuid")?, text(row, "delay")?.parse().ok()?)))
        .ok_or_else(|| ProbeError::Answer {
            server: link.server().to_owned(),
            what: WHAT,
        })
}

/// Returns how to reach a listed replica: as the source, elsewhere.
pub(crate) fn opts_of(listed: &Listed, source: &Opts) -> Opts {
    OptsBuilder::from_opts(source.clone())
        .ip_or_hostname(listed.host.clone())
        .tcp_port(listed.port)
        .socket(None::<String>)
        .prefer_socket(false)
        // The database may not be there yet.
        .db_name(None::<String>)
        .into()
}

fn listed(row: &Row) -> Option<Listed> {
    let server_uuid = text(row, "Replica_UUID").or_else(|| text(row, "Slave_UUID"))?;
    if server_uuid.is_empty() {
        return None;
    }
    Some(Listed {
        host: text(row, "Host").unwrap_or_default(),
        port: text(row, "Port")?.parse().ok()?,
        server_uuid,
    })
}

const SYNTAX_ERROR: u16 = 1064;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_reached_by_tcp_with_the_sources_credentials() {
        let source = Opts::from_url("mysql://u:p@db1:3306/shop?socket=/tmp/s.sock").unwrap();
        let listed = Listed {
            host: "db2".into(),
            port: 3307,
            server_uuid: "u".into(),
        };
        let opts = opts_of(&listed, &source);
        assert_eq!((opts.ip_or_hostname(), opts.tcp_port()), ("db2", 3307));
        assert_eq!((opts.user(), opts.pass()), (Some("u"), Some("p")));
        assert_eq!((opts.socket(), opts.db_name()), (None, None));
    }
}

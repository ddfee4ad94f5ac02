//! What preflight looks at, read off both servers.

use std::collections::BTreeSet;

use mysql_async::{Conn, Row, prelude::Queryable};
use oxferry_schema::{ErrorClass, ForeignKey, Part, Table, classify};

use super::preflight::{Facts, Side};
use crate::{
    failure::Failure,
    job::{ServerFacts, Site},
};

/// A server, and a session on it.
pub(super) type Seen<'a> = (&'a Site, &'a mut Conn);

/// Reads what a move depends on.
pub(super) async fn read(source: Seen<'_>, target: Seen<'_>) -> Result<Facts, Failure> {
    let (source_site, source_conn) = source;
    let (target_site, target_conn) = target;
    let variables: Vec<(String, String)> = source_conn
        .query(VARIABLES)
        .await
        .map_err(|error| failed(error, "reading the source's settings"))?;
    let is_on = |names: &[&str]| {
        let mut found = variables.iter();
        found.any(|(name, value)| names.contains(&name.as_str()) && value == "ON")
    };
    // Since 9.6 the server itself changes the children's rows, and logs it,
    // unless this switch has the storage engine do it. Source: MySQL 9.7 manual,
    // `innodb_native_foreign_keys`.
    let native = variables.iter().find(|(name, _)| name == NATIVE_KEYS);
    let collations: Vec<String> = target_conn
        .query("SELECT COLLATION_NAME FROM information_schema.COLLATIONS")
        .await
        .map_err(|error| failed(error, "reading the target's collations"))?;
    Ok(Facts {
        source_has_gtids: source_site.info.has_gtids(),
        logs_replicated: is_on(&["log_replica_updates", "log_slave_updates"]),
        logs_cascades: native.is_some_and(|(_, value)| value == "OFF"),
        needs_primary_key: target_site.info.sql_require_primary_key,
        collations: collations.into_iter().collect::<BTreeSet<_>>(),
        source: side(source_site, source_conn).await?,
        target: side(target_site, target_conn).await?,
    })
}

/// Reads the foreign keys, of whatever tables, that refer to those of the move.
pub(super) async fn children(conn: &mut Conn, parts: &[Part]) -> Result<Vec<ForeignKey>, Failure> {
    let mut children = Vec::new();
    for part in parts {
        children.extend(Table::referencing_foreign_keys(conn, &part.table.name).await?);
    }
    Ok(children)
}

async fn side(site: &Site, conn: &mut Conn) -> Result<Side, Failure> {
    Ok(Side {
        server: ServerFacts::read(conn, &site.info).await?,
        uuid: site.info.server_uuid.clone(),
        replicates: replicates(site, conn).await?,
        packet_bytes: site.info.max_allowed_packet,
    })
}

/// Returns whom a server replicates from; nobody, if the user isn't told: the
/// privilege is asked for in any case.
async fn replicates(site: &Site, conn: &mut Conn) -> Result<Vec<String>, Failure> {
    // Source: MySQL 8.0 manual, "SHOW REPLICA STATUS Statement".
    let version = &site.info.version;
    let (statement, column) = if version.is_mysql_at_least((8, 0, 22)) {
        ("SHOW REPLICA STATUS", "Source_UUID")
    } else {
        ("SHOW SLAVE STATUS", "Master_UUID")
    };
    let rows: Vec<Row> = match conn.query(statement).await {
        Ok(rows) => rows,
        Err(error) if classify(&error) == ErrorClass::Privileges => Vec::new(),
        Err(error) => return Err(failed(error, "looking whom the server replicates from")),
    };
    let uuid = |row: &Row| row.get_opt::<String, _>(column).and_then(Result::ok);
    Ok(rows
        .iter()
        .map(|row| uuid(row).unwrap_or_default())
        .collect())
}

fn failed(error: mysql_async::Error, attempted: &'static str) -> Failure {
    Failure::new(classify(&error).remedy(), error).context(attempted)
}

const NATIVE_KEYS: &str = "innodb_native_foreign_keys";
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
    ('log_replica_updates', 'log_slave_updates', 'innodb_native_foreign_keys')";

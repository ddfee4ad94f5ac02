//! What was written after the swap, done again on the twin by the server itself.
//!
//! `mysqlbinlog` writes the row changes of the binary log down as statements
//! `BINLOG '…'`, which the server applies as a replica would; with
//! `--rewrite-db` to another database. So what the writers did to the new
//! table can be done to the twin as well, whatever they ran.

use std::process::Stdio;

use mysql_async::{Conn, prelude::Queryable};

use super::TrialError;
use crate::server::Server;

/// A place in a server's binary log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogPlace {
    file: String,
    offset: u64,
}

impl LogPlace {
    /// Where the next transaction will stand.
    pub(super) async fn now(conn: &mut Conn) -> Result<Self, TrialError> {
        for query in ["SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"] {
            let Ok(row) = conn.query_first::<mysql_async::Row, _>(query).await else {
                continue;
            };
            let place = row.and_then(|row| Some((row.get(0)?, row.get(1)?)));
            if let Some((file, offset)) = place {
                return Ok(Self { file, offset });
            }
        }
        Err(TrialError::Setup(
            "the server names no place in its binary log".into(),
        ))
    }
}

/// What stands between two places, with `database` called `twin`.
///
/// # Errors
///
/// When there is no `mysqlbinlog`, or it fails.
pub(super) async fn dump(
    server: &Server,
    (from, to): (&LogPlace, &LogPlace),
    (database, twin): (&str, &str),
) -> Result<String, TrialError> {
    let files = files(server, from, to).await?;
    let Some(tool) = server.tool("mysqlbinlog") else {
        return Err(TrialError::Setup(
            "there is no mysqlbinlog beside mysqld".into(),
        ));
    };
    let mut tool = tokio::process::Command::from(tool);
    let output = tool
        .args(["--no-defaults", "--skip-gtids"])
        .arg(format!("--rewrite-db={database}->{twin}"))
        .arg(format!("--start-position={}", from.offset))
        .arg(format!("--stop-position={}", to.offset))
        .args(files)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| TrialError::Setup(format!("running mysqlbinlog failed: {error}")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(TrialError::Setup(format!("mysqlbinlog failed: {words}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn files(
    server: &Server,
    from: &LogPlace,
    to: &LogPlace,
) -> Result<Vec<std::path::PathBuf>, TrialError> {
    let query = "SHOW BINARY LOGS";
    let rows: Vec<mysql_async::Row> = server
        .conn()
        .await?
        .query(query)
        .await
        .map_err(TrialError::sql(query))?;
    let names = rows.iter().filter_map(|row| row.get::<String, _>(0));
    let between = names
        .skip_while(|name| *name != from.file)
        .take_while(|name| *name <= to.file);
    Ok(between.map(|name| server.data_dir().join(name)).collect())
}

/// The statements in a dump that apply row changes to these tables of `twin`,
/// after the swap.
///
/// `swap` recognizes the statement that swaps the tables; nothing when it
/// isn't there. The first statement describes the format of what follows.
pub(super) fn after_swap(
    dump: &str,
    (twin, tables): (&str, &[String]),
    swap: impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut swapped = false;
    // As mysqlbinlog prints them: backticks aren't doubled.
    let mine = |table: &String| format!("Table_map: `{twin}`.`{table}` mapped");
    let mine: Vec<String> = tables.iter().map(mine).collect();
    for part in dump.split("/*!*/;\n") {
        swapped |= swap(without_comments(part).trim());
        let Some(at) = part.find("\nBINLOG '\n") else {
            continue;
        };
        let (comments, statement) = part.split_at(at + 1);
        let describes = comments.contains("Format_desc") || comments.contains("Start: binlog");
        if describes || (swapped && mine.iter().any(|map| comments.contains(map))) {
            found.push(statement.trim().to_owned());
        }
    }
    swapped.then_some(found)
}

fn without_comments(part: &str) -> String {
    let lines = part.lines().filter(|line| !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "# at 4\n#261130 Start: binlog v 4\nBINLOG '\nfde\n'/*!*/;\n\
        #261130 Table_map: `twin`.`t` mapped to number 1\n\nBINLOG '\nbefore\n'/*!*/;\n\
        # at 9\nRENAME TABLE d.t TO d._t_oxold\n/*!*/;\n\
        #261130 Table_map: `other`.`t` mapped to number 2\n\nBINLOG '\nother\n'/*!*/;\n\
        #261130 Table_map: `twin`.`t` mapped to number 3\n\nBINLOG '\nafter\n'/*!*/;\nCOMMIT/*!*/;\n";

    #[test]
    fn only_changes_of_the_twin_after_the_swap_are_kept() {
        let found = after_swap(DUMP, ("twin", &["t".to_owned()]), |sql| {
            sql.starts_with("RENAME TABLE")
        })
        .unwrap();
        assert_eq!(found, ["BINLOG '\nfde\n'", "BINLOG '\nafter\n'"]);
    }

    #[test]
    fn a_log_without_the_swap_proves_nothing() {
        assert_eq!(
            after_swap(DUMP, ("twin", &["t".to_owned()]), |_| false),
            None
        );
    }
}

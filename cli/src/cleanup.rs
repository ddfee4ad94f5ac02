//! `oxferry cleanup`: what jobs that ended early left behind.

use std::collections::BTreeSet;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{Ident, Remedy, ServerUrl, ShadowNames, TableName, connect};
use oxferry_state::{Checkpoint, Phase};

use crate::{
    args::CleanupArgs,
    failure::Failure,
    migrate::{JobLock, Store},
    source,
};

/// What one job left.
#[derive(Debug)]
struct Leftovers {
    source: TableName,
    names: ShadowNames,
    /// Those of the names that exist.
    tables: BTreeSet<TableName>,
}

/// What to do with a table that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is of no use to anybody.
    Remove,
    /// The operator asked for it to be kept, or nobody knows.
    Keep(&'static str),
}

/// Lists what is left, and removes it if asked to.
pub(crate) async fn run(args: &CleanupArgs) -> Result<(), Failure> {
    let url = source::source_url(&args.server)?;
    let mut conn = connect(&url, "cleanup").await?;
    let url = url.settled(&conn);
    let wanted = args
        .job
        .as_deref()
        .map(|name| source::table_name(name, &url))
        .transpose()?;
    let mut found = find(&mut conn).await?;
    found.retain(|left| wanted.as_ref().is_none_or(|wanted| *wanted == left.source));
    if found.is_empty() {
        tracing::info!("nothing is left behind");
    }
    for left in &found {
        clean(&mut conn, &url, left, args.execute).await?;
    }
    if !found.is_empty() && !args.execute {
        tracing::info!("nothing was removed: add --execute to remove what is listed");
    }
    Ok(())
}

/// Looks for tables beside every table of every database that can be seen.
async fn find(conn: &mut Conn) -> Result<Vec<Leftovers>, Failure> {
    let query = "SELECT table_schema, table_name FROM information_schema.tables \
         WHERE table_type = 'BASE TABLE' AND table_schema NOT IN \
         ('mysql', 'sys', 'performance_schema', 'information_schema') ORDER BY 1, 2";
    let rows: Vec<(String, String)> = conn
        .query(query)
        .await
        .map_err(|error| failed(error, "list the tables"))?;
    let name = |(schema, table): (String, String)| {
        Some(TableName::new(
            Ident::new(schema).ok()?,
            Ident::new(table).ok()?,
        ))
    };
    let tables: BTreeSet<TableName> = rows.into_iter().filter_map(name).collect();
    Ok(leftovers(&tables))
}

fn leftovers(tables: &BTreeSet<TableName>) -> Vec<Leftovers> {
    let beside = |source: &TableName| {
        let names = ShadowNames::beside(source);
        let found: BTreeSet<_> = names
            .all()
            .into_iter()
            .filter(|name| tables.contains(name))
            .cloned()
            .collect();
        (!found.is_empty()).then(|| Leftovers {
            source: source.clone(),
            names,
            tables: found,
        })
    };
    tables.iter().filter_map(beside).collect()
}

async fn clean(
    conn: &mut Conn,
    url: &ServerUrl,
    left: &Leftovers,
    execute: bool,
) -> Result<(), Failure> {
    let lock = match JobLock::take(connect(url, "lock").await?, &left.source).await {
        Ok(lock) => lock,
        Err(running) => {
            tracing::info!(table = %left.source.plain(), "left alone: {}", running.line());
            return Ok(());
        }
    };
    let checkpoint = if left.tables.contains(&left.names.state) {
        let store = Store::new(
            None,
            url.opts("cleanup"),
            &left.names.state,
            &left.source.plain(),
        );
        store.load().await.unwrap_or_else(|error| {
            tracing::warn!("the checkpoint can't be read: {}", error.line());
            None
        })
    } else {
        None
    };
    // The checkpoint goes last: while it stands, a repeated cleanup knows what the rest is.
    let last = |table: &&TableName| **table == left.names.state;
    for table in left
        .tables
        .iter()
        .filter(|t| !last(t))
        .chain(left.tables.iter().filter(last))
    {
        match verdict(table, left, checkpoint.as_ref()) {
            Verdict::Keep(why) => tracing::info!(table = %table.plain(), "kept: {why}"),
            Verdict::Remove if execute => {
                let drop = format!("DROP TABLE IF EXISTS {table}");
                conn.query_drop(drop)
                    .await
                    .map_err(|error| failed(error, "drop a table"))?;
                tracing::info!(table = %table.plain(), "removed");
            }
            Verdict::Remove => tracing::info!(table = %table.plain(), "left behind"),
        }
    }
    drop(lock);
    Ok(())
}

/// The old table holds the rows from before the cutover: it is removed only
/// where a checkpoint proves that a job was about to.
fn verdict(table: &TableName, left: &Leftovers, checkpoint: Option<&Checkpoint>) -> Verdict {
    if *table != left.names.old {
        return Verdict::Remove;
    }
    let swapped = !left.tables.contains(&left.names.shadow)
        && checkpoint.is_some_and(|c| matches!(c.phase, Phase::Cutover | Phase::Cleanup));
    if swapped {
        Verdict::Remove
    } else {
        Verdict::Keep("the table from before a cutover; drop it yourself when nobody needs it")
    }
}

fn failed(error: mysql_async::Error, what: &str) -> Failure {
    let remedy = oxferry_schema::classify(&error).remedy();
    let remedy = if remedy == Remedy::Bug {
        Remedy::Retry
    } else {
        remedy
    };
    Failure::new(remedy, error).context(format!("could not {what}"))
}

#[cfg(test)]
mod tests {
    use oxferry_state::JobIdentity;

    use super::*;

    fn name(table: &str) -> TableName {
        TableName::new(Ident::new("d").unwrap(), Ident::new(table).unwrap())
    }

    fn left(tables: &[&str]) -> Vec<Leftovers> {
        leftovers(&tables.iter().map(|table| name(table)).collect())
    }

    fn checkpoint(phase: Phase) -> Checkpoint {
        let mut checkpoint =
            Checkpoint::new(JobIdentity::migrate(vec![name("t")], vec![]), "0", "u");
        checkpoint.phase = phase;
        checkpoint
    }

    #[test]
    fn only_tables_beside_a_living_table_are_leftovers() {
        assert!(left(&["t", "u", "_gone_oxnew"]).is_empty());
        let found = left(&["t", "_t_oxnew", "_t_oxstate"]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].tables.len(), 2);
    }

    #[test]
    fn an_old_table_goes_only_when_the_checkpoint_says_that_the_swap_happened() {
        let swapped = &left(&["t", "_t_oxold", "_t_oxstate"])[0];
        let old = name("_t_oxold");
        let cutover = checkpoint(Phase::Cutover);
        assert_eq!(verdict(&old, swapped, Some(&cutover)), Verdict::Remove);
        assert!(matches!(
            verdict(&old, swapped, Some(&checkpoint(Phase::Copy))),
            Verdict::Keep(_)
        ));
        assert!(matches!(verdict(&old, swapped, None), Verdict::Keep(_)));
        let both = &left(&["t", "_t_oxold", "_t_oxnew", "_t_oxstate"])[0];
        assert!(matches!(
            verdict(&old, both, Some(&cutover)),
            Verdict::Keep(_)
        ));
    }
}

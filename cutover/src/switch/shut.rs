//! A source that stays shut after the switch: opened for a move that is taken
//! back, and shut again should that fail.

use std::time::Duration;

use mysql_async::{Opts, prelude::Queryable};
use oxferry_schema::TableName;

use super::{
    Leftover, SwitchError, names,
    undo::{SUPER_OFF, Undo},
};
use crate::session::{answered, close, connect};

/// Opens a source that a switch has left shut: its tables get their names back,
/// and its settings the values that they had. Doing so twice is harmless.
///
/// `shut` is what the switch gave to
/// [`SwitchFinish::remember`](crate::SwitchFinish::remember); no hook is called.
///
/// # Errors
///
/// [`SwitchError::NotUndone`], with what to do by hand.
pub async fn open_source(
    source: &Opts,
    tables: &[TableName],
    shut: &Leftover,
) -> Result<(), SwitchError> {
    let undo = Undo {
        source: source.clone(),
        tables: tables.to_vec(),
        leftover: *shut,
        token: None,
    };
    undo.run().await
}

/// Shuts it as the switch had left it, but for administrators: whoever has
/// CONNECTION_ADMIN may write to a read-only source. Doing so twice is harmless.
///
/// # Errors
///
/// [`SwitchError`]: the tables have other names than after a whole rename, or
/// the server refuses or doesn't answer.
pub async fn shut_source(
    source: &Opts,
    tables: &[TableName],
    shut: &Leftover,
) -> Result<(), SwitchError> {
    if !shut.renamed && shut.read_only.is_none() {
        return Ok(());
    }
    let mut conn = connect(source).await?;
    if shut.renamed {
        let seen = names::look(&mut conn, tables).await?;
        let is_open = seen.iter().all(|one| one.live && !one.old);
        if !is_open && !seen.iter().all(|one| !one.live && one.old) {
            return Err(SwitchError::Tables { found: seen });
        }
        if is_open {
            let renaming = conn.query_drop(names::away(tables));
            answered("rename the source tables away", LIMIT, renaming).await?;
        }
    }
    if shut.read_only.is_some() {
        let shutting = conn.query_drop("SET GLOBAL read_only = ON");
        answered("turn read_only on", LIMIT, shutting).await?;
        let lowering = conn.query_drop(SUPER_OFF);
        answered("turn super_read_only off", LIMIT, lowering).await?;
    }
    close(conn).await;
    Ok(())
}

/// A rename, and a server that becomes read-only, wait for statements under way.
const LIMIT: Duration = Duration::from_secs(60);

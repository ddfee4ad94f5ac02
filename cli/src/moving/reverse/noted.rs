//! What is noted for the way back, just before the switch is announced.

use std::time::SystemTime;

use mysql_async::Conn;
use oxferry_binlog::Position;
use oxferry_cutover::{Leftover, LockedSource};
use oxferry_schema::{Remedy, Table};
use oxferry_state::{Reverse, TargetServer};

use crate::{failure::Failure, job::Script, moving::job::Move};

/// Notes from where the way back begins, if there is to be one: `written` is the
/// end of the target's binary log when the move had written its last.
///
/// The source is at rest, and nobody has been sent to the target yet: whatever
/// stands behind the two positions is others' doing.
pub(in crate::moving) async fn note(
    script: &Script<'_, Move>,
    locked: &LockedSource,
    shut: Leftover,
    (conn, written): (&mut Conn, Position),
) -> Result<(), Failure> {
    let kind = script.kind;
    let reverse = if kind.args.switch.reverse_for.is_some() {
        let since = humantime::format_rfc3339_seconds(SystemTime::now());
        let mut definitions = Vec::with_capacity(kind.core.tables.len());
        for table in &kind.core.tables {
            let now = Table::read(conn, &table.target).await?;
            definitions.push(now.map(|now| now.create_statement).unwrap_or_default());
        }
        Some(Reverse {
            since: since.to_string(),
            position: written,
            source_position: source_position(kind, locked)?,
            source_shut: without_hook(shut).to_string(),
            definitions,
            target_lock: None,
            back: false,
        })
    } else {
        None
    };
    let note = |target: &mut TargetServer| target.reverse = reverse;
    script.saver.save_target(note).await
}

fn source_position(kind: &Move, locked: &LockedSource) -> Result<Position, Failure> {
    let gtids = if kind.core.source.info.has_gtids() {
        let parsed = locked.executed_gtids.parse();
        Some(parsed.map_err(|error| Failure::new(Remedy::Bug, anyhow::Error::new(error)))?)
    } else {
        None
    };
    let file = locked.through.clone();
    Ok(Position { file, gtids })
}

/// What the hook `lock-source` did is undone by hooks.
const fn without_hook(mut shut: Leftover) -> Leftover {
    shut.hook = false;
    shut.announced = false;
    shut
}

//! Carrying triggers and foreign keys over: what [`attach`](crate::attach)
//! decides, done on the server.

use std::time::Duration;

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_schema::{Attached, CHARSET_AND_MODE, CONNECT_DEADLINE, Ident, Table, TableName};
use tokio::time::sleep;

use crate::{
    Backoff, CutoverError, SwapPlan,
    attach::{CarriedTrigger, KeySeen, Picture},
    session::{Session, answered, close, connect},
    swap::{END_LIMIT, let_go},
    tables::exists,
};

/// Refuses what hangs on the tables if it isn't what the plan knows.
///
/// Under the lock nothing can be created on them any more. `RENAME TABLE`
/// would carry it along to the old table; seen on MySQL 9.7.4.
pub(crate) async fn expect_as_planned(
    conn: &mut Conn,
    plan: &SwapPlan,
) -> Result<(), CutoverError> {
    let own: Vec<TableName> = plan.pairs.iter().map(|pair| pair.source.clone()).collect();
    let mut found = Vec::new();
    for (pair, planned) in plan.pairs.iter().zip(&plan.attached) {
        let now = Attached::read(conn, &pair.source).await?;
        found.extend(planned.differences(&now.without_children(&own)));
        found.extend(hidden_children(conn, &pair.source).await?);
        let on_shadow = Attached::read(conn, &pair.shadow).await?;
        found.extend(Attached::default().differences(&on_shadow));
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(CutoverError::Attached { found })
}

/// Says so when foreign keys refer to the table that the user may not see, and
/// may be told of: they would go on referring to the old table.
///
/// # Errors
///
/// What the server answered, or that it did not.
pub async fn hidden_children(
    conn: &mut Conn,
    table: &TableName,
) -> Result<Option<String>, CutoverError> {
    let Some(all) = Table::children(conn, table).await? else {
        return Ok(None);
    };
    let visible = Table::referencing_foreign_keys(conn, table).await?;
    Ok((all.len() > visible.len()).then(|| {
        format!(
            "a foreign key refers to {} from a table that the user may not see (all: {})",
            table.plain(),
            all.join(", ")
        )
    }))
}

/// Gives the shadows what hangs on their tables, under temporary names.
///
/// Call it under the lock, and nothing else on the session afterwards but
/// [`finish_on`], [`detach_on`] and the end of the lock: every statement
/// commits, and the session's settings are changed.
pub(crate) async fn attach(conn: &mut Conn, plan: &SwapPlan) -> Result<(), CutoverError> {
    let mut packets = Vec::new();
    for carried in plan.triggers() {
        let shadow = &carried.pair.shadow;
        let statement = carried
            .trigger
            .statement(conn, &carried.temporary, shadow)
            .await?;
        packets.push(statement.packet);
    }
    run(conn, GIVE, KEY_CHECKS_OFF.to_owned()).await?;
    for statement in plan.key_statements_before() {
        run(conn, GIVE, statement).await?;
    }
    for packet in packets {
        run(conn, GIVE, packet).await?;
        // The packet leaves the trigger's own behind, by which names of other
        // letters would be read as other names.
        run(conn, GIVE, CHARSET_AND_MODE.to_owned()).await?;
    }
    Ok(())
}

/// Returns the statements that belong in the rename's packet, so that the
/// server runs them even when this program dies behind it.
pub(crate) async fn statements_after_rename(
    conn: &mut Conn,
    plan: &SwapPlan,
) -> Result<Vec<String>, CutoverError> {
    let seen = look(conn, plan).await?;
    Ok(plan.key_statements_after(&seen.renamed(plan)))
}

/// Does what is left to do after the rename, under a lock on all the tables.
pub(crate) async fn finish_on(conn: &mut Conn, plan: &SwapPlan) -> Result<(), CutoverError> {
    run(conn, COMPLETE, KEY_CHECKS_OFF.to_owned()).await?;
    for statement in plan.key_statements_after(&look(conn, plan).await?) {
        run(conn, COMPLETE, statement).await?;
    }
    let seen = look(conn, plan).await?;
    let mut packets = Vec::new();
    for carried in plan.triggers_after(&seen) {
        packets.push(replacement(conn, &carried).await?);
    }
    for packet in packets {
        run(conn, COMPLETE, packet).await?;
        run(conn, COMPLETE, CHARSET_AND_MODE.to_owned()).await?;
    }
    let seen = look(conn, plan).await?;
    let mut left = plan.key_statements_after(&seen);
    let triggers = plan.triggers_after(&seen).into_iter();
    left.extend(triggers.map(|carried| {
        let name = &carried.trigger.name;
        format!("trigger {name} on {}", carried.pair.source)
    }));
    expect_nothing_left(COMPLETE, left)
}

/// One packet, so that the server runs all of it or, when it is ended itself,
/// leaves what [`complete`] finds. The trigger's creation must come last: a
/// server that dies right before it comes back without this one trigger.
async fn replacement(
    conn: &mut Conn,
    carried: &CarriedTrigger<'_>,
) -> Result<Vec<u8>, CutoverError> {
    let (name, source) = (&carried.trigger.name, &carried.pair.source);
    let statement = carried.trigger.statement(conn, name, source).await?;
    let schema = &source.schema;
    let temporary = &carried.temporary;
    let mut packet = format!(
        "DROP TRIGGER IF EXISTS {schema}.{name};\nDROP TRIGGER IF EXISTS {schema}.{temporary};\n"
    )
    .into_bytes();
    packet.extend(statement.packet);
    Ok(packet)
}

/// Takes off the shadows whatever hangs on them, and sees that nothing does.
///
/// The session may be left as a trigger's packet that failed has set it.
pub(crate) async fn detach_on(conn: &mut Conn, plan: &SwapPlan) -> Result<(), CutoverError> {
    run(conn, TAKE, CHARSET_AND_MODE.to_owned()).await?;
    let seen = look(conn, plan).await?;
    for statement in plan.statements_back(&seen) {
        run(conn, TAKE, statement).await?;
    }
    let left = plan.statements_back(&look(conn, plan).await?);
    expect_nothing_left(TAKE, left)
}

fn expect_nothing_left(attempted: &'static str, left: Vec<String>) -> Result<(), CutoverError> {
    if left.is_empty() {
        return Ok(());
    }
    Err(CutoverError::LeftToCarry { attempted, left })
}

/// Takes off the shadows what a swap that was ended had given them.
///
/// A resumed job calls this before anything writes to a shadow: a trigger
/// there would act on the copy, and a foreign key would stand in the way of the
/// application's deletes on the parent. What isn't there is no error.
///
/// # Errors
///
/// [`CutoverError::NotDetached`] when something is still there; what the server
/// answered, or that it did not.
pub async fn detach(conn: &mut Conn, plan: &SwapPlan) -> Result<(), CutoverError> {
    if !plan.carries() {
        return Ok(());
    }
    detach_on(conn, plan).await.map_err(|error| match error {
        left @ CutoverError::LeftToCarry { .. } => CutoverError::NotDetached {
            source: Box::new(left),
        },
        other => other,
    })
}

/// Takes off the shadows what a failed attempt gave them, on sessions of its
/// own, once the attempt's session is gone.
///
/// # Errors
///
/// [`CutoverError::NotDetached`]: nothing may write to the shadows.
pub(crate) async fn detach_again(opts: &Opts, plan: &SwapPlan) -> Result<(), CutoverError> {
    let mut backoff = Backoff::new(plan.attempts_max);
    loop {
        let detached = async { detach_on(&mut connect(opts).await?, plan).await };
        let Err(error) = detached.await else {
            return Ok(());
        };
        let given_up = pause(
            error,
            &mut backoff,
            "triggers and foreign keys still on the new table",
        );
        given_up.await.map_err(|error| CutoverError::NotDetached {
            source: Box::new(error),
        })?;
    }
}

/// Waits before the next attempt; gives `error` back where there is none.
async fn pause(
    error: CutoverError,
    backoff: &mut Backoff,
    state: &'static str,
) -> Result<(), CutoverError> {
    let passing = error.is_passing();
    let pause = passing
        .then(|| backoff.handle_failure(fastrand::f64()))
        .flatten();
    let Some(pause) = pause else {
        return Err(error);
    };
    tracing::warn!(%error, ?pause, "{state}");
    sleep(pause).await;
    Ok(())
}

/// Completes what a swap that was ended after its rename had left undone about
/// triggers and foreign keys; nothing, where all is done.
///
/// Call it before an old table is dropped, on which a trigger may still be.
/// Tried as often as the plan says, on sessions of its own, under a lock on
/// every table concerned.
///
/// # Errors
///
/// [`CutoverError::Incomplete`]: call it again.
pub async fn complete(opts: &Opts, plan: &SwapPlan) -> Result<(), CutoverError> {
    if !plan.carries() {
        return Ok(());
    }
    let mut backoff = Backoff::new(plan.attempts_max);
    loop {
        let Err(error) = complete_once(opts, plan).await else {
            return Ok(());
        };
        let given_up = pause(
            error,
            &mut backoff,
            "triggers and foreign keys not carried over yet",
        );
        given_up.await.map_err(|error| CutoverError::Incomplete {
            source: Box::new(error),
        })?;
    }
}

async fn complete_once(opts: &Opts, plan: &SwapPlan) -> Result<(), CutoverError> {
    let mut conn = connect(opts).await?;
    let seen = look(&mut conn, plan).await?;
    close(conn).await;
    if plan.key_statements_after(&seen).is_empty() && plan.triggers_after(&seen).is_empty() {
        return Ok(());
    }
    tracing::warn!("completing what an earlier cutover left of triggers and foreign keys");
    let mut session = Session::open(opts, plan).await?;
    match complete_on(&mut session.conn, plan).await {
        Ok(()) => {
            let_go(session, opts).await;
            Ok(())
        }
        // It may hold the lock on live tables, or be about to get it.
        Err(error) => match session.token.end(opts, END_LIMIT, error).await {
            Ok(error) | Err(error) => Err(error),
        },
    }
}

async fn complete_on(conn: &mut Conn, plan: &SwapPlan) -> Result<(), CutoverError> {
    let lock = lock_statement(conn, plan).await?;
    let limit = Duration::from_secs(plan.lock_wait_seconds()).saturating_add(STATEMENT_DEADLINE);
    answered(COMPLETE, limit, conn.query_drop(lock)).await?;
    finish_on(conn, plan).await
}

async fn lock_statement(conn: &mut Conn, plan: &SwapPlan) -> Result<String, CutoverError> {
    let mut tables: Vec<TableName> = Vec::new();
    for pair in &plan.pairs {
        tables.push(pair.source.clone());
        if exists(conn, &pair.old).await? {
            tables.push(pair.old.clone());
        }
    }
    tables.extend(plan.other_tables());
    let locks: Vec<String> = tables
        .iter()
        .map(|table| format!("{table} WRITE"))
        .collect();
    Ok(format!("LOCK TABLES {}", locks.join(", ")))
}

/// Looks what hangs on every table of the plan, whatever it is called by now.
pub(crate) async fn look(conn: &mut Conn, plan: &SwapPlan) -> Result<Picture, CutoverError> {
    let mut picture = Picture::default();
    let children = plan.child_tables();
    let pairs = plan.pairs.iter();
    let own = pairs.flat_map(|pair| [&pair.source, &pair.shadow, &pair.old]);
    for table in own.chain(&children) {
        let names = (table.schema.as_str(), table.table.as_str());
        let keys = conn.exec::<(String, String, String), _, _>(KEYS, names);
        for (name, schema, parent) in answered(LOOK, CONNECT_DEADLINE, keys).await? {
            picture.keys.push(KeySeen {
                table: table.clone(),
                name: ident(name)?,
                parent: TableName::new(ident(schema)?, ident(parent)?),
            });
        }
        let triggers = conn.exec::<String, _, _>(TRIGGERS, names);
        for name in answered(LOOK, CONNECT_DEADLINE, triggers).await? {
            picture.triggers.push((table.clone(), ident(name)?));
        }
    }
    for table in &children {
        indexes(conn, table, &mut picture).await?;
    }
    Ok(picture)
}

async fn indexes(
    conn: &mut Conn,
    table: &TableName,
    picture: &mut Picture,
) -> Result<(), CutoverError> {
    let names = (table.schema.as_str(), table.table.as_str());
    let asked = conn.exec::<String, _, _>(INDEXES, names);
    for name in answered(LOOK, CONNECT_DEADLINE, asked).await? {
        picture.indexes.push((table.clone(), ident(name)?));
    }
    Ok(())
}

fn ident(name: String) -> Result<Ident, CutoverError> {
    Ident::new(name).map_err(|error| CutoverError::NoName { source: error })
}

async fn run<Q>(conn: &mut Conn, attempted: &'static str, statement: Q) -> Result<(), CutoverError>
where
    Q: mysql_async::prelude::AsQuery + Send + Sync,
{
    answered(attempted, STATEMENT_DEADLINE, conn.query_drop(statement)).await
}

const LOOK: &str = "look for triggers and foreign keys";
const GIVE: &str = "give the new table its triggers and foreign keys";
const TAKE: &str = "take triggers and foreign keys off the new table again";
const COMPLETE: &str = "carry triggers and foreign keys over";
/// Else the server would check every row of a table that a key is added to.
/// Its rows are the old table's, which are checked.
const KEY_CHECKS_OFF: &str = "SET SESSION foreign_key_checks = 0";
/// None waits for rows. Longer than the server waits for a lock.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(60);
const KEYS: &str = "SELECT CONSTRAINT_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME \
    FROM information_schema.REFERENTIAL_CONSTRAINTS \
    WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ? ORDER BY CONSTRAINT_NAME";
const TRIGGERS: &str = "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS \
    WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ? \
    ORDER BY ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER";
const INDEXES: &str = "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS \
    WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY INDEX_NAME";

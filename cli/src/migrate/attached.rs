//! What hangs on the job's tables, from the first look to the last clean-up.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_cutover::{SwapPair, SwapPlan, hidden_children};
use oxferry_schema::{
    Alter, Altered, Attached, Remedy, ShadowNames, Table, TableName, try_attached,
};
use oxferry_state::{Checkpoint, TableProgress};

use super::{
    job::Migration,
    neighbours::{Facts, Hidden},
};
use crate::{
    failure::Failure,
    job::{Problem, privileges, refuse},
};

/// How often it is looked whether something new hangs on a table. Under the
/// cutover's lock it is looked at once more.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Reads what preflight looks at of what hangs on a table.
pub(super) async fn facts(
    conn: &mut Conn,
    table: &TableName,
    attached: &Attached,
    grants: &[String],
) -> Result<Facts, Failure> {
    let failed = |error| {
        Failure::new(Remedy::Retry, error)
            .context(format!("looking what hangs on {}", table.plain()))
    };
    let known = Table::children(conn, table).await?;
    let hidden = match known {
        None if privileges::sees_every_table(grants) => Hidden::None,
        None => Hidden::Unknown,
        Some(all) => {
            let visible = Table::referencing_foreign_keys(conn, table).await?;
            if all.len() > visible.len() {
                Hidden::Some(all)
            } else {
                Hidden::None
            }
        }
    };
    let collation: Option<String> = conn
        .exec_first(
            "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?",
            (table.schema.as_str(),),
        )
        .await
        .map_err(failed)?;
    // Since 9.6 the server itself changes the children's rows, and logs it; this
    // switch has the storage engine do it unlogged, as before. Source: MySQL
    // 9.7 manual, `innodb_native_foreign_keys`; both seen on 9.7.4.
    let native: Option<(String, String)> = conn
        .query_first("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
        .await
        .map_err(failed)?;
    Ok(Facts {
        table: table.clone(),
        old: ShadowNames::beside(table).old,
        attached: attached.clone(),
        hidden,
        database_collation: collation.unwrap_or_default(),
        logs_cascades: native.is_some_and(|(_, value)| value == "OFF"),
    })
}

/// Follows what hangs on the tables through the change, and tries on scratch
/// copies that it can hang on what they become.
///
/// # Errors
///
/// A failure that names what is in the way.
pub(super) async fn check(
    job: &Migration,
    conn: &mut Conn,
    altered: &[Altered],
) -> Result<Vec<Attached>, Failure> {
    let mut all = Vec::with_capacity(job.tables.len());
    let mut problems = Vec::new();
    for table in &job.tables {
        let mut attached = table.attached.clone();
        for (other, altered) in job.tables.iter().zip(altered) {
            let lost = attached.follow(&other.source, altered).err();
            problems.extend(lost.into_iter().flatten().map(|lost| Problem {
                what: format!(
                    "{} needs column {} of {}, which the statement drops",
                    lost.key,
                    lost.column.as_str(),
                    lost.table.plain()
                ),
                fix: "drop the foreign key first, or keep the column".to_owned(),
                remedy: Remedy::Usage,
            }));
        }
        all.push(attached);
    }
    refuse(&problems)?;
    let alters: Vec<(&Table, &Alter)> = job
        .tables
        .iter()
        .map(|table| (&table.source, &table.alter))
        .collect();
    for (table, attached) in job.tables.iter().zip(&all) {
        let change = (&table.source, &table.alter);
        let objections = try_attached(conn, change, attached, &alters).await?;
        problems.extend(objections.into_iter().map(Problem::from));
    }
    refuse(&problems)?;
    Ok(all)
}

/// Refuses to go on when what hangs on a table isn't what the job began with.
pub(super) fn check_same(began: &[TableProgress], now: &[Attached]) -> Result<(), Failure> {
    let pairs = began.iter().zip(now);
    let found = pairs.flat_map(|(began, now)| began.attached.differences(now));
    changed(found.collect()).map_or(Ok(()), Err)
}

fn changed(found: Vec<String>) -> Option<Failure> {
    (!found.is_empty()).then(|| {
        let error = anyhow::anyhow!(
            "{} since the job began: undo that, then go on, or start anew with --fresh",
            found.join(", ")
        );
        Failure::new(Remedy::Retry, error)
    })
}

/// Ends when something that hangs on a table comes, goes or changes before the
/// cutover has begun; from then on its lock sees to that.
pub(super) async fn watch(job: &Migration, in_cutover: &AtomicBool) -> Failure {
    let sources = job.core.sources();
    let mut session = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if in_cutover.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        match look(job, &mut session, &sources).await {
            Ok(found) => {
                let failure = changed(found);
                // The cutover may have begun to change it itself meanwhile.
                if let Some(failure) = failure
                    && !in_cutover.load(Ordering::Relaxed)
                {
                    return failure;
                }
            }
            Err(failure) => {
                session = None;
                tracing::warn!("what hangs on the tables can't be seen: {}", failure.line());
            }
        }
    }
}

async fn look(
    job: &Migration,
    session: &mut Option<Conn>,
    sources: &[TableName],
) -> Result<Vec<String>, Failure> {
    let conn = match session {
        Some(conn) => conn,
        None => session.insert(job.core.source.connect("attached").await?),
    };
    let mut found = Vec::new();
    for table in &job.tables {
        let now = Attached::read(conn, &table.source.name).await?;
        found.extend(table.attached.differences(&now.without_children(sources)));
        found.extend(hidden_children(conn, &table.source.name).await?);
    }
    Ok(found)
}

/// Every table of the job and its shadow, to change places in one statement.
pub(super) fn swap_plan(job: &Migration, attached: &[Attached]) -> Result<SwapPlan, Failure> {
    let tables = job.tables.iter().map(|table| &table.source.name);
    plan(tables.zip(attached))
}

/// The same for a job that is known by its checkpoint only.
pub(crate) fn plan_of(checkpoint: &Checkpoint) -> Result<SwapPlan, Failure> {
    let tables = checkpoint.tables.iter();
    plan(tables.map(|table| (&table.source, &table.attached)))
}

fn plan<'a>(
    tables: impl Iterator<Item = (&'a TableName, &'a Attached)>,
) -> Result<SwapPlan, Failure> {
    let mut plan: Option<SwapPlan> = None;
    for (source, attached) in tables {
        let names = ShadowNames::beside(source);
        let pair = SwapPair {
            source: source.clone(),
            shadow: names.shadow,
            old: names.old,
        };
        let with_pair = match plan {
            None => SwapPlan::new(pair),
            Some(plan) => plan.with_pair(pair),
        };
        plan = Some(with_pair.with_attached(attached.clone()));
    }
    plan.ok_or_else(|| Failure::new(Remedy::Bug, anyhow::anyhow!("a cutover without a table")))
}

/// Says what is carried over, and what that costs.
pub(super) fn say(table: &TableName, attached: &Attached) {
    let names = |texts: Vec<String>| texts.join(", ");
    if !attached.triggers.is_empty() {
        let triggers = attached.triggers.iter().map(|t| t.name.as_str().to_owned());
        tracing::info!(
            table = %table.plain(), triggers = %names(triggers.collect()),
            "triggers are made again on the new table under the cutover's lock"
        );
    }
    if !attached.foreign_keys.is_empty() {
        let keys = attached.foreign_keys.iter().map(|key| key.was.to_string());
        let parents = attached.foreign_keys.iter().map(|key| &key.was.parent);
        let locked: BTreeSet<String> = parents.map(TableName::plain).collect();
        tracing::info!(
            table = %table.plain(), keys = %names(keys.collect()),
            also_locked = %names(locked.into_iter().collect()),
            "foreign keys keep their names; the tables that they refer to are locked with the table at \
             the cutover, and no row is checked again"
        );
    }
    if !attached.children.is_empty() {
        let keys = attached.children.iter().map(|key| key.was.to_string());
        let children = attached.children.iter().map(|key| &key.was.child);
        let locked: BTreeSet<String> = children.map(TableName::plain).collect();
        tracing::info!(
            table = %table.plain(), keys = %names(keys.collect()),
            also_locked = %names(locked.into_iter().collect()),
            "foreign keys of other tables are rebuilt to refer to the new table: those tables are locked \
             for reads and writes with the table at the cutover, for two short changes of their \
             definition each; no row is read or checked again"
        );
    }
}

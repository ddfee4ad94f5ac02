//! Changes that the server makes at once, without a copy.
//!
//! A table is changed at once or copied; of several tables, those that the
//! server can change are changed first, one after the other, and the rest is
//! copied and swapped together.

mod apply;
mod earlier;
mod outcome;

use mysql_async::Conn;
use oxferry_cutover::end_earlier;
use oxferry_schema::{
    Algorithm, Alter, CopyReason, ServerInfo, ServerUrl, Table, TableName, connect, native_plan,
};

use super::{
    EARLIER_MAX,
    request::{self, Request, Rest},
};
use crate::{
    args::{MigrateArgs, NativeDdl},
    failure::Failure,
    job::JobLock,
    source,
};

/// A table that the server can change at once, as far as an empty copy tells.
#[derive(Debug)]
pub(super) struct Native {
    /// Which of the tables that were asked for it is.
    place: usize,
    request: Request,
    before: Table,
    /// The algorithms to try, in this order.
    ways: Vec<Algorithm>,
    /// What `SHOW CREATE TABLE` prints of the altered copy.
    after: String,
}

/// What is to be done to which table; nothing has been done yet.
#[derive(Debug)]
pub(super) struct Decided {
    url: ServerUrl,
    /// No other job works on the tables meanwhile.
    lock: Option<JobLock>,
    natives: Vec<Native>,
    /// What must be copied, and which of the tables that were asked for it is.
    copies: Vec<(usize, Request)>,
    /// What an earlier run has changed at once.
    done: Vec<String>,
}

impl Native {
    const fn table(&self) -> &TableName {
        &self.before.name
    }

    const fn alter(&self) -> &Alter {
        &self.request.alter
    }

    fn statement(&self) -> String {
        self.alter().statement_for(self.table())
    }
}

impl Decided {
    /// Returns what is left to copy, if some tables are changed at once and some
    /// are not: all of it is to be checked before the first is changed.
    pub(super) fn mixed(&self) -> Option<Rest> {
        let mixed = !self.natives.is_empty() && !self.copies.is_empty();
        mixed.then(|| self.rest())
    }

    /// Says what would happen to the tables that needn't be copied; returns
    /// what is left.
    pub(super) async fn say(self) -> Result<Rest, Failure> {
        for native in &self.natives {
            let algorithms: Vec<_> = native.ways.iter().map(|way| way.as_str()).collect();
            tracing::info!(
                table = %native.table().plain(), algorithm = %algorithms.join(" or "),
                "would be changed by the server at once, without a copy"
            );
        }
        let rest = self.rest();
        if let Some(lock) = self.lock {
            lock.release().await;
        }
        Ok(rest)
    }

    fn rest(&self) -> Rest {
        let requests = self.copies.iter().map(|(_, request)| request.clone());
        let natives = self.natives.iter().map(Native::statement);
        Rest {
            requests: requests.collect(),
            done: self.done.iter().cloned().chain(natives).collect(),
        }
    }
}

/// Asks the server which of the tables it can change at once.
///
/// What else is wrong with a table or the server is not looked at here: a
/// table that isn't changed at once is left to the checks of a copy.
///
/// # Errors
///
/// A failure that says what could not be asked; nothing has been changed.
pub(super) async fn decide(args: &MigrateArgs) -> Result<Decided, Failure> {
    let url = source::source_url(&args.server)?;
    let requests = request::read(args, &url)?;
    let mut decided = Decided {
        url,
        lock: None,
        natives: Vec::new(),
        copies: requests.into_iter().enumerate().collect(),
        done: Vec::new(),
    };
    let mut conn = connect(&decided.url, "native-ddl").await?;
    decided.url = decided.url.settled(&conn);
    let info = ServerInfo::read(&mut conn).await?;
    let mut names = Vec::with_capacity(decided.copies.len());
    for (_, request) in &mut decided.copies {
        if let Some(table) = live(&mut conn, request, &info).await? {
            request.alter = request.alter.clone().about(&table);
            names.push(table.name);
        }
    }
    if info.read_only || info.super_read_only || !are_all(&names, decided.copies.len()) {
        // What is wrong is told together with everything else.
        return Ok(decided);
    }
    let lock = connect(&decided.url, "native-lock").await?;
    decided.lock = Some(JobLock::take(lock, &names).await?);
    for name in &names {
        // What an earlier run sent may still be happening.
        end_earlier(&mut conn, name, EARLIER_MAX).await?;
    }
    if decided.look_back(args, &mut conn, &names).await? {
        return Ok(decided);
    }
    if let Some(reason) = copied_in_any_case(args) {
        tracing::debug!(reason, "no table is changed at once");
        return Ok(decided);
    }
    for (place, request) in std::mem::take(&mut decided.copies) {
        match look(&mut conn, (place, request), &info).await? {
            Ok(native) => decided.natives.push(native),
            Err(request) => decided.copies.push((place, request)),
        }
    }
    Ok(decided)
}

/// Why no table is changed at once, where the options say so.
fn copied_in_any_case(args: &MigrateArgs) -> Option<&'static str> {
    if args.native_ddl == NativeDdl::Off {
        Some("--native-ddl off")
    } else if args.cutover.keep_old_table {
        Some("--keep-old-table: only a copy leaves an old table")
    } else if args.cutover.postpone.defer_cutover {
        Some("--defer-cutover: a change at once can't be postponed")
    } else {
        None
    }
}

/// Whether each table that was asked for is there, and none twice.
fn are_all(names: &[TableName], count: usize) -> bool {
    let mut distinct = names.to_vec();
    distinct.sort();
    distinct.dedup();
    distinct.len() == count
}

async fn live(
    conn: &mut Conn,
    request: &Request,
    info: &ServerInfo,
) -> Result<Option<Table>, Failure> {
    let Some(table) = Table::read(conn, &request.table).await? else {
        return Ok(None);
    };
    let alter = &request.alter;
    alter.check_table(&table.name, info.lower_case_table_names)?;
    Ok(Some(table))
}

/// Asks the server about one table; gives the request back where it must be copied.
async fn look(
    conn: &mut Conn,
    (place, request): (usize, Request),
    info: &ServerInfo,
) -> Result<Result<Native, Request>, Failure> {
    let Some(before) = live(conn, &request, info).await? else {
        return Ok(Err(request));
    };
    let plan = native_plan(conn, &info.version, &before, &request.alter).await?;
    match plan.way {
        Ok(ways) => Ok(Ok(Native {
            place,
            request,
            before,
            ways,
            after: plan.after,
        })),
        Err(reason) => {
            say_copied(&before.name, &reason);
            Ok(Err(request))
        }
    }
}

fn say_copied(table: &TableName, reason: &CopyReason) {
    tracing::info!(table = %table.plain(), %reason, "must be copied");
}

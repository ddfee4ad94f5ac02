//! What every job does: copy, apply, compare, wait, take over.
//!
//! A job is a [`Job`], which says what is to be copied where, and a [`Kind`],
//! which says how: where rows are written, and how the target takes over.
//! Everything else is here, once.

mod callbacks;
mod checkpoint;
mod comparison;
mod feed;
mod kind;
mod lock;
mod phases;
mod prepared;
pub(crate) mod privileges;
mod problem;
mod progress;
mod ranges;
mod rest;
mod rows;
mod run;
mod server;
mod session;
mod settings;
mod shape;
mod sieve;
mod signals;
mod site;
mod size;
mod spellings;
mod summary;
mod throttling;

use std::time::Duration;

use oxferry_copier::RowFilter;
use oxferry_schema::{RowKey, Table, TableName};
use oxferry_state::{Checkpoint, JobIdentity};

pub(crate) use self::{
    callbacks::ended,
    checkpoint::{SAVE_MAX, Saver, Store},
    kind::{Kind, Sink, TakenOver},
    lock::{Held, Holder, JobLock, Working},
    phases::Script,
    prepared::{Prepared, PreparedTable, make_sentinel},
    problem::{Problem, refuse},
    progress::Progress,
    rows::{Own, Owned, Rows, TenantValue},
    run::run,
    server::{ServerFacts, log_problems, setting},
    session::{Occasional, answered},
    settings::Settings,
    shape::Columns,
    signals::{Interrupt, attended, interrupted},
    site::{Site, drop_together, table_exists},
    size::bytes_text,
    spellings::Spellings,
};

/// What is to be copied where, before anything is written.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) settings: Settings,
    /// Where rows come from.
    pub(crate) source: Site,
    /// The server that the applications write to, where the source is a replica
    /// of it.
    pub(crate) primary: Option<Site>,
    /// Where rows go.
    pub(crate) target: Site,
    /// The tables; their places in this list are their numbers everywhere
    /// else. Never empty.
    pub(crate) tables: Vec<JobTable>,
    /// The table on the target that postpones the cutover.
    pub(crate) sentinel: TableName,
    /// The checkpoint's table, on the target.
    pub(crate) state: TableName,
    /// The table on the source, or its primary, that holds the marks of the barrier and the
    /// throttle; with one server, the checkpoint's.
    pub(crate) marks: TableName,
    pub(crate) identity: JobIdentity,
    /// Whether one table is copied after the other.
    pub(crate) in_order: bool,
}

/// One table of a job.
#[derive(Clone, Debug)]
pub(crate) struct JobTable {
    pub(crate) source: Table,
    pub(crate) key: RowKey,
    /// Where its rows go.
    pub(crate) target: TableName,
    /// Which of its rows the job is about.
    pub(crate) rows: Rows,
}

impl Job {
    /// Returns the server that the applications write to.
    pub(crate) fn written(&self) -> &Site {
        self.primary.as_ref().unwrap_or(&self.source)
    }

    /// Returns the names of the tables, in the job's order.
    pub(crate) fn sources(&self) -> Vec<TableName> {
        let names = self.tables.iter().map(|table| &table.source.name);
        names.cloned().collect()
    }

    /// Returns the server's estimate of the rows of all tables.
    pub(crate) fn row_estimate(&self) -> u64 {
        let rows = self.tables.iter().map(|table| table.source.row_estimate);
        rows.fold(0, u64::saturating_add)
    }

    /// Begins the job's checkpoint.
    pub(crate) fn begin(&self) -> Checkpoint {
        Checkpoint::new(
            self.identity.clone(),
            env!("CARGO_PKG_VERSION"),
            self.source.info.server_uuid.as_str(),
        )
    }

    /// Returns where the job's checkpoint is kept.
    pub(crate) fn store(&self) -> Store {
        Store::new(
            self.settings.run.state.as_ref(),
            self.target.opts("checkpoint"),
            &self.state,
            &self.identity.name,
        )
    }
}

impl JobTable {
    pub(crate) fn row_bytes(&self) -> u64 {
        row_bytes(&self.source)
    }

    /// Returns the filter of its rows, `None` for all; `name_of` finds the
    /// source's tables by the names that they have now.
    pub(crate) fn filter(&self, name_of: &dyn Fn(&TableName) -> TableName) -> Option<RowFilter> {
        self.rows.filter((&self.source.name, &self.target), name_of)
    }
}

/// Returns about how many bytes a row takes, its share of the indexes included;
/// 0 if that isn't known.
pub(crate) fn row_bytes(table: &Table) -> u64 {
    let rows = table.size_bytes.checked_div(table.row_estimate);
    rows.unwrap_or(0)
}

/// How long one pass over old and dropped tables may wait for a lock.
pub(crate) const DROP_LOCK_WAIT: Duration = Duration::from_secs(10);

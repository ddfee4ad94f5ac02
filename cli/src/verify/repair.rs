//! Makes the target's rows the source's.

use std::sync::Arc;

use mysql_async::Conn;
use oxferry_copier::{
    ColumnMap, Connections, CopyPlan, RowSink, TransferSettings, TransferSink, WorkLimits,
    engine::Mode,
};
use oxferry_schema::{Ident, Key, ServerUrl, Table, TableName};
use tokio::sync::OnceCell;

use crate::failure::Failure;

/// Copies rows of one table again, by their keys.
///
/// A row is deleted and written anew as a whole, in the columns that are ignored
/// for comparing as well.
#[derive(Debug)]
pub(crate) struct Repairer {
    source: ServerUrl,
    target: ServerUrl,
    plan: CopyPlan,
    /// Made when there is something to repair.
    sink: OnceCell<TransferSink>,
}

/// Rows of one transaction.
const KEYS_TOGETHER: usize = 500;

impl Repairer {
    /// Prepares to repair a table; connects to nothing yet.
    ///
    /// # Errors
    ///
    /// A failure when writing the table's rows anew would do something else,
    /// too, or lose something.
    pub(crate) async fn new(
        (source, target): (&ServerUrl, &ServerUrl),
        tables: (&Table, &Table),
        conn: &mut Conn,
    ) -> Result<Self, Failure> {
        let (from, to) = tables;
        check(to, conn).await?;
        let map = map(from, to)?;
        let plan = CopyPlan::new(from.clone(), from.row_key()?, to, map, Mode::Ordered)?;
        Ok(Self {
            source: source.clone(),
            target: target.clone(),
            plan,
            sink: OnceCell::new(),
        })
    }

    /// Makes the target's rows of these keys the source's.
    ///
    /// # Errors
    ///
    /// A failure when the rows can't be read or written.
    pub(crate) async fn repair(&self, keys: &[Key]) -> Result<(), Failure> {
        let sink = self.sink.get_or_try_init(|| self.open()).await?;
        for keys in keys.chunks(KEYS_TOGETHER) {
            sink.copy_keys(keys).await?;
        }
        Ok(())
    }

    async fn open(&self) -> Result<TransferSink, Failure> {
        let source = connections(&self.source, &self.plan.source().name);
        let target = connections(&self.target, self.plan.target());
        let (source, target) = (source.await?, target.await?);
        let settings = TransferSettings::default();
        Ok(TransferSink::new(
            source,
            target,
            self.plan.clone(),
            settings,
        ))
    }
}

async fn connections(server: &ServerUrl, table: &TableName) -> Result<Arc<Connections>, Failure> {
    // A name that no job has: a job's own sessions are left alone.
    let short: String = table.table.as_str().chars().take(50).collect();
    let name = Ident::new(format!("{short} verify"));
    let name = name.map_err(|error| Failure::new(oxferry_schema::Remedy::Bug, error))?;
    let owner = TableName::new(table.schema.clone(), name);
    let opened = Connections::open(server.clone(), &owner, 1, WorkLimits::default());
    Ok(opened.await?)
}

/// A deleted row would take others with it, or fire triggers.
async fn check(target: &Table, conn: &mut Conn) -> Result<(), Failure> {
    let refuse = |why: String| {
        Failure::usage(format!(
            "--repair deletes rows of {} and writes them anew, but {why}: repair it by hand, or leave \
             the table out",
            target.name.plain()
        ))
    };
    if let Some(trigger) = Table::triggers(conn, &target.name).await?.first() {
        return Err(refuse(format!(
            "that would fire its trigger {}",
            trigger.name
        )));
    }
    let children = Table::referencing_foreign_keys(conn, &target.name).await?;
    if let Some(child) = children.first() {
        return Err(refuse(format!(
            "the foreign key {} of {} refers to it",
            child.name,
            child.child.plain()
        )));
    }
    Ok(())
}

/// Returns which columns are written: all that the server doesn't compute.
fn map(source: &Table, target: &Table) -> Result<ColumnMap, Failure> {
    let mut map = ColumnMap::default();
    for to in &target.columns {
        let same = |from: &oxferry_schema::Column| {
            from.name.as_str().to_lowercase() == to.name.as_str().to_lowercase()
        };
        let from = source.columns.iter().position(same);
        let computed = to.generated.is_some();
        match from {
            Some(from) if computed => map.computed.push((from, to.name.clone())),
            Some(from) => map.written.push((from, to.name.clone())),
            None if computed => {}
            None => {
                return Err(Failure::usage(format!(
                    "--repair would lose what column {} of the target holds, which the source lacks",
                    to.name
                )));
            }
        }
    }
    Ok(map)
}

//! Two tables that are compared.

use std::{num::NonZeroUsize, sync::Arc};

use mysql_async::{Conn, Pool};
use oxferry_schema::{Column, Ident, Table, TableName};
use oxferry_verifier::{ColumnPair, RowExpressions, SideTable, TableSide};

use super::{Request, STATEMENT_MAX, repair::Repairer};
use crate::{
    comparing::{check_compressed, existing, is_among, same},
    failure::Failure,
};

/// Two tables that are compared, and how.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) source: TableName,
    pub(crate) target: TableName,
    pub(crate) sides: (TableSide, TableSide),
    pub(crate) is_client_ordered: bool,
    /// Rows of one comparison.
    pub(crate) chunk_rows: NonZeroUsize,
    /// What repairs the target's rows, where that is wanted.
    pub(crate) repairer: Option<Arc<Repairer>>,
    options: String,
}

/// How many bytes of rows are compared by one statement.
const CHUNK_BYTES: u64 = 16 << 20;

/// How many rows are compared by one statement.
const CHUNK_ROWS: (u64, u64) = (500, 50_000);

impl Subject {
    /// Reads a table on both servers.
    ///
    /// # Errors
    ///
    /// A failure when a table is missing, has no key, or holds something that
    /// can't be compared; it names the columns.
    pub(crate) async fn read(
        source: (&mut Conn, &TableName),
        target: (&mut Conn, &TableName),
        request: &Request,
        pools: &(Pool, Pool),
    ) -> Result<Self, Failure> {
        let source = read(source, "source").await?;
        let (conn, name) = target;
        let target = read((&mut *conn, name), "target").await?;
        let repairer = if request.repair {
            let urls = (&request.source, &request.target);
            let repairer = Repairer::new(urls, (&source, &target), conn);
            Some(Arc::new(repairer.await?))
        } else {
            None
        };
        let key = source.row_key()?;
        let target_key = key.side_in(&target, &key.columns)?;
        if !target_key.keeps_order() {
            return Err(Failure::usage(format!(
                "the key ({}) is ordered in another way on the target, by another type or collation: \
                 make both alike",
                names(&key.columns)
            )));
        }
        let compressed = request.comparing.compressed(&source.name);
        let pairs = pairs(&source, &target, request.comparing.ignored(&source.name))?;
        check_compressed(&pairs, compressed)?;
        let left_out: Vec<Ident> = compressed.iter().map(|(name, _)| name.clone()).collect();
        let row = RowExpressions::new(&pairs, &key.columns, &left_out)?;
        let forced = request.comparing.forced(&source.name);
        let index = Some(match forced {
            Some(index) => existing(&source, index, "source")?,
            None => key.index.clone(),
        });
        let sides = (
            SideTable {
                name: source.name.clone(),
                key: key.side(&source)?,
                index,
            },
            SideTable {
                name: target.name.clone(),
                key: target_key,
                index: Some(match forced {
                    Some(index) => existing(&target, index, "target")?,
                    None => unique_over(&target, &key.columns)?,
                }),
            },
        );
        let side = |pool: &Pool, table, row| {
            let side = TableSide::new(pool.clone(), table, row, STATEMENT_MAX);
            side.with_compressed(compressed.to_vec())
        };
        let columns: Vec<&Ident> = pairs.iter().map(|pair| &pair.source.name).collect();
        Ok(Self {
            options: format!("{columns:?} {compressed:?}"),
            chunk_rows: chunk_rows(&source),
            repairer,
            is_client_ordered: key.is_client_ordered(),
            source: source.name,
            target: target.name,
            sides: (
                side(&pools.0, sides.0, row.source()),
                side(&pools.1, sides.1, row.target()),
            ),
        })
    }

    pub(crate) fn source_name(&self) -> String {
        self.source.plain()
    }

    /// Returns the names on source and target.
    pub(crate) fn names(&self) -> (String, String) {
        (self.source.plain(), self.target.plain())
    }

    /// Returns what is compared with what, to tell comparisons apart.
    pub(crate) fn described(&self) -> String {
        format!(
            "{} with {}: {}",
            self.source.plain(),
            self.target.plain(),
            self.options
        )
    }
}

async fn read((conn, name): (&mut Conn, &TableName), side: &str) -> Result<Table, Failure> {
    let table = Table::read(conn, name).await?;
    table.ok_or_else(|| Failure::usage(format!("the {side} has no table {}", name.plain())))
}

fn names(columns: &[Ident]) -> String {
    let names: Vec<&str> = columns.iter().map(Ident::as_str).collect();
    names.join(", ")
}

/// Returns each compared column with its namesake.
fn pairs(source: &Table, target: &Table, ignored: &[Ident]) -> Result<Vec<ColumnPair>, Failure> {
    let is_ignored = |column: &&Column| is_among(ignored, &column.name);
    let both = || source.columns.iter().chain(&target.columns);
    if let Some(unknown) = ignored
        .iter()
        .find(|name| !both().any(|column| same(name, &column.name)))
    {
        return Err(Failure::usage(format!(
            "column {unknown} is to be ignored, but neither table has it"
        )));
    }
    let mut pairs = Vec::new();
    let mut alone = Vec::new();
    for column in source.columns.iter().filter(|column| !is_ignored(column)) {
        let mut others = target.columns.iter();
        match others.find(|other| same(&other.name, &column.name)) {
            Some(other) => pairs.push(ColumnPair {
                source: column.clone(),
                target: other.clone(),
            }),
            None => alone.push(format!("{} of the source", column.name)),
        }
    }
    let others = target.columns.iter().filter(|column| !is_ignored(column));
    let unpaired = others.filter(|other| !pairs.iter().any(|pair| pair.target.name == other.name));
    alone.extend(unpaired.map(|other| format!("{} of the target", other.name)));
    if alone.is_empty() {
        return Ok(pairs);
    }
    Err(Failure::usage(format!(
        "only one side has {}: name these columns in --ignore-column to compare the others",
        alone.join(", ")
    )))
}

fn unique_over(target: &Table, key: &[Ident]) -> Result<Ident, Failure> {
    let covers = |index: &&oxferry_schema::Index| {
        let columns = index.parts.iter().map(|part| part.column.as_ref());
        index.unique && columns.eq(key.iter().map(Some))
    };
    let index = target.indexes.iter().find(covers);
    index.map(|index| index.name.clone()).ok_or_else(|| {
        Failure::usage(format!(
            "the target has no primary key or unique index over ({}), by which its rows could be found",
            names(key)
        ))
    })
}

fn chunk_rows(table: &Table) -> NonZeroUsize {
    let row_bytes = table.size_bytes / table.row_estimate.max(1);
    let rows = (CHUNK_BYTES / row_bytes.max(1)).clamp(CHUNK_ROWS.0, CHUNK_ROWS.1);
    let rows = usize::try_from(rows).ok().and_then(NonZeroUsize::new);
    rows.unwrap_or(NonZeroUsize::MIN)
}

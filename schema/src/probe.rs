//! Asking the server what a statement does to a table's columns.

mod attached;
mod default;
mod marker;
pub(crate) mod scratch;

use mysql_async::Conn;

use crate::{Alter, ErrorClass, Mapping, ReadError, Remedy, ShadowNames, Table, checks, classify};
pub use attached::{Objection, try_attached};
use scratch::Scratch;

/// What a table becomes, and where its columns come from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Altered {
    /// The altered table, as the server describes it; its name is the scratch
    /// table's.
    pub table: Table,
    /// Where its columns come from.
    pub mapping: Mapping,
}

/// Why the server's answer is missing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The server refuses the statement, tried on an empty copy.
    #[error("the server refuses the statement on an empty copy of {table}")]
    Statement {
        /// The source table.
        table: String,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// A scratch table could not be made, read or dropped.
    #[error("cannot {what} scratch table {scratch}")]
    Scratch {
        /// What was attempted.
        what: &'static str,
        /// The scratch table.
        scratch: String,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// A scratch table could not be read.
    #[error("cannot read what the statement makes of {table}")]
    Read {
        /// The source table.
        table: String,
        /// Why not.
        #[source]
        source: Box<ReadError>,
    },
    /// A scratch table disappeared.
    #[error("scratch table {scratch} disappeared: is another job at work on {table}?")]
    Gone {
        /// The scratch table.
        scratch: String,
        /// The source table.
        table: String,
    },
    /// The server can't name the CHECK constraints of a copy.
    #[error(
        "table {table} has CHECK constraints and a name so long that the server cannot name those of its copy in 64 characters: rename the table, or drop the constraints"
    )]
    LongChecks {
        /// The source table.
        table: String,
    },
    /// The server would fill a new column with another value than it says.
    #[error(
        "the new column {column} of {table} has a FLOAT default of more than six digits, which the server makes {written} at the table's next change: give one of six digits, or use DOUBLE"
    )]
    UnstableDefault {
        /// The source table.
        table: String,
        /// The new column.
        column: String,
        /// What the server has written down.
        written: String,
    },
    /// More than one answer is possible.
    #[error(
        "cannot tell which column of the altered table {table} column {column} becomes: change it in a statement of its own, or keep its type"
    )]
    Ambiguous {
        /// The source table.
        table: String,
        /// The source column.
        column: String,
    },
}

impl ProbeError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Statement { source, .. } => match classify(source) {
                // On an empty table only the statement itself can be at fault.
                ErrorClass::DataRefused | ErrorClass::Fatal => Remedy::Usage,
                class => class.remedy(),
            },
            Self::Scratch { source, .. } => classify(source).remedy(),
            Self::Read { source, .. } => source.remedy(),
            Self::Gone { .. } => Remedy::Retry,
            Self::Ambiguous { .. } | Self::LongChecks { .. } | Self::UnstableDefault { .. } => {
                Remedy::Usage
            }
        }
    }
}

/// The most indexes that a table may have. Source: MySQL 9.7 manual, "Limits on
/// InnoDB Tables".
const INDEXES_MAX: usize = 64;

/// Asks the server what `alter` does to `source`, and where each column goes.
///
/// Runs the statement on empty copies of the table, one after the other, all
/// called [`ShadowNames::probe`]. In the first copies, every column has an index
/// of its own, whose name tells which column it was; the server keeps a column's
/// indexes with it through any renaming, and drops them with it. A column that
/// can't be indexed is made an indexable one beforehand. Where the new type
/// can't be indexed, a row with a mark in the column is carried along instead.
/// Only that a column is dropped is read from the statement: when one of the same
/// name is added, the server gives it the old one's indexes (observed on 9.7.4).
///
/// The source table itself is only read. The copies are dropped, on an error
/// too; a crash leaves one, which the next call replaces.
///
/// # Errors
///
/// [`ProbeError::Statement`] with the server's own words before anything else
/// happened; [`ProbeError::Ambiguous`] rather than a guess.
///
/// # Cancel safety
///
/// Dropped, it leaves a scratch table behind, and perhaps another `sql_mode`:
/// close the connection.
pub async fn probe(conn: &mut Conn, source: &Table, alter: &Alter) -> Result<Altered, ProbeError> {
    if checks::are_too_long(source) {
        let table = source.name.plain();
        return Err(ProbeError::LongChecks { table });
    }
    let name = ShadowNames::beside(&source.name).probe;
    let mut scratch = Scratch::new(conn, source, &name, alter);
    let altered = ask(&mut scratch, source, alter).await;
    let dropped = scratch.drop().await;
    let altered = altered?;
    dropped?;
    Ok(altered)
}

async fn ask(
    scratch: &mut Scratch<'_>,
    source: &Table,
    alter: &Alter,
) -> Result<Altered, ProbeError> {
    scratch.renew().await?;
    scratch.alter().await?;
    let table = scratch.read().await?;
    let mut carried = Carried::new(source, &table);
    let (plain, other): (Vec<usize>, Vec<usize>) = (0..source.columns.len())
        .filter(|at| {
            !source
                .columns
                .get(*at)
                .is_some_and(|c| alter.drops(&c.name))
        })
        .partition(|at| source.columns.get(*at).is_some_and(marker::is_indexable));
    let mut left = carried.follow(scratch, plain, false).await?;
    left.extend(other);
    left = carried.follow(scratch, left, true).await?;
    carried.follow_marks(scratch, &left).await?;
    let mapping = Mapping::of(source, &table, &carried.to);
    scratch.refuse_unstable_default(&table, &mapping).await?;
    Ok(Altered { table, mapping })
}

/// What is known so far of where the source's columns go.
struct Carried<'a> {
    source: &'a Table,
    target: &'a Table,
    /// For each source column, where it is in the altered table.
    to: Vec<Option<usize>>,
}

impl<'a> Carried<'a> {
    fn new(source: &'a Table, target: &'a Table) -> Self {
        Self {
            source,
            target,
            to: vec![None; source.columns.len()],
        }
    }

    /// Follows columns by their indexes; returns those that can't be followed
    /// so. A group that the server refuses is halved until the column is found.
    async fn follow(
        &mut self,
        scratch: &mut Scratch<'_>,
        columns: Vec<usize>,
        convert: bool,
    ) -> Result<Vec<usize>, ProbeError> {
        let used = self.source.indexes.len().max(self.target.indexes.len());
        let free = INDEXES_MAX.saturating_sub(used);
        if free == 0 {
            return Ok(columns);
        }
        let mut groups: Vec<Vec<usize>> = columns.chunks(free).map(<[usize]>::to_vec).collect();
        let mut left = Vec::new();
        while let Some(group) = groups.pop() {
            if let Some(found) = scratch.follow_indexes(&group, convert).await? {
                for (column, name) in found {
                    let at = self.target.columns.iter().position(|c| c.name == name);
                    if let Some(slot) = self.to.get_mut(column) {
                        *slot = at;
                    }
                }
            } else if group.len() > 1 {
                let (one, two) = group.split_at(group.len() / 2);
                groups.extend([one.to_vec(), two.to_vec()]);
            } else {
                left.extend(group);
            }
        }
        Ok(left)
    }

    /// Follows the columns that are left by marks in a row.
    async fn follow_marks(
        &mut self,
        scratch: &mut Scratch<'_>,
        columns: &[usize],
    ) -> Result<(), ProbeError> {
        let candidates = self.unclaimed();
        if columns.is_empty() || candidates.is_empty() {
            return Ok(());
        }
        let names = candidates
            .iter()
            .filter_map(|at| self.target.columns.get(*at));
        let marks = scratch
            .follow_marks(columns, &names.collect::<Vec<_>>())
            .await?;
        for (column, mark) in columns.iter().zip(&marks.before) {
            let matches: Vec<usize> = candidates
                .iter()
                .zip(&marks.after)
                .filter(|(_, after)| mark.is_some() && *after == mark)
                .map(|(at, _)| *at)
                .collect();
            let shared = marks.before.iter().filter(|other| *other == mark).count() > 1;
            match matches.as_slice() {
                [] => {}
                [only] if !shared => {
                    if let Some(slot) = self.to.get_mut(*column) {
                        *slot = Some(*only);
                    }
                }
                _ => return Err(scratch.ambiguous(*column)),
            }
        }
        self.refuse_doubt(scratch, columns)
    }

    /// A mark that is nowhere proves that the column was dropped only if no
    /// column of another type could have taken, and changed, it.
    fn refuse_doubt(&self, scratch: &Scratch<'_>, columns: &[usize]) -> Result<(), ProbeError> {
        let unclaimed = self.unclaimed();
        for at in columns {
            let Some(column) = self.source.columns.get(*at) else {
                continue;
            };
            let lost = self.to.get(*at).copied().flatten().is_none();
            let changed = |target: &usize| {
                let target = self.target.columns.get(*target);
                target.is_some_and(|target| target.data_type != column.data_type)
            };
            let doubtful =
                unclaimed.iter().any(changed) || marker::literal(column, *at, 0).is_none();
            if lost && !unclaimed.is_empty() && doubtful {
                return Err(scratch.ambiguous(*at));
            }
        }
        Ok(())
    }

    /// The altered table's columns that may be filled and that no source column
    /// is known to go to.
    fn unclaimed(&self) -> Vec<usize> {
        let free = |at: &usize| {
            let generated = self
                .target
                .columns
                .get(*at)
                .is_none_or(|c| c.generated.is_some());
            !generated && !self.to.contains(&Some(*at))
        };
        (0..self.target.columns.len()).filter(free).collect()
    }
}

//! What the target gets when all rows are there: the next automatic values,
//! foreign keys and triggers; and how they are taken off again.

use mysql_async::{Conn, Value};
use oxferry_cutover::LockedSource;
use oxferry_schema::{ForeignKey, Remedy, TableName, next_auto_increment, raise_auto_increment};

use super::job::Move;
use crate::{failure::Failure, job::Job};

impl Move {
    /// Completes the target's tables; nothing may be written to them by the job
    /// any more, since triggers would act.
    ///
    /// # Errors
    ///
    /// A failure that names what is in the way, a row without its parent too.
    pub(super) async fn complete_targets(&self, locked: &LockedSource) -> Result<(), Failure> {
        let mut target = self.core.target.connect("complete").await?;
        raise_auto_increments(&self.core, &mut target, locked).await?;
        self.blueprint.finish(&mut target).await?;
        let keys = self.blueprint.tables.iter().flat_map(|t| &t.foreign_keys);
        // Of the others, the source itself has seen to it, unless a parent may
        // be another tenant's.
        let apart: Vec<ForeignKey> = keys
            .filter(|key| self.tenant.is_some() || !self.blueprint.moves_parent(key))
            .cloned()
            .collect();
        let rows = apart.iter().map(|key| self.rows_of(&key.child));
        let apart: Vec<_> = apart.iter().zip(rows).collect();
        let orphans = self.blueprint.orphans(&mut target, apart).await?;
        let Some(orphan) = orphans.first() else {
            return Ok(());
        };
        Err(Failure::new(
            Remedy::Data,
            anyhow::anyhow!(
                "a row of {} refers to ({}), which isn't in {} on the target: bring it there, or drop {}",
                orphan.key.child.plain(),
                orphan.values.join(", "),
                orphan.key.parent.plain(),
                orphan.key
            ),
        ))
    }

    /// Returns the condition that selects the move's own rows of a target: a
    /// tenant's, beside others'.
    fn rows_of(&self, target: &TableName) -> (String, Vec<Value>) {
        let mut tables = self.core.tables.iter();
        let table = tables.find(|table| table.target == *target);
        let filter = table.and_then(|table| table.filter(&TableName::clone));
        filter.map_or_else(Default::default, |filter| filter.target_range())
    }

    /// Takes off what an attempt, or an earlier run, has completed, so that rows
    /// can be written again. Keys that stood before the move stay.
    pub(super) async fn detach(&self, target: &mut Conn) -> Result<(), Failure> {
        let stood = self.blueprint.tables.iter();
        let stood = stood.filter(|table| table.create.is_none());
        let kept: Vec<ForeignKey> = stood.flat_map(|t| t.foreign_keys.clone()).collect();
        Ok(self.blueprint.take_off(target, &kept).await?)
    }
}

/// Values that were handed out to rows that are gone by now must not be handed
/// out again: no applied row tells of them. `target` is a session on the job's.
pub(super) async fn raise_auto_increments(
    job: &Job,
    target: &mut Conn,
    locked: &LockedSource,
) -> Result<(), Failure> {
    let mut source = job.written().connect("auto-increment").await?;
    for table in &job.tables {
        let name = locked.name_of(&table.source.name);
        let Some(next) = next_auto_increment(&mut source, name).await? else {
            continue;
        };
        let now = next_auto_increment(target, &table.target).await?;
        if now.is_none_or(|now| now < next) {
            raise_auto_increment(target, &table.target, next).await?;
        }
    }
    Ok(())
}

//! The tenant's own row, which the target gets when it holds everything else.

use oxferry_copier::RowSink as _;
use oxferry_cutover::LockedSource;
use oxferry_schema::{KeyRange, TableName};

use super::job::Move;
use crate::{failure::Failure, job::Script};

impl Move {
    /// Brings the tenant's own row over, and compares it; the source is shut,
    /// and everything else is there.
    ///
    /// # Errors
    ///
    /// A failure when it can't be written, or isn't the same afterwards.
    pub(super) async fn bring_last_rows(
        &self,
        script: &Script<'_, Self>,
        locked: &LockedSource,
    ) -> Result<(), Failure> {
        let mut brought = false;
        for (table, sink) in self.core.tables.iter().zip(script.sinks) {
            if table.rows.are_last() {
                let copied = sink.copy(&KeyRange::ALL, true).await?;
                tracing::info!(
                    table = %table.source.name.plain(), rows = copied.rows,
                    "the tenant's own rows are on the target"
                );
                brought = true;
            }
        }
        if !brought {
            return Ok(());
        }
        let name_of = |table: &TableName| locked.name_of(table).clone();
        script.comparison.check_last_rows(script, name_of).await
    }

    /// Takes the tenant's own row off the target: it takes over later.
    ///
    /// # Errors
    ///
    /// A failure when it can't.
    pub(super) async fn remove_last_rows(&self, script: &Script<'_, Self>) -> Result<(), Failure> {
        for (table, sink) in self.core.tables.iter().zip(script.sinks) {
            if table.rows.are_last() {
                sink.remove_all().await?;
            }
        }
        Ok(())
    }

    /// Reads the source's tables by the names that they have now.
    pub(super) fn read_from(
        &self,
        script: &Script<'_, Self>,
        name_of: &dyn Fn(&TableName) -> TableName,
    ) {
        for (table, sink) in self.core.tables.iter().zip(script.sinks) {
            sink.read_from(name_of(&table.source.name), table.filter(name_of));
        }
    }
}

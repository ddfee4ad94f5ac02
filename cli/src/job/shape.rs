//! How one table is copied, worked out from what it is and where it goes.

use oxferry_copier::{
    ColumnMap, CopyPlan, DeferredIndexes, PlanError, engine::Mode, new_unique_indexes,
};
use oxferry_schema::{Ident, RowKey, Table};
use oxferry_state::{CopyMode, TableProgress};

use crate::failure::Failure;

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::new(oxferry_schema::Remedy::Usage, error)
    }
}

/// One table's source and key, and which column goes to which of its target's.
#[derive(Clone, Debug)]
pub(crate) struct Columns<'a> {
    pub(crate) source: &'a Table,
    pub(crate) key: &'a RowKey,
    pub(crate) map: ColumnMap,
}

impl Columns<'_> {
    /// The target's columns that hold the source's key.
    fn target_key(&self) -> Vec<Ident> {
        let target_of = |source: &usize| {
            let mut pairs = self.map.written.iter().chain(&self.map.computed);
            let pair = pairs.find(|(from, _)| from == source)?;
            Some(pair.1.clone())
        };
        self.key.ordinals.iter().filter_map(target_of).collect()
    }

    /// The indexes of the target that are built after the copy.
    pub(crate) fn deferred(&self, target: &Table) -> DeferredIndexes {
        DeferredIndexes::plan(target, &self.target_key())
    }

    /// The unique indexes of the target that the source's own don't imply.
    pub(crate) fn new_uniques(&self, target: &Table) -> Vec<Ident> {
        let all = self.map.written.iter().chain(&self.map.computed);
        let all: Vec<_> = all.cloned().collect();
        new_unique_indexes(self.source, target, &all, &self.target_key())
    }

    /// Plans *ranged* copying where the target allows it, else *ordered*.
    pub(crate) fn plan(&self, target: &Table) -> Result<CopyPlan, Failure> {
        let plan = |mode| {
            let (source, key) = (self.source.clone(), self.key.clone());
            CopyPlan::new(source, key, target, self.map.clone(), mode)
        };
        match plan(Mode::Ranged) {
            Err(PlanError::UniqueInTheWay { .. } | PlanError::KeyOrder { .. }) => {
                Ok(plan(Mode::Ordered)?)
            }
            other => Ok(other?),
        }
    }

    /// What the checkpoint says of a table that is about to be copied onto
    /// `target`, which will get its `deferred` indexes later.
    pub(crate) fn begin(
        &self,
        plan: &CopyPlan,
        target: &Table,
        deferred: &DeferredIndexes,
    ) -> TableProgress {
        let mode = match plan.mode() {
            Mode::Ranged => CopyMode::Ranged,
            Mode::Ordered => CopyMode::Ordered,
        };
        let (source, target_name) = (self.source.name.clone(), target.name.clone());
        let mut progress = TableProgress::new(source, target_name, mode);
        progress.deferred_indexes = deferred.names().map(ToString::to_string).collect();
        progress.shadow_create.clone_from(&target.create_statement);
        progress
            .source_create
            .clone_from(&self.source.create_statement);
        progress
    }
}

//! The way back: between which tables, how the source is shut, and what is left
//! of an earlier run on it.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use oxferry_cutover::{
    AfterSwitch, Leftover, Sentinel, SwitchPlan, open_source, shut_source, undo_leftover,
};
use oxferry_schema::{Remedy, ShadowNames, TableName};
use oxferry_state::{Checkpoint, Reverse};

use super::time_left;
use crate::{
    args::{Announced, MoveArgs},
    failure::Failure,
    job::{Holder, Saver, Store, drop_together},
    moving::{Names, Sites, marks, switching},
};

/// The way back of one move.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) args: MoveArgs,
    pub(super) sites: Sites,
    pub(super) names: Names,
    /// The table on the target that takes the move back when it is created.
    pub(super) request: TableName,
    /// The tables as they are called on the source in the end.
    pub(super) sources: Vec<TableName>,
    /// The same as they are called on the source while it is shut.
    pub(super) shut_sources: Vec<TableName>,
    /// The tables on the target, in the same order.
    pub(super) targets: Vec<TableName>,
    /// How the source is shut.
    shut: Leftover,
    pub(super) reverse: Reverse,
    /// The job's name.
    pub(super) job: String,
}

impl Way {
    /// Reads a checkpoint that tells of a way back.
    pub(super) fn of(
        args: &MoveArgs,
        sites: &Sites,
        checkpoint: &Checkpoint,
    ) -> Result<Self, Failure> {
        let state = |why: &str| Failure::new(Remedy::State, anyhow::anyhow!("{why}"));
        let target = checkpoint.target.as_ref();
        let Some((target, reverse)) = target.and_then(|t| Some((t, t.reverse.clone()?))) else {
            return Err(state("the checkpoint tells of no way back"));
        };
        if target.server_uuid != sites.target.info.server_uuid {
            return Err(state(&format!(
                "the checkpoint's target is server {}, this is server {}: connect to that one",
                target.server_uuid, sites.target.info.server_uuid
            )));
        }
        let shut: Leftover = parse(&reverse.source_shut)?;
        let sources: Vec<TableName> = checkpoint.tables.iter().map(|t| t.source.clone()).collect();
        let now = |name: &TableName| match shut.renamed {
            true => ShadowNames::beside(name).old,
            false => name.clone(),
        };
        let mut targets = checkpoint.tables.iter().map(|table| &table.target);
        let first = checkpoint.tables.iter().min_by_key(|table| &table.source);
        let first = first.ok_or_else(|| state("the checkpoint names no table"))?;
        Ok(Self {
            args: args.clone(),
            sites: sites.clone(),
            names: Names::of(checkpoint)?,
            request: ShadowNames::beside(&first.target).reverse,
            shut_sources: sources.iter().map(now).collect(),
            targets: targets.by_ref().cloned().collect(),
            sources,
            shut,
            reverse,
            job: checkpoint.job.name.clone(),
        })
    }

    /// Keeps the checkpoint on the source.
    pub(super) fn saver(&self, checkpoint: Checkpoint) -> Saver {
        let file = self.args.run.state.as_ref();
        let opts = self.sites.source.opts("checkpoint");
        let store = Store::new(file, opts, &self.names.marks, &self.job);
        Saver::new(store, checkpoint).of_the_way_back()
    }

    /// Plans the switch back.
    pub(super) fn plan(&self) -> Result<SwitchPlan, Failure> {
        let plan = switching::plan(&self.args.switch, &self.targets)?;
        Ok(plan.with_after(AfterSwitch::AdminsWrite).taking_back())
    }

    /// Undoes what an earlier run that died in the switch back has done to the
    /// target; returns how long the way stays open, if it does.
    pub(super) async fn settle(
        &self,
        checkpoint: &Checkpoint,
    ) -> Result<Option<Duration>, Failure> {
        if self.reverse.back {
            tracing::info!("an earlier run has taken the move back; cleaning up after it");
            return Ok(None);
        }
        if let Some(lock) = &self.reverse.target_lock {
            let mut leftover: Leftover = parse(lock)?;
            match (leftover.announced, self.args.switch.announced) {
                (true, None) => return Err(unknown()),
                (true, Some(Announced::Source)) => return Ok(None),
                _ => leftover.announced = false,
            }
            tracing::info!(%leftover, "an earlier run has shut the target: that is undone first");
            undo_leftover(&self.sites.target.opts("undo"), &self.plan()?, &leftover).await?;
        }
        tracing::debug!(sequence = checkpoint.sequence, "the way back goes on");
        match self.args.switch.reverse_for {
            None => {
                tracing::info!("without --reverse-for the move isn't taken back any more");
                Ok(None)
            }
            Some(reverse_for) => time_left(&self.reverse.since, reverse_for),
        }
    }

    /// Makes sure that the source is shut to all but the job, and begins to keep
    /// the checkpoint there.
    pub(super) async fn open(&self, saver: &Saver) -> Result<(), Failure> {
        self.shut().await?;
        saver.begin(false).await?;
        marks(&self.sites.target, &self.names.state)
            .create()
            .await?;
        saver
            .save_reverse(|reverse| reverse.target_lock = None)
            .await
    }

    /// Shuts the source to all but the job.
    pub(super) async fn shut(&self) -> Result<(), Failure> {
        let opts = self.sites.source.opts("shut");
        Ok(shut_source(&opts, &self.sources, &self.shut).await?)
    }

    /// Lets the source take over.
    pub(super) async fn unshut(&self) -> Result<(), Failure> {
        let opts = self.sites.source.opts("open");
        Ok(open_source(&opts, &self.sources, &self.shut).await?)
    }

    /// Drops what the move made beside the tables: the older copy of the
    /// checkpoint first, which knows nothing of how the way back ended.
    pub(super) async fn clean_up(&self, saver: &Saver, lock: &Holder) -> Result<(), Failure> {
        let back = saver.was_taken_back().await || self.is_said_to_be_back();
        if !back {
            self.shut().await?;
        }
        let mut source = self.sites.source.connect("lock").await?;
        lock.check(&mut source).await?;
        let mut target = self.sites.target.connect("cleanup").await?;
        Sentinel::new(self.names.sentinel.clone())
            .drop(&mut target)
            .await?;
        drop_together(&mut target, &[&self.request]).await?;
        marks(&self.sites.target, &self.names.state)
            .drop_table()
            .await?;
        lock.check(&mut source).await?;
        saver.clear().await?;
        if !back && self.shut.read_only.is_some() {
            // As after any other move: a straggler's write would be lost.
            let shutting = source.query_drop("SET GLOBAL super_read_only = ON").await;
            shutting.map_err(|error| {
                Failure::new(Remedy::Retry, error).context("turning super_read_only on again")
            })?;
        }
        Ok(())
    }

    fn is_said_to_be_back(&self) -> bool {
        let lock = self.reverse.target_lock.as_deref();
        let announced = lock.is_some_and(|lock| lock.split(' ').any(|word| word == "announced"));
        announced && self.args.switch.announced == Some(Announced::Source)
    }
}

fn parse(leftover: &str) -> Result<Leftover, Failure> {
    let parsed = leftover.parse::<Leftover>();
    parsed.map_err(|error| Failure::new(Remedy::State, error))
}

fn unknown() -> Failure {
    Failure::new(
        Remedy::Ambiguous,
        anyhow::anyhow!(
            "an earlier run died while it sent the applications back to the source: look where they write, then \
             run the same command with --announced target or --announced source"
        ),
    )
}

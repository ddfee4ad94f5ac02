//! What a move does in its own way: rows go to another server, and the switch
//! is made by whoever sends the applications there.

use std::sync::Arc;

use oxferry_cutover::{AfterSwitch, Leftover, LockedSource, switch};
use oxferry_schema::{Remedy, Table, TableName};
use oxferry_state::{Checkpoint, Phase, TargetServer};
use oxferry_verifier::Verified;

use super::{
    Names,
    attempt::{Attempt, Turn, apply_and_compare, come_to_rest, may_be_undone, taken_over},
    clean_up,
    job::Move,
    primary, reverse,
    sink::MoveSink,
    switching, watch,
};
use crate::{
    args::OnOff,
    failure::Failure,
    job::{Holder, Kind, Prepared, PreparedTable, Script, Site, TakenOver},
};

impl Kind for Move {
    type Sink = MoveSink;

    fn sink(&self, prepared: &Prepared, table: &PreparedTable) -> Arc<MoveSink> {
        let connections = (Arc::clone(&prepared.source), Arc::clone(&prepared.target));
        let settings = self.transfer.clone();
        Arc::new(MoveSink::new(connections, table.plan.clone(), settings))
    }

    async fn watch(&self, script: &Script<'_, Self>) -> Failure {
        tokio::select! {
            failure = watch::run(script) => failure,
            failure = primary::watch::run(script) => failure,
        }
    }

    async fn cut_over(&self, script: &Script<'_, Self>) -> Result<TakenOver, Failure> {
        let mut plan = switching::plan(&self.args.switch, &self.core.sources())?;
        if self.args.switch.reverse_for.is_some() {
            plan = plan.with_after(AfterSwitch::AdminsWrite);
        }
        let (source, target) = (self.core.written(), &self.core.target);
        let mut takeover = Attempt(Takeover {
            script,
            completed: false,
            shut: Leftover::default(),
        });
        let (source, target) = (source.opts("switch"), target.opts("switch"));
        let report = switch(&source, &target, &plan, &mut takeover).await?;
        script.interrupt.doubt(false);
        Ok(taken_over(report))
    }

    fn next_phase(&self) -> Phase {
        match self.args.switch.reverse_for {
            Some(_) => Phase::Reverse,
            None => Phase::Cleanup,
        }
    }

    async fn clean_up(&self, script: &Script<'_, Self>) -> Result<(), Failure> {
        if self.args.switch.reverse_for.is_some() {
            // The way back needs all of it.
            return Ok(());
        }
        let names = Names::of_job(&self.core);
        let held = (&script.lock, &self.core.target);
        clean_up(&self.sites(), &names, script.saver, held).await
    }
}

/// A move that takes over.
#[derive(Debug)]
struct Takeover<'a> {
    script: &'a Script<'a, Move>,
    /// Whether the targets may have what the job's own writes would set off.
    completed: bool,
    /// What is done to the source in this attempt.
    shut: Leftover,
}

impl Takeover<'_> {
    /// What is kept out of the binary log, the lookout on it can't see.
    async fn check_targets(&self) -> Result<(), Failure> {
        let kind = self.script.kind;
        if kind.args.detect_foreign_writes == OnOff::Off {
            return Ok(());
        }
        let mut conn = kind.core.target.connect("definition").await?;
        self.script.check_targets(&mut conn).await?;
        for table in &kind.core.tables {
            // The source's own come later.
            let triggers = Table::triggers(&mut conn, &table.target).await?;
            if let Some(trigger) = triggers.first() {
                let why = anyhow::anyhow!(
                    "somebody else made {trigger}: drop it, and start anew with --fresh"
                );
                return Err(Failure::new(Remedy::State, why));
            }
        }
        Ok(())
    }
}

impl Turn for Takeover<'_> {
    type Kind = Move;

    fn script(&self) -> &Script<'_, Move> {
        self.script
    }

    async fn come_to_rest(&self) -> Result<(), Failure> {
        let pair = self.script.kind.pair();
        if let Some(pair) = &pair {
            // What a failed attempt has undone on the primary comes here later.
            pair.come_close().await?;
        }
        come_to_rest(self.script).await?;
        self.script.kind.check_unchanged().await?;
        self.check_targets().await?;
        match &pair {
            Some(pair) => pair.come_close().await,
            None => Ok(()),
        }
    }

    fn locks(&self) -> &[(Site, Holder)] {
        &self.script.kind.locks
    }

    fn is_noted(checkpoint: &Checkpoint) -> bool {
        let target = checkpoint.target.as_ref();
        target.is_some_and(|target| !target.switched && may_be_undone(target.source_lock.as_ref()))
    }

    async fn note_leftover(&mut self, leftover: Option<&Leftover>) -> Result<(), Failure> {
        self.shut = leftover.copied().unwrap_or_default();
        let lock = leftover.map(ToString::to_string);
        let note = |target: &mut TargetServer| target.source_lock = lock;
        self.script.saver.save_target(note).await
    }

    async fn note_taken_over(&mut self) -> Result<(), Failure> {
        let note = |target: &mut TargetServer| {
            target.source_lock = None;
            target.switched = true;
        };
        self.script.saver.save_target(note).await
    }

    async fn bring_the_rest(&mut self, locked: &LockedSource) -> Result<Verified, Failure> {
        let Script { handle, kind, .. } = self.script;
        let through = match kind.pair() {
            None => locked.through.clone(),
            Some(pair) => {
                pair.follow(locked).await?;
                let mut source = kind.core.source.connect("position").await?;
                kind.core.source.position(&mut source).await?.file
            }
        };
        let name_of = |table: &TableName| locked.name_of(table).clone();
        kind.read_from(self.script, &name_of);
        let lock = kind.args.switch.lock_source;
        let evidence = apply_and_compare(self.script, (through, locked), lock).await?;
        // A call that is given up has its effect all the same.
        self.completed = true;
        handle.hold().await?;
        kind.bring_last_rows(self.script, locked).await?;
        kind.complete_targets(locked).await?;
        let mut conn = kind.core.target.connect("watch").await?;
        let written = kind.guard.finish(&kind.core.target, &mut conn).await?;
        reverse::note(self.script, locked, self.shut, (&mut conn, written)).await?;
        // Without it another job may have written to the target.
        self.script.lock.check(&mut conn).await?;
        Ok(evidence)
    }

    fn reopen(&self) {
        self.script.kind.read_from(self.script, &TableName::clone);
        self.script.at_rest.set(false);
        self.script.kind.guard.resume();
    }

    /// Takes off what the last attempt has completed, and lets changes be
    /// applied again.
    async fn undo(&mut self) -> Result<(), Failure> {
        if !self.completed {
            return Ok(());
        }
        let kind = self.script.kind;
        let mut target = kind.core.target.connect("undo").await?;
        kind.detach(&mut target).await?;
        kind.remove_last_rows(self.script).await?;
        self.completed = false;
        Ok(self.script.handle.release().await?)
    }
}

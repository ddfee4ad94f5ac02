//! A switch that is dropped in the middle: its source must not stay locked.

use std::thread;

use super::{
    Claim, SwitchError, SwitchFinish,
    run::{Run, claimed},
    undo::Undo,
};
use crate::{Hook, HookName};

impl<F: SwitchFinish> Drop for Run<'_, F> {
    /// Unlocks the source, and waits for that: who drops a switch is about to end
    /// the program.
    ///
    /// On a thread of its own, since a drop can't wait for the runtime that it
    /// runs in.
    fn drop(&mut self) {
        let (by_server, by_hook) = self.course.may_be_locked();
        if !self.course.undoes_when_dropped() {
            return;
        }
        let undo = self.undo.take().filter(|_| by_server);
        let hook = self.plan.hooks.unlock_source.clone().filter(|_| by_hook);
        if undo.is_none() && hook.is_none() {
            return;
        }
        tracing::warn!("the switch is broken off, unlocking the source");
        let outlives = hook.is_some() || undo.as_ref().is_some_and(Undo::outlives_session);
        let claim = outlives.then(|| claimed(self.finish.claim()));
        match thread::spawn(move || rescue(claim, undo, hook)).join() {
            Ok(()) => {}
            Err(_) => tracing::error!("unlocking the source ended in a panic, look at it"),
        }
    }
}

fn rescue(
    claim: Option<impl Future<Output = Result<Claim, SwitchError>>>,
    undo: Option<Undo>,
    hook: Option<Hook>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "the source stays locked"),
    };
    runtime.block_on(async {
        let _claim = match claim {
            Some(claim) => match claim.await {
                Ok(claim) => Some(claim),
                Err(error) => {
                    let cause: &(dyn std::error::Error + 'static) = &error;
                    return tracing::error!(error = cause, "the source is not unlocked");
                }
            },
            None => None,
        };
        if let Some(undo) = undo
            && let Err(error) = undo.run().await
        {
            let cause: &(dyn std::error::Error + 'static) = &error;
            tracing::error!(error = cause, "the source stays locked");
        }
        if let Some(hook) = hook
            && let Err(error) = hook.run(HookName::UnlockSource).await
        {
            let cause: &(dyn std::error::Error + 'static) = &error;
            tracing::error!(error = cause, "hook unlock-source failed");
        }
    });
}

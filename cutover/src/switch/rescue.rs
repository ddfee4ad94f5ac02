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
        let claims = [(); 2].map(|()| claimed(self.finish.claim()));
        match thread::spawn(move || rescue(claims, undo, hook)).join() {
            Ok(()) => {}
            Err(_) => tracing::error!("unlocking the source ended in a panic, look at it"),
        }
    }
}

/// Undoes what was done, each of both things after its claim.
fn rescue(
    [undoing, calling]: [impl Future<Output = Result<Claim, SwitchError>>; 2],
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
        if let Some(undo) = undo
            && let Err(error) = undo.run_claimed(undoing).await
        {
            let cause: &(dyn std::error::Error + 'static) = &error;
            tracing::error!(error = cause, "the source stays locked");
        }
        if let Some(hook) = hook
            && let Err(error) = call(hook, calling).await
        {
            let cause: &(dyn std::error::Error + 'static) = &error;
            tracing::error!(error = cause, "hook unlock-source failed");
        }
    });
}

async fn call(
    hook: Hook,
    claim: impl Future<Output = Result<Claim, SwitchError>>,
) -> Result<(), SwitchError> {
    let _kept = claim.await?;
    Ok(hook.run(HookName::UnlockSource).await?)
}

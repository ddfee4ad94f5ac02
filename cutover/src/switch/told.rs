//! What a switch tells of itself, in the end or between two attempts.

use std::time::Duration;

use super::{
    AfterSwitch, Aftermath, Ended, SourceLock, SwitchError, SwitchFinish, SwitchReport, SwitchStep,
    error::RENAMED, run::Run, undo::Undo,
};

impl<F: SwitchFinish> Run<'_, F> {
    /// Takes note of what the step did to the source.
    pub(super) fn note(&mut self, step: SwitchStep, ended: Ended) {
        use SwitchStep as S;
        let done = ended == Ended::Done;
        let may_be_done = !matches!(ended, Ended::Failed { maybe: false, .. });
        let lock = self.undo.as_ref().map_or("source locked", Undo::what);
        match step {
            S::Quiesce => self.aftermath = Aftermath::default(),
            S::LockHook if may_be_done => self.aftermath.done.push(BY_HOOK),
            S::Lock if may_be_done => self.aftermath.done.push(lock),
            S::Unlock if done => {
                let by_server = self.aftermath.done.iter().find(|what| **what != BY_HOOK);
                self.aftermath.undone.extend(by_server.copied());
            }
            S::UnlockHook if done && !self.course.is_switched() => {
                self.aftermath.undone.push(BY_HOOK);
            }
            S::LetGo | S::Forget if done && self.course.is_switched() => self.blocked.end(),
            _ => {}
        }
    }

    pub(super) fn note_failure(&mut self, step: SwitchStep, error: SwitchError) {
        use SwitchStep as S;
        let what = match step {
            S::LetGo | S::Unlock => self.undo.as_ref().map_or("source locked", Undo::what),
            S::UnlockHook => BY_HOOK,
            S::RememberUnannounced => "it is still stored that the switch was being announced",
            S::Forget => "what a crash would leave is still stored",
            _ => {
                self.failure = Some((step, error));
                return;
            }
        };
        if self.course.is_switched() {
            self.afterwards.push(error);
        } else {
            self.aftermath.left.push((what, Some(error)));
        }
    }

    pub(super) fn put_off(&mut self, pause: Duration) {
        let Some((step, error)) = self.failure.take() else {
            return;
        };
        let cause: &(dyn std::error::Error + 'static) = &error;
        tracing::warn!(
            error = cause,
            failed = self.course.attempt().saturating_sub(1),
            step = step.doing(),
            pause = %format_args!("{pause:.1?}"),
            "switch put off"
        );
    }

    pub(super) fn report(&mut self, attempts: u32) -> SwitchReport {
        self.blocked.end();
        let remains = match self.plan.lock {
            SourceLock::Rename => Some(RENAMED),
            SourceLock::ReadOnly if self.plan.after != AfterSwitch::Restore => {
                Some("source set read-only")
            }
            _ => None,
        };
        SwitchReport {
            attempts,
            lock_wait: self.lock_wait,
            blocked_longest: self.blocked.longest,
            blocked_total: self.blocked.total,
            was_read_only: self.before.read_only,
            remains,
            afterwards: std::mem::take(&mut self.afterwards),
        }
    }

    pub(super) fn given_up(&mut self, attempts: u32) -> SwitchError {
        let (step, cause) = self.cause();
        SwitchError::GivenUp {
            attempts,
            step,
            aftermath: std::mem::take(&mut self.aftermath),
            cause: Box::new(cause),
        }
    }

    pub(super) fn ambiguous(&mut self) -> SwitchError {
        let (_, cause) = self.cause();
        let mut aftermath = std::mem::take(&mut self.aftermath);
        for what in aftermath.done.clone() {
            if self.plan.lock == SourceLock::LockTables && what != BY_HOOK {
                aftermath.undone.push(what);
            } else {
                aftermath.left.push((what, None));
            }
        }
        SwitchError::Ambiguous {
            aftermath,
            cause: Box::new(cause),
        }
    }

    fn cause(&mut self) -> (SwitchStep, SwitchError) {
        let failure = self.failure.take();
        failure.unwrap_or((SwitchStep::Release, SwitchError::Interrupted))
    }
}

/// What an [`Aftermath`] calls the work of hook `lock-source`.
const BY_HOOK: &str = "hook lock-source called";

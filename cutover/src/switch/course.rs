//! Which step of a switch comes next, and what a failure leads to.

use std::{num::NonZeroU32, time::Duration};

use crate::Backoff;

/// A step of a switch, in the order in which they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every step must be handled")]
pub enum SwitchStep {
    /// The copy comes to rest.
    Quiesce,
    /// Servers, tables, lag and old transactions are looked at.
    Check,
    /// What must be undone after a crash is stored.
    Remember,
    /// The hook `lock-source` is called.
    LockHook,
    /// The source is locked.
    Lock,
    /// What is left is applied and compared.
    Finish,
    /// The lock is seen to hold still.
    Holds,
    /// That the switch is about to be announced is stored.
    RememberAnnounced,
    /// The hook `switched` is called.
    Announce,
    /// That the switch was not announced after all is stored, before it is undone:
    /// what can't be undone then is no longer in doubt for the next run.
    RememberUnannounced,
    /// The lock is seen to have held all the time.
    Held,
    /// The source's lock is let go, or kept, as planned, after a switch.
    LetGo,
    /// The source's lock is undone, after a failure.
    Unlock,
    /// The hook `unlock-source` is called.
    UnlockHook,
    /// That nothing is left to undo is stored.
    Forget,
    /// The copy's workers go on, after a failure.
    Release,
    /// The next attempt is waited for.
    Pause(Duration),
}

/// What a switch has to go through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Whether the hook `lock-source` is given.
    pub(crate) lock_hook: bool,
    /// Whether the server locks.
    pub(crate) lock: bool,
    /// Whether the hook `switched` is given.
    pub(crate) announce: bool,
    /// Whether the hook `unlock-source` is given.
    pub(crate) unlock_hook: bool,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As it should.
    Done,
    /// Not at all.
    Failed {
        /// Whether another attempt of this run may help.
        passing: bool,
        /// Whether it may have had its effect, or a part of it, all the same.
        maybe: bool,
    },
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This step.
    Step(SwitchStep),
    /// Nothing more.
    End(Verdict),
}

/// What a switch has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The target has taken over.
    Switched,
    /// It hasn't.
    Failed,
    /// Nobody knows: the source stays as it is.
    Unknown,
}

/// The course of one switch; knows no server, hook or clock.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    shape: Shape,
    backoff: Backoff,
    next: Next,
    /// What the present attempt may have done to the source.
    remembered: bool,
    hook: bool,
    locked: bool,
    /// Whether the target has taken over.
    switched: bool,
    /// Whether something could not be undone.
    stuck: bool,
    /// Whether another attempt may help; set with a failure.
    passing: bool,
}

impl Course {
    pub(crate) const fn new(shape: Shape, attempts_max: NonZeroU32) -> Self {
        Self {
            shape,
            backoff: Backoff::new(attempts_max),
            next: Next::Step(SwitchStep::Quiesce),
            remembered: false,
            hook: false,
            locked: false,
            switched: false,
            stuck: false,
            passing: false,
        }
    }

    /// Returns what is to be done now.
    pub(crate) const fn next(&self) -> Next {
        self.next
    }

    /// Returns the number of the present attempt, from 1.
    pub(crate) const fn attempt(&self) -> u32 {
        self.backoff.failed().saturating_add(1)
    }

    /// Returns whether the target has taken over.
    pub(crate) const fn is_switched(&self) -> bool {
        self.switched
    }

    /// Returns whether dropping the switch now must undo what was done: not
    /// while it is announced, nor afterwards.
    pub(crate) const fn undoes_when_dropped(&self) -> bool {
        let announcing = matches!(
            self.next,
            Next::Step(SwitchStep::Announce | SwitchStep::Held) | Next::End(_)
        );
        !self.switched && !announcing
    }

    /// Returns whether the source may be locked now: by the server, and by a hook.
    pub(crate) const fn may_be_locked(&self) -> (bool, bool) {
        let by_server = self.locked || matches!(self.next, Next::Step(SwitchStep::Lock));
        let by_hook = self.hook || matches!(self.next, Next::Step(SwitchStep::LockHook));
        (by_server, by_hook)
    }

    /// Takes note of how the present step ended. `random` is as
    /// [`Backoff::handle_failure`] takes it.
    pub(crate) fn handle(&mut self, ended: Ended, random: f64) {
        let Next::Step(step) = self.next else { return };
        self.note(step, ended);
        self.next = match ended {
            Ended::Done => self.after(step, random),
            Ended::Failed { passing, maybe } => self.after_failure(step, passing, maybe, random),
        };
    }

    /// Takes note of what the step may have done to the source.
    const fn note(&mut self, step: SwitchStep, ended: Ended) {
        let may_be_done = matches!(ended, Ended::Done | Ended::Failed { maybe: true, .. });
        let done = matches!(ended, Ended::Done);
        match step {
            SwitchStep::Remember => self.remembered = true,
            SwitchStep::LockHook => self.hook = may_be_done,
            SwitchStep::Lock => self.locked = may_be_done,
            SwitchStep::Unlock | SwitchStep::LetGo if done => self.locked = false,
            SwitchStep::UnlockHook if done => self.hook = false,
            SwitchStep::Held if done => self.switched = true,
            _ => {}
        }
    }

    fn after(&mut self, step: SwitchStep, random: f64) -> Next {
        use SwitchStep as S;
        let shape = self.shape;
        let step = match step {
            S::Quiesce => S::Check,
            S::Check => S::Remember,
            S::Remember if shape.lock_hook => S::LockHook,
            S::Remember | S::LockHook if shape.lock => S::Lock,
            S::Remember | S::LockHook | S::Lock => S::Finish,
            S::Finish => S::Holds,
            S::Holds if shape.announce => S::RememberAnnounced,
            S::RememberAnnounced => S::Announce,
            S::Announce | S::Holds => S::Held,
            S::Held => S::LetGo,
            S::RememberUnannounced => return self.way_back(),
            S::LetGo | S::Unlock | S::UnlockHook | S::Forget => return self.undone(step),
            S::Release => return self.again_or_end(random),
            S::Pause(_) => S::Quiesce,
        };
        Next::Step(step)
    }

    fn after_failure(&mut self, step: SwitchStep, passing: bool, maybe: bool, random: f64) -> Next {
        use SwitchStep as S;
        match step {
            S::Announce if maybe => Next::End(Verdict::Unknown),
            // The announcement was made while the lock was gone.
            S::Held if self.shape.announce => Next::End(Verdict::Unknown),
            S::LetGo | S::Unlock | S::UnlockHook | S::Forget => {
                self.stuck = true;
                self.undone(step)
            }
            S::Release => self.again_or_end(random),
            S::Pause(_) => Next::Step(S::Quiesce),
            S::Announce | S::RememberAnnounced => {
                self.passing = passing && step != S::Announce;
                Next::Step(S::RememberUnannounced)
            }
            S::RememberUnannounced => {
                self.passing = false;
                self.way_back()
            }
            _ => {
                self.passing = passing;
                self.way_back()
            }
        }
    }

    /// Returns the first step that undoes what a failed attempt has done.
    fn way_back(&self) -> Next {
        if self.locked {
            Next::Step(SwitchStep::Unlock)
        } else {
            self.undone(SwitchStep::Unlock)
        }
    }

    /// Returns what follows a step of the way back, or of the end.
    fn undone(&self, step: SwitchStep) -> Next {
        use SwitchStep as S;
        let hook_wanted = self.shape.unlock_hook && (self.hook || self.switched);
        let after_hook = match step {
            S::LetGo | S::Unlock if hook_wanted => return Next::Step(S::UnlockHook),
            S::Forget => false,
            _ => true,
        };
        // What couldn't be undone is remembered for the next run.
        if after_hook && self.remembered && (self.switched || !self.stuck) {
            return Next::Step(S::Forget);
        }
        if self.switched {
            Next::End(Verdict::Switched)
        } else {
            Next::Step(S::Release)
        }
    }

    fn again_or_end(&mut self, random: f64) -> Next {
        let (stuck, passing) = (self.stuck, self.passing);
        self.remembered = false;
        self.passing = false;
        let pause = self.backoff.handle_failure(random);
        match pause {
            Some(pause) if passing && !stuck => Next::Step(SwitchStep::Pause(pause)),
            _ => Next::End(Verdict::Failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Shape = Shape {
        lock_hook: true,
        lock: true,
        announce: true,
        unlock_hook: true,
    };

    const fn failed(passing: bool, maybe: bool) -> Ended {
        Ended::Failed { passing, maybe }
    }

    /// Goes the whole way; what `fail` names, fails so. Returns the steps, with
    /// every pause as one of zero length, and the verdict.
    fn go(
        shape: Shape,
        attempts: u32,
        fail: impl Fn(u32, SwitchStep) -> Option<Ended>,
    ) -> (Vec<SwitchStep>, Verdict) {
        let mut course = Course::new(shape, NonZeroU32::new(attempts).unwrap());
        let mut steps = Vec::new();
        loop {
            match course.next() {
                Next::End(verdict) => return (steps, verdict),
                Next::Step(step) => {
                    let ended = fail(course.attempt(), step).unwrap_or(Ended::Done);
                    let is_pause = matches!(step, SwitchStep::Pause(_));
                    steps.push(if is_pause {
                        SwitchStep::Pause(Duration::ZERO)
                    } else {
                        step
                    });
                    course.handle(ended, 0.5);
                }
            }
        }
    }

    use SwitchStep as S;

    #[test]
    fn a_switch_that_goes_well_does_every_step_once_and_in_order() {
        let (steps, verdict) = go(ALL, 3, |_, _| None);
        assert_eq!(
            steps,
            [
                S::Quiesce,
                S::Check,
                S::Remember,
                S::LockHook,
                S::Lock,
                S::Finish,
                S::Holds,
                S::RememberAnnounced,
                S::Announce,
                S::Held,
                S::LetGo,
                S::UnlockHook,
                S::Forget
            ]
        );
        assert_eq!(verdict, Verdict::Switched);
    }

    #[test]
    fn what_fails_under_the_lock_is_undone_in_reverse_and_tried_again() {
        let (steps, verdict) = go(ALL, 2, |attempt, step| {
            (attempt == 1 && step == S::Finish).then_some(failed(true, false))
        });
        let back = [
            S::Finish,
            S::Unlock,
            S::UnlockHook,
            S::Forget,
            S::Release,
            S::Pause(Duration::ZERO),
            S::Quiesce,
        ];
        assert_eq!(steps[5..12], back);
        assert_eq!(verdict, Verdict::Switched);
    }

    #[test]
    fn before_anything_is_done_there_is_nothing_to_undo() {
        let (steps, verdict) = go(ALL, 1, |_, step| {
            (step == S::Check).then_some(failed(true, false))
        });
        assert_eq!(steps, [S::Quiesce, S::Check, S::Release]);
        assert_eq!(verdict, Verdict::Failed);
    }

    #[test]
    fn a_lock_hook_that_may_have_locked_is_unlocked_and_one_that_never_ran_is_not() {
        for maybe in [true, false] {
            let (steps, _) = go(ALL, 1, |_, step| {
                (step == S::LockHook).then_some(failed(false, maybe))
            });
            assert_eq!(steps.contains(&S::UnlockHook), maybe);
            assert!(!steps.contains(&S::Unlock) && steps.contains(&S::Forget));
        }
    }

    #[test]
    fn a_refused_announcement_is_undone_and_not_made_again() {
        let (steps, verdict) = go(ALL, 5, |_, step| {
            (step == S::Announce).then_some(failed(true, false))
        });
        let back = [
            S::RememberUnannounced,
            S::Unlock,
            S::UnlockHook,
            S::Forget,
            S::Release,
        ];
        assert!(steps.ends_with(&back));
        assert_eq!(verdict, Verdict::Failed);
    }

    #[test]
    fn what_stays_locked_after_a_refused_announcement_is_not_remembered_as_announced() {
        for step in [S::RememberAnnounced, S::Announce] {
            let (steps, verdict) = go(ALL, 5, |_, now| {
                let maybe = now == S::RememberAnnounced;
                [step, S::Unlock]
                    .contains(&now)
                    .then_some(failed(true, maybe))
            });
            let at = |step| steps.iter().rposition(|now| *now == step);
            assert!(at(S::RememberUnannounced) > at(step), "{steps:?}");
            assert!(at(S::RememberUnannounced) < at(S::Unlock), "{steps:?}");
            assert!(!steps.contains(&S::Forget));
            assert_eq!(verdict, Verdict::Failed);
        }
    }

    #[test]
    fn an_announcement_that_may_be_made_leaves_the_source_as_it_is() {
        for step in [S::Announce, S::Held] {
            let (steps, verdict) = go(ALL, 5, |_, now| (now == step).then_some(failed(true, true)));
            assert_eq!((steps.last(), verdict), (Some(&step), Verdict::Unknown));
        }
    }

    #[test]
    fn a_source_that_stays_locked_is_remembered_and_not_tried_again() {
        for stuck in [S::Unlock, S::UnlockHook] {
            let (steps, verdict) = go(ALL, 5, |_, step| {
                [S::Finish, stuck]
                    .contains(&step)
                    .then_some(failed(true, false))
            });
            assert!(!steps.contains(&S::Forget) && steps.contains(&S::UnlockHook));
            assert_eq!(
                (steps.last(), verdict),
                (Some(&S::Release), Verdict::Failed)
            );
        }
    }

    #[test]
    fn what_fails_after_the_switch_does_not_take_it_back() {
        for late in [S::LetGo, S::UnlockHook, S::Forget] {
            let (steps, verdict) = go(ALL, 5, |_, step| {
                (step == late).then_some(failed(true, true))
            });
            assert!(steps.ends_with(&[S::LetGo, S::UnlockHook, S::Forget]));
            assert_eq!(verdict, Verdict::Switched);
        }
    }

    /// Every two steps fail, having had their effect all the same.
    #[test]
    fn no_course_ends_with_a_lock_that_was_not_tried_to_undo() {
        for bits in 0..16_u8 {
            let shape = Shape {
                lock_hook: bits & 1 > 0,
                lock: bits & 2 > 0,
                announce: bits & 4 > 0,
                unlock_hook: bits & 8 > 0,
            };
            let (steps, _) = go(shape, 2, |_, _| None);
            let pairs = steps
                .iter()
                .flat_map(|one| steps.iter().map(move |two| [*one, *two]));
            for (pair, passing) in pairs.flat_map(|pair| [(pair, true), (pair, false)]) {
                let (went, verdict) = go(shape, 2, |_, step| {
                    pair.contains(&step).then_some(failed(passing, true))
                });
                let last = |of: &[SwitchStep]| went.iter().rposition(|step| of.contains(step));
                let server = last(&[S::Lock]) <= last(&[S::Unlock, S::LetGo]);
                let hook = !shape.unlock_hook || last(&[S::LockHook]) <= last(&[S::UnlockHook]);
                assert!(
                    verdict == Verdict::Unknown || server && hook,
                    "{pair:?}: {went:?}"
                );
            }
        }
    }
}

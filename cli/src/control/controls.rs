//! What a job can be told while it runs.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use oxferry_throttle::ByHand;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Answer, Request};
use crate::{args, job::Interrupt};

/// The switches of one job. Clones are the same switches.
#[derive(Clone, Debug)]
pub(crate) struct Controls {
    hand: ByHand,
    interrupt: Interrupt,
    cutover: watch::Sender<bool>,
    /// Whether the cutover to come is the way back of a move.
    is_back: bool,
    status: Arc<Mutex<Value>>,
}

impl Controls {
    /// Puts the switches of a job together that `interrupt` ends.
    pub(crate) fn new(interrupt: Interrupt) -> Self {
        Self {
            hand: ByHand::new(),
            interrupt,
            cutover: watch::Sender::new(false),
            is_back: false,
            status: Arc::new(Mutex::new(json!({ "phase": "preflight" }))),
        }
    }

    /// Makes them those of a move that has made its switch: the only cutover is
    /// the one that takes it back.
    pub(crate) const fn of_the_way_back(mut self) -> Self {
        self.is_back = true;
        self
    }

    /// Returns what tells that the job shall end.
    pub(crate) const fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Returns what a person has set: pause, and limits.
    pub(crate) const fn hand(&self) -> &ByHand {
        &self.hand
    }

    /// Waits until the cutover is wanted, whatever postpones it.
    pub(crate) async fn cutover_wanted(&self) {
        // The sender lives in this very value.
        let mut wanted = self.cutover.subscribe();
        let _closed = wanted.wait_for(|wanted| *wanted).await;
    }

    /// Shows what the job is at, as it is told by the status.
    pub(crate) fn show(&self, status: Value) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Does what is asked.
    pub(crate) fn answer(&self, request: Request) -> Answer {
        match request {
            Request::Status => Answer::Done(self.status()),
            Request::Pause => {
                self.hand.pause();
                Answer::said("copying pauses; changes are applied all the same")
            }
            Request::Resume => {
                self.hand.resume();
                Answer::said("copying goes on, unless something else holds it up")
            }
            Request::Cutover { reverse } => self.cut_over(reverse),
            Request::Abort => {
                self.interrupt.ask();
                Answer::said("the job ends at the next safe point; the checkpoint is kept")
            }
            Request::Set { key, value } => match self.set(&key, &value) {
                Ok(()) => Answer::said(format!("{key} is {value} now")),
                Err(why) => Answer::Refused(format!("set {key}={value}: {why}")),
            },
        }
    }

    fn cut_over(&self, reverse: bool) -> Answer {
        match (reverse, self.is_back) {
            (true, false) => {
                return Answer::Refused("there is nothing to take back: no switch was made".into());
            }
            (false, true) => {
                return Answer::Refused(
                    "the switch was made already; cutover --reverse takes it back".into(),
                );
            }
            _ => {}
        }
        self.cutover.send_replace(true);
        Answer::said("the cutover comes as soon as everything is ready")
    }

    fn status(&self) -> Value {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let mut status = status.clone();
        if let Some(fields) = status.as_object_mut() {
            fields.insert("paused".into(), self.hand.is_paused().into());
            fields.insert("ending".into(), self.interrupt.is_wanted().into());
        }
        status
    }

    fn set(&self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "max-lag" => self.hand.set_lag_max(time(value)?),
            "max-threads-running" => {
                let max = value.parse().map_err(|error| format!("{error}"))?;
                self.hand.set_threads_running_max(max);
            }
            _ => {
                return Err(
                    "it can't be changed while the job runs; max-lag and max-threads-running can"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}

fn time(value: &str) -> Result<Duration, String> {
    args::positive(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controls() -> Controls {
        Controls::new(Interrupt::new())
    }

    fn set(key: &str, value: &str) -> Answer {
        let (key, value) = (key.into(), value.into());
        controls().answer(Request::Set { key, value })
    }

    #[test]
    fn the_status_tells_whether_the_job_pauses_or_ends() {
        let controls = controls();
        controls.show(json!({ "phase": "copy", "rows": 7 }));
        controls.answer(Request::Pause);
        controls.answer(Request::Abort);
        let expected = json!({ "phase": "copy", "rows": 7, "paused": true, "ending": true });
        assert_eq!(controls.answer(Request::Status), Answer::Done(expected));
        controls.answer(Request::Resume);
        assert!(!controls.hand().is_paused() && controls.interrupt().is_wanted());
    }

    #[test]
    fn a_setting_that_cannot_be_changed_is_refused_by_name() {
        for (key, value) in [
            ("threads", "4"),
            ("max-lag", "soon"),
            ("max-threads-running", "-1"),
        ] {
            let Answer::Refused(why) = set(key, value) else {
                panic!("{key} was set");
            };
            assert!(why.starts_with(&format!("set {key}={value}: ")), "{why}");
        }
        assert_eq!(set("max-lag", "5s"), Answer::said("max-lag is 5s now"));
    }

    #[tokio::test]
    async fn a_cutover_that_was_asked_for_early_is_not_forgotten() {
        let controls = controls();
        controls.answer(Request::Cutover { reverse: false });
        controls.cutover_wanted().await;
    }

    #[test]
    fn a_cutover_in_the_wrong_direction_is_refused() {
        let there = controls();
        let back = controls().of_the_way_back();
        for (controls, reverse) in [(&there, true), (&back, false)] {
            let answer = controls.answer(Request::Cutover { reverse });
            assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
        }
        let answer = back.answer(Request::Cutover { reverse: true });
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    }
}

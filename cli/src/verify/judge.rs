//! Rows that differ, looked at again.

use std::time::Duration;

use futures::future::try_join;
use oxferry_schema::Key;
use oxferry_verifier::{Fingerprints, Look, Mismatch, Suspects};

use super::{
    Subject,
    notes::{Fate, Tally},
};
use crate::failure::Failure;

/// Looks at rows that differ again and again, and judges them.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    subject: &'a Subject,
    recheck_for: Duration,
}

/// How the time for looking again is parted: two looks show the same where a
/// row is at rest, and what is late gets more time each time.
const WAITS: [u32; 3] = [1, 2, 4];

impl<'a> Judge<'a> {
    pub(crate) const fn new(subject: &'a Subject, recheck_for: Duration) -> Self {
        Self {
            subject,
            recheck_for,
        }
    }

    /// Judges rows that were found to differ, and adds them to `tally`.
    pub(crate) async fn judge(
        &self,
        found: Vec<Mismatch>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        self.judge_suspects(suspects(found), tally).await
    }

    /// The same for keys alone, after an interruption.
    pub(crate) async fn judge_keys(
        &self,
        keys: Vec<Key>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let mut suspects = Suspects::new(0);
        for key in keys {
            suspects.handle_key(key);
        }
        self.judge_suspects(suspects, tally).await
    }

    async fn judge_suspects(
        &self,
        mut suspects: Suspects,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let part = self.recheck_for / WAITS.iter().sum();
        for wait in WAITS {
            if suspects.is_empty() {
                return Ok(());
            }
            tracing::debug!(rows = suspects.len(), "looking again at rows that differ");
            tokio::time::sleep(part * wait).await;
            self.look(&mut suspects).await?;
        }
        let Look {
            different,
            changing,
        } = suspects.judge();
        tally.add(&changing, Fate::Changing);
        self.repair(different, tally).await
    }

    /// Repairs rows where that is wanted, and compares them once more.
    async fn repair(&self, found: Vec<Mismatch>, tally: &mut Tally) -> Result<(), Failure> {
        let (Some(repairer), false) = (&self.subject.repairer, found.is_empty()) else {
            tally.add(&found, Fate::Different);
            return Ok(());
        };
        let keys: Vec<Key> = found.iter().map(|row| row.key.clone()).collect();
        repairer.repair(&keys).await?;
        let mut suspects = suspects(found.clone());
        self.look(&mut suspects).await?;
        let left = suspects.keys();
        let is_left = |row: &Mismatch| left.contains(&row.key);
        let (left, repaired): (Vec<_>, Vec<_>) = found.into_iter().partition(is_left);
        tally.add(&left, Fate::Different);
        tally.add(&repaired, Fate::Repaired);
        Ok(())
    }

    async fn look(&self, suspects: &mut Suspects) -> Result<(), Failure> {
        let keys = suspects.keys();
        let (source, target) = &self.subject.sides;
        let (source, target) = try_join(source.by_keys(&keys), target.by_keys(&keys)).await?;
        suspects.handle_look(&source, &target);
        Ok(())
    }
}

fn suspects(found: Vec<Mismatch>) -> Suspects {
    let mut suspects = Suspects::new(0);
    for row in found {
        suspects.handle_found(row);
    }
    suspects
}

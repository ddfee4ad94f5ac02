//! The ranges of one table, compared one after the other.

use std::{num::NonZeroUsize, sync::Arc};

use futures::future::try_join;
use oxferry_schema::{Key, KeyRange};
use oxferry_verifier::{FingerprintError, Fingerprints, Mismatch, SurveyPages};
use tokio::sync::{Mutex, mpsc, watch};

use crate::verify::Subject;

/// What a worker reports of a range, under the range's number.
#[derive(Debug)]
pub(super) enum Event {
    /// Rows that differ.
    Found(Vec<Mismatch>),
    /// The range is complete.
    Done { upper: Option<Key>, rows: u64 },
}

/// What the workers of a table share.
#[derive(Debug)]
pub(super) struct Shared {
    cutter: Mutex<Cutter>,
    /// The range at which the complete ones end.
    reached: watch::Sender<u64>,
}

/// Cuts what is left of a table.
#[derive(Debug)]
struct Cutter {
    rest: Option<KeyRange>,
    next: u64,
    rows: NonZeroUsize,
}

/// Compares ranges until none is left.
#[derive(Debug)]
pub(super) struct Worker {
    subject: Subject,
    shared: Arc<Shared>,
    events: mpsc::Sender<(u64, Event)>,
}

/// Rows of a page.
const PAGE_ROWS: NonZeroUsize = NonZeroUsize::new(1000).expect("1000 is not zero");

/// A range with more rows that differ waits until all before it is complete:
/// then they are judged as they come, and need not be held.
const HELD_MAX: usize = 10_000;

impl Shared {
    /// Says at which range the complete ones end.
    pub(super) fn reached(&self, range: u64) {
        self.reached.send_replace(range);
    }
}

impl Worker {
    /// Begins with what is left from `from` on.
    pub(super) fn shared(subject: &Subject, from: Option<Key>) -> Arc<Shared> {
        Arc::new(Shared {
            cutter: Mutex::new(Cutter {
                rest: Some(KeyRange {
                    lower: from,
                    upper: None,
                }),
                next: 0,
                rows: subject.chunk_rows,
            }),
            reached: watch::Sender::new(0),
        })
    }

    pub(super) const fn new(
        subject: Subject,
        shared: Arc<Shared>,
        events: mpsc::Sender<(u64, Event)>,
    ) -> Self {
        Self {
            subject,
            shared,
            events,
        }
    }

    /// Compares ranges until none is left, or nobody listens any more.
    pub(super) async fn run(self) -> Result<(), FingerprintError> {
        while let Some((number, range)) = self.cut().await? {
            let upper = range.upper.clone();
            let rows = self.compare(number, range).await?;
            let done = Event::Done { upper, rows };
            if self.events.send((number, done)).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    async fn cut(&self) -> Result<Option<(u64, KeyRange)>, FingerprintError> {
        let mut cutter = self.shared.cutter.lock().await;
        let Some(rest) = &cutter.rest else {
            return Ok(None);
        };
        let border = self.subject.sides.0.boundary(rest, cutter.rows).await?;
        let range = KeyRange {
            lower: rest.lower.clone(),
            upper: border.clone().or_else(|| rest.upper.clone()),
        };
        cutter.rest = border.map(|border| KeyRange {
            lower: Some(border),
            upper: None,
        });
        let number = cutter.next;
        cutter.next += 1;
        Ok(Some((number, range)))
    }

    /// Compares a range; returns how many rows of the source it held.
    async fn compare(&self, number: u64, range: KeyRange) -> Result<u64, FingerprintError> {
        let (source, target) = &self.subject.sides;
        let (one, other) = try_join(source.summary(&range), target.summary(&range)).await?;
        if one == other {
            return Ok(one.rows);
        }
        let is_ordered = self.subject.is_client_ordered;
        let mut pages = SurveyPages::new(0, range, is_ordered, PAGE_ROWS);
        let mut held = 0;
        while let Some(found) = pages.next(source, target).await? {
            held += found.len();
            if held > HELD_MAX {
                let mut reached = self.shared.reached.subscribe();
                // An end of this means that nobody listens any more.
                let _ended = reached.wait_for(|reached| *reached >= number).await;
            }
            if !found.is_empty()
                && self
                    .events
                    .send((number, Event::Found(found)))
                    .await
                    .is_err()
            {
                break;
            }
        }
        Ok(pages.rows_compared())
    }
}

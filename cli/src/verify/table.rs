//! The comparison of one table.

mod ranges;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use oxferry_schema::Key;
use oxferry_verifier::Mismatch;
use tokio::sync::mpsc;

use super::{
    Notes, Request, Subject,
    judge::Judge,
    notes::{TableNotes, Tally},
};
use crate::failure::Failure;
use ranges::{Event, Worker};

/// The comparison of one table: workers compare ranges, and what they report
/// is put together here, in the order of the ranges.
#[derive(Debug)]
pub(crate) struct TableRun<'a> {
    at: usize,
    subject: &'a Subject,
    judge: Judge<'a>,
    threads: usize,
    notes: TableNotes,
    /// What was reported of ranges that aren't complete, or behind one that
    /// isn't.
    reported: BTreeMap<u64, Reported>,
    /// The range at which the complete ones end.
    next: u64,
    /// Rows before there that differ and haven't been judged.
    suspects: Vec<Mismatch>,
    /// What the range `next` holds that was judged before its end.
    early: Tally,
    saved: Instant,
    logged: Instant,
}

#[derive(Debug, Default)]
struct Reported {
    found: Vec<Mismatch>,
    /// The range's end and its rows, once it is complete.
    end: Option<(Option<Key>, u64)>,
}

/// So many rows that differ are judged together.
const JUDGED_TOGETHER: usize = 10_000;

const SAVE_EVERY: Duration = Duration::from_secs(1);

const LOG_EVERY: Duration = Duration::from_secs(10);

impl<'a> TableRun<'a> {
    pub(crate) fn new(at: usize, subject: &'a Subject, request: &Request) -> Self {
        Self {
            at,
            subject,
            judge: Judge::new(subject, request.recheck_for),
            threads: request.threads.get(),
            notes: TableNotes::default(),
            reported: BTreeMap::new(),
            next: 0,
            suspects: Vec::new(),
            early: Tally::default(),
            saved: Instant::now(),
            logged: Instant::now(),
        }
    }

    /// Compares what hasn't been compared yet.
    ///
    /// # Errors
    ///
    /// A failure when a side can't be read, or the notes can't be kept.
    pub(crate) async fn run(mut self, notes: &mut Notes) -> Result<(), Failure> {
        self.notes = notes.table(self.at).cloned().unwrap_or_default();
        let keys = std::mem::take(&mut self.notes.suspects);
        self.judge.judge_keys(keys, &mut self.notes.tally).await?;
        let (events, mut reports) = mpsc::channel(16);
        let shared = Worker::shared(self.subject, self.notes.from.clone());
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..self.threads {
            let worker = Worker::new(self.subject.clone(), Arc::clone(&shared), events.clone());
            workers.spawn(worker.run());
        }
        drop(events);
        while let Some((range, event)) = reports.recv().await {
            self.handle(range, event).await?;
            shared.reached(self.next);
            self.keep(notes)?;
        }
        while let Some(ended) = workers.join_next().await {
            ended.map_err(|error| Failure::new(oxferry_schema::Remedy::Bug, error))??;
        }
        self.judge_all().await?;
        self.notes.done = true;
        self.notes.from = None;
        notes.store(self.at, &self.notes)?;
        self.log("compared");
        Ok(())
    }

    async fn handle(&mut self, range: u64, event: Event) -> Result<(), Failure> {
        let reported = self.reported.entry(range).or_default();
        match event {
            Event::Found(found) => reported.found.extend(found),
            Event::Done { upper, rows } => reported.end = Some((upper, rows)),
        }
        while let Some(reported) = self.reported.get_mut(&self.next) {
            let Some((upper, rows)) = reported.end.take() else {
                if reported.found.len() >= JUDGED_TOGETHER {
                    let found = std::mem::take(&mut reported.found);
                    self.judge.judge(found, &mut self.early).await?;
                }
                break;
            };
            self.suspects.append(&mut reported.found);
            self.reported.remove(&self.next);
            self.next += 1;
            self.notes.rows += rows;
            self.notes.from = upper;
            self.notes.tally.merge(std::mem::take(&mut self.early));
        }
        if self.suspects.len() >= JUDGED_TOGETHER {
            self.judge_all().await?;
        }
        Ok(())
    }

    async fn judge_all(&mut self) -> Result<(), Failure> {
        let found = std::mem::take(&mut self.suspects);
        self.judge.judge(found, &mut self.notes.tally).await?;
        Ok(())
    }

    fn keep(&mut self, notes: &mut Notes) -> Result<(), Failure> {
        // Without a border nothing is complete, or all is: no place to go on from.
        if self.saved.elapsed() >= SAVE_EVERY && self.notes.from.is_some() {
            self.saved = Instant::now();
            let suspects = self.suspects.iter().map(|row| row.key.clone());
            self.notes.suspects = suspects.collect();
            notes.store(self.at, &self.notes)?;
            self.notes.suspects.clear();
        }
        if self.logged.elapsed() >= LOG_EVERY {
            self.logged = Instant::now();
            self.log("comparing");
        }
        Ok(())
    }

    fn log(&self, doing: &str) {
        let (rows, different) = (self.notes.rows, self.notes.tally.different);
        tracing::info!(
            table = self.subject.source_name(),
            rows,
            different,
            "{doing}"
        );
    }
}

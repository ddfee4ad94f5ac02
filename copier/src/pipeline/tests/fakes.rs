//! Tables, a log and a barrier in memory, whose steps a test can hold back.

use std::{
    collections::{BTreeMap, BTreeSet},
    future,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use oxferry_binlog::{ChangeStream, Position, StreamError, StreamEvent};
use oxferry_schema::{Key, KeyPart, KeyRange, Value};
use tokio::sync::{Semaphore, mpsc};

use crate::{Applied, Batch, Chunker, CopiedRows, CopyError, RowSink, pipeline::Barrier};

/// What the driver has done, in the order in which it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Look,
    Barrier,
    Copy,
    Apply,
}

/// The rows of both tables, by key, and what happens to them.
#[derive(Debug)]
pub(crate) struct World {
    tables: Mutex<Tables>,
    /// One for each kind of step.
    gates: [Semaphore; 4],
    pub(super) events_read: AtomicUsize,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) source: BTreeMap<i64, i64>,
    pub(crate) target: BTreeMap<i64, i64>,
    /// What has begun and what has ended.
    pub(super) steps: Vec<String>,
    held: BTreeSet<Step>,
    failing: BTreeSet<Step>,
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            tables: Mutex::default(),
            gates: std::array::from_fn(|_| Semaphore::new(0)),
            events_read: AtomicUsize::new(0),
        })
    }

    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap()
    }

    /// Lets steps of a kind wait for [`Self::allow`].
    pub(super) fn hold(&self, step: Step) {
        self.tables().held.insert(step);
    }

    /// Lets so many of the steps that wait, or will wait, go on.
    pub(super) fn allow(&self, step: Step, count: usize) {
        self.gates[step as usize].add_permits(count);
    }

    /// Lets every step of a kind fail when it may go on.
    pub(super) fn fail(&self, step: Step) {
        self.tables().failing.insert(step);
    }

    /// Returns what has begun and what has ended since the last call.
    pub(super) fn steps(&self) -> Vec<String> {
        std::mem::take(&mut self.tables().steps)
    }

    async fn pass(&self, step: Step, what: &str) -> Result<(), CopyError> {
        let held = {
            let mut tables = self.tables();
            tables.steps.push(what.to_owned());
            tables.held.contains(&step)
        };
        if held {
            let permit = self.gates[step as usize].acquire().await;
            permit.unwrap().forget();
        }
        let mut tables = self.tables();
        if tables.failing.contains(&step) {
            return Err(CopyError::BarrierTimeout {
                waited: Duration::from_secs(step as u64),
            });
        }
        tables.steps.push(format!("{what} done"));
        Ok(())
    }
}

pub(crate) fn key(id: i64) -> Key {
    Key::new([KeyPart::Int(id.into())])
}

fn id(key: &Key) -> i64 {
    let KeyPart::Int(id) = key.parts()[0] else {
        unreachable!("the fakes have integer keys")
    };
    id.try_into().unwrap()
}

/// Hands out the events that a test sends.
pub(super) struct ScriptedStream {
    pub(super) events: mpsc::UnboundedReceiver<Result<StreamEvent, StreamError>>,
    pub(super) world: Arc<World>,
}

impl ChangeStream for ScriptedStream {
    async fn next(&mut self) -> Result<StreamEvent, StreamError> {
        match self.events.recv().await {
            Some(event) => {
                self.world.events_read.fetch_add(1, Ordering::Relaxed);
                event
            }
            None => future::pending().await,
        }
    }
}

/// Cuts the source table by counting its rows.
pub(crate) struct MemoryChunker {
    world: Arc<World>,
    left: Vec<KeyRange>,
}

impl MemoryChunker {
    pub(crate) fn new(world: &Arc<World>, within: Vec<KeyRange>) -> Self {
        Self {
            world: Arc::clone(world),
            left: within.into_iter().rev().collect(),
        }
    }
}

impl Chunker for MemoryChunker {
    async fn next(&mut self, rows: u64) -> Result<Option<KeyRange>, CopyError> {
        self.world.pass(Step::Look, "look").await?;
        let Some(range) = self.left.pop() else {
            return Ok(None);
        };
        let boundary = {
            let tables = self.world.tables();
            let mut inside = tables.source.keys().filter(|id| range.contains(&key(**id)));
            inside.nth(rows.try_into().unwrap()).map(|id| key(*id))
        };
        if boundary.is_some() {
            self.left.push(KeyRange {
                lower: boundary.clone(),
                upper: range.upper.clone(),
            });
        }
        Ok(Some(KeyRange {
            lower: range.lower,
            upper: boundary.or(range.upper),
        }))
    }
}

/// Copies from the source's map to the target's.
pub(crate) struct MemorySink(pub(crate) Arc<World>);

impl RowSink for MemorySink {
    async fn copy(&self, range: &KeyRange, again: bool) -> Result<CopiedRows, CopyError> {
        let again = if again { " again" } else { "" };
        let what = format!("copy {range}{again}");
        self.0.pass(Step::Copy, &what).await?;
        let mut tables = self.0.tables();
        let inside = |id: &i64| range.contains(&key(*id));
        if !again.is_empty() {
            tables.target.retain(|id, _| !inside(id));
        }
        let rows: Vec<_> = tables.source.iter().map(|(id, v)| (*id, *v)).collect();
        let rows = rows.into_iter().filter(|(id, _)| inside(id));
        let before = rows.clone().count();
        tables.target.extend(rows);
        Ok(CopiedRows {
            rows: before as u64,
        })
    }

    async fn copy_keys(&self, keys: &[Key]) -> Result<CopiedRows, CopyError> {
        let ids: Vec<i64> = keys.iter().map(id).collect();
        let names: Vec<String> = keys.iter().map(Key::to_string).collect();
        let what = format!("copy keys {}", names.join(" "));
        self.0.pass(Step::Copy, &what).await?;
        let mut tables = self.0.tables();
        tables.target.retain(|id, _| !ids.contains(id));
        let rows = tables.source.iter().map(|(id, v)| (*id, *v));
        let rows: Vec<_> = rows.filter(|(id, _)| ids.contains(id)).collect();
        let copied = rows.len() as u64;
        tables.target.extend(rows);
        Ok(CopiedRows { rows: copied })
    }

    async fn apply(&self, batch: &Batch) -> Result<Applied, CopyError> {
        let ids: Vec<String> = batch.changes.iter().map(|c| c.key.to_string()).collect();
        let what = format!("apply {}", ids.join(" "));
        self.0.pass(Step::Apply, &what).await?;
        let mut applied = Applied::default();
        for change in &batch.changes {
            let id = id(&change.key);
            let target = &mut self.0.tables().target;
            if let Some(image) = &change.image {
                let Value::Int(value) = image.values()[1] else {
                    panic!("{image:?}");
                };
                target.insert(id, value);
                applied.upserts += 1;
            } else {
                target.remove(&id);
                applied.deletes += 1;
            }
        }
        Ok(applied)
    }
}

/// Is passed when the test allows it.
pub(super) struct MemoryBarrier(pub(super) Arc<World>);

impl Barrier for MemoryBarrier {
    async fn pass(&self, through: &Position) -> Result<(), CopyError> {
        let what = format!("barrier {}", through.file.offset_bytes());
        self.0.pass(Step::Barrier, &what).await
    }
}

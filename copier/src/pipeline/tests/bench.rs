//! Polls a driver by hand.

use std::{
    future::{self, Future},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use oxferry_binlog::{FilePosition, Position, RowChange, StreamError, StreamEvent};
use oxferry_schema::{KeyRange, Row, TableName, Value};
use tokio::sync::mpsc;

use super::fakes::{MemoryBarrier, MemoryChunker, MemorySink, ScriptedStream, Step, World};
use crate::{
    ChunkLimits, ChunkSizer, CopyError,
    engine::{EngineConfig, Mode, TablePlan},
    fixture::{ident, key},
    pipeline::{Counts, Handle, Ownership, Parts, Progress, Status, TableSetup, pipeline},
};

type Outcome = Result<Progress, CopyError>;

/// A future that is polled only when the test says so.
pub(super) struct Polled<T> {
    future: Pin<Box<dyn Future<Output = T>>>,
    value: Option<T>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<T> Polled<T> {
    fn new(future: impl Future<Output = T> + 'static) -> Self {
        Self {
            future: Box::pin(tokio::task::unconstrained(future)),
            value: None,
        }
    }

    /// Polls until the future is ready or waits for something else.
    pub(super) fn value(&mut self) -> Option<&T> {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        while self.value.is_none() {
            match self.future.as_mut().poll(&mut context) {
                Poll::Ready(value) => self.value = Some(value),
                Poll::Pending if woken.0.swap(false, Ordering::Relaxed) => {}
                Poll::Pending => break,
            }
        }
        self.value.as_ref()
    }
}

/// One table, `id` and `v`, with a driver that copies it.
pub(super) struct Bench {
    pub(super) world: Arc<World>,
    handle: Option<Handle>,
    run: Polled<Outcome>,
    events: mpsc::UnboundedSender<Result<StreamEvent, StreamError>>,
}

impl Bench {
    /// A table of rows `1..=rows`, each with ten times its key, in chunks of
    /// two; looking for chunks is held, so that a test can prepare more.
    pub(super) fn new(rows: i64) -> Self {
        Self::with(rows, config())
    }

    pub(super) fn with(rows: i64, config: EngineConfig) -> Self {
        let world = World::new();
        world.tables().source = (1..=rows).map(|id| (id, id * 10)).collect();
        world.hold(Step::Look);
        let (sender, events) = mpsc::unbounded_channel();
        let parts = Parts {
            stream: ScriptedStream {
                events,
                world: Arc::clone(&world),
            },
            barrier: MemoryBarrier(Arc::clone(&world)),
            config,
            start: Position {
                file: place(4),
                gtids: None,
            },
        };
        let limits = ChunkLimits {
            rows_max: 2,
            ..ChunkLimits::default()
        };
        let setup = TableSetup {
            name: TableName::new(ident("d"), ident("t")),
            plan: TablePlan::new(Mode::Ranged),
            key: key("PRIMARY", &[("id", 0)]),
            chunker: MemoryChunker::new(&world, vec![KeyRange::ALL]),
            sink: Arc::new(MemorySink(Arc::clone(&world))),
            sizer: ChunkSizer::new(limits, 0),
            before: Counts::default(),
            ownership: Ownership::default(),
        };
        let (handle, driver) = pipeline(parts, vec![setup], Box::new(|_, _| ()));
        Self {
            world,
            handle: Some(handle),
            run: Polled::new(driver.run()),
            events: sender,
        }
    }

    /// A table whose rows are all copied.
    pub(super) fn copied(config: EngineConfig) -> Self {
        let mut bench = Self::with(4, config);
        bench.world.allow(Step::Look, 9);
        bench.turn();
        assert!(bench.status().copied);
        bench.world.steps();
        bench
    }

    /// Lets the driver work until it can't go on by itself.
    pub(super) fn turn(&mut self) -> Option<&Outcome> {
        self.run.value()
    }

    /// Lets the driver work to its end.
    pub(super) fn outcome(mut self) -> Outcome {
        self.turn();
        self.run.value.expect("the driver has ended")
    }

    pub(super) fn error(self) -> CopyError {
        self.outcome().expect_err("the driver has failed")
    }

    /// Lets the driver work, and time pass, until the status is as `reached` says.
    pub(super) async fn until(&mut self, reached: impl Fn(&Status) -> bool) {
        let handle = self.handle();
        let work = future::poll_fn(|context| {
            assert!(self.run.future.as_mut().poll(context).is_pending());
            match reached(&handle.status()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        let deadline = Duration::from_secs(10);
        tokio::time::timeout(deadline, work).await.unwrap();
    }

    /// Asks for something and lets the driver work.
    pub(super) fn ask<T, F>(&mut self, ask: impl FnOnce(Handle) -> F) -> Polled<T>
    where
        F: Future<Output = T> + 'static,
    {
        let mut asked = Polled::new(ask(self.handle()));
        asked.value();
        self.turn();
        asked
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone().expect("the handle is there")
    }

    pub(super) fn drop_handle(&mut self) {
        self.handle = None;
    }

    pub(super) fn status(&self) -> Status {
        self.handle().status()
    }

    /// Where a checkpoint taken now would resume, as an offset.
    pub(super) fn resume_at(&mut self) -> u64 {
        let mut asked = self.ask(|handle| async move { handle.progress().await });
        let progress = asked.value().expect("an answer").as_ref().unwrap();
        progress.position.file.offset_bytes()
    }

    pub(super) fn send(&self, event: StreamEvent) {
        self.events.send(Ok(event)).unwrap();
    }

    pub(super) fn send_error(&self, error: StreamError) {
        self.events.send(Err(error)).unwrap();
    }

    /// A committed transaction of one row, without its end in the log.
    pub(super) fn row(&self, id: i64, v: i64) {
        self.world.tables().source.insert(id, v);
        let after = Row::new([Value::Int(id), Value::Int(v)]);
        self.send(StreamEvent::Rows {
            table: 0,
            changes: vec![RowChange {
                before: None,
                after: Some(after),
            }],
        });
    }

    pub(super) fn commit(&self, offset: u64) {
        self.send(StreamEvent::Commit {
            end: place(offset),
            gtid: None,
        });
    }

    /// A transaction of one row.
    pub(super) fn write(&self, id: i64, v: i64, end: u64) {
        self.row(id, v);
        self.commit(end);
    }

    pub(super) fn target(&self, id: i64) -> Option<i64> {
        self.world.tables().target.get(&id).copied()
    }

    #[track_caller]
    pub(super) fn assert_equal(&self) {
        let tables = self.world.tables();
        assert_eq!(tables.source, tables.target);
    }
}

/// One chunk and one batch at a time.
pub(super) fn config() -> EngineConfig {
    EngineConfig {
        copy_slots: 1,
        apply_slots: 1,
        chunks_ready_max: 0,
        ..EngineConfig::default()
    }
}

pub(super) fn place(offset: u64) -> FilePosition {
    FilePosition::new("binlog.000001", offset).unwrap()
}

//! The binary log of a MySQL server, over a replication connection.

mod connect;
mod retry;

use std::{any::Any, fmt, panic::AssertUnwindSafe, time::Duration};

use connect::Connection;
use futures::{FutureExt, StreamExt, future::BoxFuture};
use mysql_async::{BinlogStream, Opts};
use mysql_common::binlog::events::Event;
use oxferry_schema::Table;
use retry::Retry;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use crate::{
    ChangeStream, Gtid, Position, StreamError, StreamEvent, error::Failure, log::Log,
    watched::Watched,
};

/// How to follow a server's binary log.
///
/// `Debug` leaves the login out.
#[derive(Clone)]
#[non_exhaustive]
pub struct StreamConfig {
    /// How to connect and log in.
    pub opts: Opts,
    /// The number that the server knows this reader by. No replica of the
    /// server, and no other reader, may have the same.
    pub server_id: u32,
    /// How often an idle server says that it is there. A connection over
    /// which nothing came for three times as long is given up.
    pub heartbeat: Duration,
    /// How long a broken connection is tried anew, without any progress,
    /// before the stream ends.
    pub reconnect_for: Duration,
}

impl StreamConfig {
    /// Takes a random, high server id, a heartbeat of one second, and five
    /// minutes to reconnect.
    #[must_use]
    pub fn new(opts: Opts) -> Self {
        Self {
            opts,
            server_id: fastrand::u32(0xC000_0000..=0xFFFF_FFF0),
            heartbeat: Duration::from_secs(1),
            reconnect_for: Duration::from_secs(300),
        }
    }

    /// Sets [`StreamConfig::server_id`].
    #[must_use]
    pub const fn with_server_id(mut self, server_id: u32) -> Self {
        self.server_id = server_id;
        self
    }

    /// Sets [`StreamConfig::heartbeat`].
    #[must_use]
    pub const fn with_heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Sets [`StreamConfig::reconnect_for`].
    #[must_use]
    pub const fn with_reconnect_for(mut self, reconnect_for: Duration) -> Self {
        self.reconnect_for = reconnect_for;
        self
    }

    const fn silence_max(&self) -> Duration {
        self.heartbeat.saturating_mul(3)
    }
}

impl fmt::Debug for StreamConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamConfig")
            .field("host", &self.opts.ip_or_hostname())
            .field("port", &self.opts.tcp_port())
            .field("server_id", &self.server_id)
            .field("heartbeat", &self.heartbeat)
            .field("reconnect_for", &self.reconnect_for)
            .finish_non_exhaustive()
    }
}

/// The binary log of a MySQL server, over a replication connection.
///
/// Only rows of watched tables are decoded. Rows are handed out as they come,
/// so a transaction may be larger than memory; one that the server compressed
/// is decompressed as a whole.
#[derive(Debug)]
pub struct MysqlStream {
    config: StreamConfig,
    log: Log,
    state: State,
    /// The server that answered last, by its UUID.
    server: String,
    /// When the silence is too long. Set when waiting for an event begins,
    /// and kept when that wait is dropped and begun anew.
    deadline: Option<Instant>,
    retry: Retry,
}

enum State {
    Connected(Box<BinlogStream>),
    /// Kept across calls, so that a dropped call loses no time.
    Connecting(BoxFuture<'static, Result<Connection, Failure>>),
    Ended,
}

impl MysqlStream {
    /// Connects, and asks for the log from `from` on: by its GTIDs where it
    /// has some, else by its file position.
    ///
    /// # Errors
    ///
    /// [`StreamError`] when the first try fails: it isn't repeated.
    ///
    /// # Cancel safety
    ///
    /// A call may be dropped; its connection is closed then.
    pub async fn open(
        config: StreamConfig,
        from: Position,
        watched: Vec<Table>,
    ) -> Result<Self, StreamError> {
        Self::open_watched(config, from, Watched::new(watched)).await
    }

    /// As [`open`](Self::open).
    pub(crate) async fn open_watched(
        config: StreamConfig,
        from: Position,
        watched: Watched,
    ) -> Result<Self, StreamError> {
        let mut log = Log::new(from.clone(), watched);
        let connected = connect::connect(config.clone(), from, None).await;
        let connection = connected.map_err(|failure| match failure {
            Failure::Passing(error) | Failure::Lasting(error) => error,
        })?;
        info!(server = connection.server, server_id = config.server_id, from = %log.boundary().file,
            "binary log connection opened");
        log.ignore_case(connection.ignore_case);
        Ok(Self {
            config,
            log,
            state: State::Connected(Box::new(connection.stream)),
            server: connection.server,
            deadline: None,
            retry: Retry::default(),
        })
    }

    /// Where the stream would go on reading after a reconnect: the end of the
    /// last whole transaction that it handed out.
    #[must_use]
    pub const fn boundary(&self) -> &Position {
        self.log.boundary()
    }

    /// What has been read of the log.
    pub(crate) const fn log(&self) -> &Log {
        &self.log
    }

    /// Waits for the next event to hand out. Unlike after
    /// [`next`](ChangeStream::next), the stream goes on after an error that
    /// is about the contents of a transaction.
    pub(crate) async fn advance(&mut self) -> Result<StreamEvent, StreamError> {
        loop {
            if let Some(event) = self.step().await? {
                self.retry.handle_progress();
                return Ok(event);
            }
        }
    }

    /// Lets nothing be read any more.
    pub(crate) fn end(&mut self) {
        self.state = State::Ended;
    }

    /// Waits for the next event of the log, or for a connection; returns what
    /// to hand out, if anything.
    async fn step(&mut self) -> Result<Option<StreamEvent>, StreamError> {
        match &mut self.state {
            State::Connected(stream) => {
                let silence = self.config.silence_max();
                let begin = || Instant::now() + silence;
                let deadline = *self.deadline.get_or_insert_with(begin);
                let next = AssertUnwindSafe(stream.next()).catch_unwind();
                let next = timeout_at(deadline, next).await;
                self.deadline = None;
                match next {
                    Ok(Ok(Some(Ok(event)))) => return self.handle(&event),
                    Ok(Ok(Some(Err(error)))) => {
                        let failure = StreamError::sort(error, self.log.boundary());
                        self.handle_failure(failure)?;
                    }
                    Ok(Ok(None)) => {
                        let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                        let error = StreamError::Connection(error.into());
                        self.handle_failure(Failure::Passing(error))?;
                    }
                    Ok(Err(panic)) => return Err(self.panicked(panic.as_ref())),
                    Err(_elapsed) => {
                        let seconds = silence.as_secs();
                        let error = StreamError::Silent { seconds };
                        self.handle_failure(Failure::Passing(error))?;
                    }
                }
            }
            State::Connecting(connecting) => {
                let connected = connecting.await;
                self.handle_connected(connected)?;
            }
            State::Ended => return Err(StreamError::Ended),
        }
        Ok(None)
    }

    /// The library that reads events panics on some damaged ones.
    fn panicked(&self, panic: &(dyn Any + Send)) -> StreamError {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        StreamError::Damaged {
            at: self.log.at(),
            reason: text.unwrap_or_else(|| "reading it failed".to_owned()),
        }
    }

    fn handle(&mut self, event: &Event) -> Result<Option<StreamEvent>, StreamError> {
        let log = &mut self.log;
        match std::panic::catch_unwind(AssertUnwindSafe(|| log.handle(event))) {
            Ok(step) => step,
            Err(panic) => Err(self.panicked(panic.as_ref())),
        }
    }

    /// Plans the next try, or gives up.
    fn handle_failure(&mut self, failure: Failure) -> Result<(), StreamError> {
        let error = match failure {
            Failure::Lasting(error) => return Err(error),
            Failure::Passing(error) => error,
        };
        self.log.handle_disconnect();
        let jitter = fastrand::f64();
        let now = Instant::now().into_std();
        let Some(delay) = self
            .retry
            .handle_failure(now, self.config.reconnect_for, jitter)
        else {
            return Err(error);
        };
        let from = self.log.boundary().clone();
        let shown = &error as &dyn std::error::Error;
        warn!(error = shown, ?delay, from = %from.file, "binary log connection broke, trying again");
        // A new number: an old connection of ours, not yet noticed to be dead
        // by the server, would be taken for a second reader with this one.
        self.config.server_id = fastrand::u32(0xC000_0000..=0xFFFF_FFF0);
        let (config, server) = (self.config.clone(), self.server.clone());
        self.state = State::Connecting(Box::pin(async move {
            tokio::time::sleep(delay).await;
            connect::connect(config, from, Some(server)).await
        }));
        Ok(())
    }

    fn handle_connected(
        &mut self,
        connected: Result<Connection, Failure>,
    ) -> Result<(), StreamError> {
        let connection = match connected {
            Ok(connection) => connection,
            Err(failure) => return self.handle_failure(failure),
        };
        if connection.server != self.server {
            if self.log.boundary().gtids.is_none() {
                return Err(StreamError::ServerChanged {
                    before: self.server.clone(),
                    now: connection.server,
                });
            }
            self.log.handle_other_server();
        }
        info!(server = connection.server, server_id = self.config.server_id,
            from = %self.log.boundary().file, "binary log connection opened again");
        self.log.ignore_case(connection.ignore_case);
        self.server = connection.server;
        self.state = State::Connected(Box::new(connection.stream));
        Ok(())
    }
}

impl ChangeStream for MysqlStream {
    async fn next(&mut self) -> Result<StreamEvent, StreamError> {
        let event = self.advance().await;
        if event.is_err() {
            self.end();
        }
        event
    }

    fn under_way(&self) -> Option<Gtid> {
        self.log.gtid()
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connected(_) => "Connected",
            Self::Connecting(_) => "Connecting",
            Self::Ended => "Ended",
        })
    }
}

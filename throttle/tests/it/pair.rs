//! A source and its replica, and what a test asks of them.

use std::time::{Duration, Instant};

use mysql_async::Opts;
use oxferry_schema::{Ident, TableName};
use oxferry_state::TableStore;
use oxferry_testkit::server::{Server, ServerOptions};
use oxferry_throttle::{ByHand, Monitor, MonitorConfig, MonitorError, Pacer, Reason};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

/// How long a test waits for a fact before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Pair {
    pub(crate) source: Server,
    pub(crate) replica: Server,
}

impl Pair {
    /// Starts both, and the replication between them.
    pub(crate) async fn start() -> Self {
        let source = Server::start(ServerOptions::new().arg("--server-id=1"));
        let replica = ServerOptions::new()
            .arg("--server-id=2")
            .arg("--report-host=127.0.0.1");
        let (source, replica) = tokio::join!(source, Server::start(replica));
        let (source, replica) = (source.unwrap(), replica.unwrap());
        source
            .execute(&["CREATE DATABASE IF NOT EXISTS job"])
            .await
            .unwrap();
        let follow = format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, \
             SOURCE_USER='root', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, \
             SOURCE_CONNECT_RETRY=1",
            source.port()
        );
        replica.execute(&[&follow, "START REPLICA"]).await.unwrap();
        Self { source, replica }
    }

    pub(crate) fn replica_name(&self) -> String {
        name_of(&self.replica)
    }
}

pub(crate) fn opts(server: &Server) -> Opts {
    Opts::from_url(&server.url()).unwrap()
}

pub(crate) fn name_of(server: &Server) -> String {
    let opts = opts(server);
    format!("{}:{}", opts.ip_or_hostname(), opts.tcp_port())
}

/// A monitor that runs until it is told to stop.
pub(crate) struct Running {
    pub(crate) pacer: Pacer,
    pub(crate) hand: ByHand,
    pub(crate) task: JoinHandle<Result<(), MonitorError>>,
    stop: oneshot::Sender<()>,
}

impl Running {
    pub(crate) async fn start(source: &Server, config: MonitorConfig) -> Self {
        let name = |text| Ident::new(text).unwrap();
        let table = TableName::new(name("job"), name("_t_oxstate"));
        let store = TableStore::new(opts(source), table.clone(), "job.t", PATIENCE);
        store.create().await.unwrap();
        let hand = ByHand::new();
        let (monitor, pacer) = Monitor::new(opts(source), table, config, &hand);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(monitor.run(async { drop(stopped.await) }));
        Self {
            pacer,
            hand,
            task,
            stop,
        }
    }

    /// Waits until work is held up for a reason that `wanted` likes.
    pub(crate) async fn held(&mut self, what: &str, wanted: impl Fn(&Reason) -> bool) {
        let held = async {
            loop {
                let verdict = self.pacer.next_round().await.unwrap();
                if verdict.reason().is_some_and(&wanted) {
                    return;
                }
            }
        };
        let held = timeout(PATIENCE, held).await;
        let verdict = self.pacer.verdict(Instant::now());
        assert!(held.is_ok(), "{what}: {verdict:?}");
    }

    /// Waits until work may go on.
    pub(crate) async fn open(&mut self, what: &str) {
        let opened = timeout(PATIENCE, self.pacer.wait_until_proceed()).await;
        let verdict = self.pacer.verdict(Instant::now());
        opened
            .unwrap_or_else(|_| panic!("{what}: {verdict:?}"))
            .unwrap();
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

//! A wire between client and server that is cut at the rename, or goes silent.

use std::{net::SocketAddr, pin::pin, sync::Arc};

use mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    sync::{Mutex, watch},
    task::JoinHandle,
};

/// How the wire is cut when the first rename goes through it.
#[derive(Clone, Debug)]
pub(crate) enum Cut {
    /// The rename never reaches the server.
    Before,
    /// The rename is done, its answer never comes.
    After,
    /// The rename never reaches the server, and somebody runs a statement.
    Meddle(String),
}

/// Ends with the value.
pub(crate) struct Proxy {
    task: JoinHandle<()>,
    local: SocketAddr,
    server: Opts,
    silent: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn start(server: Opts, cut: Option<Cut>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let cut = Arc::new(Mutex::new(cut));
        let towards = server.clone();
        let (silent, told) = watch::channel(false);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let relayed = relay(client, towards.clone(), Arc::clone(&cut));
                tokio::spawn(unless_silent(relayed, told.clone()));
            }
        });
        Self {
            task,
            local,
            server,
            silent,
        }
    }

    /// Relays nothing any more; no wire is closed as long as the proxy lives.
    pub(crate) fn go_silent(&self) {
        self.silent.send_replace(true);
    }

    pub(crate) fn opts(&self) -> Opts {
        OptsBuilder::from_opts(self.server.clone())
            .ip_or_hostname("127.0.0.1")
            .tcp_port(self.local.port())
            .prefer_socket(false)
            .into()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Relays until told to be silent, then stops without closing anything until
/// the teller is dropped.
async fn unless_silent(relayed: impl Future<Output = ()>, mut told: watch::Receiver<bool>) {
    let mut relayed = pin!(relayed);
    let must_be_silent = tokio::select! {
        biased;
        heard = told.wait_for(|silent| *silent) => heard.is_ok(),
        () = &mut relayed => false,
    };
    while must_be_silent && told.changed().await.is_ok() {}
}

async fn relay(client: TcpStream, server_opts: Opts, cut: Arc<Mutex<Option<Cut>>>) {
    let address = (server_opts.ip_or_hostname(), server_opts.tcp_port());
    let server = TcpStream::connect(address).await.unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mute, muted) = watch::channel(false);
    let answering = async move {
        // A wire that breaks is as good as one that is closed.
        let _ended = copy(&mut from_server, &mut to_client).await;
    };
    let answers = tokio::spawn(unless_silent(answering, muted));
    let mut bytes = vec![0; 65536];
    while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
        let sent = &bytes[..length];
        let rename = sent.windows(12).any(|window| window == b"RENAME TABLE");
        let Some(how) = (if rename {
            cut.lock().await.take()
        } else {
            None
        }) else {
            if to_server.write_all(sent).await.is_err() {
                break;
            }
            continue;
        };
        match how {
            Cut::Before => drop(to_server),
            Cut::After => {
                // Nothing is on its way back now: the client waits for this answer.
                answers.abort();
                to_server.write_all(sent).await.unwrap();
                expect_renamed(&server_opts).await;
            }
            Cut::Meddle(statement) => {
                // Ends the session; the client hears of it only afterwards, also
                // of the server's word that it couldn't read.
                mute.send_replace(true);
                drop(to_server);
                let mut conn = Conn::new(server_opts).await.unwrap();
                conn.query_drop(statement).await.unwrap();
            }
        }
        answers.abort();
        return;
    }
    answers.abort();
}

/// Returns when the table of the old name is there.
async fn expect_renamed(opts: &Opts) {
    let mut conn = Conn::new(opts.clone()).await.unwrap();
    let there = "SELECT 1 FROM information_schema.TABLES \
                 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '_t_oxold'";
    while conn.query_first::<u8, _>(there).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
}

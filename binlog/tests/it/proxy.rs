//! A TCP proxy that falls silent, breaks off, or leads to another server.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use mysql_async::{Opts, OptsBuilder};
use oxferry_binlog::StreamConfig;
use oxferry_testkit::server::Server;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

#[derive(Clone, Copy)]
enum Order {
    Carry,
    /// Keep the connections open, and carry nothing any more.
    FallSilent,
    /// Close the connections.
    Break,
}

/// Stands in front of a server. Orders concern the connections that are open
/// when they are given; later ones are carried as usual.
pub(crate) struct Proxy {
    port: u16,
    target: Arc<AtomicU16>,
    orders: watch::Sender<Order>,
}

impl Proxy {
    pub(crate) async fn start(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            target: Arc::new(AtomicU16::new(server.port())),
            orders: watch::Sender::new(Order::Carry),
        };
        let (target, orders) = (Arc::clone(&proxy.target), proxy.orders.subscribe());
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let mut orders = orders.clone();
                orders.mark_unchanged();
                tokio::spawn(carry(client, target.load(Ordering::SeqCst), orders));
            }
        });
        proxy
    }

    /// How to follow the server through this proxy.
    pub(crate) fn config(&self, server: &Server) -> StreamConfig {
        let opts = Opts::from_url(&server.url()).unwrap();
        StreamConfig::new(OptsBuilder::from_opts(opts).tcp_port(self.port).into())
    }

    pub(crate) fn fall_silent(&self) {
        self.orders.send_replace(Order::FallSilent);
    }

    /// Breaks off, and leads to `server` from now on.
    pub(crate) fn lead_to(&self, server: &Server) {
        self.target.store(server.port(), Ordering::SeqCst);
        self.orders.send_replace(Order::Break);
    }
}

/// Ends when the connection does, or when the proxy is gone.
async fn carry(mut client: TcpStream, port: u16, mut orders: watch::Receiver<Order>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else {
        return;
    };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => return,
        changed = orders.changed() => if changed.is_err() {
            return;
        }
    }
    while matches!(*orders.borrow_and_update(), Order::FallSilent) {
        if orders.changed().await.is_err() {
            return;
        }
    }
}

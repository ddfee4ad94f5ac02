//! A lock that is being looked at when the switch goes on.

use std::{net::SocketAddr, sync::Arc};

use mysql_async::{Opts, OptsBuilder};
use oxferry_cutover::{Hook, Hooks, SourceLock, switch};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    mover::{Do, Mover},
    toy::Place,
};

/// What a wire does with the look at a renamed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// As with anything else.
    Passes,
    /// The next answer to it is kept back.
    Waits,
    /// It was sent, and no answer passes.
    Holds,
}

/// Leads to a server, through wires that all do the same.
async fn leads_to(server: &Opts) -> (Opts, Arc<watch::Sender<Wire>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let local = listener.local_addr().unwrap();
    let address = (server.ip_or_hostname().to_owned(), server.tcp_port());
    let state = Arc::new(watch::Sender::new(Wire::Passes));
    let shared = Arc::clone(&state);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(address.clone()).await.unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let asked = Arc::clone(&shared);
            tokio::spawn(relay(
                from_client,
                to_server,
                async move |bytes: &[u8]| {
                    let is_look = bytes.windows(8).any(|window| window == b"_t_oxold");
                    asked.send_if_modified(|wire| {
                        let held = is_look && *wire == Wire::Waits;
                        if held {
                            *wire = Wire::Holds;
                        }
                        held
                    });
                },
            ));
            let told = Arc::clone(&shared);
            tokio::spawn(relay(from_server, to_client, async move |_: &[u8]| {
                let mut told = told.subscribe();
                told.wait_for(|wire| *wire != Wire::Holds).await.unwrap();
            }));
        }
    });
    (through(server, local), state)
}

fn through(server: &Opts, local: SocketAddr) -> Opts {
    OptsBuilder::from_opts(server.clone())
        .ip_or_hostname("127.0.0.1")
        .tcp_port(local.port())
        .prefer_socket(false)
        .into()
}

/// Hands on what comes, each piece after `before`.
async fn relay(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    before: impl AsyncFn(&[u8]),
) {
    let mut bytes = vec![0; 65536];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        before(&bytes[..length]).await;
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_hook_that_ends_while_the_lock_is_looked_at_is_no_fault() {
    let place = Place::new().await;
    let (source, wire) = leads_to(&place.opts()).await;
    let hook = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", hook.local_addr().unwrap());
    let hooks = Hooks {
        switched: Some(Hook::parse(&address).unwrap()),
        ..Hooks::default()
    };
    let plan = place.switch_plan(SourceLock::Rename).with_hooks(hooks);
    let mut mover = Mover::new(&place, Do::Count);
    let target = place.opts();
    let answered = async {
        let (mut call, _) = hook.accept().await.unwrap();
        let _head = call.read(&mut [0; 4096]).await.unwrap();
        wire.send_replace(Wire::Waits);
        let mut seen = wire.subscribe();
        seen.wait_for(|wire| *wire == Wire::Holds).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        call.write_all(answer).await.unwrap();
        // The switch has heard of it once it hangs up.
        while let Ok(1..) = call.read(&mut [0; 4096]).await {}
        wire.send_replace(Wire::Passes);
    };
    let (switched, ()) = tokio::join!(switch(&source, &target, &plan, &mut mover), answered);
    assert!(switched.unwrap().afterwards.is_empty());
    assert_eq!(place.tables().await, ["_t_oxnew", "_t_oxold"]);
}

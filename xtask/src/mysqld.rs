//! `cargo xtask mysqld`: a server to play with.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use oxferry_testkit::server::{Server, ServerOptions};
use tokio::signal::unix::{SignalKind, signal};

use crate::report::say;

/// What kind of server.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Whether transactions get GTIDs
    #[arg(long, value_enum, default_value = "on")]
    gtid: Switch,
    /// Listen on this port instead of a free one
    #[arg(long, value_name = "N")]
    port: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Runs the server until SIGINT or SIGTERM, and removes everything then.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut wanted = ServerOptions::new()
        .gtid(options.gtid == Switch::On)
        .buffer_pool(512 << 20)
        .redo_log(1 << 30);
    if let Some(port) = options.port {
        wanted = wanted.port(port);
    }
    let mut server = tokio::select! {
        server = Server::start(wanted) => server?,
        _ = interrupt.recv() => return Ok(ExitCode::from(130)),
        _ = terminate.recv() => return Ok(ExitCode::from(143)),
    };
    server.execute(&["CREATE DATABASE test"]).await?;
    say(&banner(&server));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = ended(&mut server) => anyhow::bail!("mysqld has ended; the end of its log:\n{}", server.log_tail(20)),
    }
    say("the server and its data are removed");
    Ok(ExitCode::SUCCESS)
}

fn banner(server: &Server) -> String {
    let url = server.url_for("root", "", "test");
    let mut lines = format!(
        "MySQL {} is ready; Ctrl-C stops it and removes its data\n\n{url}\n\n\
         cargo run --release --package oxferry -- migrate --source {url} \\\n    \
         --table NAME --alter \"CLAUSES\"\n",
        server.version(),
    );
    if let Some(client) = server.tool("mysql") {
        let words = [client.get_program()].into_iter().chain(client.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let call = words.join(" ");
        lines.push_str(&format!(
            "\na client: {call} --protocol=tcp --host=127.0.0.1 --port={} --user=root test\n",
            server.port(),
        ));
    }
    lines
}

/// Returns when the process is gone though nobody asked for it.
async fn ended(server: &mut Server) {
    while server.is_running() {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

//! A run that stood still, was taken for dead, and wakes.

use std::{collections::HashSet, fs};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_testkit::{
    tables::TableSpec,
    tool::{Running, Signal},
    wait::eventually,
};

use crate::{
    far::{Far, run},
    held::{TRIGGER, stopped_in_its_switch},
    world::{LIMIT, check_code},
};

/// The ports that a process has connections from.
fn ports(pid: u32) -> HashSet<u16> {
    let sockets: HashSet<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
        .filter_map(|link| {
            let link = link.to_str()?.strip_prefix("socket:[")?;
            Some(link.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let connections = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = columns.get(1)?.split_once(':')?;
        let is_ours = sockets.contains(*columns.get(9)?);
        u16::from_str_radix(port, 16).ok().filter(|_| is_ours)
    });
    connections.collect()
}

/// Ends all sessions of a process on a server, as a network that is cut does.
pub(crate) async fn end_sessions(conn: &mut Conn, pid: u32) {
    let ports = ports(pid);
    assert!(!ports.is_empty());
    let query = "SELECT ID, HOST FROM information_schema.PROCESSLIST";
    let ended = eventually(LIMIT, "the end of all sessions", async || {
        let mut sessions: Vec<(u64, String)> = conn.query(query).await.unwrap();
        sessions.retain(|(_, host)| {
            let port = host
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse().ok());
            port.is_some_and(|port: u16| ports.contains(&port))
        });
        for (session, _) in &sessions {
            // It may have ended by itself.
            let _gone = conn.query_drop(format!("KILL {session}")).await;
        }
        sessions.is_empty().then_some(())
    });
    ended.await.unwrap();
}

/// A move that has renamed its source's table away, and then stands still.
async fn frozen_in_its_switch(far: &Far) -> Running {
    let mut source = far.source.conn().await.unwrap();
    run(&mut source, &TRIGGER).await;
    let moves = far.moves().arg("--cutover").arg("manual");
    let (running, mut reader) =
        stopped_in_its_switch(moves, async || far.target_conn().await).await;
    running.signal(Signal::SIGSTOP).unwrap();
    let pid = running.pid().unwrap();
    end_sessions(&mut source, pid).await;
    end_sessions(&mut reader, pid).await;
    running
}

async fn source_tables(far: &Far) -> Vec<String> {
    let mut tables = far.tables().await.0;
    tables.retain(|table| table == "t" || table == "_t_oxold");
    tables
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_wakes_after_another_has_made_the_switch_opens_no_source() {
    let far = Far::new(TableSpec::sysbench, 100).await;
    let frozen = frozen_in_its_switch(&far).await;
    assert_eq!(source_tables(&far).await, ["_t_oxold"]);
    check_code(&far.moves().run(LIMIT).await.unwrap(), 0);
    frozen.signal(Signal::SIGCONT).unwrap();
    let finished = frozen.wait_exit(LIMIT).await.unwrap();
    assert_ne!(finished.code, Some(0), "{}", finished.text());
    let text = finished.text();
    assert!(text.contains("it is left as it is"), "{text}");
    assert_eq!(source_tables(&far).await, ["_t_oxold"]);
    far.check_rows("_t_oxold", "t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_wakes_and_finds_nobody_in_its_place_opens_its_source() {
    let far = Far::new(TableSpec::sysbench, 100).await;
    let frozen = frozen_in_its_switch(&far).await;
    frozen.signal(Signal::SIGCONT).unwrap();
    let finished = frozen.wait_exit(LIMIT).await.unwrap();
    assert_ne!(finished.code, Some(0), "{}", finished.text());
    assert_eq!(source_tables(&far).await, ["t"]);
    check_code(&far.moves().run(LIMIT).await.unwrap(), 0);
    far.check_rows("_t_oxold", "t").await;
}

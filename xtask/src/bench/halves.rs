//! Two machines out of one: each half of the CPUs for its own processes.

use std::{ops::Range, path::Path};

use anyhow::{Context, ensure};
use mysql_async::prelude::Queryable;
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use oxferry_testkit::server::Server;

/// One half of the CPUs.
#[derive(Clone, Debug)]
pub(super) struct Half(Range<usize>);

/// Cuts the CPUs of this machine into two halves.
pub(super) fn halves() -> anyhow::Result<(Half, Half)> {
    let cpus = std::thread::available_parallelism().context("counting the CPUs failed")?;
    let cpus = cpus.get();
    ensure!(cpus >= 2, "one CPU can't be two machines");
    Ok((Half(0..cpus / 2), Half(cpus / 2..cpus)))
}

impl Half {
    /// Lets a process run here only, with all its threads, and those that they start.
    pub(super) fn hold(&self, process: u32) -> anyhow::Result<()> {
        let mut set = CpuSet::new();
        for cpu in self.0.clone() {
            set.set(cpu).context("naming a CPU failed")?;
        }
        let threads = format!("/proc/{process}/task");
        for thread in std::fs::read_dir(&threads).with_context(|| threads.clone())? {
            let name = thread.context("listing threads failed")?.file_name();
            let id = name.to_string_lossy().parse().context("a thread's id")?;
            sched_setaffinity(Pid::from_raw(id), &set).context("choosing CPUs failed")?;
        }
        Ok(())
    }

    /// The same for a server.
    pub(super) async fn hold_server(&self, server: &Server) -> anyhow::Result<()> {
        let query = "SELECT @@pid_file";
        let file: Option<String> = server.conn().await?.query_first(query).await?;
        let file = file.unwrap_or_default();
        let id = std::fs::read_to_string(Path::new(&file)).with_context(|| file.clone())?;
        self.hold(id.trim().parse().context("the server's process id")?)
    }
}

//! The replicas that are watched, and the connections to them.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::future::join_all;
use mysql_async::Opts;
use oxferry_schema::TableName;

use crate::{
    Heartbeats, LagGate, ProbeError,
    discovery::{self, Listed},
    link::{Link, now, server_name},
};

/// The replicas that are watched.
#[derive(Debug)]
pub(crate) struct Replicas {
    watched: Vec<Replica>,
    // Told of once each; a replica set has few members.
    left_out: BTreeSet<String>,
    deadline: Duration,
}

#[derive(Debug)]
struct Replica {
    link: Link,
    given: bool,
    last_error: Option<ProbeError>,
}

/// A listed replica that is not watched, and why.
enum LeftOut {
    NoHost,
    Unreachable(ProbeError),
    OtherServer,
    Delayed { delay_seconds: u64 },
}

impl Replicas {
    /// Begins with the replicas that must be watched.
    pub(crate) fn new(given: &[Opts], deadline: Duration) -> Self {
        let watched = given.iter().map(|opts| Replica {
            link: Link::new(opts, deadline),
            given: true,
            last_error: None,
        });
        Self {
            watched: watched.collect(),
            left_out: BTreeSet::new(),
            deadline,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// Returns the servers' names, as `host:port`.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.watched.iter().map(|replica| replica.link.server())
    }

    /// Takes the last error of a replica, if it had one since it was heard.
    pub(crate) fn take_error(&mut self, name: &str) -> Option<ProbeError> {
        let mut all = self.watched.iter_mut();
        let replica = all.find(|replica| replica.link.server() == name)?;
        replica.last_error.take()
    }

    /// Asks every replica for the beat that it shows. Each answer comes with
    /// the moment of asking, before which no beat can have been missed.
    pub(crate) async fn sample(
        &mut self,
        table: &TableName,
    ) -> Vec<(String, Instant, Option<u64>)> {
        let asked = self.watched.iter_mut().map(|replica| async {
            let asked_at = now();
            match replica.link.last_beat(table).await {
                Ok(seen) => {
                    replica.last_error = None;
                    Some((replica.link.server().to_owned(), asked_at, seen))
                }
                Err(error) => {
                    tracing::debug!(replica = replica.link.server(), %error, "no lag sample");
                    replica.last_error = Some(error);
                    None
                }
            }
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// Brings the replicas in step with those that the source lists.
    ///
    /// One that can't be watched is told of once, and tried again each time.
    pub(crate) async fn discover(
        &mut self,
        source: &mut Link,
        opts: &Opts,
        gate: &mut LagGate,
    ) -> Result<(), ProbeError> {
        let listed = discovery::list(source).await?;
        self.drop_unlisted(&listed, opts, gate);
        let unknown: Vec<_> = listed
            .into_iter()
            .map(|listed| (discovery::opts_of(&listed, opts), listed))
            .filter(|(opts, _)| !self.names().any(|name| name == server_name(opts)))
            .collect();
        let deadline = self.deadline;
        let tried = unknown
            .iter()
            .map(|(opts, listed)| attach(opts, listed, deadline));
        for ((opts, listed), result) in unknown.iter().zip(join_all(tried).await) {
            let name = server_name(opts);
            match result {
                Ok(link) => {
                    tracing::info!(replica = name, "replica found");
                    gate.watch(&name, now());
                    self.left_out.remove(&listed.server_uuid);
                    self.watched.push(Replica {
                        link,
                        given: false,
                        last_error: None,
                    });
                }
                Err(why) => {
                    if self.left_out.insert(listed.server_uuid.clone()) {
                        why.tell(&name, &listed.server_uuid);
                    }
                }
            }
        }
        Ok(())
    }

    /// A server that the source doesn't list any more is no replica now; when
    /// it comes back it is found again.
    fn drop_unlisted(&mut self, listed: &[Listed], opts: &Opts, gate: &mut LagGate) {
        let listed: BTreeSet<_> = listed
            .iter()
            .map(|listed| server_name(&discovery::opts_of(listed, opts)))
            .collect();
        self.watched.retain(|replica| {
            let stays = replica.given || listed.contains(replica.link.server());
            if !stays {
                let replica = replica.link.server();
                tracing::warn!(replica, "replica not connected to the source any more");
                gate.forget(replica);
            }
            stays
        });
    }
}

/// Connects to a listed replica and makes sure that it is the one listed.
async fn attach(opts: &Opts, listed: &Listed, deadline: Duration) -> Result<Link, LeftOut> {
    if listed.host.is_empty() || listed.port == 0 {
        return Err(LeftOut::NoHost);
    }
    let mut link = Link::new(opts, deadline);
    let (server_uuid, delay_seconds) = discovery::identify(&mut link)
        .await
        .map_err(LeftOut::Unreachable)?;
    if server_uuid != listed.server_uuid {
        return Err(LeftOut::OtherServer);
    }
    if delay_seconds > 0 {
        return Err(LeftOut::Delayed { delay_seconds });
    }
    Ok(link)
}

impl LeftOut {
    fn tell(&self, replica: &str, server_uuid: &str) {
        match self {
            Self::NoHost => tracing::warn!(
                server_uuid,
                "replica left out: it reports no host, set its report_host or give --replica"
            ),
            Self::Unreachable(error) => tracing::warn!(
                replica,
                error = error as &dyn std::error::Error,
                "replica left out: can't be asked with the source's credentials, give --replica"
            ),
            Self::OtherServer => tracing::warn!(
                replica,
                server_uuid,
                "replica left out: another server answers at its address, give --replica"
            ),
            Self::Delayed { delay_seconds } => tracing::warn!(
                replica,
                delay_seconds,
                "replica left out: it is told to stay behind, give --replica to watch it"
            ),
        }
    }
}

/// Feeds what the replicas showed to the gate.
pub(crate) fn feed(
    gate: &mut LagGate,
    beats: &Heartbeats,
    samples: &[(String, Instant, Option<u64>)],
) {
    for (replica, asked_at, seen) in samples {
        if let Some(lag) = beats.lag(*seen, *asked_at) {
            gate.handle_sample(replica, *asked_at, lag);
        }
    }
}

//! A source that is a replica: its primary, to which the applications write.
//!
//! Rows and changes are read off the replica; the primary is what is shut at the
//! switch, and what has the marks. Only by GTIDs can one say what of the primary
//! the replica has.

pub(super) mod watch;

use std::time::Duration;

use mysql_async::{Conn, Params, Row, prelude::Queryable};
use oxferry_cutover::LockedSource;
use oxferry_schema::{Remedy, ServerInfo, classify};

use super::{
    facts::Seen,
    job::Move,
    preflight::{self, Asked},
    replication::{Channel, channels},
};
use crate::{
    args::MoveArgs,
    failure::Failure,
    job::{Job, Problem, ServerFacts, Site, log_problems, privileges::Missing, refuse, setting},
};

/// What preflight looks at where the source is a replica, or a primary is given.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Whom the source replicates from.
    pub(super) channels: Vec<Channel>,
    /// `@@server_uuid` of the source, and of the target.
    pub(super) uuids: (String, String),
    pub(super) source_has_gtids: bool,
    pub(super) source_is_read_only: bool,
    /// The primary that is given.
    pub(super) primary: Option<Given>,
}

/// The primary that is given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) server: ServerFacts,
    /// `@@server_uuid`.
    pub(super) uuid: String,
    pub(super) has_gtids: bool,
    /// Whether it replicates from another server itself.
    pub(super) is_replica: bool,
    /// What its binary log leaves out: `binlog_do_db=x`.
    pub(super) filters: Vec<String>,
    /// `@@server_uuid` of the servers that the target replicates from.
    pub(super) target_replicates: Vec<String>,
    /// What the job may not do there and must.
    pub(super) missing: Vec<String>,
    /// The statements that grant it.
    pub(super) grants: Vec<String>,
}

impl Facts {
    /// Reads what there is to check.
    pub(super) async fn read(
        (source, target, primary): (Seen<'_>, Seen<'_>, Option<&Site>),
        asked: &Asked<'_>,
    ) -> Result<Self, Failure> {
        let ((source, source_conn), (target, target_conn)) = (source, target);
        let primary = match primary {
            None => None,
            Some(site) => {
                let target_replicates = channels(target_conn, &target.info).await?;
                let uuids = target_replicates.into_iter().map(|c| c.source_uuid);
                Some(Given::read(site, uuids.collect(), asked).await?)
            }
        };
        Ok(Self {
            channels: channels(source_conn, &source.info).await?,
            uuids: (
                source.info.server_uuid.clone(),
                target.info.server_uuid.clone(),
            ),
            source_has_gtids: source.info.has_gtids(),
            source_is_read_only: is_read_only(&source.info),
            primary,
        })
    }

    /// Returns everything that is in the way.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let Some(primary) = &self.primary else {
            return match self.channels.first() {
                None => Vec::new(),
                Some(channel) => vec![unnamed(channel)],
            };
        };
        let mut found = self.pair_problems(primary);
        let log = log_problems(&primary.server).into_iter();
        found.extend(log.map(|problem| Problem {
            what: format!("on the primary: {}", problem.what),
            ..problem
        }));
        found.extend(primary.problems());
        found
    }

    fn pair_problems(&self, primary: &Given) -> Vec<Problem> {
        let mut found = Vec::new();
        let from_primary = |channel: &&Channel| channel.source_uuid == primary.uuid;
        match self.channels.iter().find(from_primary) {
            None => found.push(usage(
                format!(
                    "the source doesn't replicate from the primary, server {}",
                    primary.uuid
                ),
                "give the server that it replicates from as --source-primary",
            )),
            Some(channel) => {
                if let Some(stopped) = channel.stopped() {
                    let fix = "START REPLICA there, and see that it goes on".to_owned();
                    found.push(Problem {
                        what: format!("replication on the source has stopped: {stopped}"),
                        fix,
                        remedy: Remedy::Retry,
                    });
                }
                if !channel.filters.is_empty() {
                    found.push(usage(
                        format!(
                            "replication on the source leaves out: {}",
                            channel.filters.join(", ")
                        ),
                        "end the filter and rebuild the replica, or move from the primary itself",
                    ));
                }
            }
        }
        if self.channels.len() > 1 {
            found.push(usage(
                "the source replicates from several servers".to_owned(),
                "move from the primary itself, or from a replica of it alone",
            ));
        }
        if !self.source_has_gtids || !primary.has_gtids {
            found.push(setting(
                "gtid_mode is not ON on the source and on its primary".to_owned(),
                "turn it on, or move from the primary itself: without GTIDs nobody can say what of the \
                 primary a replica has",
            ));
        }
        if primary.uuid == self.uuids.1 {
            let what = "the target is the source's primary".to_owned();
            found.push(usage(what, "give another target"));
        }
        if primary.target_replicates.contains(&primary.uuid) {
            let what =
                "the target replicates from the source's primary: rows would arrive by both ways";
            let fix = "end the replication between the two first, or let it do the move";
            found.push(usage(what.to_owned(), fix));
        }
        found
    }

    /// Returns what the operator should know of.
    pub(super) fn notes(&self) -> Vec<String> {
        let writable = self.primary.is_some() && !self.source_is_read_only;
        let note = "the source is a replica that can be written to: what is written there, and not on its \
                    primary, ends the move; SET GLOBAL super_read_only = ON there";
        writable.then(|| note.to_owned()).into_iter().collect()
    }
}

impl Given {
    async fn read(
        site: &Site,
        target_replicates: Vec<String>,
        asked: &Asked<'_>,
    ) -> Result<Self, Failure> {
        let mut conn = site.connect("preflight").await?;
        let server = ServerFacts::read(&mut conn, &site.info).await?;
        let missing = preflight::writer_privileges(&server.grants, asked);
        Ok(Self {
            uuid: site.info.server_uuid.clone(),
            has_gtids: site.info.has_gtids(),
            is_replica: !channels(&mut conn, &site.info).await?.is_empty(),
            filters: log_filters(&mut conn, &site.info).await?,
            target_replicates,
            missing: missing.iter().map(ToString::to_string).collect(),
            grants: missing.iter().map(Missing::grant).collect(),
            server,
        })
    }

    fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        if self.is_replica {
            found.push(usage(
                "the primary is a replica itself".to_owned(),
                "give the server that the applications write to, with a source that replicates from it",
            ));
        }
        if self.server.read_only {
            found.push(setting(
                "the primary is read-only".to_owned(),
                "another server may take the writes by now: give that one as --source-primary",
            ));
        }
        if !self.filters.is_empty() {
            let what = format!(
                "the primary's binary log leaves out: {}",
                self.filters.join(", ")
            );
            found.push(usage(what, "end the filter, and rebuild the replica"));
        }
        if !self.missing.is_empty() {
            let what = format!(
                "missing privileges on the primary: {}",
                self.missing.join("; ")
            );
            found.push(setting(what, &self.grants.join("; ")));
        }
        found
    }
}

/// Returns what stands against taking a move off a replica back.
pub(super) fn way_back_problem(args: &MoveArgs) -> Option<Problem> {
    let wanted = args.switch.reverse_for.is_some() && args.source_primary.is_some();
    wanted.then(|| {
        usage(
            "nothing can flow back to a source that is a replica".to_owned(),
            "leave out --reverse-for, or move from the primary itself",
        )
    })
}

fn usage(what: String, fix: &str) -> Problem {
    Problem {
        what,
        fix: fix.to_owned(),
        remedy: Remedy::Usage,
    }
}

pub(super) const fn is_read_only(info: &ServerInfo) -> bool {
    info.read_only || info.super_read_only
}

/// What a server's binary log leaves out.
async fn log_filters(conn: &mut Conn, info: &ServerInfo) -> Result<Vec<String>, Failure> {
    // Source: MySQL 8.4 manual, "SHOW BINARY LOG STATUS Statement".
    let statement = if info.version.is_mysql_at_least((8, 2, 0)) {
        "SHOW BINARY LOG STATUS"
    } else {
        "SHOW MASTER STATUS"
    };
    let row: Option<Row> = conn
        .query_first(statement)
        .await
        .map_err(|error| failed(error, "reading what the primary logs"))?;
    let value = |name: &str| {
        let value = row.as_ref()?.get_opt::<String, _>(name)?.ok()?;
        (!value.is_empty()).then(|| format!("{}={value}", name.to_lowercase()))
    };
    let names = ["Binlog_Do_DB", "Binlog_Ignore_DB"];
    Ok(names.into_iter().filter_map(value).collect())
}

/// Sees that the source replicates from the primary that is given.
///
/// # Errors
///
/// A failure that names the server.
pub(super) async fn expect_followed(
    source: &Site,
    conn: &mut Conn,
    primary: &Site,
) -> Result<(), Failure> {
    let channels = channels(conn, &source.info).await?;
    let uuid = &primary.info.server_uuid;
    if channels.iter().any(|one| one.source_uuid == *uuid) {
        return Ok(());
    }
    let from: Vec<&str> = channels.iter().map(|one| one.source.as_str()).collect();
    Err(Failure::usage(format!(
        "the source doesn't replicate from the --source-primary, server {uuid}; it replicates from {}",
        if from.is_empty() {
            "no server".to_owned()
        } else {
            from.join(", ")
        }
    )))
}

/// Refuses a source that replicates from a server that wasn't named.
pub(super) async fn expect_no_replica(source: &Site) -> Result<(), Failure> {
    let mut conn = source.connect("preflight").await?;
    let channels = channels(&mut conn, &source.info).await?;
    let problems: Vec<Problem> = channels.first().map(unnamed).into_iter().collect();
    refuse(&problems)
}

fn unnamed(channel: &Channel) -> Problem {
    usage(
        format!(
            "the source is a replica of {}, where the applications write",
            channel.source
        ),
        "give that one as --source-primary; if nothing is replicated to the source any more, \
         RESET REPLICA ALL there",
    )
}

/// What the job's source has executed that its primary hasn't; nothing where
/// there is none.
pub(super) async fn strays_of(job: &Job, source: &mut Conn) -> Result<String, Failure> {
    let Some(primary) = &job.primary else {
        return Ok(String::new());
    };
    let strays = strays(source, &mut primary.connect("primary").await?).await?;
    if !strays.is_empty() {
        tracing::warn!(transactions = %strays, "the source has what its primary never had");
    }
    Ok(strays)
}

/// What the replica has executed that its primary hasn't.
///
/// The replica is asked first: what it gets from its primary meanwhile is none.
async fn strays(source: &mut Conn, primary: &mut Conn) -> Result<String, Failure> {
    const WHAT: &str = "comparing what the source and its primary have executed";
    let here = executed(source).await?;
    let difference: Option<String> = primary
        .exec_first("SELECT GTID_SUBTRACT(?, @@GLOBAL.gtid_executed)", (here,))
        .await
        .map_err(|error| failed(error, WHAT))?;
    Ok(difference.unwrap_or_default())
}

async fn executed(conn: &mut Conn) -> Result<String, Failure> {
    let query = "SELECT @@GLOBAL.gtid_executed";
    let executed: Option<String> = conn
        .query_first(query)
        .await
        .map_err(|error| failed(error, "reading the executed GTIDs"))?;
    Ok(executed.unwrap_or_default())
}

/// A source and its primary, while a move runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) source: &'a Site,
    pub(super) primary: &'a Site,
    /// What the source had executed at the beginning that its primary hadn't.
    pub(super) strays: &'a str,
    /// How long the source may take to have what its primary has.
    pub(super) within: Duration,
}

impl Pair<'_> {
    /// Sees that the primary takes writes and the source follows it, and waits
    /// until the source has what the primary has by now: what is left while the
    /// primary is shut is little then.
    pub(super) async fn come_close(&self) -> Result<(), Failure> {
        let mut primary = self.primary.connect("primary").await?;
        let mut source = self.source.connect("replica").await?;
        if let Some(odd) = self.odd(&mut source, &mut primary).await? {
            return Err(Failure::new(Remedy::Retry, anyhow::anyhow!("{odd}")));
        }
        let all = executed(&mut primary).await?;
        self.wait_for(&mut source, &all).await
    }

    /// Waits until the source has all that its primary had when it was shut.
    ///
    /// # Errors
    ///
    /// A failure that names what somebody wrote to the source itself, too.
    pub(super) async fn follow(&self, locked: &LockedSource) -> Result<(), Failure> {
        let mut source = self.source.connect("replica").await?;
        self.wait_for(&mut source, &locked.executed_gtids).await?;
        let mut primary = self.primary.connect("primary").await?;
        let strays = strays(&mut source, &mut primary).await?;
        let new: Option<String> = source
            .exec_first("SELECT GTID_SUBTRACT(?, ?)", (strays, self.strays))
            .await
            .map_err(|error| failed(error, "comparing GTIDs"))?;
        match new.filter(|new| !new.is_empty()) {
            None => Ok(()),
            Some(new) => Err(Failure::new(
                Remedy::State,
                anyhow::anyhow!(
                    "somebody wrote to the source itself, which is a replica, and not to its primary: \
                     transactions {new}; the target may hold rows that the applications never had: mend \
                     the replica, and start anew with --fresh"
                ),
            )),
        }
    }

    /// Returns what is not as a move needs it, if anything is.
    pub(super) async fn odd(
        &self,
        source: &mut Conn,
        primary: &mut Conn,
    ) -> Result<Option<String>, Failure> {
        let channels = channels(source, &self.source.info).await?;
        let Some(channel) = self.channel(&channels) else {
            return Ok(Some(self.elsewhere()));
        };
        if let Some(stopped) = channel.stopped() {
            return Ok(Some(format!(
                "replication on the source has stopped: {stopped}; START REPLICA there"
            )));
        }
        if read_only(primary).await? {
            return Ok(Some(SHUT.to_owned()));
        }
        Ok(None)
    }

    /// Returns what the source gets from the primary.
    fn channel<'c>(&self, channels: &'c [Channel]) -> Option<&'c Channel> {
        let uuid = &self.primary.info.server_uuid;
        channels.iter().find(|one| one.source_uuid == *uuid)
    }

    fn elsewhere(&self) -> String {
        format!(
            "the source doesn't replicate from the primary, server {}, any more: give the server that it \
             replicates from as --source-primary",
            self.primary.info.server_uuid
        )
    }

    async fn wait_for(&self, source: &mut Conn, all: &str) -> Result<(), Failure> {
        let seconds = self.within.as_secs_f64();
        let params = Params::from((all, seconds));
        let waited: Option<i64> = source
            .exec_first("SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)", params)
            .await
            .map_err(|error| {
                failed(error, "waiting for the source to have what its primary has")
            })?;
        if waited == Some(0) {
            return Ok(());
        }
        Err(Failure::new(
            Remedy::Retry,
            anyhow::anyhow!(
                "the source is more than {seconds:.0} s behind its primary, which may not be shut for longer: \
                 let it catch up, or give more time with --locked-max"
            ),
        ))
    }
}

const SHUT: &str = "the primary is read-only: another server may take the writes by now; give that one as \
    --source-primary, or turn it writable again";

impl Move {
    /// Returns the source and its primary, where it is a replica.
    pub(super) fn pair(&self) -> Option<Pair<'_>> {
        Some(Pair {
            source: &self.core.source,
            primary: self.core.primary.as_ref()?,
            strays: &self.strays,
            within: self.args.switch.locked_max,
        })
    }

    /// Returns whether there is a table for marks on the server that the
    /// applications write to.
    pub(super) const fn has_marks(&self) -> bool {
        self.core.primary.is_some() || !self.source_is_read_only
    }
}

/// Returns whether a server takes no writes.
pub(super) async fn read_only(conn: &mut Conn) -> Result<bool, Failure> {
    let read_only: Option<bool> = conn
        .query_first("SELECT @@GLOBAL.read_only")
        .await
        .map_err(|error| failed(error, "seeing whether a server is read-only"))?;
    Ok(read_only.unwrap_or_default())
}

pub(super) fn failed(error: mysql_async::Error, attempted: &'static str) -> Failure {
    Failure::new(classify(&error).remedy(), error).context(attempted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(uuid: &str) -> Channel {
        Channel {
            source: "p:1".to_owned(),
            source_uuid: uuid.to_owned(),
            threads: [
                ("receiver", true, String::new()),
                ("applier", true, String::new()),
            ],
            filters: Vec::new(),
        }
    }

    fn server() -> ServerFacts {
        ServerFacts::fit(&[])
    }

    fn facts() -> Facts {
        Facts {
            channels: vec![channel("p")],
            uuids: ("s".to_owned(), "t".to_owned()),
            source_has_gtids: true,
            source_is_read_only: true,
            primary: Some(Given {
                server: server(),
                uuid: "p".to_owned(),
                has_gtids: true,
                is_replica: false,
                filters: Vec::new(),
                target_replicates: Vec::new(),
                missing: Vec::new(),
                grants: Vec::new(),
            }),
        }
    }

    fn whats(facts: &Facts) -> Vec<String> {
        let problems = facts.problems().into_iter();
        problems.map(|problem| problem.what).collect()
    }

    #[test]
    fn a_replica_needs_its_primary() {
        assert!(whats(&facts()).is_empty() && facts().notes().is_empty());
        let mut alone = facts();
        alone.primary = None;
        let found = alone.problems();
        assert_eq!(found.len(), 1);
        assert!(
            found
                .iter()
                .all(|p| p.what.contains("p:1") && p.fix.contains("--source-primary"))
        );
        alone.channels.clear();
        assert!(whats(&alone).is_empty());
    }

    #[test]
    fn a_primary_that_the_source_does_not_follow_is_refused() {
        let mut wrong = facts();
        wrong.channels = vec![channel("other"), channel("third")];
        wrong.source_has_gtids = false;
        wrong.uuids.1 = "p".to_owned();
        let found = whats(&wrong).join("\n");
        for part in [
            "doesn't replicate from the primary, server p",
            "from several servers",
            "gtid_mode is not ON",
            "the target is the source's primary",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }

    #[test]
    fn a_stopped_or_filtered_replica_and_an_unfit_primary_are_refused() {
        let mut unfit = facts();
        if let Some(channel) = unfit.channels.first_mut() {
            channel.threads[1] = ("applier", false, "duplicate key".to_owned());
            channel.filters = vec!["replicate_do_db=x".to_owned()];
        }
        if let Some(primary) = &mut unfit.primary {
            primary.server.read_only = true;
            primary.is_replica = true;
            primary.filters = vec!["binlog_do_db=x".to_owned()];
        }
        unfit.source_is_read_only = false;
        let found = whats(&unfit).join("\n");
        for part in [
            "its applier doesn't run: duplicate key",
            "leaves out: replicate_do_db=x",
            "the primary is a replica itself",
            "the primary is read-only",
            "binary log leaves out: binlog_do_db=x",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert_eq!(unfit.notes().len(), 1);
    }
}

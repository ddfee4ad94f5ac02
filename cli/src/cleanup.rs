//! `oxferry cleanup`: what jobs that ended early left behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_cutover::{complete, end_earlier};
use oxferry_schema::{Ident, Remedy, ServerInfo, ServerUrl, ShadowNames, TableName, connect};
use oxferry_state::{Checkpoint, CheckpointStore as _, FileStore, JobKind, Phase};

use crate::{
    args::CleanupArgs,
    failure::Failure,
    job::{Holder, JobLock, Store, Working, drop_together},
    migrate::plan_of,
    moving, source,
};

/// How long the end of a killed run's cutover session is waited for.
const EARLIER_MAX: Duration = Duration::from_secs(30);

/// What is left beside one table.
#[derive(Debug)]
struct Leftovers {
    source: TableName,
    names: ShadowNames,
    /// Those of the names that exist.
    tables: BTreeSet<TableName>,
}

/// What one job left: beside one table or, where a checkpoint says so, several.
#[derive(Debug, Default)]
struct Group {
    tables: Vec<Leftovers>,
    checkpoint: Option<Checkpoint>,
    /// Whether the checkpoint is the one in the file that was named.
    in_file: bool,
}

/// What to do with a table that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is of no use to anybody.
    Remove,
    /// The operator asked for it to be kept, or nobody knows.
    Keep(&'static str),
}

/// Lists what is left, and removes it if asked to.
pub(crate) async fn run(args: &CleanupArgs) -> Result<(), Failure> {
    if args.target.is_some() {
        return moving::clean(args).await;
    }
    let url = source::source_url(&args.server)?;
    let mut conn = connect(&url, "cleanup").await?;
    let url = url.settled(&conn);
    let wanted = args
        .job
        .as_deref()
        .map(|name| source::table_name(name, &url))
        .transpose()?;
    let file = match &args.state {
        Some(path) => Some(read_file(&mut conn, path).await?),
        None => None,
    };
    let mut groups = look(&mut conn, &url, file.as_ref()).await?;
    groups.retain(|group| wanted.as_ref().is_none_or(|wanted| group.is_about(wanted)));
    if groups.is_empty() {
        tracing::info!("nothing is left behind");
    }
    for group in &groups {
        clean((&mut conn, &url), group, file.as_ref(), args.execute).await?;
    }
    if !groups.is_empty() && !args.execute {
        tracing::info!("nothing was removed: add --execute to remove what is listed");
    }
    Ok(())
}

/// Looks for tables beside every table of every database that can be seen.
async fn look(
    conn: &mut Conn,
    url: &ServerUrl,
    file: Option<&InFile>,
) -> Result<Vec<Group>, Failure> {
    let found = leftovers(&existing(conn).await?);
    let mut checkpoints = BTreeMap::new();
    for left in found.iter().filter(|left| left.has_state()) {
        let (state, job) = (&left.names.state, left.source.plain());
        let store = Store::new(None, url.opts("cleanup"), state, &job);
        match store.load().await {
            Ok(Some(checkpoint)) => {
                checkpoints.insert(left.source.clone(), checkpoint);
            }
            // A move's checkpoint is named after a table of another server.
            Ok(None) => {
                let other = moving::checkpoints_in(conn, state)
                    .await?
                    .into_iter()
                    .next();
                checkpoints.extend(other.map(|checkpoint| (left.source.clone(), checkpoint)));
            }
            Err(error) => tracing::warn!("the checkpoint can't be read: {}", error.line()),
        }
    }
    let held = file.map(|file| &file.checkpoint);
    if let Some(checkpoint) = held
        && let Some(first) = checkpoint.job.tables.first()
    {
        let of_job = checkpoints.entry(first.clone());
        of_job.or_insert_with(|| checkpoint.clone());
    }
    let mut groups = group(found, checkpoints);
    for group in &mut groups {
        group.in_file = held.is_some() && group.checkpoint.as_ref() == held;
    }
    Ok(groups)
}

/// A checkpoint in a file of the operator's choice.
#[derive(Debug)]
struct InFile {
    store: FileStore,
    checkpoint: Checkpoint,
}

/// A checkpoint of another server would tell of other tables.
async fn read_file(conn: &mut Conn, path: &Path) -> Result<InFile, Failure> {
    let store = FileStore::new(path);
    let Some(checkpoint) = store.load().await? else {
        let path = path.display();
        return Err(Failure::usage(format!("there is no file {path}")));
    };
    let here = ServerInfo::read(conn).await?.server_uuid;
    if checkpoint.server_uuid != here {
        return Err(Failure::usage(format!(
            "the checkpoint in {} is of server {}, this is server {here}: connect to that one",
            path.display(),
            checkpoint.server_uuid
        )));
    }
    Ok(InFile { store, checkpoint })
}

async fn existing(conn: &mut Conn) -> Result<BTreeSet<TableName>, Failure> {
    let query = "SELECT table_schema, table_name FROM information_schema.tables \
         WHERE table_type = 'BASE TABLE' AND table_schema NOT IN \
         ('mysql', 'sys', 'performance_schema', 'information_schema') ORDER BY 1, 2";
    let rows: Vec<(String, String)> = conn
        .query(query)
        .await
        .map_err(|error| failed(error, "list the tables"))?;
    let name = |(schema, table): (String, String)| {
        Some(TableName::new(
            Ident::new(schema).ok()?,
            Ident::new(table).ok()?,
        ))
    };
    Ok(rows.into_iter().filter_map(name).collect())
}

fn leftovers(tables: &BTreeSet<TableName>) -> Vec<Leftovers> {
    let beside = |source: &TableName| {
        let names = ShadowNames::beside(source);
        let found: BTreeSet<_> = names
            .all()
            .into_iter()
            .filter(|name| tables.contains(name))
            .cloned()
            .collect();
        (!found.is_empty()).then(|| Leftovers {
            source: source.clone(),
            names,
            tables: found,
        })
    };
    tables.iter().filter_map(beside).collect()
}

/// Puts together what belongs to one job. A table with a checkpoint of its own
/// belongs to that one, whatever other jobs' checkpoints say.
fn group(found: Vec<Leftovers>, checkpoints: BTreeMap<TableName, Checkpoint>) -> Vec<Group> {
    let mut owner: BTreeMap<TableName, TableName> = BTreeMap::new();
    for (first, checkpoint) in &checkpoints {
        for table in &checkpoint.job.tables {
            owner.entry(table.clone()).or_insert_with(|| first.clone());
        }
    }
    let mut groups: BTreeMap<TableName, Group> = BTreeMap::new();
    for left in found {
        let own = left.has_state().then_some(&left.source);
        let first = own.or_else(|| owner.get(&left.source));
        let first = first.unwrap_or(&left.source).clone();
        groups.entry(first).or_default().tables.push(left);
    }
    for (first, checkpoint) in checkpoints {
        if let Some(group) = groups.get_mut(&first) {
            group.checkpoint = Some(checkpoint);
        }
    }
    groups.into_values().collect()
}

impl Leftovers {
    fn has_state(&self) -> bool {
        self.tables.contains(&self.names.state)
    }

    fn has_shadow(&self) -> bool {
        self.tables.contains(&self.names.shadow)
    }

    fn has_old(&self) -> bool {
        self.tables.contains(&self.names.old)
    }
}

impl Group {
    fn is_about(&self, table: &TableName) -> bool {
        self.sources().contains(table)
    }

    /// The tables beside which something is left, and those of the job.
    fn sources(&self) -> Vec<TableName> {
        let left = self.tables.iter().map(|left| &left.source);
        let job = self.checkpoint.iter().flat_map(|c| &c.job.tables);
        let all: BTreeSet<&TableName> = left.chain(job).collect();
        all.into_iter().cloned().collect()
    }

    /// What is to be removed, in two steps, checkpoints last: while they stand,
    /// a repeated cleanup knows what the rest is. New tables may refer to each
    /// other, so each step is one statement.
    fn removed(&self) -> [Vec<&TableName>; 2] {
        let of = |state: bool| {
            let all = self.tables.iter().flat_map(move |left| {
                let names = left.tables.iter();
                names.filter(move |name| (**name == left.names.state) == state)
            });
            all.filter(|table| self.verdict(table) == Verdict::Remove)
                .collect()
        };
        [of(false), of(true)]
    }

    /// What is kept, and why.
    fn kept(&self) -> impl Iterator<Item = (&TableName, &'static str)> {
        let all = self.tables.iter().flat_map(|left| &left.tables);
        all.filter_map(|table| match self.verdict(table) {
            Verdict::Keep(why) => Some((table, why)),
            Verdict::Remove => None,
        })
    }

    /// The old tables hold the rows from before the cutover: they are removed
    /// only where a checkpoint proves that a job was about to.
    fn verdict(&self, table: &TableName) -> Verdict {
        let is_old = self.tables.iter().any(|left| left.names.old == *table);
        if !is_old || self.is_swapped() {
            return Verdict::Remove;
        }
        Verdict::Keep("the table from before a cutover; drop it yourself when nobody needs it")
    }

    /// Whether old tables stand that might have been swapped a moment ago, and
    /// nothing tells: the checkpoint is kept elsewhere, or can't be read. Such
    /// a table may still have triggers that the new one lacks.
    fn is_unknown(&self) -> bool {
        let has = |what: fn(&Leftovers) -> bool| self.tables.iter().any(what);
        self.checkpoint.is_none() && has(Leftovers::has_state) && has(Leftovers::has_old)
    }

    /// Whether the checkpoint is a move's: this server is its target, and its
    /// tables stand for more than what is beside them.
    fn is_of_move(&self) -> bool {
        let checkpoint = self.checkpoint.as_ref();
        checkpoint.is_some_and(|checkpoint| checkpoint.job.kind == JobKind::Move)
    }

    /// Completes a cutover that was ended after its rename: an old table may
    /// still have triggers that the new one lacks.
    async fn complete(&self, url: &ServerUrl) -> Result<(), Failure> {
        match &self.checkpoint {
            Some(checkpoint) if checkpoint.phase == Phase::Cutover && self.is_swapped() => {
                let plan = plan_of(checkpoint)?;
                Ok(complete(&url.opts("cleanup"), &plan).await?)
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the checkpoint says that all tables were swapped, and
    /// nothing that is left says otherwise.
    fn is_swapped(&self) -> bool {
        let Some(checkpoint) = &self.checkpoint else {
            return false;
        };
        let left = |table: &TableName| self.tables.iter().find(|left| left.source == *table);
        let mut tables = checkpoint.job.tables.iter().map(left);
        match checkpoint.phase {
            // Noted before the rename: only the tables tell.
            Phase::Cutover => {
                tables.all(|left| left.is_some_and(|left| left.has_old() && !left.has_shadow()))
            }
            // Some may be cleaned up already.
            Phase::Cleanup => tables.all(|left| left.is_none_or(|left| !left.has_shadow())),
            _ => false,
        }
    }
}

async fn clean(
    (conn, url): (&mut Conn, &ServerUrl),
    group: &Group,
    file: Option<&InFile>,
    execute: bool,
) -> Result<(), Failure> {
    let sources = group.sources();
    let lock = match JobLock::take(connect(url, "lock").await?, &sources).await {
        Ok(lock) => lock,
        Err(failure) if failure.is_caused_by::<Working>() => {
            let names: Vec<String> = sources.iter().map(TableName::plain).collect();
            tracing::info!(table = %names.join(", "), "left alone: {}", failure.line());
            return Ok(());
        }
        Err(failure) => return Err(failure),
    };
    let again;
    let group = if execute {
        for table in &sources {
            // A rename that a killed run sent may still be waiting to happen.
            end_earlier(conn, table, EARLIER_MAX).await?;
        }
        let mut now = look(conn, url, file).await?;
        now.retain(|group| group.sources() == sources);
        again = now.pop().unwrap_or_default();
        &again
    } else {
        group
    };
    let holder = lock.holder();
    let cleaned = if group.is_of_move() {
        say_move(group);
        Ok(())
    } else if group.is_unknown() {
        say_unknown(group);
        Ok(())
    } else if execute {
        remove_all((conn, url), group, file, &holder).await
    } else {
        say_left(group);
        Ok(())
    };
    lock.release().await;
    cleaned
}

async fn remove_all(
    (conn, url): (&mut Conn, &ServerUrl),
    group: &Group,
    file: Option<&InFile>,
    holder: &Holder,
) -> Result<(), Failure> {
    holder.check(conn).await?;
    group.complete(url).await?;
    say_kept(group);
    let [first, states] = group.removed();
    remove(conn, holder, &first).await?;
    if let (Some(file), true) = (file, group.in_file) {
        file.store.clear().await?;
        tracing::info!(file = %file.store.path().display(), "removed");
    }
    remove(conn, holder, &states).await
}

fn say_left(group: &Group) {
    say_kept(group);
    for table in group.removed().iter().flatten() {
        tracing::info!(table = %table.plain(), "left behind");
    }
}

fn say_kept(group: &Group) {
    for (table, why) in group.kept() {
        tracing::info!(table = %table.plain(), "kept: {why}");
    }
}

async fn remove(conn: &mut Conn, holder: &Holder, tables: &[&TableName]) -> Result<(), Failure> {
    holder.check(conn).await?;
    drop_together(conn, tables).await?;
    for table in tables {
        tracing::info!(table = %table.plain(), "removed");
    }
    Ok(())
}

fn say_move(group: &Group) {
    if let Some(checkpoint) = &group.checkpoint {
        tracing::warn!(
            job = checkpoint.job.name.as_str(),
            "left alone: it belongs to a move; give its servers as --source and --target"
        );
    }
}

fn say_unknown(group: &Group) {
    for left in group.tables.iter().filter(|left| left.has_old()) {
        tracing::warn!(
            table = %left.names.old.plain(),
            "left alone, with all of its job: it may have triggers that {} still lacks, and {} holds \
             no checkpoint that tells; give the job's own with --state FILE, or call the job again; if \
             it is lost, compare the two tables' triggers, then drop what is left yourself",
            left.source.plain(), left.names.state.plain()
        );
    }
}

fn failed(error: mysql_async::Error, what: &str) -> Failure {
    let remedy = oxferry_schema::classify(&error).remedy();
    let remedy = if remedy == Remedy::Bug {
        Remedy::Retry
    } else {
        remedy
    };
    Failure::new(remedy, error).context(format!("could not {what}"))
}

#[cfg(test)]
mod tests {
    use oxferry_state::JobIdentity;

    use super::*;

    fn name(table: &str) -> TableName {
        TableName::new(Ident::new("d").unwrap(), Ident::new(table).unwrap())
    }

    /// What is left in a database with these tables, where a job over `job`
    /// left its checkpoint beside the first of them in this phase.
    fn groups(tables: &[&str], job: &[&str], phase: Phase) -> Vec<Group> {
        let found = leftovers(&tables.iter().map(|table| name(table)).collect());
        let mut checkpoints = BTreeMap::new();
        if let Some(first) = job.first() {
            let tables: Vec<TableName> = job.iter().map(|table| name(table)).collect();
            let mut checkpoint = Checkpoint::new(JobIdentity::migrate(tables, vec![]), "0", "u");
            checkpoint.phase = phase;
            checkpoints.insert(name(first), checkpoint);
        }
        group(found, checkpoints)
    }

    #[test]
    fn only_tables_beside_a_living_table_are_leftovers() {
        assert!(groups(&["t", "u", "_gone_oxnew"], &[], Phase::Copy).is_empty());
        let found = groups(&["t", "_t_oxnew", "_t_oxstate"], &["t"], Phase::Copy);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].tables[0].tables.len(), 2);
    }

    #[test]
    fn an_old_table_goes_only_when_the_checkpoint_says_that_the_swap_happened() {
        let old = name("_t_oxold");
        let verdict = |tables: &[&str], job: &[&str], phase| {
            groups(tables, job, phase)[0].verdict(&old) == Verdict::Remove
        };
        let swapped = ["t", "_t_oxold", "_t_oxstate"];
        assert!(verdict(&swapped, &["t"], Phase::Cutover));
        assert!(verdict(&swapped, &["t"], Phase::Cleanup));
        assert!(!verdict(&swapped, &["t"], Phase::Copy));
        assert!(!verdict(&swapped, &[], Phase::Copy));
        let both = ["t", "_t_oxold", "_t_oxnew", "_t_oxstate"];
        assert!(!verdict(&both, &["t"], Phase::Cutover));
    }

    #[test]
    fn an_old_table_beside_a_checkpoint_that_is_kept_elsewhere_is_left_alone() {
        let swapped = ["t", "_t_oxold", "_t_oxstate"];
        assert!(groups(&swapped, &[], Phase::Copy)[0].is_unknown());
        assert!(!groups(&swapped, &["t"], Phase::Cutover)[0].is_unknown());
        let copied = ["t", "_t_oxnew", "_t_oxstate"];
        assert!(!groups(&copied, &[], Phase::Copy)[0].is_unknown());
        assert!(!groups(&["t", "_t_oxold"], &[], Phase::Copy)[0].is_unknown());
    }

    #[test]
    fn what_a_job_over_several_tables_left_is_one_job() {
        let tables = [
            "t",
            "u",
            "v",
            "_t_oxnew",
            "_t_oxstate",
            "_u_oxnew",
            "_v_oxnew",
        ];
        let found = groups(&tables, &["t", "u"], Phase::Copy);
        assert_eq!(found.len(), 2);
        assert!(found[0].is_about(&name("u")) && !found[0].is_about(&name("v")));
        let [first, last] = found[0].removed();
        assert_eq!(first, [&name("_t_oxnew"), &name("_u_oxnew")]);
        assert_eq!(last, [&name("_t_oxstate")]);
    }

    #[test]
    fn old_tables_of_several_go_only_when_all_were_swapped() {
        let job = ["t", "u"];
        let removes = |tables: &[&str], phase| {
            let found = groups(tables, &job, phase);
            found[0].verdict(&name("_u_oxold")) == Verdict::Remove
        };
        let all = ["t", "u", "_t_oxstate", "_t_oxold", "_u_oxold"];
        assert!(removes(&all, Phase::Cutover));
        let half = ["t", "u", "_t_oxstate", "_t_oxnew", "_u_oxold"];
        assert!(!removes(&half, Phase::Cutover));
        assert!(!removes(&half, Phase::Cleanup));
        let dropped = ["t", "u", "_t_oxstate", "_u_oxold"];
        assert!(!removes(&dropped, Phase::Cutover));
        assert!(removes(&dropped, Phase::Cleanup));
    }
}

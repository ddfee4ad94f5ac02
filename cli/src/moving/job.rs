//! A move: what is asked for, and what stands on both servers.

use mysql_async::Conn;
use oxferry_copier::{CopyPlan, Load, Mark, TransferSettings};
use oxferry_schema::{
    Attached, Blueprint, EstateProblem, LeftBehind, Part, Remedy, Selection, ShadowNames, Sides,
    TableName, TargetSide, read_databases, read_found,
};
use oxferry_state::{Checkpoint, JobIdentity, TableProgress, same_definition};

use super::{
    Sites, facts,
    preflight::{self, Asked},
    primary, reverse,
    start::{self, Found, Start},
    tenant::{self, Tenant},
    wanted::wanted,
    watch::Guard,
};
use crate::{
    args::{LoadMode, MoveArgs, OnOff, TargetTables},
    comparing::Comparing,
    failure::{Failure, remedied},
    job::{Holder, Job, JobTable, Problem, Rows, Settings, Site, refuse, table_exists},
};

remedied!(
    oxferry_schema::CreateError,
    oxferry_schema::FinishError,
    oxferry_schema::PlaceError
);

/// A move before anything is written.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) core: Job,
    pub(super) args: MoveArgs,
    /// Whose rows alone are moved, if so.
    pub(super) tenant: Option<Tenant>,
    pub(super) selection: Selection,
    /// The source's tables with what hangs on them, in the order of `core`.
    pub(super) parts: Vec<Part>,
    /// What stays behind of the databases.
    pub(super) left_behind: LeftBehind,
    /// What the target gets; drawn when the move begins.
    pub(super) blueprint: Blueprint,
    /// How rows are written.
    pub(super) transfer: TransferSettings,
    pub(super) source_is_read_only: bool,
    /// What the source had executed at the beginning that its primary hadn't.
    pub(super) strays: String,
    /// How far the target's binary log has been looked through.
    pub(super) guard: Guard,
    /// The locks that the job holds, each with its server; none before it works.
    pub(super) locks: Vec<(Site, Holder)>,
}

impl Move {
    /// Looks at both servers and at the tables, and checks everything that must
    /// be right before a move may start. The connection is to the target.
    ///
    /// # Errors
    ///
    /// A failure for the first thing that can't be read; else one that counts
    /// the problems, each of which has been logged.
    pub(super) async fn look(args: MoveArgs, sites: Sites) -> Result<(Self, Conn), Failure> {
        let wanted = wanted(&args.select)?;
        let tenant = Tenant::parse(&args.tenant)?;
        let Sites {
            source,
            primary,
            target,
        } = sites;
        let mut source_conn = source.connect("preflight").await?;
        let mut target_conn = target.connect("preflight").await?;
        let sides = Sides {
            source_lower_case: source.info.lower_case_table_names,
            target_lower_case: target.info.lower_case_table_names,
            same_server: source.info.server_uuid == target.info.server_uuid,
        };
        let found = read_found(&mut source_conn).await?;
        let selection = Selection::choose(&found, &wanted, sides).map_err(estate_problems)?;
        let mut parts = read_parts(&mut source_conn, &selection).await?;
        let databases = selection.source_databases();
        let left_behind = LeftBehind::read(&mut source_conn, &databases).await?;
        let mut tables = tables(&selection, &parts)?;
        if let Some(tenant) = &tenant {
            tables = tenant.place(tables)?;
            let place = |part: &Part| {
                let mut placed = tables.iter();
                placed.position(|table| table.source.name == part.table.name)
            };
            parts.sort_by_key(place);
        }
        let source_is_read_only = source.info.read_only || source.info.super_read_only;
        let lines = tenant.as_ref().map(Tenant::lines).unwrap_or_default();
        let mut core = core(&args, (source, target), (tables, lines))?;
        core.primary = primary;
        let seen = (&mut source_conn, &mut target_conn);
        check(&args, &core, &parts, seen).await?;
        let strays = primary::strays_of(&core, &mut source_conn).await?;
        let load = match args.load {
            LoadMode::Auto => Load::choose(&mut target_conn).await.map_err(|error| {
                Failure::new(Remedy::Retry, error).context("asking the target for local_infile")
            })?,
            LoadMode::Statements => Load::Statements,
        };
        let mark = Mark {
            table: core.state.clone(),
        };
        let job = Self {
            transfer: TransferSettings {
                load,
                mark: (args.detect_foreign_writes == OnOff::On).then_some(mark),
            },
            core,
            args,
            tenant,
            selection,
            parts,
            left_behind,
            blueprint: Blueprint::default(),
            source_is_read_only,
            strays,
            guard: Guard::new(),
            locks: Vec::new(),
        };
        Ok((job, target_conn))
    }

    /// Decides how the move begins, given what stands on the target.
    pub(super) async fn decide(&self, conn: &mut Conn) -> Result<Start, Failure> {
        let fresh = self.core.settings.run.fresh;
        let store = self.core.store();
        let checkpoint = match store.load().await {
            Err(failure) if fresh => {
                tracing::warn!(
                    "the checkpoint can't be read, and is dropped: {}",
                    failure.line()
                );
                None
            }
            loaded => loaded?,
        };
        let mut targets = Vec::new();
        let known = checkpoint.iter().flat_map(|c| &c.tables).map(|t| &t.target);
        let made = checkpoint.iter().filter_map(|c| c.target.as_ref());
        let made = made.flat_map(|target| &target.made);
        let asked = self.core.tables.iter().map(|table| &table.target);
        for table in asked.chain(known).chain(made) {
            if !targets.contains(table) && table_exists(conn, table).await? {
                targets.push(table.clone());
            }
        }
        let found = Found {
            checkpoint,
            state: table_exists(conn, &self.core.state).await?,
            targets,
            servers: (
                self.core.source.info.server_uuid.clone(),
                self.core.target.info.server_uuid.clone(),
            ),
        };
        start::decide(found, &self.core.identity, fresh)
    }

    /// Returns both servers.
    pub(super) fn sites(&self) -> Sites {
        Sites {
            source: self.core.source.clone(),
            primary: self.core.primary.clone(),
            target: self.core.target.clone(),
        }
    }

    /// Begins the move's checkpoint.
    pub(super) fn begin(&self) -> Checkpoint {
        let uuid = self.core.target.info.server_uuid.as_str();
        self.core.begin().to_server(uuid)
    }

    /// Takes over from a checkpoint what was decided when the move began: the
    /// order of the tables, and what the target gets.
    pub(super) fn go_on(&mut self, start: &Start) -> Result<(), Failure> {
        let (Start::Resume(checkpoint) | Start::CleanUp(checkpoint)) = start else {
            return Ok(());
        };
        let place = |name: &TableName| {
            let mut begun = checkpoint.tables.iter();
            begun.position(|table| table.source == *name)
        };
        self.core
            .tables
            .sort_by_key(|table| place(&table.source.name));
        self.parts.sort_by_key(|part| place(&part.table.name));
        let target = checkpoint.target.as_ref();
        self.blueprint = target.map(|t| t.blueprint.clone()).unwrap_or_default();
        if self.core.tables.len() == checkpoint.tables.len() {
            return Ok(());
        }
        let error =
            anyhow::anyhow!("the checkpoint doesn't tell of all tables: start anew with --fresh");
        Err(Failure::new(Remedy::State, error))
    }

    /// Draws what the target gets, given what it holds.
    pub(super) async fn draw(&self, conn: &mut Conn) -> Result<Blueprint, Failure> {
        self.draw_without(conn, &[]).await
    }

    /// As [`Move::draw`], as if some tables were not there.
    pub(super) async fn draw_without(
        &self,
        conn: &mut Conn,
        gone: &[TableName],
    ) -> Result<Blueprint, Failure> {
        let mut source = self.core.source.connect("databases").await?;
        let databases = read_databases(&mut source).await?;
        let mut side = TargetSide::read(conn, &self.selection, &self.parts).await?;
        side.tables.retain(|one| !gone.contains(&one.table.name));
        self.check_rows(&side)?;
        let existing = match self.args.target_tables {
            TargetTables::Refuse => oxferry_schema::TargetTables::Refuse,
            TargetTables::Empty => oxferry_schema::TargetTables::Empty,
            TargetTables::Matching => oxferry_schema::TargetTables::Matching,
        };
        let drawn = Blueprint::draw(&self.selection, &databases, &self.parts, &side, existing);
        let blueprint = drawn.map_err(estate_problems)?;
        for note in &blueprint.notes {
            tracing::info!("{note}");
        }
        Ok(blueprint)
    }

    /// Rows that the source doesn't have would be taken for differences, and
    /// removed: only a tenant's move leaves others' alone.
    fn check_rows(&self, side: &TargetSide) -> Result<(), Failure> {
        if self.args.target_tables != TargetTables::Matching || self.tenant.is_some() {
            return Ok(());
        }
        let filled = side.tables.iter().filter(|one| !one.empty);
        let problems: Vec<Problem> = filled
            .map(|one| Problem {
                what: format!(
                    "table {} on the target holds rows, of which the move would leave none that the \
                     source doesn't have",
                    one.table.name.plain()
                ),
                fix: "empty it, or say with --tenant which rows are moved".to_owned(),
                remedy: Remedy::Usage,
            })
            .collect();
        refuse(&problems)
    }

    /// Returns whether the target's tables may hold rows of other tenants, and
    /// some of this one's; any other move begins with empty ones.
    pub(super) fn shares_target(&self) -> bool {
        self.tenant.is_some() && self.args.target_tables == TargetTables::Matching
    }

    /// Returns whether the move makes a table itself.
    pub(super) fn makes(&self, target: &TableName) -> bool {
        let mut tables = self.blueprint.tables.iter();
        tables.any(|table| table.target == *target && table.create.is_some())
    }

    /// Returns the tables that the move makes itself.
    pub(super) fn tables_to_make(&self) -> Vec<TableName> {
        let made = self.blueprint.tables.iter();
        let made = made.filter(|table| table.create.is_some());
        made.map(|table| table.target.clone()).collect()
    }

    /// Checks that the source's tables, and what hangs on them, are what they
    /// were when the move began, and that none came.
    pub(super) async fn check_unchanged(&self) -> Result<(), Failure> {
        let mut conn = self.core.source.connect("definition").await?;
        for part in &self.parts {
            let now = Part::read(&mut conn, &part.table.name).await?;
            let same = now.as_ref().is_some_and(|now| {
                let (now_create, create) =
                    (&now.table.create_statement, &part.table.create_statement);
                same_definition(now_create, create)
                    && now.foreign_keys == part.foreign_keys
                    && now.triggers == part.triggers
            });
            if !same {
                return Err(changed(&part.table.name));
            }
        }
        let found = read_found(&mut conn).await?;
        let sides = Sides {
            source_lower_case: self.core.source.info.lower_case_table_names,
            target_lower_case: self.core.target.info.lower_case_table_names,
            same_server: false,
        };
        let wanted = wanted(&self.args.select)?;
        let now = Selection::choose(&found, &wanted, sides).map_err(estate_problems)?;
        let new = now
            .tables
            .iter()
            .find(|chosen| self.selection.target_of(&chosen.source).is_none());
        match new {
            None => Ok(()),
            Some(new) => Err(Failure::new(
                Remedy::State,
                anyhow::anyhow!(
                    "table {} came to the source since the move began: leave it out with --exclude, or \
                     start anew with --fresh",
                    new.source.plain()
                ),
            )),
        }
    }

    /// Checks that the source's tables are what the checkpoint says.
    pub(super) fn check_begun(&self, checkpoint: &Checkpoint) -> Result<(), Failure> {
        for (part, progress) in self.parts.iter().zip(&checkpoint.tables) {
            progress
                .check_source(&part.table.create_statement)
                .map_err(|m| Failure::new(m.remedy(), m))?;
            let now = hanging(part);
            if progress.attached != now {
                return Err(changed(&part.table.name));
            }
        }
        Ok(())
    }

    /// Notes what hangs on a source table.
    pub(super) fn note_hanging(&self, progress: &mut TableProgress) {
        let part = self.parts.iter().find(|p| p.table.name == progress.source);
        progress.attached = part.map(hanging).unwrap_or_default();
    }

    /// The rows of a table that are moved.
    pub(super) fn filtered(table: &JobTable, plan: CopyPlan) -> CopyPlan {
        match table.filter(&TableName::clone) {
            Some(filter) => plan.with_filter(filter),
            None => plan,
        }
    }
}

/// Refuses a move that can't be done, and notes what stays behind of its tables.
async fn check(
    args: &MoveArgs,
    core: &Job,
    parts: &[Part],
    (source_conn, target_conn): (&mut Conn, &mut Conn),
) -> Result<(), Failure> {
    let children = facts::children(source_conn, parts).await?;
    let source = (&core.source, &mut *source_conn);
    let facts = facts::read(source, (&core.target, &mut *target_conn)).await?;
    let targets = core.tables.iter().map(|table| table.target.clone());
    let is_replica = core.primary.is_some();
    let asked = Asked {
        parts,
        targets: targets.collect(),
        marks: (is_replica || !facts.source.server.read_only).then_some(&core.marks),
        lock: args.switch.lock_source,
        watches: args.detect_foreign_writes == OnOff::On,
        is_replica,
    };
    let ends = (
        (&core.source, source_conn),
        (&core.target, &mut *target_conn),
        core.primary.as_ref(),
    );
    let pair = primary::Facts::read(ends, &asked).await?;
    let mut problems = preflight::problems(&facts, &asked);
    problems.extend(pair.problems());
    problems.extend(primary::way_back_problem(args));
    let seen = (&facts, target_conn);
    problems.extend(reverse::check(args, core, parts, seen).await?);
    refuse(&problems)?;
    let notes = preflight::notes(parts, &children).into_iter();
    for note in notes.chain(pair.notes()).chain(tenant::notes(&core.tables)) {
        tracing::warn!("{note}");
    }
    Ok(())
}

fn hanging(part: &Part) -> Attached {
    let mut attached = Attached::none();
    attached.triggers.clone_from(&part.triggers);
    attached.foreign_keys = part.foreign_keys.iter().cloned().map(Into::into).collect();
    attached
}

fn changed(table: &TableName) -> Failure {
    Failure::new(
        Remedy::State,
        anyhow::anyhow!(
            "table {} of the source, or what hangs on it, was changed by somebody since the move began: \
             start anew with --fresh",
            table.plain()
        ),
    )
}

async fn read_parts(conn: &mut Conn, selection: &Selection) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::with_capacity(selection.tables.len());
    for chosen in &selection.tables {
        let part = Part::read(conn, &chosen.source).await?;
        parts.push(part.ok_or_else(|| changed(&chosen.source))?);
    }
    Ok(parts)
}

fn tables(selection: &Selection, parts: &[Part]) -> Result<Vec<JobTable>, Failure> {
    let mut problems = Vec::new();
    let mut tables = Vec::with_capacity(parts.len());
    for (chosen, part) in selection.tables.iter().zip(parts) {
        match part.table.row_key() {
            Ok(key) => tables.push(JobTable {
                source: part.table.clone(),
                key,
                target: chosen.target.clone(),
                rows: Rows::All,
            }),
            Err(error) => problems.push(Problem {
                what: error.to_string(),
                fix: "give the table such a key, or leave it out with --exclude".to_owned(),
                remedy: Remedy::Usage,
            }),
        }
    }
    refuse(&problems)?;
    Ok(tables)
}

fn core(
    args: &MoveArgs,
    (source, target): (Site, Site),
    (tables, rows): (Vec<JobTable>, Vec<String>),
) -> Result<Job, Failure> {
    let first = tables.iter().min_by_key(|table| &table.source.name);
    let Some(first) = first else {
        return Err(Failure::usage("there is no table to move"));
    };
    let comparing = Comparing::read(&args.compare, &source.url)?;
    let compared: Vec<_> = tables.iter().map(|table| &table.source.name).collect();
    comparing.check_used(&compared)?;
    for table in &tables {
        comparing.check_table(&table.source, &table.key.columns)?;
    }
    let beside_target = ShadowNames::beside(&first.target);
    let marks = ShadowNames::beside(&first.source.name).state;
    let mut lines: Vec<String> = tables
        .iter()
        .map(|table| format!("{} to {}", table.source.name.plain(), table.target.plain()))
        .collect();
    lines.sort();
    lines.extend(rows);
    let sources = tables.iter().map(|table| table.source.name.clone());
    let identity = JobIdentity::moving(sources.collect(), lines);
    Ok(Job {
        settings: Settings {
            server: args.server.clone(),
            copy: args.copy.clone(),
            comparing,
            throttle: args.throttle.clone(),
            postpone: args.switch.postpone(),
            run: args.run.clone(),
        },
        sentinel: beside_target.sentinel,
        state: beside_target.state,
        marks,
        identity,
        in_order: true,
        source,
        primary: None,
        target,
        tables,
    })
}

/// Each problem with what removes it, as preflight tells of its own.
fn estate_problems(found: Vec<EstateProblem>) -> Failure {
    let problems: Vec<Problem> = found
        .into_iter()
        .map(|problem| Problem {
            fix: problem.fix().to_owned(),
            remedy: problem.remedy(),
            what: problem.to_string(),
        })
        .collect();
    match refuse(&problems) {
        Err(failure) => failure,
        Ok(()) => Failure::usage("the tables can't be moved"),
    }
}

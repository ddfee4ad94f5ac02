//! The command line, as typed.

mod switch;

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::switch::{Announced, CutoverMode, LockSource, SwitchArgs};
use crate::{comparing::CompareArgs, failure::Failure, verify::VerifyArgs};

/// Changes the schema of live MySQL tables, and proves that not one row
/// differs before the new table takes over.
#[derive(Debug, Parser)]
#[command(name = "oxferry", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Change a live table's schema
    Migrate(Box<MigrateArgs>),
    /// Move live tables to another server
    Move(Box<MoveArgs>),
    /// Check everything that a job would check, write nothing, and say what would happen
    Plan {
        #[command(subcommand)]
        job: PlanCommand,
    },
    /// List what jobs that ended early left behind; remove it with --execute
    Cleanup(CleanupArgs),
    /// Tell a running job what to do
    Ctl(CtlArgs),
    /// Compare the tables of two servers, and report the rows that differ
    Verify(VerifyArgs),
    /// Show the effective settings of `migrate` or `move`, and where each comes from
    Config(Box<ConfigArgs>),
}

/// What to plan.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Plan a change of a live table's schema
    Migrate(Box<MigrateArgs>),
    /// Plan a move of live tables to another server
    Move(Box<MoveArgs>),
}

/// `oxferry config`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ConfigArgs {
    /// Print the settings
    #[arg(long, required = true)]
    pub(crate) print: bool,
    #[command(flatten)]
    pub(crate) migrate: MigrateArgs,
    #[command(subcommand)]
    pub(crate) job: Option<ConfigCommand>,
}

/// Whose settings, if not those of `migrate`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the effective settings of `move`
    Move(Box<ConfigMoveArgs>),
}

/// `oxferry config move`.
#[derive(Debug, Args)]
pub(crate) struct ConfigMoveArgs {
    /// Print the settings
    #[arg(long, required = true)]
    pub(crate) print: bool,
    #[command(flatten)]
    pub(crate) moving: MoveArgs,
}

/// `oxferry migrate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// The table to change, as NAME or DATABASE.NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// What to change, as in ALTER TABLE: "ADD COLUMN note TEXT, DROP INDEX k"
    #[arg(long, value_name = "CLAUSES", allow_hyphen_values = true)]
    pub(crate) alter: Option<String>,
    /// A whole ALTER TABLE statement, instead of --table and --alter; given several times, one
    /// for each table, all tables are swapped together
    #[arg(long, value_name = "SQL", conflicts_with_all = ["table", "alter"])]
    pub(crate) statement: Vec<String>,
    /// Whether the server may change a table by itself, where it can do so at once
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) native_ddl: NativeDdl,
    #[command(flatten)]
    pub(crate) copy: CopyArgs,
    #[command(flatten)]
    pub(crate) throttle: ThrottleArgs,
    #[command(flatten)]
    pub(crate) cutover: CutoverArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// `oxferry move`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MoveArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Where the source is a replica: the server that it replicates from, to which the applications
    /// write; that one is shut at the switch
    #[arg(long, value_name = "URL")]
    pub(crate) source_primary: Option<String>,
    /// The server that the tables move to; the password is best given in
    /// `OXFERRY_TARGET_PASSWORD`
    #[arg(long, value_name = "URL")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// What may stand on the target already
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    pub(crate) target_tables: TargetTables,
    /// Whether secondary indexes are built after the rows are copied
    #[arg(long, value_name = "WHEN", default_value = "on")]
    pub(crate) defer_indexes: OnOff,
    /// How rows are written: LOAD DATA where the target allows it, else statements
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) load: LoadMode,
    /// Whether writes of others to the target's tables end the job
    #[arg(long, value_name = "ON", default_value = "on")]
    pub(crate) detect_foreign_writes: OnOff,
    #[command(flatten)]
    pub(crate) copy: CopyArgs,
    #[command(flatten)]
    pub(crate) compare: CompareArgs,
    #[command(flatten)]
    pub(crate) throttle: ThrottleArgs,
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// What to move.
#[derive(Clone, Debug, Args)]
pub(crate) struct SelectArgs {
    /// A database to take, whole; without this and --table, every user database
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Vec<String>,
    /// A table to take, as DATABASE.NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Vec<String>,
    /// A database, or a table as DATABASE.NAME, to leave out
    #[arg(long, value_name = "NAME")]
    pub(crate) exclude: Vec<String>,
    /// Another name on the target: DATABASE=DATABASE or DATABASE.NAME=DATABASE.NAME
    #[arg(long, value_name = "FROM=TO")]
    pub(crate) rename: Vec<String>,
}

/// Whose rows to move.
#[derive(Clone, Debug, Args)]
pub(crate) struct TenantArgs {
    /// Move only the rows of one tenant, by a column that tables have: an integer or a text
    #[arg(long, value_name = "COLUMN=VALUE", conflicts_with = "reverse_for")]
    pub(crate) tenant: Option<String>,
    /// A table without that column, whose rows name their owner:
    /// {table="DB.T", column="OWNER_ID", owner="DB.OWNERS", `owner_key="ID"`}; in a list `joined` in a
    /// settings file
    #[arg(long, value_name = "TABLE", requires = "tenant")]
    pub(crate) joined: Vec<String>,
    /// The table of the tenant's own row, {table="DB.TENANTS", column="ID"}, which the target gets
    /// last, while the source is shut; in a list `root` in a settings file
    #[arg(long, value_name = "TABLE", requires = "tenant")]
    pub(crate) root: Vec<String>,
    /// A table to move whole, whoever its rows belong to, as DATABASE.NAME
    #[arg(long, value_name = "NAME", requires = "tenant")]
    pub(crate) whole: Vec<String>,
}

/// Where the server is.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerArgs {
    /// The server: mysql://user@host:port/database; the password is best given in
    /// `OXFERRY_SOURCE_PASSWORD`
    #[arg(long, value_name = "URL")]
    pub(crate) source: Option<String>,
    /// A MySQL option file whose client section holds the password
    #[arg(long, value_name = "FILE")]
    pub(crate) defaults_file: Option<PathBuf>,
}

/// How to copy.
#[derive(Clone, Debug, Args)]
pub(crate) struct CopyArgs {
    /// Chunks copied or verified at once
    #[arg(long, value_name = "N", default_value = "2")]
    pub(crate) threads: NonZeroUsize,
    /// Batches of changes applied at once
    #[arg(long, value_name = "N", default_value = "2")]
    pub(crate) write_threads: NonZeroUsize,
    /// How long copying one chunk should take
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = positive)]
    pub(crate) chunk_time: Duration,
    /// How large one chunk may be, in bytes: 500K, 64M, 1G
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = size)]
    pub(crate) chunk_bytes: u64,
    /// How to show that old and new table hold the same rows
    #[arg(long, value_name = "MODE", default_value = "iterative")]
    pub(crate) verify: VerifyMode,
}

/// When to slow down.
#[derive(Clone, Debug, Args)]
pub(crate) struct ThrottleArgs {
    /// Wait while a replica is further behind than this
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive)]
    pub(crate) max_lag: Duration,
    /// A replica to watch, besides those that the server lists and that can be reached
    #[arg(long, value_name = "URL")]
    pub(crate) replica: Vec<String>,
    /// Wait while more threads than this are running on the server
    #[arg(long, value_name = "N")]
    pub(crate) max_threads_running: Option<u64>,
    /// Wait while this file exists
    #[arg(long, value_name = "FILE")]
    pub(crate) throttle_file: Option<PathBuf>,
}

/// When to take over.
#[derive(Clone, Debug, Args)]
pub(crate) struct PostponeArgs {
    /// Don't take over before the sentinel table has been dropped
    #[arg(long)]
    pub(crate) defer_cutover: bool,
    /// End, with the checkpoint kept, when the sentinel is still there after this
    #[arg(long, value_name = "TIME", default_value = "48h", value_parser = positive)]
    pub(crate) defer_cutover_limit: Duration,
}

/// How to take over.
#[derive(Clone, Debug, Args)]
pub(crate) struct CutoverArgs {
    #[command(flatten)]
    pub(crate) postpone: PostponeArgs,
    /// How long one attempt waits for the table lock; whole seconds
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = whole_seconds)]
    pub(crate) lock_wait: Duration,
    /// How long writes may be blocked before the attempt is given up
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive)]
    pub(crate) locked_max: Duration,
    /// End the sessions that hold the table lock after it has been waited for so long
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(crate) kill_blockers_after: Option<Duration>,
    /// Have foreign keys of other tables refer to the new table, under a lock on those tables too
    #[arg(long)]
    pub(crate) rebuild_foreign_keys: bool,
    /// Keep the old table instead of dropping it at the end
    #[arg(long)]
    pub(crate) keep_old_table: bool,
}

impl CutoverArgs {
    /// Checks what no option can check alone.
    ///
    /// # Errors
    ///
    /// A failure that names the values that don't go together.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let never = |after: &Duration| *after >= self.lock_wait;
        match self.kill_blockers_after.filter(never) {
            None => Ok(()),
            Some(after) => Err(Failure::usage(format!(
                "--kill-blockers-after {} would never end a session: the table lock is waited for {} \
                 (--lock-wait); give less time than that",
                humantime::format_duration(after),
                humantime::format_duration(self.lock_wait)
            ))),
        }
    }
}

/// How to run.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// Keep the checkpoint in this file; the table beside the new one then holds marks only
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Drop what an earlier run built, and start anew
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Listen for `oxferry ctl` at this socket, instead of one in the user's runtime folder
    #[arg(long, value_name = "SOCKET")]
    pub(crate) control: Option<PathBuf>,
    /// On an error, print the last checkpoint as JSON on stdout
    #[arg(long)]
    pub(crate) print_state: bool,
    #[command(flatten)]
    pub(crate) callbacks: CallbackArgs,
    /// How to log
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log: LogFormat,
    /// Don't ask before something is dropped
    #[arg(long)]
    pub(crate) yes: bool,
    /// Read settings from a TOML file; options given here win
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Whom to tell of a job.
#[derive(Clone, Debug, Args)]
pub(crate) struct CallbackArgs {
    /// A command, or an http(s) address to POST to, that is told how far the job is, as JSON
    #[arg(long, value_name = "CALL")]
    pub(crate) progress_callback: Option<String>,
    /// How often it is told
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = positive)]
    pub(crate) progress_every: Duration,
    /// The same, told once, of the error that the job ends with, and its checkpoint
    #[arg(long, value_name = "CALL")]
    pub(crate) error_callback: Option<String>,
    /// A text that callbacks are given besides
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) callback_payload: String,
    /// A header of the callbacks' POSTs: "Authorization: Bearer …"
    #[arg(long, value_name = "HEADER")]
    pub(crate) callback_header: Vec<String>,
    /// How long one call of a callback may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive)]
    pub(crate) callback_timeout: Duration,
}

/// `oxferry cleanup`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CleanupArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Look for moves from the source to this server, and on both for what they left
    #[arg(long, value_name = "URL")]
    pub(crate) target: Option<String>,
    /// The move's own, where the source is a replica
    #[arg(long, value_name = "URL", requires = "target")]
    pub(crate) source_primary: Option<String>,
    /// Only this job: the table that it was to change, as NAME or DATABASE.NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) job: Option<String>,
    /// The file that the job was told to keep its checkpoint in
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Remove what is listed
    #[arg(long)]
    pub(crate) execute: bool,
    /// How to log
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log: LogFormat,
}

/// `oxferry ctl`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(crate) struct CtlArgs {
    /// The job's name: the table that it changes, as DATABASE.NAME
    #[arg(long, value_name = "NAME", group = "which")]
    pub(crate) job: Option<String>,
    /// The socket that the job was told to listen at, by --control
    #[arg(long, value_name = "PATH", group = "which")]
    pub(crate) socket: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: CtlCommand,
}

/// What to tell a job.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CtlCommand {
    /// Print how far it is, as JSON
    Status,
    /// Begin no further chunk; changes are applied all the same
    Pause,
    /// Go on copying
    Resume,
    /// Take over as soon as everything is ready, whatever postpones it
    Cutover {
        /// Take a move back that has made its switch and was run with --reverse-for
        #[arg(long)]
        reverse: bool,
    },
    /// End at the next safe point, as by SIGTERM; the checkpoint is kept
    Abort,
    /// Change a setting: max-lag, max-threads-running
    Set {
        /// The setting, as its option takes it: max-lag=5s
        #[arg(value_name = "KEY=VALUE")]
        setting: String,
    },
}

/// Whether the server may change a table by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NativeDdl {
    /// Where only the table's description changes: INSTANT, else INPLACE
    Auto,
    /// Never: every table is copied
    Off,
}

/// What may stand on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetTables {
    /// None of the tables: the job makes them
    Refuse,
    /// Tables of the same columns, without rows
    Empty,
    /// Tables of the same columns; with --tenant they may hold the rows of others
    Matching,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    /// It is done
    On,
    /// It isn't
    Off,
}

/// How rows are written to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadMode {
    /// LOAD DATA LOCAL from memory where the target allows it
    Auto,
    /// Statements of many rows each
    Statements,
}

/// How to verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyMode {
    /// Every row, without locks, after the copy; what changes meanwhile again, the last of it under
    /// the lock
    Iterative,
    /// The same, but each row as soon as it is copied
    Inline,
    /// Every row once, while nobody can write: for so long the source is shut
    Checksum,
    /// Not at all
    Off,
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people; progress bars on a terminal
    Text,
    /// One JSON object a line
    Json,
}

pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it like 500ms, 3s, 2h"))?;
    if duration.is_zero() {
        return Err("must be more than zero".to_owned());
    }
    Ok(duration)
}

/// The server takes its lock wait in whole seconds.
fn whole_seconds(text: &str) -> Result<Duration, String> {
    let duration = positive(text)?;
    if duration.subsec_nanos() != 0 {
        return Err("the server counts lock waits in whole seconds: 1s, 3s, 10s".to_owned());
    }
    Ok(duration)
}

fn size(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.trim_end_matches(['B', 'b', 'i']) {
        t if t.ends_with(['k', 'K']) => (t.trim_end_matches(['k', 'K']), 1 << 10),
        t if t.ends_with(['m', 'M']) => (t.trim_end_matches(['m', 'M']), 1 << 20),
        t if t.ends_with(['g', 'G']) => (t.trim_end_matches(['g', 'G']), 1 << 30),
        t => (t, 1),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "write it like 500K, 64M, 1G".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert_eq!(size("512"), Ok(512));
        assert!(size("0").is_err() && size("x").is_err() && size("99999999999999G").is_err());
    }

    #[test]
    fn times_have_units_and_are_not_zero() {
        assert_eq!(positive("500ms"), Ok(Duration::from_millis(500)));
        assert!(positive("0s").is_err() && positive("5").is_err());
        assert!(whole_seconds("1500ms").is_err());
    }
}

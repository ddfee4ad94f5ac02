//! The options of a move's switch.

use std::{num::NonZeroU32, time::Duration};

use clap::{Args, ValueEnum};

use super::{PostponeArgs, positive, whole_seconds};

/// How the target takes over.
#[derive(Clone, Debug, Args)]
pub(crate) struct SwitchArgs {
    /// When: as soon as all is compared, or when the sentinel table on the target is dropped
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) cutover: CutoverMode,
    /// End, with the checkpoint kept, when the sentinel is still there after this
    #[arg(long, value_name = "TIME", default_value = "48h", value_parser = positive)]
    pub(crate) defer_cutover_limit: Duration,
    /// What shuts the applications out of the source at the switch
    #[arg(long, value_name = "HOW")]
    pub(crate) lock_source: Option<LockSource>,
    /// How long one attempt waits for the source's locks; whole seconds
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = whole_seconds)]
    pub(crate) lock_wait: Duration,
    /// How long the source may be shut before the attempt is given up
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = positive)]
    pub(crate) locked_max: Duration,
    /// A command, or an http(s) address to POST to, that stops the applications' writes
    #[arg(long, value_name = "CALL")]
    pub(crate) hook_lock_source: Option<String>,
    /// The same, to send the applications to the target
    #[arg(long, value_name = "CALL")]
    pub(crate) hook_switched: Option<String>,
    /// The same, to let the applications write again
    #[arg(long, value_name = "CALL")]
    pub(crate) hook_unlock_source: Option<String>,
    /// What hooks are given: the body of a POST, the standard input of a command
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) hook_payload: String,
    /// A header of the hooks' POSTs: "Authorization: Bearer …"
    #[arg(long, value_name = "HEADER")]
    pub(crate) hook_header: Vec<String>,
    /// How often a hook is called before it counts as failed
    #[arg(long, value_name = "N", default_value = "3")]
    pub(crate) hook_attempts: NonZeroU32,
    /// How long one call of a hook may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = positive)]
    pub(crate) hook_timeout: Duration,
    /// After the switch, keep the source up to date for so long, so that the move can be taken
    /// back: by `oxferry ctl cutover --reverse`, or by creating the table `_t_oxreverse` on the target
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(crate) reverse_for: Option<Duration>,
    /// After a run that died while it announced its switch: whether the applications are on the
    /// target by now
    #[arg(long, value_name = "WHERE")]
    pub(crate) announced: Option<Announced>,
}

impl SwitchArgs {
    /// Returns when the target takes over.
    pub(crate) const fn postpone(&self) -> PostponeArgs {
        PostponeArgs {
            defer_cutover: matches!(self.cutover, CutoverMode::Manual),
            defer_cutover_limit: self.defer_cutover_limit,
        }
    }
}

/// When the target takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CutoverMode {
    /// As soon as everything is compared
    Auto,
    /// When the sentinel table has been dropped
    Manual,
}

/// Where the applications are after a switch that nobody knows the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Announced {
    /// They use the target: the move is only cleaned up
    Target,
    /// They use the source: what shut it is undone, and the move goes on
    Source,
}

/// What shuts the applications out of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LockSource {
    /// Nothing: somebody else sees to it that nobody writes any more
    None,
    /// The whole source server becomes read-only, and stays so
    ReadOnly,
    /// LOCK TABLES until the switch was announced
    LockTables,
    /// The source's tables are renamed, and stay so
    Rename,
    /// The hook lock-source
    Hook,
}

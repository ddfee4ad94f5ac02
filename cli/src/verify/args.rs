//! The options of `oxferry verify`.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Args;

use crate::{
    args::{LogFormat, SelectArgs, ServerArgs, positive},
    comparing::CompareArgs,
};

/// `oxferry verify`.
#[derive(Clone, Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// The other server: mysql://user@host:port; the password is best given in
    /// `OXFERRY_TARGET_PASSWORD`
    #[arg(long, value_name = "URL")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) compare: CompareArgs,
    /// Ranges compared at once
    #[arg(long, value_name = "N", default_value = "2")]
    pub(crate) threads: NonZeroUsize,
    /// How long rows that differ are looked at again: time for what is still on its way
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = positive)]
    pub(crate) recheck_for: Duration,
    /// Make the target's rows that differ the source's, and compare them again
    #[arg(long)]
    pub(crate) repair: bool,
    /// Keep in this file what was compared, so that the same command goes on after it was killed
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// How to log, and to report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log: LogFormat,
}

//! The options that every job has.

use crate::{
    args::{CopyArgs, PostponeArgs, RunArgs, ServerArgs, ThrottleArgs},
    comparing::Comparing,
};

/// The options that every job has.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The source, whose login replicas have too.
    pub(crate) server: ServerArgs,
    pub(crate) copy: CopyArgs,
    pub(crate) comparing: Comparing,
    pub(crate) throttle: ThrottleArgs,
    pub(crate) postpone: PostponeArgs,
    pub(crate) run: RunArgs,
}

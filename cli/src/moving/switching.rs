//! How the switch is made, as the options say.

use oxferry_cutover::{Hook, HookFailure, Hooks, SourceLock, SwitchError, SwitchPlan};
use oxferry_schema::{Remedy, TableName};

use crate::{
    args::{LockSource, SwitchArgs},
    failure::{Failure, remedied},
};

remedied!(SwitchError);

/// Checks the options that need no server.
///
/// # Errors
///
/// As [`plan`].
pub(super) fn check(args: &SwitchArgs) -> Result<(), Failure> {
    let any = oxferry_schema::Ident::new("t").map_err(|e| Failure::new(Remedy::Bug, e))?;
    plan(args, &[TableName::new(any.clone(), any)]).map(drop)
}

/// Plans the switch of `tables`, the source's.
///
/// # Errors
///
/// A failure that says which option is missing or can't be read.
pub(super) fn plan(args: &SwitchArgs, tables: &[TableName]) -> Result<SwitchPlan, Failure> {
    let lock = match args.lock_source {
        Some(LockSource::None) => SourceLock::None,
        Some(LockSource::ReadOnly) => SourceLock::ReadOnly,
        Some(LockSource::LockTables) => SourceLock::LockTables,
        Some(LockSource::Rename) => SourceLock::Rename,
        Some(LockSource::Hook) => SourceLock::Hook,
        None => {
            return Err(Failure::usage(
                "say what shuts the applications out of the source at the switch: --lock-source read-only, \
                 lock-tables, rename or hook; or none, if somebody else sees to it",
            ));
        }
    };
    let Some((first, rest)) = tables.split_first() else {
        return Err(Failure::usage("there is no table to move"));
    };
    let hooks = hooks(args)?;
    if lock == SourceLock::LockTables && hooks.switched.is_none() {
        return Err(Failure::usage(
            "the locks of --lock-source lock-tables end with the switch, and whoever waits for them would write to \
             the source again: give --hook-switched, which sends the applications to the target meanwhile",
        ));
    }
    let plan = SwitchPlan::new(first.clone(), lock);
    let plan = rest.iter().cloned().fold(plan, SwitchPlan::with_table);
    let plan = plan
        .with_hooks(hooks)
        .with_lock_wait(args.lock_wait)
        .with_finish_max(args.locked_max);
    plan.check()?;
    Ok(plan)
}

fn hooks(args: &SwitchArgs) -> Result<Hooks, Failure> {
    let hook = |text: &Option<String>, option: &str| {
        let parsed = text.as_deref().map(|text| one(text, args)).transpose();
        parsed.map_err(|error| {
            Failure::new(Remedy::Usage, error).context(format!("reading {option}"))
        })
    };
    Ok(Hooks {
        lock_source: hook(&args.hook_lock_source, "--hook-lock-source")?,
        switched: hook(&args.hook_switched, "--hook-switched")?,
        unlock_source: hook(&args.hook_unlock_source, "--hook-unlock-source")?,
    })
}

fn one(text: &str, args: &SwitchArgs) -> Result<Hook, HookFailure> {
    let mut hook = Hook::parse(text)?;
    let pause = hook.pause;
    hook = hook.with_payload(args.hook_payload.clone()).with_limits(
        args.hook_attempts,
        args.hook_timeout,
        pause,
    );
    for header in &args.hook_header {
        hook = hook.with_header(header)?;
    }
    Ok(hook)
}

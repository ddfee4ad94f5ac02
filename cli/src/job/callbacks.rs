//! Telling others of a job: how far it is, and the error that it ends with.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use oxferry_copier::pipeline::{Handle, Progress as Reached};
use oxferry_cutover::{Hook, HookError, HookFailure, HookName};
use oxferry_schema::Remedy;
use serde_json::{Value, json};

use super::{
    Job,
    checkpoint::{Saver, print_state},
    progress::{Progress, Rate, Snapshot},
};
use crate::{
    args::{CallbackArgs, RunArgs},
    failure::{Failure, advice, exit_code},
};

/// How often it is tried to tell of an error: the process ends after it.
const ERROR_ATTEMPTS: NonZeroU32 = NonZeroU32::new(3).expect("3 is not zero");

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// How often it is logged that nobody takes the progress.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// How long the copy may take to say what each table has; it is left out then.
const TABLES_MAX: Duration = Duration::from_secs(5);

/// Checks the options.
///
/// # Errors
///
/// A failure that names the option that can't be read.
pub(crate) fn check_callbacks(args: &CallbackArgs) -> Result<(), Failure> {
    progress_hook(args)?;
    error_hook(args).map(drop)
}

fn progress_hook(args: &CallbackArgs) -> Result<Option<Hook>, Failure> {
    let call = args.progress_callback.as_deref();
    hook(call, args, NonZeroU32::MIN).map_err(|error| unreadable(error, "--progress-callback"))
}

fn error_hook(args: &CallbackArgs) -> Result<Option<Hook>, Failure> {
    let call = args.error_callback.as_deref();
    hook(call, args, ERROR_ATTEMPTS).map_err(|error| unreadable(error, "--error-callback"))
}

fn unreadable(error: HookFailure, option: &'static str) -> Failure {
    Failure::new(Remedy::Usage, error).context(format!("reading {option}"))
}

fn hook(
    call: Option<&str>,
    args: &CallbackArgs,
    attempts: NonZeroU32,
) -> Result<Option<Hook>, HookFailure> {
    let Some(call) = call else { return Ok(None) };
    let mut hook = Hook::parse(call)?.with_limits(attempts, args.callback_timeout, PAUSE);
    for header in &args.callback_header {
        hook = hook.with_header(header)?;
    }
    Ok(Some(hook))
}

/// Ends a run that noted its progress in `saver`: prints the checkpoint where
/// that is asked for, and tells the error callback.
pub(crate) async fn ended(
    args: &RunArgs,
    job: &str,
    saver: &Saver,
    outcome: Result<(), Failure>,
) -> Result<(), Failure> {
    let Err(failure) = outcome else { return Ok(()) };
    if args.print_state {
        print_state(saver).await;
    }
    if args.callbacks.error_callback.is_some() {
        let state = match saver.to_json().await {
            Ok(json) => serde_json::from_str(&json).unwrap_or(Value::Null),
            Err(unwritten) => {
                tracing::warn!("the checkpoint can't be told: {}", unwritten.line());
                Value::Null
            }
        };
        tell(&args.callbacks, Some(job), &failure, state).await;
    }
    Err(failure.told())
}

/// Ends a run: an error that nobody was told of, since there was nothing to
/// resume yet, is told now.
pub(crate) async fn ended_early(
    args: &CallbackArgs,
    outcome: Result<(), Failure>,
) -> Result<(), Failure> {
    if let Err(failure) = &outcome
        && !failure.is_told()
    {
        tell(args, None, failure, Value::Null).await;
    }
    outcome
}

/// Tells the error callback, and waits for its answer, within its limits.
async fn tell(args: &CallbackArgs, job: Option<&str>, failure: &Failure, state: Value) {
    let told = match error_hook(args) {
        Ok(None) => return,
        Ok(Some(hook)) => {
            let body = error_body(args, job, failure, state);
            hook.with_payload(body.to_string())
                .run(HookName::Error)
                .await
        }
        Err(unread) => return tracing::warn!("nobody is told of the error: {}", unread.line()),
    };
    if let Err(error) = told {
        tracing::warn!("nobody is told of the error: {}", line(error));
    }
}

fn error_body(args: &CallbackArgs, job: Option<&str>, failure: &Failure, state: Value) -> Value {
    json!({
        "event": "error",
        "job": job,
        "cause": failure.line(),
        "advice": advice(failure.remedy()),
        "exit_code": exit_code(failure.remedy()),
        "state": state,
        "payload": args.callback_payload,
    })
}

/// Tells the progress callback for as long as it is polled; ends only where the
/// option can't be read.
///
/// One call at a time, each within its limits, beside the job's work: one that
/// fails or hangs costs the next one its turn, and nothing else.
pub(crate) async fn keep_telling(
    job: &Job,
    handle: &Handle,
    progress: &Progress,
    look: impl Fn() -> Snapshot + Send + Sync,
) -> Failure {
    let args = &job.settings.run.callbacks;
    let hook = match progress_hook(args) {
        Ok(Some(hook)) => hook,
        Ok(None) => return std::future::pending().await,
        Err(failure) => return failure,
    };
    let mut rate = Rate::new();
    let mut logged: Option<Instant> = None;
    let mut ticks = tokio::time::interval(args.progress_every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let reached = tokio::time::timeout(TABLES_MAX, handle.progress()).await;
        let reached = reached.ok().and_then(Result::ok);
        let mut body = progress.report(&look(), &mut rate);
        if let Some(fields) = body.as_object_mut() {
            fields.insert("event".to_owned(), json!("progress"));
            fields.insert("job".to_owned(), json!(job.identity.name));
            fields.insert("tables".to_owned(), tables(job, reached.as_ref()));
            fields.insert("payload".to_owned(), json!(args.callback_payload));
        }
        let calling = hook.clone().with_payload(body.to_string());
        let Err(error) = calling.run(HookName::Progress).await else {
            continue;
        };
        if logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            logged = Some(Instant::now());
            tracing::warn!("nobody takes the progress: {}", line(error));
        }
    }
}

fn line(error: HookError) -> String {
    Failure::new(error.remedy(), error).line()
}

/// What each table has; an empty list where the copy doesn't say.
fn tables(job: &Job, reached: Option<&Reached>) -> Value {
    let reached = reached.map_or(&[][..], |reached| &reached.tables);
    let tables = job.tables.iter().zip(reached);
    let tables = tables.map(|(table, reached)| {
        json!({
            "table": table.source.name.plain(),
            "target": table.target.plain(),
            "rows_copied": reached.rows_copied,
            "rows_about": table.source.row_estimate,
            "changes_applied": reached.changes_applied,
        })
    });
    Value::Array(tables.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> CallbackArgs {
        CallbackArgs {
            progress_callback: None,
            progress_every: Duration::from_secs(30),
            error_callback: None,
            callback_payload: "mine".to_owned(),
            callback_header: Vec::new(),
            callback_timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn a_callback_that_cannot_be_read_is_refused_with_its_option() {
        let open = Some("'open".to_owned());
        let (mut progress, mut error) = (args(), args());
        progress.progress_callback.clone_from(&open);
        error.error_callback = open;
        for (args, option) in [
            (progress, "--progress-callback"),
            (error, "--error-callback"),
        ] {
            let refused = check_callbacks(&args).unwrap_err();
            assert_eq!(refused.remedy(), Remedy::Usage);
            assert!(refused.line().contains(option), "{}", refused.line());
        }
        assert!(check_callbacks(&args()).is_ok());
    }

    #[test]
    fn an_error_is_told_with_its_cause_its_code_and_the_state() {
        let failure = Failure::new(Remedy::Retry, anyhow::anyhow!("gone"));
        let body = error_body(&args(), Some("d.t"), &failure, json!({ "format": 2 }));
        assert_eq!(body["cause"], "gone");
        assert_eq!(body["exit_code"], 75);
        assert_eq!(body["state"]["format"], 2);
        assert_eq!(
            (&body["job"], &body["payload"]),
            (&json!("d.t"), &json!("mine"))
        );
    }
}

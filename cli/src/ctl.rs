//! `oxferry ctl`: tells a running job what to do.

use std::{io, path::Path, path::PathBuf, time::Duration};

use oxferry_schema::Remedy;
use serde_json::Value;
use tokio::{io::AsyncWriteExt, net::UnixStream, time::timeout};

use crate::{
    args::{CtlArgs, CtlCommand},
    control::{self, Answer, Request},
    failure::Failure,
};

/// How long a job may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Asks the job, and returns what to print.
///
/// # Errors
///
/// A failure: the job isn't there, or refuses.
pub(crate) async fn run(args: &CtlArgs) -> Result<String, Failure> {
    let request = request(&args.command)?;
    let said = call(&socket(args)?, &request).await?;
    Ok(match said {
        Value::String(text) => text,
        other => serde_json::to_string_pretty(&other).unwrap_or_default(),
    })
}

fn request(command: &CtlCommand) -> Result<Request, Failure> {
    Ok(match command {
        CtlCommand::Status => Request::Status,
        CtlCommand::Pause => Request::Pause,
        CtlCommand::Resume => Request::Resume,
        CtlCommand::Cutover { reverse } => Request::Cutover { reverse: *reverse },
        CtlCommand::Abort => Request::Abort,
        CtlCommand::Set { setting } => {
            let (key, value) = setting.split_once('=').ok_or_else(|| {
                Failure::usage(format!("set {setting:?}: write it like max-lag=5s"))
            })?;
            Request::Set {
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
            }
        }
    })
}

fn socket(args: &CtlArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = &args.socket {
        return Ok(path.clone());
    }
    let job = args.job.as_deref().unwrap_or_default();
    control::socket_of(job).ok_or_else(|| {
        Failure::usage(
            "find the job's control socket: XDG_RUNTIME_DIR names no folder of this user's own; \
             give --control to the job, and --socket here",
        )
    })
}

/// Asks the job that listens at `path`.
pub(crate) async fn call(path: &Path, request: &Request) -> Result<Value, Failure> {
    let attempted = format!("asking the job at {}", path.display());
    let asking = ask(path, request);
    let answer = match timeout(ANSWER_MAX, asking).await {
        Ok(answer) => answer.map_err(|failure| failure.context(attempted.clone()))?,
        Err(_) => {
            let why = anyhow::anyhow!("no answer within {} s", ANSWER_MAX.as_secs());
            return Err(Failure::new(Remedy::Unreachable, why).context(attempted));
        }
    };
    match answer {
        Answer::Done(said) => Ok(said),
        Answer::Refused(why) => Err(Failure::usage(why).context("the job refuses")),
    }
}

async fn ask(path: &Path, request: &Request) -> Result<Answer, Failure> {
    let mut wire = UnixStream::connect(path).await.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "no job listens there",
            _ => "it can't be reached",
        };
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied => Remedy::Privileges,
            _ => Remedy::Unreachable,
        };
        Failure::new(remedy, error).context(why)
    })?;
    let broken = |error: io::Error| {
        Failure::new(Remedy::Unreachable, error).context("the job broke the call off")
    };
    wire.write_all(&control::line(request))
        .await
        .map_err(broken)?;
    let line = control::read_line(&mut wire).await.map_err(broken)?;
    serde_json::from_slice(&line).map_err(|error| {
        Failure::new(Remedy::Usage, error).context("it is no oxferry that answers")
    })
}

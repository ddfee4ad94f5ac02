//! A hook that is a command.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, Command},
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{Direction, Hook, HookFailure, HookName, READ_MAX, excerpt};

/// Runs the command once.
pub(super) async fn run(words: &[String], hook: &Hook, name: HookName) -> Result<(), HookFailure> {
    let mut running = start(words, (name, hook.direction))?;
    let ended = timeout(hook.timeout, running.talk(&hook.payload)).await;
    let (status, said) = match ended {
        Ok(ended) => ended.map_err(|error| HookFailure::Lost {
            why: error.to_string(),
        })?,
        Err(_) => {
            return Err(HookFailure::TimedOut {
                waited: hook.timeout,
            });
        }
    };
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(HookFailure::Refused {
            answer: format!("exit code {code}"),
            said: excerpt(&said),
        }),
        None => Err(HookFailure::Lost {
            why: status.to_string(),
        }),
    }
}

/// A command under way; it and what it started are killed when this is dropped.
struct Running {
    child: Child,
    group: Option<Pid>,
}

fn start(
    words: &[String],
    (name, direction): (HookName, Direction),
) -> Result<Running, HookFailure> {
    let (program, arguments) = words.split_first().ok_or_else(|| HookFailure::Unreadable {
        why: "there is no program in it".into(),
    })?;
    let child = Command::new(program)
        .args(arguments)
        .env("OXFERRY_HOOK", name.as_str())
        .env("OXFERRY_DIRECTION", direction.as_str())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(HookFailure::NotStarted)?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    Ok(Running {
        child,
        group: id.map(Pid::from_raw),
    })
}

impl Running {
    /// Passes on the payload, and waits for the end.
    async fn talk(&mut self, payload: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
        let stdin = self.child.stdin.take();
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let mut said = (Vec::new(), Vec::new());
        let (ended, has_ended) = oneshot::channel::<()>();
        let waiting = async {
            let status = self.child.wait().await;
            drop(ended);
            status
        };
        let (said_out, said_err) = (&mut said.0, &mut said.1);
        let talking = async {
            tokio::join!(
                pass(stdin, payload),
                listen(out, said_out),
                listen(err, said_err)
            );
        };
        // What it started may hold its output open for ever.
        let long_enough = async {
            let _ended = has_ended.await;
            sleep(LISTEN_AFTER).await;
        };
        let talked = async {
            tokio::select! {
                () = talking => {}
                () = long_enough => {}
            }
        };
        let (status, ()) = tokio::join!(waiting, talked);
        self.group = None;
        let (out, err) = said;
        Ok((status?, if err.is_empty() { out } else { err }))
    }
}

/// Writes the payload; a command that doesn't read it has closed its end.
async fn pass(stdin: Option<ChildStdin>, payload: &str) {
    let Some(mut stdin) = stdin else { return };
    if let Err(error) = stdin.write_all(payload.as_bytes()).await {
        tracing::debug!(%error, "a hook did not read its payload");
    }
}

/// Reads to the end, and keeps the beginning.
async fn listen(from: Option<impl AsyncRead + Unpin>, said: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let kept = (&mut from).take(READ_MAX).read_to_end(said).await;
    let rest = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    if let Err(error) = kept.and(rest) {
        tracing::debug!(%error, "what a hook said is lost");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            match killpg(group, Signal::SIGKILL) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => tracing::warn!(%error, "a hook's processes are not ended"),
            }
        }
    }
}

/// How long the output of a command that has ended is listened to.
const LISTEN_AFTER: Duration = Duration::from_millis(200);

//! The socket that a job listens on.

use std::{
    convert::Infallible,
    io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use oxferry_schema::Remedy;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    Answer, Request,
    protocol::{self, LINE_BYTES_MAX},
};
use crate::failure::Failure;

/// A socket; its file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// The file's device and number, and its owner.
    file: (u64, u64),
    owner: u32,
    call_max: Duration,
}

impl Control {
    /// Listens at `path`; a file that a dead job has left there is replaced.
    ///
    /// # Errors
    ///
    /// A failure that names the path: a job listens there, something else than a
    /// socket is there, or the system refuses.
    pub(crate) async fn open(path: &Path) -> Result<Self, Failure> {
        let attempted = format!("listening on the control socket {}", path.display());
        let failed =
            |error: io::Error| Failure::new(Remedy::Usage, error).context(attempted.clone());
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_dead(path)
                    .await
                    .map_err(|f| f.context(attempted.clone()))?;
                UnixListener::bind(path).map_err(failed)?
            }
            other => other.map_err(failed)?,
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let seen = std::fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            file: (seen.dev(), seen.ino()),
            owner: seen.uid(),
            call_max: CALL_MAX,
        })
    }

    /// Answers whoever asks, for as long as it is polled.
    pub(crate) async fn serve(
        &self,
        answer: impl Fn(Request) -> Answer + Clone + Send + Sync + 'static,
    ) -> Infallible {
        let mut clients = JoinSet::new();
        loop {
            while clients.len() >= CLIENTS_MAX {
                clients.join_next().await;
            }
            tokio::select! {
                Some(_ended) = clients.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((client, _)) if self.may_use(&client) => {
                        clients.spawn(talk(client, self.call_max, answer.clone()));
                    }
                    Ok(_) => tracing::warn!("the control socket was called by another user"),
                    Err(error) => {
                        tracing::warn!(%error, "the control socket takes no call");
                        sleep(AFTER_ERROR).await;
                    }
                },
            }
        }
    }

    /// The file's mode keeps others out, but for the moment before it is set.
    fn may_use(&self, client: &UnixStream) -> bool {
        let caller = client.peer_cred().map(|caller| caller.uid());
        caller.is_ok_and(|uid| uid == self.owner || uid == 0)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|seen| (seen.dev(), seen.ino()) == self.file);
        if ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "the control socket's file stays");
        }
    }
}

/// Removes a socket on which nobody listens.
async fn remove_dead(path: &Path) -> Result<(), Failure> {
    let refused = |why: &str| Failure::usage(format!("{why}; give another path by --control"));
    let seen = std::fs::symlink_metadata(path);
    if !seen.is_ok_and(|seen| seen.file_type().is_socket()) {
        return Err(refused("something else is there"));
    }
    match timeout(CALL_MAX, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Ok(Ok(_)) | Err(_) => return Err(refused("another job listens there")),
        Ok(Err(error)) => return Err(Failure::new(Remedy::Usage, error)),
    }
    std::fs::remove_file(path).map_err(|error| Failure::new(Remedy::Usage, error))
}

/// One call: one line, one answer.
async fn talk(mut client: UnixStream, limit: Duration, answer: impl Fn(Request) -> Answer) {
    let said = async {
        let request = read_line(&mut client).await?;
        let answer = match serde_json::from_slice(&request) {
            Ok(request) => {
                tracing::info!(?request, "asked by the control socket");
                answer(request)
            }
            Err(error) => Answer::Refused(format!("this is no request: {error}")),
        };
        client.write_all(&protocol::line(&answer)).await
    };
    match timeout(limit, said).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a call of the control socket broke off"),
        Err(_) => tracing::debug!("a call of the control socket took too long"),
    }
}

/// Reads one line of bounded length.
pub(crate) async fn read_line(from: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let most = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
    BufReader::new(from.take(most))
        .read_until(b'\n', &mut line)
        .await?;
    match line.last() {
        Some(b'\n') => Ok(line),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the line has no end, or is too long",
        )),
    }
}

/// Calls at once; more wait.
const CLIENTS_MAX: usize = 8;
/// How long one call may take: an answer needs no server.
const CALL_MAX: Duration = Duration::from_secs(5);
const AFTER_ERROR: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.sock");
        (folder, path)
    }

    /// A job that says which request it got.
    async fn toy(control: &Control, meanwhile: impl Future<Output = ()>) {
        let answer = |request: Request| match request {
            Request::Abort => Answer::Refused("not now".into()),
            other => Answer::said(format!("{other:?}")),
        };
        tokio::select! {
            never = control.serve(answer) => match never {},
            () = meanwhile => {}
        }
    }

    #[tokio::test]
    async fn a_job_answers_until_it_ends_and_its_file_goes_with_it() {
        let (_folder, path) = place();
        let control = Control::open(&path).await.unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        toy(&control, async {
            let said = ctl::call(&path, &Request::Pause).await.unwrap();
            assert_eq!(said, "Pause");
            let refused = ctl::call(&path, &Request::Abort).await.unwrap_err();
            assert_eq!(refused.remedy(), Remedy::Usage);
            assert!(refused.line().contains("not now"), "{}", refused.line());
        })
        .await;
        drop(control);
        assert!(!path.exists());
        let gone = ctl::call(&path, &Request::Status).await.unwrap_err();
        assert_eq!(gone.remedy(), Remedy::Unreachable);
    }

    #[tokio::test]
    async fn the_socket_of_a_dead_job_is_replaced_and_a_live_ones_is_not() {
        let (_folder, path) = place();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let dead = ctl::call(&path, &Request::Status).await.unwrap_err();
        assert_eq!(dead.remedy(), Remedy::Unreachable);
        let control = Control::open(&path).await.unwrap();
        toy(&control, async {
            let second = Control::open(&path).await.unwrap_err();
            assert!(
                second.line().contains("another job listens"),
                "{}",
                second.line()
            );
            ctl::call(&path, &Request::Status).await.unwrap();
        })
        .await;
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let (_folder, path) = place();
        std::fs::write(&path, "precious").unwrap();
        Control::open(&path).await.unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn nonsense_is_refused_and_an_endless_line_is_not_read() {
        let (_folder, path) = place();
        let control = Control::open(&path).await.unwrap();
        toy(&control, async {
            let mut client = UnixStream::connect(&path).await.unwrap();
            client.write_all(b"hello\n").await.unwrap();
            let line = read_line(&mut client).await.unwrap();
            assert!(line.starts_with(b"{\"refused\":"));
            let mut endless = UnixStream::connect(&path).await.unwrap();
            let bytes = vec![b'x'; 2 * LINE_BYTES_MAX];
            // The other end may close before all is written.
            let _written = endless.write_all(&bytes).await;
            read_line(&mut endless).await.unwrap_err();
        })
        .await;
    }

    #[tokio::test]
    async fn callers_that_say_nothing_keep_nobody_out_for_long() {
        let (_folder, path) = place();
        let mut control = Control::open(&path).await.unwrap();
        control.call_max = Duration::from_millis(50);
        toy(&control, async {
            let mut silent = Vec::new();
            for _ in 0..2 * CLIENTS_MAX {
                silent.push(UnixStream::connect(&path).await.unwrap());
            }
            let mut client = UnixStream::connect(&path).await.unwrap();
            client
                .write_all(b"{\"command\":\"status\"}\n")
                .await
                .unwrap();
            read_line(&mut client).await.unwrap();
        })
        .await;
    }
}

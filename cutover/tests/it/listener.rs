//! An address that hooks call.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use oxferry_cutover::Hook;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use crate::mover::Told;

/// How a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// By this status.
    Status(u16),
    /// Never.
    Silence,
    /// By closing the connection.
    Close,
}

/// Listens, and answers each path's calls by its script, in the end with 200.
pub(crate) struct Listener {
    port: u16,
    task: JoinHandle<()>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    /// `script` is for calls of `path`; a call of `/switched` that is answered with
    /// 200 stops the writers first.
    pub(crate) async fn start(path: &str, script: &[Answer], writers: Option<Arc<Told>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&heard);
        let path = path.to_owned();
        let mut script: VecDeque<_> = script.iter().copied().collect();
        let task = tokio::spawn(async move {
            let mut silent = Vec::new();
            loop {
                let (mut wire, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; 65536];
                let mut length = 0;
                let head = loop {
                    length += wire.read(&mut bytes[length..]).await.unwrap();
                    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                    if text.ends_with("PAYLOAD") {
                        break text;
                    }
                };
                let called = head.split(' ').nth(1).unwrap().to_owned();
                noted.lock().unwrap().push(head);
                let next = (called == path).then(|| script.pop_front()).flatten();
                let status = match next.unwrap_or(Answer::Status(200)) {
                    Answer::Status(status) => status,
                    Answer::Close => continue,
                    Answer::Silence => {
                        silent.push(wire);
                        continue;
                    }
                };
                if let (200, "/switched", Some(writers)) = (status, called.as_str(), &writers) {
                    writers.all_stop().await;
                }
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nno");
                wire.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Self { port, task, heard }
    }

    /// A hook that calls `path`, twice at most, with a short limit.
    pub(crate) fn hook(&self, path: &str) -> Hook {
        let url = format!("http://me:secret@127.0.0.1:{}{path}", self.port);
        let short = std::time::Duration::from_millis(500);
        let pause = std::time::Duration::from_millis(1);
        let limit = if path == "/switched" {
            short * 20
        } else {
            short
        };
        Hook::parse(&url)
            .unwrap()
            .with_payload("PAYLOAD")
            .with_limits(2.try_into().unwrap(), limit, pause)
    }

    /// The paths that were called, in order.
    pub(crate) fn paths(&self) -> Vec<String> {
        let path = |head: &String| head.split(' ').nth(1).unwrap().to_owned();
        self.heard.lock().unwrap().iter().map(path).collect()
    }

    /// The whole calls.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

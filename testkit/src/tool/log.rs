//! What a child process has printed so far, and waiting for more.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    sync::watch,
    task::JoinHandle,
};

/// One line that the child printed.
#[derive(Debug, Clone)]
pub struct Line {
    /// When it was read.
    pub at: Instant,
    /// The line without its end and without terminal colours.
    pub text: String,
}

/// A growing list of lines, shared between its readers and those who wait.
#[derive(Debug, Clone)]
pub(super) struct Log {
    lines: Arc<Mutex<Vec<Line>>>,
    /// How many lines there are; whoever waits is woken when it changes.
    count: Arc<watch::Sender<usize>>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            lines: Arc::default(),
            count: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Reads `source` to its end in a task of its own.
    pub(super) fn read(&self, source: impl AsyncRead + Unpin + Send + 'static) -> JoinHandle<()> {
        let log = self.clone();
        tokio::spawn(async move {
            let mut reader = BufReader::new(source);
            let mut bytes = Vec::new();
            while let Ok(1..) = reader.read_until(b'\n', &mut bytes).await {
                log.push(&String::from_utf8_lossy(&bytes));
                bytes.clear();
            }
        })
    }

    fn push(&self, raw: &str) {
        let line = Line {
            at: Instant::now(),
            text: plain(raw.trim_end()),
        };
        let mut lines = self.lock();
        lines.push(line);
        self.count.send_replace(lines.len());
    }

    /// A receiver that is told about every line from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// The first line at or after `from` that `matches` accepts.
    pub(super) fn find(&self, from: usize, matches: impl Fn(&str) -> bool) -> Option<Line> {
        self.lock()
            .iter()
            .skip(from)
            .find(|line| matches(&line.text))
            .cloned()
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        self.lock().clone()
    }

    pub(super) fn text(&self) -> String {
        let lines = self.lock();
        lines
            .iter()
            .map(|line| &*line.text)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a line of the text or JSON log announces phase `name`.
pub(super) fn announces(line: &str, name: &str) -> bool {
    let word =
        |word: &str| word.trim_matches(',').strip_prefix("phase=").map(unquoted) == Some(name);
    line.split_whitespace().any(word) || line.contains(&format!("\"phase\":\"{name}\""))
}

fn unquoted(value: &str) -> &str {
    value.trim_matches('"')
}

/// The text without ANSI escape sequences (`ESC [ … letter`).
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(part.len(), |at| at + 1);
        all.push_str(part.get(end..).unwrap_or_default());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_a_whole_word() {
        assert!(announces("2026-01-01 INFO phase=copy rows=1", "copy"));
        assert!(announces("INFO phase=\"catch-up\", lag=1", "catch-up"));
        assert!(announces(r#"{"level":"INFO","phase":"copy"}"#, "copy"));
        assert!(!announces("INFO phase=copying", "copy"));
        assert!(!announces("INFO subphase=copy", "copy"));
    }

    #[test]
    fn colours_are_taken_out() {
        assert_eq!(
            plain("\u{1b}[2m10:00\u{1b}[0m \u{1b}[32mINFO\u{1b}[0m x"),
            "10:00 INFO x"
        );
        assert_eq!(plain("as it is"), "as it is");
    }

    #[tokio::test]
    async fn lines_are_kept_in_order_with_a_time_each() {
        let log = Log::new();
        log.read(&b"one\ntwo\nlast without end"[..]).await.unwrap();
        assert_eq!(log.text(), "one\ntwo\nlast without end");
        let lines = log.lines();
        assert!(lines[0].at <= lines[2].at);
        assert!(log.find(1, |line| line == "one").is_none());
    }
}

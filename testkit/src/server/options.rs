//! What a test may wish of its server.

use std::time::Duration;

/// `binlog_format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BinlogFormat {
    /// Row images, the server's default.
    Row,
    /// Rows or statements, as the server likes.
    Mixed,
    /// Statements alone.
    Statement,
}

/// `binlog_row_image`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowImage {
    /// Every column before and after, the server's default.
    Full,
    /// The key before, the changed columns after.
    Minimal,
    /// As full, without BLOB and TEXT columns that didn't change.
    Noblob,
}

/// Options of a [`Server`](super::Server), to be chained.
///
/// The defaults are a small and fast server with GTIDs and full row images.
/// Commits survive a `kill -9` of the server, not a loss of power.
#[derive(Debug, Clone)]
#[must_use]
pub struct ServerOptions {
    gtid: bool,
    binary_log: bool,
    format: BinlogFormat,
    row_image: RowImage,
    order_commits: bool,
    read_only: bool,
    max_binlog_size: Option<u64>,
    semi_sync: Option<Duration>,
    buffer_pool: u64,
    redo_log: u64,
    pub(super) port: Option<u16>,
    extra: Vec<String>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            gtid: true,
            binary_log: true,
            format: BinlogFormat::Row,
            row_image: RowImage::Full,
            order_commits: true,
            read_only: false,
            max_binlog_size: None,
            semi_sync: None,
            buffer_pool: 64 << 20,
            redo_log: 128 << 20,
            port: None,
            extra: Vec::new(),
        }
    }
}

impl ServerOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether transactions get GTIDs.
    pub fn gtid(mut self, on: bool) -> Self {
        self.gtid = on;
        self
    }

    /// Whether there is a binary log at all.
    pub fn binary_log(mut self, on: bool) -> Self {
        self.binary_log = on;
        self
    }

    /// `binlog_format`.
    pub fn binlog_format(mut self, format: BinlogFormat) -> Self {
        self.format = format;
        self
    }

    /// `binlog_row_image`.
    pub fn row_image(mut self, image: RowImage) -> Self {
        self.row_image = image;
        self
    }

    /// `binlog_order_commits`.
    pub fn binlog_order_commits(mut self, on: bool) -> Self {
        self.order_commits = on;
        self
    }

    /// `read_only`; `root` may still write.
    pub fn read_only(mut self, on: bool) -> Self {
        self.read_only = on;
        self
    }

    /// `max_binlog_size` in bytes; 4096 is the least that the server takes.
    pub fn max_binlog_size(mut self, bytes: u64) -> Self {
        self.max_binlog_size = Some(bytes);
        self
    }

    /// Makes it a semi-synchronous source that waits up to `timeout` for a
    /// replica that doesn't exist.
    ///
    /// While it waits, a transaction stands in the binary log but is not
    /// visible to anybody. After one time-out the server gives up waiting
    /// until [`Server::rearm_semi_sync`](super::Server::rearm_semi_sync).
    pub fn semi_sync(mut self, timeout: Duration) -> Self {
        self.semi_sync = Some(timeout);
        self
    }

    /// `innodb_buffer_pool_size` in bytes.
    pub fn buffer_pool(mut self, bytes: u64) -> Self {
        self.buffer_pool = bytes;
        self
    }

    /// `innodb_redo_log_capacity` in bytes.
    pub fn redo_log(mut self, bytes: u64) -> Self {
        self.redo_log = bytes;
        self
    }

    /// This port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// One more argument for `mysqld`; it wins over all others.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.extra.push(argument.into());
        self
    }

    /// The arguments that these options come to, for a server on `port`.
    pub(super) fn arguments(&self, port: u16) -> Vec<String> {
        let mut all: Vec<String> = FIXED.iter().map(|&word| word.to_owned()).collect();
        all.push(format!("--port={port}"));
        all.push(format!("--server-id={port}"));
        all.push(format!("--innodb-buffer-pool-size={}", self.buffer_pool));
        all.push(format!("--innodb-redo-log-capacity={}", self.redo_log));
        all.push(format!("--read-only={}", switch(self.read_only)));
        if self.binary_log {
            all.extend(self.binary_log_arguments());
        } else {
            all.push("--skip-log-bin".to_owned());
        }
        if let Some(timeout) = self.semi_sync {
            all.extend(semi_sync_arguments(timeout));
        }
        all.extend(self.extra.iter().cloned());
        all
    }

    fn binary_log_arguments(&self) -> Vec<String> {
        let format = match self.format {
            BinlogFormat::Row => "ROW",
            BinlogFormat::Mixed => "MIXED",
            BinlogFormat::Statement => "STATEMENT",
        };
        let image = match self.row_image {
            RowImage::Full => "FULL",
            RowImage::Minimal => "MINIMAL",
            RowImage::Noblob => "NOBLOB",
        };
        let mut all = vec![
            "--log-bin=binlog".to_owned(),
            "--sync-binlog=0".to_owned(),
            format!("--binlog-format={format}"),
            format!("--binlog-row-image={image}"),
            format!("--binlog-order-commits={}", switch(self.order_commits)),
            format!("--gtid-mode={}", switch(self.gtid)),
            format!("--enforce-gtid-consistency={}", switch(self.gtid)),
        ];
        all.extend(
            self.max_binlog_size
                .map(|bytes| format!("--max-binlog-size={bytes}")),
        );
        all
    }
}

/// What every test server gets. `sync_binlog=0` and
/// `innodb_flush_log_at_trx_commit=2` leave a commit with the operating
/// system, which is enough to survive a killed server.
const FIXED: [&str; 14] = [
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--mysqlx=OFF",
    "--secure-file-priv=",
    "--socket=mysqld.sock",
    "--performance-schema=ON",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-doublewrite=OFF",
    "--innodb-read-io-threads=2",
    "--innodb-write-io-threads=2",
    "--innodb-fast-shutdown=1",
    "--max-connections=400",
    "--log-error-verbosity=2",
    "--lower-case-table-names=0",
];

fn semi_sync_arguments(timeout: Duration) -> [String; 4] {
    [
        "--plugin-load-add=semisync_source.so".to_owned(),
        "--rpl-semi-sync-source-enabled=ON".to_owned(),
        "--rpl-semi-sync-source-wait-no-replica=ON".to_owned(),
        format!("--rpl-semi-sync-source-timeout={}", timeout.as_millis()),
    ]
}

fn switch(on: bool) -> &'static str {
    if on { "ON" } else { "OFF" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_have_gtids_and_full_row_images() {
        let all = ServerOptions::new().arguments(4000);
        for word in ["--gtid-mode=ON", "--binlog-row-image=FULL", "--port=4000"] {
            assert!(
                all.iter().any(|argument| argument == word),
                "{word} is missing"
            );
        }
    }

    #[test]
    fn without_a_binary_log_there_are_no_binlog_settings() {
        let all = ServerOptions::new().binary_log(false).arguments(4000);
        assert!(all.contains(&"--skip-log-bin".to_owned()));
        assert!(!all.iter().any(|argument| argument.contains("gtid")));
    }

    #[test]
    fn an_extra_argument_comes_last_and_wins() {
        let all = ServerOptions::new().arg("--sync-binlog=1").arguments(4000);
        assert_eq!(all.last().unwrap(), "--sync-binlog=1");
    }

    #[test]
    fn semi_sync_waits_in_milliseconds() {
        let all = ServerOptions::new()
            .semi_sync(Duration::from_secs(3))
            .arguments(4000);
        assert!(all.contains(&"--rpl-semi-sync-source-timeout=3000".to_owned()));
    }
}

//! Log lines and progress bars on stderr.

use std::io::{self, IsTerminal, Write};

use indicatif::MultiProgress;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use crate::args::LogFormat;

/// Where log lines go: above the progress bars, if there are any.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    bars: Option<MultiProgress>,
}

impl Log {
    /// Starts logging for the whole process.
    ///
    /// `OXFERRY_LOG` sets the level, as in `debug` or `oxferry_binlog=trace`.
    pub(crate) fn start(format: LogFormat) -> Self {
        let on_terminal = io::stderr().is_terminal();
        let bars = (on_terminal && format == LogFormat::Text).then(MultiProgress::new);
        let log = Self { bars };
        let filter =
            EnvFilter::try_from_env("OXFERRY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_target(false);
        let builder = builder.with_ansi(on_terminal).with_writer(log.clone());
        match format {
            LogFormat::Text => builder.init(),
            LogFormat::Json => builder.json().flatten_event(true).init(),
        }
        log
    }

    /// Returns where to put progress bars, when a person is looking.
    pub(crate) const fn bars(&self) -> Option<&MultiProgress> {
        self.bars.as_ref()
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter { log: self }
    }
}

/// Writes one log line.
#[derive(Debug)]
pub(crate) struct LineWriter<'a> {
    log: &'a Log,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let write = || io::stderr().write_all(line);
        match &self.log.bars {
            Some(bars) => bars.suspend(write)?,
            None => write()?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

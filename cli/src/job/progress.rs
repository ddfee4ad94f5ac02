//! What a job shows of itself: phases, status lines or a bar, the summary.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use oxferry_copier::pipeline::Status;
use oxferry_state::Phase;

use crate::log::Log;

/// How often a status line is written where no person looks at a bar.
const STATUS_EVERY: Duration = Duration::from_secs(10);

/// How often the bar is drawn anew.
const BAR_EVERY: Duration = Duration::from_millis(200);

/// What the other parts of a job know, at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// What the pipeline shows.
    pub(crate) copy: Status,
    /// Rows whose fingerprints were compared.
    pub(crate) rows_compared: u64,
    /// Why the job waits, if it does.
    pub(crate) throttled: Option<String>,
    /// The greatest lag of a replica, where there is one.
    pub(crate) lag: Option<Duration>,
}

/// A job's phases, and how far it is in each.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// The server's estimate, corrected by what is counted on the way.
    rows_expected: AtomicU64,
    /// The indexes that are to be built after the copy, and those that are.
    indexes: AtomicUsize,
    indexes_built: AtomicUsize,
    phases: Mutex<Phases>,
    window: Mutex<Window>,
}

/// A way back that is open for a while.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// When it closes.
    closes: Option<Instant>,
    /// How long it last took until all that was done on the one side was there
    /// on the other.
    behind: Option<Duration>,
}

#[derive(Debug, Default)]
struct Phases {
    /// The phase under way, and since when.
    current: Option<(Phase, Instant)>,
    /// How long each of the phases before took, in their order.
    taken: Vec<(Phase, Duration)>,
}

impl Progress {
    /// Begins with the server's estimate of the rows to copy.
    pub(crate) fn new(log: &Log, rows_expected: u64) -> Self {
        let bar = log.bars().map(|bars| {
            let style = "{prefix:>10} [{bar:30}] {percent:>3}% {msg}";
            let style = ProgressStyle::with_template(style)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bars.add(ProgressBar::new(rows_expected.max(1)).with_style(style.progress_chars("=> ")))
        });
        Self {
            bar,
            rows_expected: AtomicU64::new(rows_expected),
            indexes: AtomicUsize::new(0),
            indexes_built: AtomicUsize::new(0),
            phases: Mutex::new(Phases::default()),
            window: Mutex::default(),
        }
    }

    /// Notes that `phase` begins now, and says so in the log.
    pub(crate) fn enter(&self, phase: Phase) {
        let now = Instant::now();
        let mut phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, since)) = phases.current.replace((phase, now)) {
            phases.taken.push((before, now.duration_since(since)));
        }
        drop(phases);
        tracing::info!(phase = %phase.as_str(), "begins");
        if let Some(bar) = &self.bar {
            bar.set_prefix(phase.as_str());
        }
    }

    /// Corrects the number of rows that are expected in all.
    pub(crate) fn expect_rows(&self, rows: u64) {
        self.rows_expected.store(rows, Ordering::Relaxed);
    }

    /// Notes how many indexes are to be built.
    pub(crate) fn expect_indexes(&self, indexes: usize) {
        self.indexes.store(indexes, Ordering::Relaxed);
        self.indexes_built.store(0, Ordering::Relaxed);
    }

    /// Notes that so many more are.
    pub(crate) fn built_indexes(&self, more: usize) {
        self.indexes_built.fetch_add(more, Ordering::Relaxed);
    }

    /// Says how far the index build is, in its phase.
    fn indexes(&self, phase: Phase) -> Option<String> {
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (built, all) = (load(&self.indexes_built), load(&self.indexes));
        (phase == Phase::Index).then(|| format!("{built} of {all}"))
    }

    /// Returns how long each phase took, the one under way included.
    pub(crate) fn times(&self) -> Vec<(Phase, Duration)> {
        let phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        let current = phases
            .current
            .map(|(phase, since)| (phase, since.elapsed()));
        phases.taken.iter().copied().chain(current).collect()
    }

    /// Says when the way back closes.
    pub(crate) fn closes_at(&self, closes: Instant) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.closes = Some(closes);
    }

    /// Says how far the way back is behind.
    pub(crate) fn is_behind(&self, behind: Duration) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.behind = Some(behind);
    }

    fn window(&self) -> Window {
        *self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the bar off the terminal.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Shows what `look` sees, for as long as it is polled.
    pub(crate) async fn show(&self, look: impl Fn() -> Snapshot + Send + Sync) {
        let every = if self.bar.is_some() {
            BAR_EVERY
        } else {
            STATUS_EVERY
        };
        let mut before = Rate::new();
        loop {
            tokio::time::sleep(every).await;
            let snapshot = look();
            let Some((phase, since)) = self.current() else {
                continue;
            };
            let done = rows_done(phase, &snapshot);
            let now = Instant::now();
            let rate = before.next(done, now);
            let figures = Figures::new(done, self.rows_expected.load(Ordering::Relaxed), rate);
            match &self.bar {
                _ if phase == Phase::Reverse => self.show_window(&snapshot),
                Some(bar) => draw(bar, (phase, now.duration_since(since)), &figures, &snapshot),
                None => {
                    let indexes = self.indexes(phase);
                    write_line(
                        (phase, now.duration_since(since)),
                        indexes,
                        &figures,
                        &snapshot,
                    );
                }
            }
        }
    }

    /// Shows how long the move can be taken back, and what waits to flow back.
    fn show_window(&self, snapshot: &Snapshot) {
        let window = self.window();
        let left_s = window.left().map(|left| left.as_secs());
        let waiting = snapshot.copy.changes_waiting;
        if let Some(bar) = &self.bar {
            bar.set_message(format!(
                "open for {} s, {} changes flowed back, {waiting} waiting",
                left_s.unwrap_or_default(),
                snapshot.copy.changes_applied
            ));
            return;
        }
        tracing::info!(
            during = %Phase::Reverse.as_str(),
            left_s,
            changes_applied = snapshot.copy.changes_applied,
            changes_waiting = waiting,
            behind_ms = window.behind.map(millis),
            rows_compared = snapshot.rows_compared,
            "status"
        );
    }

    /// Returns what the control socket tells of the job.
    pub(crate) fn status(&self, snapshot: &Snapshot) -> serde_json::Value {
        let window = self.window();
        let (phase, since) = self.current().unzip();
        serde_json::json!({
            "phase": phase.map(|phase| phase.as_str()),
            "for_ms": since.map(|since| millis(since.elapsed())),
            "rows": phase.map(|phase| rows_done(phase, snapshot)),
            "rows_expected": self.rows_expected.load(Ordering::Relaxed),
            "indexes_built": phase.and_then(|phase| self.indexes(phase)),
            "rows_copied": snapshot.copy.rows_copied,
            "rows_compared": snapshot.rows_compared,
            "changes_applied": snapshot.copy.changes_applied,
            "changes_waiting": snapshot.copy.changes_waiting,
            "lag_ms": snapshot.lag.map(millis),
            "throttled": snapshot.throttled,
            "reverse_left_ms": window.left().map(millis),
            "reverse_behind_ms": window.behind.map(millis),
        })
    }

    /// Returns what the progress callback is told: the status, and what it was
    /// `since` the last report.
    pub(crate) fn report(&self, snapshot: &Snapshot, since: &mut Rate) -> serde_json::Value {
        let mut report = self.status(snapshot);
        if let (Some((phase, _)), Some(fields)) = (self.current(), report.as_object_mut()) {
            let done = rows_done(phase, snapshot);
            let rate = since.next(done, Instant::now());
            let figures = Figures::new(done, self.rows_expected.load(Ordering::Relaxed), rate);
            fields.insert("rows_per_s".to_owned(), figures.rate.into());
            fields.insert("percent".to_owned(), figures.percent.into());
            let eta = figures.eta.map(|eta| eta.as_secs());
            fields.insert("eta_s".to_owned(), eta.into());
        }
        report
    }

    fn current(&self) -> Option<(Phase, Instant)> {
        self.phases
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .current
    }
}

/// How many rows were done when it was looked last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    at: Instant,
    rows: u64,
}

impl Rate {
    /// Begins with nothing done.
    pub(crate) fn new() -> Self {
        Self {
            at: Instant::now(),
            rows: 0,
        }
    }

    /// Returns how many rows a second were done since the last look.
    fn next(&mut self, rows: u64, now: Instant) -> u64 {
        let done = rows.saturating_sub(self.rows);
        let rate = rate(done, now.duration_since(self.at));
        *self = Self { at: now, rows };
        rate
    }
}

impl Window {
    fn left(&self) -> Option<Duration> {
        let closes = self.closes?;
        Some(closes.saturating_duration_since(Instant::now()))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Rows done of a phase, of how many, and when that may be all.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    rows: u64,
    expected: u64,
    percent: u64,
    rate: u64,
    eta: Option<Duration>,
}

impl Figures {
    /// The estimate of the rows may be too low: never shows more than 100 %.
    fn new(rows: u64, expected: u64, rate: u64) -> Self {
        let expected = expected.max(rows);
        let percent = rows
            .saturating_mul(100)
            .checked_div(expected)
            .unwrap_or(100);
        let eta = (expected - rows).checked_div(rate).map(Duration::from_secs);
        Self {
            rows,
            expected,
            percent,
            rate,
            eta,
        }
    }
}

const fn rows_done(phase: Phase, snapshot: &Snapshot) -> u64 {
    match phase {
        Phase::Verify => snapshot.rows_compared,
        Phase::Preflight
        | Phase::NativeDdl
        | Phase::Prepare
        | Phase::Copy
        | Phase::CatchUp
        | Phase::Index
        | Phase::Analyze
        | Phase::Deferred
        | Phase::Cutover
        | Phase::Reverse
        | Phase::Cleanup
        | Phase::Done => snapshot.copy.rows_copied,
    }
}

/// Rows a second.
fn rate(rows: u64, took: Duration) -> u64 {
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    rows.saturating_mul(1000).checked_div(took_ms).unwrap_or(0)
}

fn eta_text(eta: Option<Duration>) -> String {
    eta.map_or_else(
        || "unknown".to_owned(),
        |eta| humantime::format_duration(eta).to_string(),
    )
}

fn draw(
    bar: &ProgressBar,
    (phase, since): (Phase, Duration),
    figures: &Figures,
    snapshot: &Snapshot,
) {
    bar.set_length(figures.expected.max(1));
    bar.set_position(figures.rows);
    let throttled = snapshot
        .throttled
        .as_ref()
        .map(|why| format!(", waiting: {why}"));
    let waited =
        (phase == Phase::Deferred).then(|| format!("postponed for {} s, ", since.as_secs()));
    bar.set_message(format!(
        "{}{} rows, {}/s, {} changes applied, {} waiting, {} left{}",
        waited.unwrap_or_default(),
        figures.rows,
        figures.rate,
        snapshot.copy.changes_applied,
        snapshot.copy.changes_waiting,
        eta_text(figures.eta),
        throttled.unwrap_or_default(),
    ));
}

fn write_line(
    (phase, since): (Phase, Duration),
    indexes: Option<String>,
    figures: &Figures,
    snapshot: &Snapshot,
) {
    let throttled = snapshot.throttled.as_deref().unwrap_or("no");
    let lag_ms = snapshot
        .lag
        .map(|lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX));
    tracing::info!(
        during = %phase.as_str(),
        for_s = since.as_secs(),
        rows = figures.rows,
        rows_expected = figures.expected,
        percent = figures.percent,
        rows_per_s = figures.rate,
        changes_applied = snapshot.copy.changes_applied,
        changes_waiting = snapshot.copy.changes_waiting,
        indexes_built = indexes,
        lag_ms,
        %throttled,
        eta = %eta_text(figures.eta),
        "status"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_estimate_never_shows_more_than_everything() {
        let figures = Figures::new(150, 100, 10);
        assert_eq!((figures.expected, figures.percent), (150, 100));
        assert_eq!(figures.eta, Some(Duration::ZERO));
    }

    #[test]
    fn without_a_rate_there_is_no_end_in_sight() {
        assert_eq!(Figures::new(0, 100, 0).eta, None);
        assert_eq!(Figures::new(50, 100, 10).eta, Some(Duration::from_secs(5)));
        assert_eq!(Figures::new(0, 0, 0).percent, 100);
    }

    #[test]
    fn a_rate_is_rows_a_second() {
        assert_eq!(rate(500, Duration::from_millis(250)), 2000);
        assert_eq!(rate(500, Duration::ZERO), 0);
    }
}

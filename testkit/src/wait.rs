//! Awaited facts: what a test waits for instead of sleeping.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// The pause after the first look; each later one is longer, up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(5);
/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A fact that hadn't come true when its deadline passed.
#[derive(Debug, thiserror::Error)]
#[error("waiting for {what} failed: not there after {waited:?}")]
pub struct NotInTime {
    /// What was waited for.
    pub what: String,
    /// How long it was waited for.
    pub waited: Duration,
}

/// Looks until `probe` finds something, and returns that.
///
/// Looks at once, then with growing pauses of at most a tenth of a second,
/// and a last time after the deadline.
///
/// # Errors
///
/// [`NotInTime`] when `limit` has passed and the probe still finds nothing.
pub async fn eventually<T>(
    limit: Duration,
    what: impl fmt::Display,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> Result<T, NotInTime> {
    let start = Instant::now();
    let mut pause = PAUSE_FIRST;
    loop {
        let late = start.elapsed() >= limit;
        if let Some(found) = probe().await {
            return Ok(found);
        }
        if late {
            return Err(NotInTime {
                what: what.to_string(),
                waited: start.elapsed(),
            });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn returns_what_the_probe_finds() {
        let mut looks = 0;
        let found = eventually(Duration::from_secs(60), "the third look", async || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn names_what_did_not_come() {
        let never = eventually(Duration::ZERO, "a row", async || None::<()>).await;
        let error = never.unwrap_err().to_string();
        assert!(error.starts_with("waiting for a row failed"), "{error}");
    }
}

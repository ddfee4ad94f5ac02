//! What a person or a script reads.

use std::{
    io::{self, Write},
    time::Duration,
};

/// Prints a line on standard output.
pub(crate) fn say(line: &str) {
    // A reader that has gone away is no reason to stop the work.
    let _ = writeln!(io::stdout(), "{line}");
}

/// Prints an error on standard error.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "xtask: {line}");
}

/// An error with its causes, without those that its text already quotes.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Seconds with one decimal, or milliseconds below one second.
pub(crate) fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{} ms", time.as_millis());
    }
    format!("{:.1} s", time.as_secs_f64())
}

/// Mebibytes without decimals.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// The middle one; of an even number the mean of the two in the middle.
pub(crate) fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        at(half)
    } else {
        (at(half.saturating_sub(1)) + at(half)) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_are_milliseconds() {
        assert_eq!(seconds(Duration::from_millis(250)), "250 ms");
        assert_eq!(seconds(Duration::from_millis(1250)), "1.2 s");
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("no route").context("connecting failed");
        assert_eq!(chain(&error), "connecting failed: no route");
        let error = anyhow::anyhow!("no route").context("connecting failed: no route");
        assert_eq!(chain(&error), "connecting failed: no route");
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_two() {
        let times = [4, 1, 3, 2].map(Duration::from_secs);
        assert_eq!(median(&times), Duration::from_millis(2500));
        assert_eq!(median(&times[..3]), Duration::from_secs(3));
        assert_eq!(median(&[]), Duration::ZERO);
    }
}

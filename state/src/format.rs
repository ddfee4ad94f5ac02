//! The checkpoint as JSON that a person can read, and its versions.
//!
//! | change | then |
//! |---|---|
//! | old reader, newer data | refused by number, whatever else it holds |
//! | new reader, older data | read by the older format's own shape, then converted |
//! | an unknown field in a known format | refused: somebody thought it mattered |
//!
//! Every format has a file under `tests/fixtures/` that must stay readable.

use oxferry_schema::{KeyRange, Remedy, TableName};
use serde::Deserialize;

use crate::{Checkpoint, checkpoint::misplaced};

/// The format of a migrate's checkpoint.
pub(crate) const FORMAT_MIGRATE: u32 = 1;

/// The format of a move's checkpoint: as the one before, with the target.
pub(crate) const FORMAT_MOVE: u32 = 2;

/// The newest format that this version reads.
const FORMAT_MAX: u32 = FORMAT_MOVE;

/// Why a text is not a checkpoint, or a checkpoint can't be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The text is not JSON, or not of the shape that its format has.
    #[error("the checkpoint can't be read as JSON of a known format")]
    Malformed(#[source] serde_json::Error),
    /// The format is one that this version does not know.
    #[error(
        "the checkpoint has format {found}, this version reads 1 to {FORMAT_MAX}; go on with the version that wrote it, or start anew with --fresh"
    )]
    UnknownFormat {
        /// The number that the checkpoint carries.
        found: u64,
    },
    /// A table's closed ranges are not disjoint, merged and in key order.
    #[error(
        "the closed ranges of table {} are not in order: {range} doesn't lie behind {before}",
        .table.plain()
    )]
    Ranges {
        /// The source table.
        table: TableName,
        /// The range that stands before it, or the range itself if it is empty.
        before: KeyRange,
        /// The range at fault.
        range: KeyRange,
    },
    /// The checkpoint can't be written as JSON.
    #[error("the checkpoint can't be written as JSON")]
    Unwritable(#[source] serde_json::Error),
}

/// What every format has in common.
#[derive(Deserialize)]
struct Head {
    format: u64,
}

impl FormatError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Malformed(_) | Self::UnknownFormat { .. } | Self::Ranges { .. } => Remedy::State,
            Self::Unwritable(_) => Remedy::Bug,
        }
    }
}

impl Checkpoint {
    /// Reads a checkpoint of any known format.
    ///
    /// # Errors
    ///
    /// [`FormatError`] when the text is no checkpoint of a known format.
    pub fn from_json(text: &str) -> Result<Self, FormatError> {
        let head: Head = serde_json::from_str(text).map_err(FormatError::Malformed)?;
        let known = u64::from(FORMAT_MIGRATE)..=u64::from(FORMAT_MAX);
        if !known.contains(&head.format) {
            return Err(FormatError::UnknownFormat { found: head.format });
        }
        let checkpoint: Self = serde_json::from_str(text).map_err(FormatError::Malformed)?;
        if checkpoint.target.is_some() != (checkpoint.format == FORMAT_MOVE) {
            let why = <serde_json::Error as serde::de::Error>::custom(
                "only a move's checkpoint, of format 2, names a target server, and it must",
            );
            return Err(FormatError::Malformed(why));
        }
        checkpoint.check_ranges()?;
        Ok(checkpoint)
    }

    /// Writes the checkpoint as indented JSON, `format` first.
    ///
    /// # Errors
    ///
    /// [`FormatError::Ranges`] for a checkpoint that could not be read again.
    pub fn to_json(&self) -> Result<String, FormatError> {
        self.check_ranges()?;
        serde_json::to_string_pretty(self).map_err(FormatError::Unwritable)
    }

    fn check_ranges(&self) -> Result<(), FormatError> {
        for progress in &self.tables {
            if let Some((before, range)) = misplaced(&progress.closed) {
                return Err(FormatError::Ranges {
                    table: progress.source.clone(),
                    before: before.clone(),
                    range: range.clone(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::JobIdentity;

    const FIXTURE: &str = include_str!("../tests/fixtures/format-1.json");

    #[track_caller]
    fn check_error(text: &str, expected: Expect) {
        let error = Checkpoint::from_json(text).unwrap_err();
        let source = std::error::Error::source(&error).map_or(String::new(), |e| format!(": {e}"));
        assert_eq!(error.remedy(), Remedy::State);
        expected.assert_eq(&format!("{error}{source}"));
    }

    #[test]
    fn a_newer_format_is_refused_by_its_number() {
        check_error(
            r#"{"format": 3, "shape": "unheard of"}"#,
            expect![
                "the checkpoint has format 3, this version reads 1 to 2; go on with the version that wrote it, or start anew with --fresh"
            ],
        );
    }

    #[test]
    fn an_unknown_field_of_a_known_format_is_refused() {
        let text = FIXTURE.replacen("\"saved_at\"", "\"saved_on\"", 1);
        let error = Checkpoint::from_json(&text).unwrap_err();
        assert!(matches!(error, FormatError::Malformed(_)));
    }

    #[test]
    fn a_text_that_was_cut_is_refused() {
        for end in (0..FIXTURE.trim_end().len()).step_by(17) {
            assert!(Checkpoint::from_json(&FIXTURE[..end]).is_err());
        }
    }

    #[test]
    fn the_format_is_the_first_field() {
        let job = JobIdentity::migrate(vec![], vec![]);
        let migrate = Checkpoint::new(job, "1", "u");
        let json = migrate.to_json().unwrap();
        assert!(json.starts_with("{\n  \"format\": 1,"));
        let json = migrate.to_server("v").to_json().unwrap();
        assert!(json.starts_with("{\n  \"format\": 2,"));
        assert!(Checkpoint::from_json(&json).is_ok());
        let torn = json.replacen("\"format\": 2", "\"format\": 1", 1);
        assert!(Checkpoint::from_json(&torn).is_err());
    }

    #[test]
    fn ranges_out_of_order_are_refused() {
        let text = FIXTURE.replacen("\"Int\": 1000", "\"Int\": 3000", 1);
        assert_ne!(text, FIXTURE);
        check_error(
            &text,
            expect![
                "the closed ranges of table shop.orders are not in order: [2000, 18446744073709551615) doesn't lie behind [min, 3000)"
            ],
        );
    }
}

//! What became of a rename whose answer was lost.

use std::fmt;

/// Which of a pair's three tables exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a pair has these three names")]
pub struct TablesSeen {
    /// Whether a table has the source's name.
    pub source: bool,
    /// Whether a table has the shadow's name.
    pub shadow: bool,
    /// Whether a table has the old table's name.
    pub old: bool,
}

/// What the tables say about a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every caller acts on all three")]
pub enum Outcome {
    /// The shadow tables have taken over, all of them.
    Renamed,
    /// Nothing has changed.
    NotRenamed,
    /// Something that no whole rename leaves behind.
    Ambiguous,
}

impl TablesSeen {
    /// How it looks before a rename.
    pub const BEFORE: Self = Self {
        source: true,
        shadow: true,
        old: false,
    };

    /// How it looks after one.
    pub const AFTER: Self = Self {
        source: true,
        shadow: false,
        old: true,
    };
}

impl fmt::Display for TablesSeen {
    /// Writes `source there, shadow gone, old there`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |there| if there { "there" } else { "gone" };
        write!(
            f,
            "source {}, shadow {}, old {}",
            word(self.source),
            word(self.shadow),
            word(self.old)
        )
    }
}

/// Says what became of a rename from the tables that exist now.
///
/// Sound when all three hold, which [`swap`](crate::swap) sees to:
/// - before the lock was asked for every pair was [`TablesSeen::BEFORE`];
/// - the session that sent the rename is gone, so it can't happen any more;
/// - the rename is one statement, and atomic. Source: MySQL 9.7 manual,
///   "Atomic Data Definition Statement Support".
///
/// No table at all is ambiguous: it proves nothing.
#[must_use]
pub fn decide(seen: &[TablesSeen]) -> Outcome {
    let all = |expected: TablesSeen| !seen.is_empty() && seen.iter().all(|one| *one == expected);
    if all(TablesSeen::AFTER) {
        Outcome::Renamed
    } else if all(TablesSeen::BEFORE) {
        Outcome::NotRenamed
    } else {
        Outcome::Ambiguous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_rename_counts_as_one() {
        use TablesSeen as T;
        assert_eq!(decide(&[T::AFTER, T::AFTER]), Outcome::Renamed);
        assert_eq!(decide(&[T::BEFORE, T::BEFORE]), Outcome::NotRenamed);
        assert_eq!(decide(&[T::BEFORE, T::AFTER]), Outcome::Ambiguous);
        assert_eq!(decide(&[]), Outcome::Ambiguous);
    }

    #[test]
    fn of_eight_pictures_six_are_ambiguous() {
        let pictures = (0..8_u8).map(|bits| TablesSeen {
            source: bits & 1 > 0,
            shadow: bits & 2 > 0,
            old: bits & 4 > 0,
        });
        let ambiguous = pictures.filter(|seen| decide(&[*seen]) == Outcome::Ambiguous);
        assert_eq!(ambiguous.count(), 6);
    }

    #[test]
    fn what_was_seen_reads_like_a_sentence() {
        assert_eq!(
            TablesSeen::AFTER.to_string(),
            "source there, shadow gone, old there"
        );
    }
}

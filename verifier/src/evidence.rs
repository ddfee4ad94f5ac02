//! What a verification proves.

use std::collections::BTreeSet;

use oxferry_schema::Key;

use crate::{
    CompareError, Touched,
    fingerprint::KeyedFingerprint,
    mismatch::{Mismatches, differences},
};

/// Evidence that a full pass found no difference, apart from rows that changed
/// while or after it: these must still be compared when nobody writes.
#[derive(Debug)]
#[must_use = "a pass that nobody finishes proves nothing"]
pub struct Clean {
    rows_compared: u64,
    repaired_count: u64,
    passes: u32,
    at_rest: bool,
}

/// Evidence that source and target held the same rows at a moment when nobody
/// could write. Only a clean pass makes one, or the operator's word.
#[derive(Debug)]
#[must_use = "evidence that nobody takes protects nothing"]
pub struct Verified {
    kind: Kind,
    rows_compared: u64,
    repaired_count: u64,
    passes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Compared,
    AtRest,
    Waived,
}

/// What both sides hold for one table's list of keys.
pub type BothSides = (Vec<KeyedFingerprint>, Vec<KeyedFingerprint>);

impl Clean {
    pub(crate) const fn new(rows_compared: u64) -> Self {
        Self {
            rows_compared,
            repaired_count: 0,
            passes: 1,
            at_rest: false,
        }
    }

    /// Notes that nobody could write while the pass ran.
    pub(crate) const fn at_rest(mut self) -> Self {
        self.at_rest = true;
        self
    }

    /// Adds what other passes did.
    pub(crate) const fn add(&mut self, rows: u64, repaired: u64, passes: u32) {
        self.rows_compared += rows;
        self.repaired_count += repaired;
        self.passes += passes;
    }

    /// Returns each table's keys that must be compared when nobody writes.
    ///
    /// # Errors
    ///
    /// [`CompareError::TooMuchLeft`] when there are more than `most`, or when
    /// whole ranges have to be compared again; [`CompareError::Outdated`] when
    /// a difference was found since.
    pub fn remaining(&self, touched: &Touched, most: usize) -> Result<Vec<Vec<Key>>, CompareError> {
        if touched.has_differences() {
            return Err(CompareError::Outdated);
        }
        let remaining = touched.remaining();
        if remaining > most || touched.uncovered().is_some() || touched.is_comparing() {
            return Err(CompareError::TooMuchLeft { remaining, most });
        }
        Ok(touched.keys())
    }

    /// Judges what both sides hold, table by table, for the keys of
    /// [`Clean::remaining`]; both were read when nobody could write and
    /// everything was applied.
    ///
    /// # Errors
    ///
    /// [`CompareError::Diverged`] with the rows that differ. Then this
    /// evidence is worth nothing any more.
    pub fn judge(
        &self,
        touched: &mut Touched,
        tables: &[BothSides],
    ) -> Result<Verified, CompareError> {
        if touched.has_differences() {
            return Err(CompareError::Outdated);
        }
        let mut found = Mismatches::default();
        let mut rows = 0;
        let asked = touched
            .keys()
            .into_iter()
            .chain(std::iter::repeat(Vec::new()));
        for ((table, (source, target)), asked) in tables.iter().enumerate().zip(asked) {
            let asked: BTreeSet<Key> = asked.into_iter().collect();
            // A row that is equal to a key only for the server is not judged:
            // the other side may tell the two apart.
            let judged = |key: &Key| asked.contains(key);
            found.extend(differences(table, source, target, judged));
            rows += u64::try_from(source.len()).unwrap_or(u64::MAX);
        }
        if !found.is_empty() {
            touched.mark_different();
            return Err(CompareError::Diverged { found });
        }
        Ok(Verified {
            kind: if self.at_rest {
                Kind::AtRest
            } else {
                Kind::Compared
            },
            rows_compared: self.rows_compared + rows,
            repaired_count: self.repaired_count,
            passes: self.passes,
        })
    }

    /// Returns how many of the source's rows were compared, over all passes.
    #[must_use]
    pub const fn rows_compared(&self) -> u64 {
        self.rows_compared
    }

    /// Returns how many rows were repaired.
    #[must_use]
    pub const fn repaired_count(&self) -> u64 {
        self.repaired_count
    }

    /// Returns how many passes it took.
    #[must_use]
    pub const fn passes(&self) -> u32 {
        self.passes
    }
}

impl Verified {
    /// Takes the operator's word that no comparison is wanted
    /// (`--verify off`). The caller logs that it was so.
    pub const fn waived() -> Self {
        Self {
            kind: Kind::Waived,
            rows_compared: 0,
            repaired_count: 0,
            passes: 0,
        }
    }

    /// Returns whether nothing was compared, on the operator's word.
    #[must_use]
    pub const fn is_waived(&self) -> bool {
        matches!(self.kind, Kind::Waived)
    }

    /// Returns whether every row was compared while nobody could write, and so at
    /// one and the same moment. Else each was compared when it was at rest, and
    /// those that changed later once more, the last of them when nobody could
    /// write: what somebody did to a row of the target that the source didn't
    /// change, after it was compared, is not seen.
    #[must_use]
    pub const fn is_at_rest(&self) -> bool {
        matches!(self.kind, Kind::AtRest)
    }

    /// Returns how many of the source's rows were compared, over all passes;
    /// a row that changed may count more than once.
    #[must_use]
    pub const fn rows_compared(&self) -> u64 {
        self.rows_compared
    }

    /// Returns how many rows were repaired.
    #[must_use]
    pub const fn repaired_count(&self) -> u64 {
        self.repaired_count
    }

    /// Returns how many passes it took.
    #[must_use]
    pub const fn passes(&self) -> u32 {
        self.passes
    }
}

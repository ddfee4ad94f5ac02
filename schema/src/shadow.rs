//! The names of what a job puts beside a table.

use sha2::{Digest, Sha256};

use crate::{Ident, TableName};

/// The names of a job's own tables beside the table `t`.
///
/// The same table always gets the same names. A name that would pass
/// [`Ident::LENGTH_MAX`] is cut, and carries a hash of the whole table name, so
/// that long names with a common beginning stay apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShadowNames {
    /// The shadow table, which takes the table's place: `_t_oxnew`.
    pub shadow: TableName,
    /// What the table is called after the cutover: `_t_oxold`.
    pub old: TableName,
    /// The table that postpones the cutover while it exists: `_t_oxsentinel`.
    pub sentinel: TableName,
    /// The table that takes a move back when somebody creates it: `_t_oxreverse`.
    pub reverse: TableName,
    /// The checkpoint: `_t_oxstate`.
    pub state: TableName,
    /// Scratch copies that the statement is tried on: `_t_oxprobe`.
    pub probe: TableName,
    /// A scratch copy of a table that a foreign key ties to it: `_t_oxprobe2`.
    pub probe_other: TableName,
}

impl ShadowNames {
    /// Names the tables beside `table`, in the same database.
    #[must_use]
    pub fn beside(table: &TableName) -> Self {
        let named = |suffix| beside(table, suffix);
        Self {
            shadow: named("_oxnew"),
            old: named("_oxold"),
            sentinel: named("_oxsentinel"),
            reverse: named("_oxreverse"),
            state: named("_oxstate"),
            probe: named("_oxprobe"),
            probe_other: named("_oxprobe2"),
        }
    }

    /// Returns whether a table is called as one of a job's own, whatever table
    /// it may stand beside.
    #[must_use]
    pub fn is_own(table: &Ident) -> bool {
        let bare = table.as_str().strip_prefix('_').unwrap_or_default();
        let is_own = |suffix: &&str| bare.len() > suffix.len() && bare.ends_with(*suffix);
        SUFFIXES.iter().any(is_own)
    }

    /// Returns the digits that tell two long names apart.
    pub(crate) fn hash_of(name: &Ident) -> String {
        hash(name.as_str())
    }

    /// Returns all of them: what may be left of a job.
    #[must_use]
    pub const fn all(&self) -> [&TableName; 7] {
        [
            &self.shadow,
            &self.old,
            &self.sentinel,
            &self.reverse,
            &self.state,
            &self.probe,
            &self.probe_other,
        ]
    }
}

/// The ends of the names of what a job puts beside a table.
const SUFFIXES: [&str; 7] = [
    "_oxnew",
    "_oxold",
    "_oxsentinel",
    "_oxreverse",
    "_oxstate",
    "_oxprobe",
    "_oxprobe2",
];

/// Names what stands in for the `number`th thing of a `kind` that hangs on
/// `table` while it is carried over: `_t_oxfk1`.
///
/// The same every time, so that the next run finds what a killed one left.
#[must_use]
pub fn temporary_name(table: &TableName, kind: &str, number: usize) -> Ident {
    beside(table, &format!("_ox{kind}{number}")).table
}

/// Hexadecimal digits of the hash in a cut name: 32 bits keep the few long
/// names of one database apart.
const HASH_DIGITS: usize = 8;

fn beside(table: &TableName, suffix: &str) -> TableName {
    let bare = table.table.as_str();
    let room = Ident::LENGTH_MAX - 1 - suffix.len();
    let stem = if bare.chars().count() <= room {
        bare.to_owned()
    } else {
        let kept: String = bare.chars().take(room - 1 - HASH_DIGITS).collect();
        format!("{kept}_{}", hash(bare))
    };
    let name = Ident::new(format!("_{stem}{suffix}"))
        .expect("a valid name stays valid when it is cut to 64 characters");
    TableName::new(table.schema.clone(), name)
}

fn hash(name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.chars().take(HASH_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(table: &str) -> ShadowNames {
        ShadowNames::beside(&TableName::new(
            Ident::new("d").unwrap(),
            Ident::new(table).unwrap(),
        ))
    }

    #[test]
    fn a_short_name_is_kept_whole() {
        assert_eq!(names("t").shadow.plain(), "d._t_oxnew");
        assert_eq!(names("t").old.plain(), "d._t_oxold");
        assert_eq!(names("t").sentinel.plain(), "d._t_oxsentinel");
        assert_eq!(names("t").state.plain(), "d._t_oxstate");
        assert_eq!(names("t").probe.plain(), "d._t_oxprobe");
    }

    #[test]
    fn a_jobs_own_tables_are_known_by_their_names() {
        let is_own = |name: &str| ShadowNames::is_own(&Ident::new(name).unwrap());
        assert!(
            names("t")
                .all()
                .iter()
                .all(|name| is_own(name.table.as_str()))
        );
        for other in ["t", "t_oxnew", "_oxnew", "_t_ox", "_t_oxnews"] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn a_long_name_is_cut_the_same_way_every_time() {
        let name = names(&"x".repeat(64)).shadow;
        let expected = format!("_{}_7ce10097_oxnew", "x".repeat(48));
        assert_eq!(name.table.as_str(), expected);
        assert_eq!(name.table.as_str().chars().count(), 64);
    }

    #[test]
    fn long_names_with_one_beginning_stay_apart() {
        let one = format!("{}1", "x".repeat(63));
        let two = format!("{}2", "x".repeat(63));
        for (one, two) in names(&one).all().into_iter().zip(names(&two).all()) {
            assert_ne!(one, two);
        }
    }

    proptest! {
        #[test]
        fn all_names_differ_and_fit(table in "[a-zé`.%日]{1,64}") {
            let beside = names(&table);
            let mut all: Vec<_> = beside.all().into_iter().cloned().collect();
            prop_assert!(all.iter().all(|name| name.table.as_str().starts_with('_')
                && name.table.as_str().chars().count() <= 64));
            all.push(TableName::new(Ident::new("d").unwrap(), Ident::new(table).unwrap()));
            all.sort();
            all.dedup();
            prop_assert_eq!(all.len(), 8);
        }
    }
}

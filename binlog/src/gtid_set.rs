//! Sets of global transaction identifiers.

use std::{cmp::Ordering, collections::BTreeMap, fmt, str::FromStr};

use mysql_common::packets::{GnoInterval, Sid, Tag};
use serde::{Deserialize, Serialize};

use crate::{
    Gtid, GtidError,
    gtid::{Origin, Uuid, parse_number, parse_tag},
    interval::{Interval, Intervals},
};

/// A set of transactions: `uuid:1-5:7:tag:1-3`.
///
/// Reads every form that a server reads, and prints the one that a server
/// prints, without its line breaks. Compared by inclusion: of two sets, none
/// of which contains the other, none is less.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GtidSet(BTreeMap<Origin, Intervals>);

impl GtidSet {
    /// Adds one transaction. The next number of a known server is cheap.
    pub fn insert(&mut self, gtid: &Gtid) {
        if let Some(intervals) = self.0.get_mut(&gtid.origin) {
            intervals.insert(gtid.number);
        } else {
            let mut intervals = Intervals::default();
            intervals.insert(gtid.number);
            self.0.insert(gtid.origin.clone(), intervals);
        }
    }

    /// Adds every transaction of `other`.
    pub fn union(&mut self, other: &Self) {
        for (origin, intervals) in &other.0 {
            self.0.entry(origin.clone()).or_default().union(intervals);
        }
    }

    /// Returns whether it holds no transaction.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many transactions it holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().map(Intervals::count).sum()
    }

    /// Returns whether it holds this transaction.
    #[must_use]
    pub fn contains(&self, gtid: &Gtid) -> bool {
        let intervals = self.0.get(&gtid.origin);
        intervals.is_some_and(|intervals| intervals.contains(gtid.number))
    }

    /// Returns the transactions that are here and not in `other`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        let none = Intervals::default();
        let left = self.0.iter().map(|(origin, intervals)| {
            let cut = other.0.get(origin).unwrap_or(&none);
            (origin.clone(), intervals.subtract(cut))
        });
        Self(left.filter(|(_, left)| !left.is_empty()).collect())
    }

    /// Returns whether every transaction here is in `other` too.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().all(|(origin, intervals)| {
            let have = other.0.get(origin);
            have.is_some_and(|have| intervals.is_subset(have))
        })
    }

    /// Returns the set in the form in which a stream's request carries it:
    /// one entry for each server and tag.
    #[must_use]
    pub fn to_sids(&self) -> Vec<Sid<'static>> {
        let sid = |(origin, intervals): (&Origin, &Intervals)| {
            let runs = intervals.runs().iter();
            let runs = runs.map(|run| GnoInterval::new(run.start, run.end));
            let sid = Sid::new(origin.uuid.0).with_intervals(runs.collect());
            match origin.tag.as_deref().map(|tag| Tag::new(tag.to_owned())) {
                Some(Ok(tag)) => sid.with_tag(tag),
                // Every tag here has passed `parse_tag`, which has the same rules.
                Some(Err(_)) | None => sid,
            }
        };
        self.0.iter().map(sid).collect()
    }

    /// Reads one UUID's part of the text: `uuid:1-5:tag:1-2`.
    fn parse_server(&mut self, text: &str) -> Result<(), (String, &'static str)> {
        let mut parts = text.split(':').map(str::trim);
        let uuid = parts.next().unwrap_or_default();
        let uuid = Uuid::parse(uuid).ok_or_else(|| (uuid.to_owned(), "UUID"))?;
        let mut tag = None;
        for part in parts {
            if let Some(found) = parse_tag(part) {
                tag = Some(found);
                continue;
            }
            let run = parse_run(part).ok_or_else(|| (part.to_owned(), "run of numbers or tag"))?;
            if let Some(run) = run {
                let origin = Origin {
                    uuid,
                    tag: tag.clone(),
                };
                let more = Intervals::from_runs(vec![run]);
                self.0.entry(origin).or_default().union(&more);
            }
        }
        Ok(())
    }
}

/// Reads `5` or `1-5`. A run that ends before it starts is empty, as on a
/// server: `Some(None)`.
fn parse_run(text: &str) -> Option<Option<Interval>> {
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    let (start, end) = (parse_number(start.trim())?, parse_number(end.trim())?);
    Some(Interval::new(start, end + 1))
}

impl Extend<Gtid> for GtidSet {
    fn extend<I: IntoIterator<Item = Gtid>>(&mut self, gtids: I) {
        for gtid in gtids {
            self.insert(&gtid);
        }
    }
}

impl FromIterator<Gtid> for GtidSet {
    fn from_iter<I: IntoIterator<Item = Gtid>>(gtids: I) -> Self {
        let mut set = Self::default();
        set.extend(gtids);
        set
    }
}

impl PartialOrd for GtidSet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.is_subset(other), other.is_subset(self)) {
            (true, true) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Less),
            (false, true) => Some(Ordering::Greater),
            (false, false) => None,
        }
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for (origin, intervals) in &self.0 {
            if before != Some(origin.uuid) {
                let comma = if before.is_some() { "," } else { "" };
                write!(f, "{comma}{}", origin.uuid)?;
                before = Some(origin.uuid);
            }
            if let Some(tag) = &origin.tag {
                write!(f, ":{tag}")?;
            }
            for run in intervals.runs() {
                write!(f, ":{}", run.start)?;
                if run.end > run.start + 1 {
                    write!(f, "-{}", run.end - 1)?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for GtidSet {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut set = Self::default();
        let servers = text.split(',').map(str::trim);
        for server in servers.filter(|server| !server.is_empty()) {
            let wrong = |(part, expected)| GtidError {
                text: text.to_owned(),
                part,
                expected,
            };
            set.parse_server(server).map_err(wrong)?;
        }
        Ok(set)
    }
}

impl TryFrom<String> for GtidSet {
    type Error = GtidError;

    fn try_from(text: String) -> Result<Self, GtidError> {
        text.parse()
    }
}

impl From<GtidSet> for String {
    fn from(set: GtidSet) -> Self {
        set.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::gtid::tests::some_gtid;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    /// Both sides as a 9.7.4 server gave them to `GTID_SUBTRACT(text, '')`.
    #[test]
    fn it_reads_and_prints_as_a_server_does() {
        for (given, printed) in [
            ("", ""),
            (" \n,, ", ""),
            ("UUID", ""),
            ("UUID:tag", ""),
            ("UUID:tag:5-3", ""),
            ("UUID: 1-5 :7,,\n", "UUID:1-5:7"),
            (
                "UUID:TAG_1:5-6:1:Abc:9:8,UUID:4",
                "UUID:4:abc:8-9:tag_1:1:5-6",
            ),
            ("UUID:1-2:tag:1:2:3", "UUID:1-2:tag:1-3"),
            ("UUID:tag:1:tag2", "UUID:tag:1"),
            ("UUID:t:1,UUID:t:2,UUID:3", "UUID:3:t:1-2"),
            ("{UUID}:2", "UUID:2"),
            ("UUID :1 - 3", "UUID:1-3"),
            ("3E11FA4771CA11E19E33C80AA9429562:1", "UUID:1"),
            ("UUID:9223372036854775806", "UUID:9223372036854775806"),
        ] {
            let set: GtidSet = given.replace("UUID", &UUID.to_uppercase()).parse().unwrap();
            assert_eq!(set.to_string(), printed.replace("UUID", UUID), "{given}");
        }
    }

    #[test]
    fn it_refuses_what_a_server_refuses() {
        for given in [
            "UUID:",
            "UUID:1:",
            "UUID:,UUID:2",
            "UUID:0",
            "UUID:9223372036854775807",
            "UUID:1-9223372036854775807",
            "{3E11FA4771CA11E19E33C80AA9429562}:2",
            "nonsense",
        ] {
            let text = given.replace("UUID", UUID);
            assert!(text.parse::<GtidSet>().is_err(), "{given}");
        }
    }

    #[test]
    fn an_error_names_the_part_that_is_wrong() {
        let error = format!("{UUID}:1:x y").parse::<GtidSet>().unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("\"x y\" is no run of numbers or tag")
        );
    }

    #[test]
    fn a_request_carries_one_entry_for_each_tag() {
        let set: GtidSet = format!("{UUID}:1-5:7:tag:1-2").parse().unwrap();
        let sids = set.to_sids();
        let shape = sids.iter().map(|sid| {
            let runs = sid.intervals().iter().map(|run| (run.start(), run.end()));
            (sid.tag().map(ToString::to_string), runs.collect::<Vec<_>>())
        });
        assert_eq!(
            shape.collect::<Vec<_>>(),
            [
                (None, vec![(1, 6), (7, 8)]),
                (Some("tag".to_owned()), vec![(1, 3)])
            ]
        );
    }

    #[test]
    fn sets_are_ordered_by_inclusion_only() {
        let [small, large, other] =
            ["1-2", "1-5", "9"].map(|runs| format!("{UUID}:{runs}").parse::<GtidSet>().unwrap());
        assert!(small < large);
        assert!(large > small);
        assert_eq!(small.partial_cmp(&other), None);
        assert_eq!(small.count(), 2);
    }

    fn some_gtids() -> impl Strategy<Value = BTreeSet<Gtid>> {
        prop::collection::btree_set(some_gtid(), 0..40)
    }

    fn of(gtids: &BTreeSet<Gtid>) -> GtidSet {
        gtids.iter().cloned().collect()
    }

    proptest! {
        #[test]
        fn parsing_reads_what_printing_wrote(gtids in some_gtids()) {
            let set = of(&gtids);
            prop_assert_eq!(set.to_string().parse::<GtidSet>().unwrap(), set);
        }

        #[test]
        fn it_behaves_as_a_set_of_transactions(a in some_gtids(), b in some_gtids()) {
            let mut both = of(&a);
            both.union(&of(&b));
            prop_assert_eq!(&both, &of(&a.union(&b).cloned().collect()));
            let left = of(&a).subtract(&of(&b));
            prop_assert_eq!(&left, &of(&a.difference(&b).cloned().collect()));
            prop_assert_eq!(of(&a).is_subset(&of(&b)), a.is_subset(&b));
            prop_assert_eq!(both.count(), a.union(&b).count() as u64);
            for gtid in a.union(&b) {
                prop_assert_eq!(left.contains(gtid), a.contains(gtid) && !b.contains(gtid));
            }
        }

        #[test]
        fn any_text_parses_or_fails_without_panicking(text in "[-:,{}a-f0-9 ]{0,60}") {
            let _ = text.parse::<GtidSet>();
        }
    }
}

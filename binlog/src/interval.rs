//! Sorted runs of transaction numbers.

/// Transaction numbers as sorted, disjoint, non-touching runs `[start, end)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Intervals(Vec<Interval>);

/// A run of numbers: `start` belongs to it, `end` doesn't.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Interval {
    /// Makes a run; `None` when it would be empty.
    pub(crate) fn new(start: u64, end: u64) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }
}

impl Intervals {
    /// Sorts runs and melts those that overlap or touch.
    pub(crate) fn from_runs(mut runs: Vec<Interval>) -> Self {
        runs.sort_unstable_by_key(|run| run.start);
        let mut melted: Vec<Interval> = Vec::with_capacity(runs.len());
        for run in runs {
            match melted.last_mut() {
                Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
                _ => melted.push(run),
            }
        }
        Self(melted)
    }

    /// Returns the runs in order.
    pub(crate) fn runs(&self) -> &[Interval] {
        &self.0
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many numbers there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|run| run.end - run.start).sum()
    }

    /// Adds one number. The next number of the last run takes no search.
    pub(crate) fn insert(&mut self, number: u64) {
        if let Some(last) = self.0.last_mut()
            && last.end == number
        {
            last.end = number + 1;
            return;
        }
        if !self.contains(number) {
            let mut runs = std::mem::take(&mut self.0);
            runs.push(Interval {
                start: number,
                end: number + 1,
            });
            *self = Self::from_runs(runs);
        }
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|run| run.end <= number);
        self.0.get(after).is_some_and(|run| run.start <= number)
    }

    pub(crate) fn union(&mut self, other: &Self) {
        let mut runs = std::mem::take(&mut self.0);
        runs.extend_from_slice(&other.0);
        *self = Self::from_runs(runs);
    }

    /// Returns what is here and not in `other`.
    pub(crate) fn subtract(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut cuts = other.0.iter().peekable();
        for run in &self.0 {
            let mut start = run.start;
            while cuts.next_if(|cut| cut.end <= start).is_some() {}
            while let Some(cut) = cuts.peek().filter(|cut| cut.start < run.end) {
                left.extend(Interval::new(start, cut.start));
                start = cut.end;
                if cut.end >= run.end {
                    break;
                }
                cuts.next();
            }
            left.extend(Interval::new(start, run.end));
        }
        Self(left)
    }

    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().all(|run| {
            let after = other.0.partition_point(|have| have.end <= run.start);
            other
                .0
                .get(after)
                .is_some_and(|have| have.start <= run.start && run.end <= have.end)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn of(numbers: &[u64]) -> Intervals {
        let mut intervals = Intervals::default();
        for number in numbers {
            intervals.insert(*number);
        }
        intervals
    }

    fn numbers(intervals: &Intervals) -> BTreeSet<u64> {
        let runs = intervals.runs().iter();
        runs.flat_map(|run| run.start..run.end).collect()
    }

    fn some_numbers() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(1..40_u64, 0..30)
    }

    proptest! {
        #[test]
        fn they_behave_as_a_set_of_numbers(a in some_numbers(), b in some_numbers()) {
            let (left, right) = (of(&a), of(&b));
            let (a, b): (BTreeSet<_>, BTreeSet<_>) = (a.into_iter().collect(), b.into_iter().collect());
            prop_assert_eq!(&numbers(&left), &a);
            prop_assert_eq!(left.count(), a.len() as u64);
            let mut both = left.clone();
            both.union(&right);
            prop_assert_eq!(numbers(&both), a.union(&b).copied().collect());
            prop_assert_eq!(numbers(&left.subtract(&right)), a.difference(&b).copied().collect());
            prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
            for number in 0..45 {
                prop_assert_eq!(left.contains(number), a.contains(&number));
            }
        }

        #[test]
        fn runs_never_touch(a in some_numbers(), b in some_numbers()) {
            let mut both = of(&a);
            both.union(&of(&b));
            for result in [both.subtract(&of(&b)), both] {
                for pair in result.runs().windows(2) {
                    prop_assert!(pair[0].end < pair[1].start);
                }
            }
        }
    }
}

//! Cuts a simulated table into ranges, leaving out those that are closed.

use fastrand::Rng;
use oxferry_schema::KeyRange;

use super::{
    order::Order,
    row::{number, range},
};

/// Where the next range of a table begins.
#[derive(Debug)]
pub(super) struct Chunker {
    /// What is left to cut, the next part last.
    gaps: Vec<(Option<i64>, Option<i64>)>,
    keys: i64,
    order: Order,
}

impl Chunker {
    /// Begins with a table's gaps between its closed ranges.
    pub(super) fn new(closed: &[KeyRange], keys: i64, order: Order) -> Self {
        let mut gaps = Vec::new();
        let mut lower = Some(None);
        for done in closed {
            let upper = number(done.lower.as_ref());
            if let (Some(lower), Some(upper)) = (lower, upper) {
                gaps.push((lower, Some(upper)));
            }
            lower = done.upper.as_ref().map(|upper| number(Some(upper)));
        }
        gaps.extend(lower.map(|lower| (lower, None)));
        gaps.reverse();
        Self { gaps, keys, order }
    }

    /// Cuts the next range, `None` when there is nothing left.
    pub(super) fn next(&mut self, rng: &mut Rng) -> Option<KeyRange> {
        let (lower, upper) = self.gaps.pop()?;
        let first = lower.map_or(1, |lower| self.order.rank(lower) + 1);
        let end = upper.map_or_else(|| self.order.end(self.keys), |upper| self.order.rank(upper));
        let cut = first + rng.i64(0..self.keys.max(2)) / 2;
        if cut >= end {
            return Some(range(lower, upper));
        }
        let cut = self.order.at(cut, rng.bool());
        self.gaps.push((Some(cut), upper));
        Some(range(lower, Some(cut)))
    }
}

#[cfg(test)]
mod tests {
    use oxferry_copier::engine::KeyOrder;

    use super::*;

    #[test]
    fn ranges_fill_the_gaps_between_closed_ones() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..200 {
            let closed = [range(Some(2), Some(4)), range(Some(6), Some(7))];
            let mut chunker = Chunker::new(&closed, 9, Order(KeyOrder::Client));
            let mut ranges: Vec<_> = std::iter::from_fn(|| chunker.next(&mut rng)).collect();
            ranges.extend(closed);
            for number in -1..10 {
                let key = super::super::row::key(number);
                let holding = ranges.iter().filter(|range| range.contains(&key));
                assert_eq!(holding.count(), 1, "{number} in {ranges:?}");
            }
        }
    }

    #[test]
    fn a_table_closed_to_its_end_has_nothing_left() {
        let mut rng = Rng::with_seed(1);
        assert_eq!(
            Chunker::new(&[range(None, None)], 9, Order(KeyOrder::Client)).next(&mut rng),
            None
        );
    }
}

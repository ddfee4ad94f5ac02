//! What closed ranges leave open.

use oxferry_schema::KeyRange;

/// Returns the ranges of the key space that `closed` leaves open, in key order.
///
/// `closed` are ranges in key order, no two of which overlap or touch, as
/// [`TableProgress::closed`](crate::engine::TableProgress::closed) has them.
/// Bounds are only handed on, never compared: the keys may be such as only the
/// server can order.
#[must_use]
pub fn gaps(closed: &[KeyRange]) -> Vec<KeyRange> {
    let mut gaps = Vec::new();
    // Where it is open from; `None` behind the end of the key space.
    let mut open_from = Some(None);
    for range in closed {
        if let Some(lower) = open_from
            && range.lower.is_some()
        {
            gaps.push(KeyRange {
                lower,
                upper: range.lower.clone(),
            });
        }
        open_from = range.upper.clone().map(Some);
    }
    gaps.extend(open_from.map(|lower| KeyRange { lower, upper: None }));
    gaps
}

#[cfg(test)]
mod tests {
    use oxferry_schema::{Key, KeyPart};
    use proptest::prelude::*;

    use super::*;

    fn key(v: i128) -> Key {
        Key::new([KeyPart::Int(v)])
    }

    fn range(lower: Option<i128>, upper: Option<i128>) -> KeyRange {
        KeyRange {
            lower: lower.map(key),
            upper: upper.map(key),
        }
    }

    #[test]
    fn nothing_closed_leaves_everything() {
        assert_eq!(gaps(&[]), [KeyRange::ALL]);
    }

    #[test]
    fn everything_closed_leaves_nothing() {
        assert_eq!(gaps(&[KeyRange::ALL]), []);
    }

    #[test]
    fn gaps_lie_between_before_and_behind() {
        assert_eq!(
            gaps(&[range(Some(1), Some(4)), range(Some(9), Some(12))]),
            [
                range(None, Some(1)),
                range(Some(4), Some(9)),
                range(Some(12), None)
            ]
        );
        assert_eq!(
            gaps(&[range(None, Some(4)), range(Some(9), None)]),
            [range(Some(4), Some(9))]
        );
    }

    #[test]
    fn the_keys_order_does_not_matter() {
        assert_eq!(
            gaps(&[range(Some(9), Some(4)), range(Some(7), Some(1))]),
            [
                range(None, Some(9)),
                range(Some(4), Some(7)),
                range(Some(1), None)
            ]
        );
    }

    proptest! {
        #[test]
        fn gaps_and_closed_ranges_partition_the_key_space(
            bounds in proptest::collection::btree_set(-9i128..9, 0..9),
            (from_start, to_end) in (proptest::bool::ANY, proptest::bool::ANY),
            probe in -12i128..12,
        ) {
            let bounds = bounds.into_iter().map(Some);
            let ends = to_end.then_some(None);
            let bounds: Vec<_> = from_start.then_some(None).into_iter().chain(bounds).chain(ends).collect();
            let closed: Vec<_> = bounds
                .chunks_exact(2)
                .map(|pair| range(pair[0], pair[1]))
                .filter(|range| *range != KeyRange::ALL || bounds.len() == 2)
                .collect();
            let probe = key(probe);
            let is_closed = closed.iter().any(|r| r.contains(&probe));
            let open = gaps(&closed).iter().filter(|r| r.contains(&probe)).count();
            prop_assert_eq!(open, usize::from(!is_closed));
        }
    }
}

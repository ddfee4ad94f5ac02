//! What closed ranges leave open.

use oxferry_schema::KeyRange;

/// Returns the ranges of the key space that `closed` leaves open, in key order.
///
/// Together with `closed` they cover every key, and none of them overlaps a
/// closed one. Closed ranges may come in any order and may overlap or touch;
/// empty ones are ignored.
#[must_use]
pub fn gaps(closed: &[KeyRange]) -> Vec<KeyRange> {
    let mut closed: Vec<&KeyRange> = closed.iter().filter(|range| !is_empty(range)).collect();
    // `None` sorts first, as it must: it is the lowest lower bound.
    closed.sort_by(|a, b| a.lower.cmp(&b.lower));
    let mut gaps = Vec::new();
    let mut covered_to = None;
    for range in closed {
        let behind = match (&covered_to, &range.lower) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(covered), Some(lower)) => covered < lower,
        };
        if behind {
            gaps.push(KeyRange {
                lower: covered_to.clone(),
                upper: range.lower.clone(),
            });
        }
        match &range.upper {
            None => return gaps,
            Some(upper) if covered_to.as_ref().is_none_or(|covered| covered < upper) => {
                covered_to = Some(upper.clone());
            }
            Some(_) => {}
        }
    }
    gaps.push(KeyRange {
        lower: covered_to,
        upper: None,
    });
    gaps
}

/// Returns whether no key can lie inside.
fn is_empty(range: &KeyRange) -> bool {
    matches!((&range.lower, &range.upper), (Some(lower), Some(upper)) if lower >= upper)
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
        assert_eq!(gaps(&[range(Some(5), None), range(None, Some(5))]), []);
    }

    #[test]
    fn gaps_lie_between_before_and_behind() {
        assert_eq!(
            gaps(&[range(Some(9), Some(12)), range(Some(1), Some(4))]),
            [
                range(None, Some(1)),
                range(Some(4), Some(9)),
                range(Some(12), None)
            ]
        );
    }

    proptest! {
        #[test]
        fn gaps_and_closed_ranges_partition_the_key_space(
            bounds in proptest::collection::vec(
                (proptest::option::of(-9i128..9), proptest::option::of(-9i128..9)), 0..6),
            probe in -12i128..12,
        ) {
            let closed: Vec<_> = bounds.into_iter().map(|(l, u)| range(l, u)).collect();
            let probe = key(probe);
            let is_closed = closed.iter().any(|r| r.contains(&probe));
            let open = gaps(&closed).iter().filter(|r| r.contains(&probe)).count();
            prop_assert_eq!(open, usize::from(!is_closed));
        }

        #[test]
        fn gaps_are_ordered_and_apart(
            bounds in proptest::collection::vec(
                (proptest::option::of(-9i128..9), proptest::option::of(-9i128..9)), 0..6),
        ) {
            let closed: Vec<_> = bounds.into_iter().map(|(l, u)| range(l, u)).collect();
            for pair in gaps(&closed).windows(2) {
                prop_assert!(pair[0].upper.is_some() && pair[0].upper < pair[1].lower);
            }
        }
    }
}

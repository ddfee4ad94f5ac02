//! How a batch is cut into statements.

use std::ops::Range;

/// What one statement may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceLimits {
    /// Places in its text for each row, at least 1.
    pub(crate) row_places: usize,
    /// Bytes of parameters.
    pub(crate) bytes: usize,
}

/// Cuts rows of the given sizes in bytes into statements, in order.
///
/// A statement has a power of two of rows, so that the few texts that there
/// are stay prepared; it keeps to the limits, except that one row alone is
/// always a piece.
pub(crate) fn pieces(sizes: &[usize], limits: PieceLimits) -> Vec<Range<usize>> {
    let rows_max = (PLACES_MAX / limits.row_places.max(1)).clamp(1, ROWS_MAX);
    let mut pieces = Vec::new();
    let mut rest = sizes;
    while !rest.is_empty() {
        let start = sizes.len() - rest.len();
        let rows = power_of_two_below(fitting(rest, rows_max, limits.bytes));
        pieces.push(start..start + rows);
        rest = rest.get(rows..).unwrap_or_default();
    }
    pieces
}

/// Returns how many of the first rows fit together, at least 1.
fn fitting(sizes: &[usize], rows_max: usize, bytes_max: usize) -> usize {
    let mut bytes = 0usize;
    let fits = |size: &&usize| {
        bytes = bytes.saturating_add(**size);
        bytes <= bytes_max
    };
    sizes.iter().take(rows_max).take_while(fits).count().max(1)
}

/// Returns the greatest power of two that is not above `n`; 1 for 0.
const fn power_of_two_below(n: usize) -> usize {
    match n.checked_ilog2() {
        Some(log) => 1 << log,
        None => 1,
    }
}

/// The number of parameters travels in two bytes. Source: MySQL source,
/// "COM_STMT_PREPARE Response", `num_params`.
const PLACES_MAX: usize = 65_535;

/// More rows in a statement bring nothing, and with keys of several columns
/// the range optimizer's memory (8 MB, `range_optimizer_max_mem_size`) could
/// run out; then it would read the whole table.
const ROWS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: PieceLimits = PieceLimits {
        row_places: 3,
        bytes: 1_000,
    };

    #[test]
    fn pieces_are_powers_of_two() {
        let pieces = pieces(&[1; 700], LIMITS);
        let lengths: Vec<usize> = pieces.iter().map(ExactSizeIterator::len).collect();
        assert_eq!(lengths, [512, 128, 32, 16, 8, 4]);
    }

    #[test]
    fn a_row_above_the_limit_stands_alone() {
        assert_eq!(pieces(&[5_000, 10, 10], LIMITS), [0..1, 1..3]);
        assert!(pieces(&[], LIMITS).is_empty());
    }

    #[test]
    fn many_columns_make_few_rows() {
        let limits = PieceLimits {
            row_places: 1_000,
            bytes: 1_000,
        };
        assert_eq!(pieces(&[1; 128], limits), [0..64, 64..128]);
    }

    proptest! {
        #[test]
        fn pieces_cover_every_row_once_in_order(
            sizes in proptest::collection::vec(0usize..1_500, 0..1_200),
            row_places in 1usize..4_096,
        ) {
            let limits = PieceLimits { row_places, bytes: 1_000 };
            let mut next = 0;
            for piece in pieces(&sizes, limits) {
                prop_assert_eq!(piece.start, next);
                prop_assert!(piece.len().is_power_of_two());
                prop_assert!(piece.len() * row_places <= PLACES_MAX);
                let bytes: usize = sizes[piece.clone()].iter().sum();
                prop_assert!(piece.len() == 1 || bytes <= 1_000);
                next = piece.end;
            }
            prop_assert_eq!(next, sizes.len());
        }
    }
}

//! Which source column each column of the altered table comes from.

use crate::Table;

/// Where the columns of an altered table come from.
///
/// The server's own answer: see [`probe`](crate::probe). Numbers are places in
/// [`Table::columns`], of the source or of the altered table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mapping {
    /// What travels: each column of the altered table that is filled from the
    /// source, in the altered table's order. The altered table's column is
    /// never a generated one; the source's may be.
    pub pairs: Vec<ColumnPair>,
    /// Generated columns that stay generated ones: nothing travels, but the
    /// altered table's column holds what the source's held, or what a changed
    /// expression makes of it.
    pub computed: Vec<ColumnPair>,
    /// Columns of the altered table that nothing fills but their default.
    pub added: Vec<usize>,
    /// Columns of the source whose values go nowhere.
    pub dropped: Vec<usize>,
    /// Columns of the altered table that the server computes.
    pub generated: Vec<usize>,
}

/// A column of the source, and where its values go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a pair is complete")]
pub struct ColumnPair {
    /// Where the column stands in the source.
    pub source: usize,
    /// Where it stands in the altered table.
    pub target: usize,
}

impl Mapping {
    /// Returns where the source's column goes, if anywhere.
    #[must_use]
    pub fn target_of(&self, source: usize) -> Option<usize> {
        let pair = self.pairs.iter().find(|pair| pair.source == source)?;
        Some(pair.target)
    }

    /// Returns which of the source's columns fills the altered table's.
    #[must_use]
    pub fn source_of(&self, target: usize) -> Option<usize> {
        let pair = self.pairs.iter().find(|pair| pair.target == target)?;
        Some(pair.source)
    }

    /// Puts together what became of each source column: `carried[source]` is
    /// the place in `target` that the server carried it to.
    pub(crate) fn of(source: &Table, target: &Table, carried: &[Option<usize>]) -> Self {
        let is_generated = |at: usize| {
            target
                .columns
                .get(at)
                .is_some_and(|c| c.generated.is_some())
        };
        let mut mapping = Self::default();
        for (at, column) in source.columns.iter().enumerate() {
            match carried.get(at).copied().flatten() {
                Some(target) if !is_generated(target) => {
                    mapping.pairs.push(ColumnPair { source: at, target });
                }
                // The server computes it on both sides: nothing is lost.
                Some(target) if column.generated.is_some() => {
                    mapping.computed.push(ColumnPair { source: at, target });
                }
                _ => mapping.dropped.push(at),
            }
        }
        mapping.pairs.sort_by_key(|pair| pair.target);
        for at in 0..target.columns.len() {
            if is_generated(at) {
                mapping.generated.push(at);
            } else if mapping.source_of(at).is_none() {
                mapping.added.push(at);
            }
        }
        mapping
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, Generated, fixture};

    fn table(columns: &[(&str, bool)]) -> Table {
        let column = |(name, generated): &(&str, bool)| Column {
            nullable: true,
            generated: generated.then_some(Generated::Stored),
            ..fixture::column(name, "int")
        };
        fixture::table(columns.iter().map(column).collect::<Vec<_>>(), [])
    }

    #[test]
    fn pairs_follow_the_altered_tables_order() {
        let source = table(&[("a", false), ("b", false), ("c", false)]);
        let target = table(&[("new", false), ("c", false), ("a", false)]);
        let mapping = Mapping::of(&source, &target, &[Some(2), None, Some(1)]);
        assert_eq!(
            mapping.pairs,
            [
                ColumnPair {
                    source: 2,
                    target: 1
                },
                ColumnPair {
                    source: 0,
                    target: 2
                }
            ]
        );
        assert_eq!(
            (mapping.added.as_slice(), mapping.dropped.as_slice()),
            (&[0][..], &[1][..])
        );
        assert_eq!(
            (mapping.target_of(2), mapping.source_of(0)),
            (Some(1), None)
        );
    }

    #[test]
    fn what_the_server_computes_is_never_filled() {
        let source = table(&[("plain", false), ("g", true), ("frozen", true)]);
        let target = table(&[("plain", true), ("g", true), ("frozen", false)]);
        let mapping = Mapping::of(&source, &target, &[Some(0), Some(1), Some(2)]);
        assert_eq!(
            mapping.pairs,
            [ColumnPair {
                source: 2,
                target: 2
            }]
        );
        let computed = ColumnPair {
            source: 1,
            target: 1,
        };
        assert_eq!(mapping.computed, [computed]);
        assert_eq!((mapping.generated, mapping.dropped), (vec![0, 1], vec![0]));
    }
}

//! What of a table is compared, and how.

use oxferry_schema::KeyRange;

use crate::{touched::Touched, walk::Walk};

#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) table: usize,
    pub(super) what: Part,
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    Summary(KeyRange),
    Page(KeyRange),
    Forward(Walk),
    Backward(Walk),
    Keys,
    Repaired,
}

/// How the comparison of a range begins.
pub(super) fn first_look(touched: &Touched, table: usize, range: KeyRange) -> Part {
    if touched.has_back(table) {
        Part::Forward(Walk::new(range, touched.generation(table)))
    } else {
        Part::Summary(range)
    }
}

//! What preflight looks at of a table.

use oxferry_schema::{KeyError, Table};

use super::preflight::TableFacts;

/// Returns what can be in a table's way.
pub(super) fn table(table: &Table, key_error: Option<&KeyError>) -> TableFacts {
    TableFacts {
        table: table.name.clone(),
        engine: table.engine.clone(),
        key_problem: key_error.map(ToString::to_string),
    }
}

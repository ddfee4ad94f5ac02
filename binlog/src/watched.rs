//! The tables that a stream follows.

use oxferry_schema::Table;

/// The tables that a stream follows, and how their names are compared.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    tables: Vec<Table>,
    ignore_case: bool,
}

impl Watched {
    pub(crate) const fn new(tables: Vec<Table>) -> Self {
        Self {
            tables,
            ignore_case: false,
        }
    }

    /// Says whether the server has `lower_case_table_names` other than 0.
    pub(crate) const fn ignore_case(&mut self, ignore: bool) {
        self.ignore_case = ignore;
    }

    pub(crate) fn table(&self, index: usize) -> Option<&Table> {
        self.tables.get(index)
    }

    /// Returns a table's full name for a message.
    pub(crate) fn plain(&self, index: usize) -> String {
        self.table(index)
            .map(|table| table.name.plain())
            .unwrap_or_default()
    }

    pub(crate) const fn len(&self) -> usize {
        self.tables.len()
    }

    /// Returns where the table of this name stands in the list.
    pub(crate) fn find(&self, schema: &[u8], table: &[u8]) -> Option<usize> {
        self.tables.iter().position(|watched| {
            self.same(watched.name.table.as_str(), table)
                && self.same(watched.name.schema.as_str(), schema)
        })
    }

    /// Returns the first table in the database of this name.
    pub(crate) fn find_in_schema(&self, schema: &[u8]) -> Option<usize> {
        let mut tables = self.tables.iter();
        tables.position(|watched| self.same(watched.name.schema.as_str(), schema))
    }

    /// Returns the first table of this name, in whichever database.
    pub(crate) fn find_name(&self, table: &[u8]) -> Option<usize> {
        let mut tables = self.tables.iter();
        tables.position(|watched| self.same(watched.name.table.as_str(), table))
    }

    /// Returns the first table whose name occurs anywhere in `text`, letter
    /// case ignored.
    ///
    /// A name beyond ASCII may be written in any character set: it is taken
    /// to occur in every text that isn't ASCII.
    pub(crate) fn find_in_text(&self, text: &[u8]) -> Option<usize> {
        let lower = text.to_ascii_lowercase();
        self.tables.iter().position(|watched| {
            let name = watched.name.table.as_str();
            if !name.is_ascii() && !text.is_ascii() {
                return true;
            }
            let name = name.replace('`', "``").to_ascii_lowercase();
            lower
                .windows(name.len())
                .any(|part| part == name.as_bytes())
        })
    }

    fn same(&self, watched: &str, name: &[u8]) -> bool {
        if watched.as_bytes() == name {
            return true;
        }
        self.ignore_case
            && std::str::from_utf8(name)
                .is_ok_and(|name| name.to_lowercase() == watched.to_lowercase())
    }
}

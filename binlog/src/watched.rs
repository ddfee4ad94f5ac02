//! The tables that a stream follows.

use oxferry_schema::{Table, TableName};

/// The tables that a stream follows, and how their names are compared.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    tables: Vec<Table>,
    /// The table whose rows begin every transaction of the job's own.
    mark: Option<TableName>,
    ignore_case: bool,
}

impl Watched {
    pub(crate) const fn new(tables: Vec<Table>) -> Self {
        Self {
            tables,
            mark: None,
            ignore_case: false,
        }
    }

    /// Leaves out what transactions do whose first rows are those of `mark`,
    /// and statements that are the job's [own](crate::statement::is_own).
    pub(crate) fn with_mark(mut self, mark: TableName) -> Self {
        self.mark = Some(mark);
        self
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

    pub(crate) const fn has_mark(&self) -> bool {
        self.mark.is_some()
    }

    /// Returns whether this is the mark's name.
    pub(crate) fn is_mark(&self, schema: &[u8], table: &[u8]) -> bool {
        let mark = self.mark.as_ref();
        mark.is_some_and(|mark| {
            self.same(mark.table.as_str(), table) && self.same(mark.schema.as_str(), schema)
        })
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

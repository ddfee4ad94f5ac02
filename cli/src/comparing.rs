//! What the operator says about comparing rows: which columns are left out,
//! which are decompressed, and by which index a table is read.

use std::collections::BTreeMap;

use clap::Args;
use oxferry_schema::{Column, Ident, ServerUrl, Table, TableName};
use oxferry_verifier::{Codec, ColumnPair};

use crate::{
    failure::Failure,
    source::{name_parts, table_name},
};

/// How rows are compared, as typed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CompareArgs {
    /// A column to leave out of the comparison: DATABASE.TABLE.COLUMN, by the source's names
    #[arg(long, value_name = "COLUMN")]
    pub(crate) ignore_column: Vec<String>,
    /// A column whose values are compared decompressed: DATABASE.TABLE.COLUMN=snappy, or zlib,
    /// gzip, zstd, lz4
    #[arg(long, value_name = "COLUMN=HOW")]
    pub(crate) compressed: Vec<String>,
    /// The index to read a table by for the comparison, on both servers: DATABASE.TABLE=INDEX
    #[arg(long, value_name = "TABLE=INDEX")]
    pub(crate) force_index: Vec<String>,
}

/// How rows are compared, by the source's tables.
///
/// It is no part of a job's identity: no evidence outlives a run, and what is
/// copied doesn't depend on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparing {
    ignored: BTreeMap<TableName, Vec<Ident>>,
    compressed: BTreeMap<TableName, Vec<(Ident, Codec)>>,
    forced: BTreeMap<TableName, Ident>,
}

impl Comparing {
    /// Reads the options; a table without a database is in that of `source`.
    ///
    /// # Errors
    ///
    /// A failure that names the option and what is wrong with it.
    pub(crate) fn read(args: &CompareArgs, source: &ServerUrl) -> Result<Self, Failure> {
        let mut read = Self::default();
        for text in &args.ignore_column {
            let (table, column) = column("--ignore-column", text)?;
            read.ignored.entry(table).or_default().push(column);
        }
        for text in &args.compressed {
            let (name, codec) = sides("--compressed", text)?;
            let (table, column) = column("--compressed", name)?;
            let codec = codec
                .parse()
                .map_err(|error| Failure::usage(format!("--compressed {text}: {error}")))?;
            let columns = read.compressed.entry(table).or_default();
            columns.push((column, codec));
        }
        for text in &args.force_index {
            let (name, index) = sides("--force-index", text)?;
            let table = table_name(name, source)?;
            let index = ident("--force-index", text, index)?;
            read.forced.insert(table, index);
        }
        Ok(read)
    }

    /// Returns the same for tables of other names: pairs of the name until now
    /// and the other one.
    pub(crate) fn renamed<'a>(
        &self,
        names: impl IntoIterator<Item = (&'a TableName, &'a TableName)>,
    ) -> Self {
        let mut renamed = Self::default();
        for (from, to) in names {
            let to = || to.clone();
            let ignored = self.ignored.get(from).cloned();
            renamed
                .ignored
                .extend(ignored.map(|columns| (to(), columns)));
            let compressed = self.compressed.get(from).cloned();
            renamed
                .compressed
                .extend(compressed.map(|columns| (to(), columns)));
            let forced = self.forced.get(from).cloned();
            renamed.forced.extend(forced.map(|index| (to(), index)));
        }
        renamed
    }

    /// Returns the columns of a source table that are left out.
    pub(crate) fn ignored(&self, table: &TableName) -> &[Ident] {
        self.ignored.get(table).map_or(&[], Vec::as_slice)
    }

    /// Returns the columns of a source table that are decompressed.
    pub(crate) fn compressed(&self, table: &TableName) -> &[(Ident, Codec)] {
        self.compressed.get(table).map_or(&[], Vec::as_slice)
    }

    /// Returns the index that a source table, and its target, are read by.
    pub(crate) fn forced(&self, table: &TableName) -> Option<&Ident> {
        self.forced.get(table)
    }

    /// Checks that every option about a table is about one of `compared`.
    ///
    /// # Errors
    ///
    /// A failure that names the first other table.
    pub(crate) fn check_used(&self, compared: &[&TableName]) -> Result<(), Failure> {
        let ignored = self.ignored.keys().map(|table| ("--ignore-column", table));
        let compressed = self.compressed.keys().map(|table| ("--compressed", table));
        let forced = self.forced.keys().map(|table| ("--force-index", table));
        let mut named = ignored.chain(compressed).chain(forced);
        match named.find(|(_, table)| !compared.contains(table)) {
            None => Ok(()),
            Some((option, table)) => Err(Failure::usage(format!(
                "{option} names {}, which isn't compared",
                table.plain()
            ))),
        }
    }

    /// Checks what is said about a source table against its columns and indexes.
    ///
    /// # Errors
    ///
    /// A failure that names the column or the index.
    pub(crate) fn check_table(&self, table: &Table, key: &[Ident]) -> Result<(), Failure> {
        let ignored = self.ignored(&table.name);
        for name in ignored {
            if !table.columns.iter().any(|c| same(&c.name, name)) {
                return Err(Failure::usage(format!(
                    "column {name} is to be ignored, but {} has none of that name",
                    table.name.plain()
                )));
            }
        }
        let left_out = ignored
            .iter()
            .chain(self.compressed(&table.name).iter().map(|c| &c.0));
        for name in left_out {
            if key.iter().any(|column| same(column, name)) {
                return Err(Failure::usage(format!(
                    "column {name} can't be left out or decompressed: it is part of the key of {}",
                    table.name.plain()
                )));
            }
        }
        let pairs = table.columns.iter().filter(|c| !is_among(ignored, &c.name));
        let pairs: Vec<ColumnPair> = pairs
            .map(|column| ColumnPair {
                source: column.clone(),
                target: column.clone(),
            })
            .collect();
        check_compressed(&pairs, self.compressed(&table.name))?;
        if let Some(index) = self.forced(&table.name) {
            existing(table, index, "source")?;
        }
        Ok(())
    }
}

/// Checks that the servers hand out the compressed bytes as they are.
///
/// # Errors
///
/// A failure that names the column of another type, or that isn't there.
pub(crate) fn check_compressed(
    pairs: &[ColumnPair],
    compressed: &[(Ident, Codec)],
) -> Result<(), Failure> {
    let is_binary =
        |column: &Column| column.data_type.ends_with("blob") || column.data_type == "varbinary";
    for (name, _) in compressed {
        let pair = pairs.iter().find(|pair| pair.source.name == *name);
        let is_usable = pair.is_some_and(|pair| {
            is_binary(&pair.source) && is_binary(&pair.target) && pair.target.name == *name
        });
        if !is_usable {
            return Err(Failure::usage(format!(
                "column {name} can't be compared decompressed: both sides must have it, not ignored, \
                 as VARBINARY or one of the BLOB types"
            )));
        }
    }
    Ok(())
}

/// Returns the name of an index as the table has it.
///
/// # Errors
///
/// A failure when the table has no such index.
pub(crate) fn existing(table: &Table, index: &Ident, side: &str) -> Result<Ident, Failure> {
    let named = table.indexes.iter().find(|known| same(&known.name, index));
    named.map(|index| index.name.clone()).ok_or_else(|| {
        Failure::usage(format!(
            "the {side}'s {} has no index {index}, which --force-index names",
            table.name.plain()
        ))
    })
}

/// Returns whether two names are the same column's, or index's.
///
/// Source: MySQL 9.7 manual, "Identifier Case Sensitivity": these names are
/// compared without regard to letter case.
pub(crate) fn same(a: &Ident, b: &Ident) -> bool {
    a.as_str().to_lowercase() == b.as_str().to_lowercase()
}

/// Returns whether a column, or an index, is named in a list.
pub(crate) fn is_among<'a>(names: impl IntoIterator<Item = &'a Ident>, one: &Ident) -> bool {
    names.into_iter().any(|name| same(name, one))
}

fn sides<'a>(option: &str, text: &'a str) -> Result<(&'a str, &'a str), Failure> {
    let wrong = || Failure::usage(format!("{option} {text}: write NAME=VALUE"));
    text.rsplit_once('=').ok_or_else(wrong)
}

fn ident(option: &str, text: &str, name: &str) -> Result<Ident, Failure> {
    Ident::new(name).map_err(|error| Failure::usage(format!("{option} {text}: {error}")))
}

fn column(option: &str, text: &str) -> Result<(TableName, Ident), Failure> {
    let parts = name_parts(text);
    let Some([schema, table, column]) = parts.as_deref() else {
        return Err(Failure::usage(format!(
            "{option} {text}: write DATABASE.TABLE.COLUMN"
        )));
    };
    let table = TableName::new(ident(option, text, schema)?, ident(option, text, table)?);
    Ok((table, ident(option, text, column)?))
}

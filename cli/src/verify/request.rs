//! What is to be compared, read out of the options.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

use mysql_async::Conn;
use oxferry_schema::{
    Ident, Selection, ServerInfo, ServerUrl, Sides, TableName, Wanted, read_found,
};
use oxferry_verifier::Codec;

use super::{Subject, VerifyArgs};
use crate::{
    failure::Failure,
    moving::wanted,
    source::{name_parts, source_url, table_name, target_url},
};

/// What is to be compared, and how.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) source: ServerUrl,
    pub(crate) target: ServerUrl,
    pub(crate) threads: NonZeroUsize,
    pub(crate) recheck_for: Duration,
    pub(crate) repair: bool,
    wanted: Wanted,
    ignored: BTreeMap<TableName, Vec<Ident>>,
    compressed: BTreeMap<TableName, Vec<(Ident, Codec)>>,
    forced: BTreeMap<TableName, Ident>,
}

impl Request {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// A failure that names the option and what is wrong with it.
    pub(crate) fn read(args: &VerifyArgs) -> Result<Self, Failure> {
        let source = source_url(&args.server)?;
        let target = target_url(args.target.as_deref())?;
        let mut request = Self {
            repair: args.repair,
            wanted: wanted(&args.select)?,
            ignored: BTreeMap::new(),
            compressed: BTreeMap::new(),
            forced: BTreeMap::new(),
            threads: args.threads,
            recheck_for: args.recheck_for,
            source,
            target,
        };
        for text in &args.ignore_column {
            let (table, column) = column("--ignore-column", text)?;
            request.ignored.entry(table).or_default().push(column);
        }
        for text in &args.compressed {
            let (name, codec) = sides("--compressed", text)?;
            let (table, column) = column("--compressed", name)?;
            let codec = codec
                .parse()
                .map_err(|error| Failure::usage(format!("--compressed {text}: {error}")))?;
            let columns = request.compressed.entry(table).or_default();
            columns.push((column, codec));
        }
        for text in &args.force_index {
            let (name, index) = sides("--force-index", text)?;
            let table = table_name(name, &request.source)?;
            let index = ident("--force-index", text, index)?;
            request.forced.insert(table, index);
        }
        Ok(request)
    }

    /// Returns the tables to compare, by their names on source and target, the
    /// largest first.
    ///
    /// # Errors
    ///
    /// A failure when the options name what isn't there, or nothing at all.
    pub(crate) async fn tables(
        &self,
        source: &mut Conn,
        target: &mut Conn,
    ) -> Result<Vec<(TableName, TableName)>, Failure> {
        let found = read_found(source).await?;
        let (one, other) = (
            ServerInfo::read(source).await?,
            ServerInfo::read(target).await?,
        );
        let sides = Sides {
            source_lower_case: one.lower_case_table_names,
            target_lower_case: other.lower_case_table_names,
            same_server: one.server_uuid == other.server_uuid,
        };
        let chosen = Selection::choose(&found, &self.wanted, sides);
        let chosen = chosen.map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Failure::usage(lines.join("; "))
        })?;
        for left_out in &chosen.left_out {
            tracing::info!(table = left_out.table.plain(), "left out: {}", left_out.why);
        }
        let tables = chosen.tables.into_iter();
        Ok(tables.map(|table| (table.source, table.target)).collect())
    }

    pub(crate) fn ignored(&self, table: &TableName) -> &[Ident] {
        self.ignored.get(table).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn compressed(&self, table: &TableName) -> &[(Ident, Codec)] {
        self.compressed.get(table).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn forced(&self, table: &TableName) -> Option<&Ident> {
        self.forced.get(table)
    }

    /// Checks that every option about a table is about one that is compared.
    ///
    /// # Errors
    ///
    /// A failure that names the first other table.
    pub(crate) fn check_used(&self, subjects: &[Subject]) -> Result<(), Failure> {
        let ignored = self.ignored.keys().map(|table| ("--ignore-column", table));
        let compressed = self.compressed.keys().map(|table| ("--compressed", table));
        let forced = self.forced.keys().map(|table| ("--force-index", table));
        for (option, table) in ignored.chain(compressed).chain(forced) {
            if !subjects.iter().any(|subject| subject.source == *table) {
                return Err(Failure::usage(format!(
                    "{option} names {}, which isn't compared",
                    table.plain()
                )));
            }
        }
        Ok(())
    }

    /// Returns a text that is the same for the same comparison: what a file of
    /// another one can be told by.
    pub(crate) fn described(&self, subjects: &[Subject]) -> String {
        let server = |url: &ServerUrl| format!("{}:{}", url.host(), url.port());
        let tables: Vec<String> = subjects.iter().map(Subject::described).collect();
        format!(
            "{} with {}: {}",
            server(&self.source),
            server(&self.target),
            tables.join("; ")
        )
    }
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

//! What is to be compared, read out of the options.

use std::{num::NonZeroUsize, time::Duration};

use mysql_async::Conn;
use oxferry_schema::{Selection, ServerInfo, ServerUrl, Sides, TableName, Wanted, read_found};

use super::{Subject, VerifyArgs};
use crate::{
    comparing::Comparing,
    failure::Failure,
    moving::wanted,
    source::{source_url, target_url},
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
    /// How their rows are compared.
    pub(crate) comparing: Comparing,
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
        Ok(Self {
            repair: args.repair,
            wanted: wanted(&args.select)?,
            comparing: Comparing::read(&args.compare, &source)?,
            threads: args.threads,
            recheck_for: args.recheck_for,
            source,
            target,
        })
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

    /// Checks that every option about a table is about one that is compared.
    ///
    /// # Errors
    ///
    /// A failure that names the first other table.
    pub(crate) fn check_used(&self, subjects: &[Subject]) -> Result<(), Failure> {
        let compared: Vec<&TableName> = subjects.iter().map(|one| &one.source).collect();
        self.comparing.check_used(&compared)
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

//! Asking the server what it would do, on an empty copy of the table.

use std::collections::BTreeSet;

use mysql_async::{Conn, Params, Value, prelude::Queryable};

use super::{Algorithm, Answer, CopyReason, NativePlan, Trial, Versions, decide, row_versions_max};
use crate::{
    Alter, ErrorClass, ProbeError, ServerVersion, ShadowNames, Table, TableName, checks, classify,
    probe::scratch::Scratch, server_code,
};

/// Why it can't be said what the server would do.
pub type NativeError = ProbeError;

/// Asks the server whether, and by which algorithm, it can change `source` at
/// once.
///
/// Runs the statement on empty copies of the table, called
/// [`ShadowNames::probe`], as [`probe`](crate::probe) does; they are dropped
/// again. What the server keeps of a copy tells what INPLACE would do: the
/// table's and its indexes' numbers stay, or they don't. To see them takes the
/// PROCESS privilege; without it INPLACE counts only where no column changes.
///
/// # Errors
///
/// [`ProbeError`] when a copy can't be made, read or dropped. That the server
/// refuses the statement itself is no error, but a reason to copy: asking for
/// the copy says why.
///
/// # Cancel safety
///
/// Dropped, it leaves a scratch table behind: close the connection.
pub async fn native_plan(
    conn: &mut Conn,
    version: &ServerVersion,
    source: &Table,
    alter: &Alter,
) -> Result<NativePlan, NativeError> {
    let unable = if !version.is_mysql_at_least((8, 0, 12)) {
        Some(format!("{version} does not change tables at once"))
    } else if source.engine != "InnoDB" {
        let engine = &source.engine;
        Some(format!("engine {engine} does not change tables at once"))
    } else if checks::are_too_long(source) {
        let why = "the server could not name the CHECK constraints of a copy to try it on";
        Some(why.to_owned())
    } else {
        None
    };
    let early = match (unable, alter.asks_for_rebuild()) {
        (Some(unable), _) => Some(CopyReason::Unable(unable)),
        (None, Some(clause)) => Some(CopyReason::AsksForRebuild {
            clause: clause.to_owned(),
        }),
        (None, None) => None,
    };
    if let Some(reason) = early {
        return Ok(NativePlan {
            way: Err(reason),
            after: String::new(),
        });
    }
    let max = row_versions_max(version);
    let used = kept(conn, &source.name).await?.map(|kept| kept.versions);
    let name = ShadowNames::beside(&source.name).probe;
    let mut scratch = Scratch::new(conn, source, &name, alter);
    let tried = try_both(&mut scratch, alter).await;
    let dropped = scratch.drop().await;
    let (trial, after) = tried?;
    dropped?;
    let way = decide(
        alter,
        (source, after.as_ref().unwrap_or(source)),
        &trial,
        Versions { used, max },
    );
    Ok(NativePlan {
        way,
        after: after.map_or_else(String::new, |table| table.create_statement),
    })
}

/// Tries both algorithms; also returns what the table becomes.
async fn try_both(
    scratch: &mut Scratch<'_>,
    alter: &Alter,
) -> Result<(Trial, Option<Table>), ProbeError> {
    if alter.drops_foreign_keys_only() {
        // A copy has none. Source: MySQL 9.7 manual, "Online DDL Operations",
        // and observed on 9.7.4.
        scratch.renew().await?;
        let trial = Trial {
            instant: Answer::Refused("a foreign key is not dropped instantly".to_owned()),
            inplace: Answer::Done(Some(true)),
        };
        return Ok((trial, Some(scratch.read().await?)));
    }
    let mut trial = Trial {
        instant: attempt(scratch, Algorithm::Instant).await?,
        inplace: Answer::Refused(String::new()),
    };
    let mut after = None;
    if matches!(trial.instant, Answer::Done(_)) {
        after = Some(scratch.read().await?);
    }
    trial.inplace = attempt(scratch, Algorithm::Inplace).await?;
    if matches!(trial.inplace, Answer::Done(_)) {
        after = Some(scratch.read().await?);
    }
    if alter.drops_foreign_keys() {
        trial.instant = Answer::Refused("a foreign key is not dropped instantly".to_owned());
    }
    Ok((trial, after))
}

async fn attempt(scratch: &mut Scratch<'_>, algorithm: Algorithm) -> Result<Answer, ProbeError> {
    scratch.renew().await?;
    let before = kept(scratch.conn, scratch.name).await?;
    let statement = scratch.statement_by(algorithm);
    if let Err(error) = scratch.conn.query_drop(statement).await {
        return match classify(&error) {
            ErrorClass::Fatal | ErrorClass::DataRefused => {
                let message = match &error {
                    mysql_async::Error::Server(error) => error.message.clone(),
                    other => other.to_string(),
                };
                Ok(Answer::Refused(message))
            }
            _ => Err(scratch.failed("change", error)),
        };
    }
    let after = kept(scratch.conn, scratch.name).await?;
    let metadata_only = before.zip(after).map(|(before, after)| {
        before.tables == after.tables && after.indexes.is_subset(&before.indexes)
    });
    Ok(Answer::Done(metadata_only))
}

/// What InnoDB knows a table, or its partitions, by.
struct Kept {
    tables: BTreeSet<u64>,
    indexes: BTreeSet<u64>,
    /// The most instant changes of a partition.
    versions: u64,
}

/// Returns what InnoDB knows the table by; `None` without the PROCESS
/// privilege, and on servers that don't tell.
async fn kept(conn: &mut Conn, name: &TableName) -> Result<Option<Kept>, ProbeError> {
    let failed = |source| ProbeError::Scratch {
        what: "read what InnoDB knows of",
        scratch: name.plain(),
        source,
    };
    let tables: Vec<(u64, u64)> = match conn.exec(TABLES, (pattern(name),)).await {
        Ok(tables) => tables,
        // ER_SPECIFIC_ACCESS_DENIED; ER_BAD_FIELD_ERROR before 8.0.29.
        Err(error) if matches!(server_code(&error), Some(1227 | 1054)) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if tables.is_empty() {
        return Ok(None);
    }
    let marks = vec!["?"; tables.len()].join(", ");
    let ids = tables.iter().map(|(id, _)| Value::from(*id)).collect();
    // Of partitions the server lists none.
    let indexes: Vec<u64> = conn
        .exec(
            format!(
                "SELECT INDEX_ID FROM information_schema.INNODB_INDEXES WHERE TABLE_ID IN ({marks})"
            ),
            Params::Positional(ids),
        )
        .await
        .map_err(failed)?;
    Ok(Some(Kept {
        versions: tables.iter().map(|(_, used)| *used).max().unwrap_or(0),
        tables: tables.into_iter().map(|(id, _)| id).collect(),
        indexes: indexes.into_iter().collect(),
    }))
}

const TABLES: &str = "SELECT TABLE_ID, TOTAL_ROW_VERSIONS FROM information_schema.INNODB_TABLES \
    WHERE REGEXP_LIKE(NAME, ?, 'c')";

/// A pattern for what InnoDB calls the table and its partitions: names as files
/// have them.
///
/// Source: MySQL 9.7 manual, "Mapping of Identifiers to File Names". Letters
/// beyond ASCII have codes of two kinds, which the pattern doesn't tell apart.
fn pattern(name: &TableName) -> String {
    let part = |text: &str| {
        text.chars().fold(String::new(), |mut pattern, c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                pattern.push(c);
            } else if c.is_ascii() {
                pattern += &format!("@{:04x}", u32::from(c));
            } else {
                pattern += "(@[0-9a-zA-Z]{2,4})+";
            }
            pattern
        })
    };
    let (schema, table) = (part(name.schema.as_str()), part(name.table.as_str()));
    format!("^{schema}/{table}(#[pP]#.*)?$")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ident;

    #[test]
    fn names_are_looked_for_as_files_have_them() {
        let name =
            |table: &str| TableName::new(Ident::new("d").unwrap(), Ident::new(table).unwrap());
        assert_eq!(pattern(&name("_t_1")), "^d/_t_1(#[pP]#.*)?$");
        assert_eq!(
            pattern(&name("a b.c-$")),
            "^d/a@0020b@002ec@002d@0024(#[pP]#.*)?$"
        );
        assert_eq!(pattern(&name("é")), "^d/(@[0-9a-zA-Z]{2,4})+(#[pP]#.*)?$");
    }
}

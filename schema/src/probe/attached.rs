//! Whether what hangs on a table can hang on the altered one: tried out.

use mysql_async::{Conn, prelude::Queryable};

use super::{ProbeError, scratch::Scratch};
use crate::{
    Alter, Attached, CarriedKey, ErrorClass, ForeignKey, Ident, ReadError, Remedy, ShadowNames,
    Table, TableName, classify, server_code, temporary_name,
};

/// Why something that hangs on a table can't be carried over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Objection {
    /// The server refuses it on an empty copy of the altered table.
    #[error("the server refuses {what} on the new table")]
    Refused {
        /// The trigger or the foreign key.
        what: String,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// A user without SUPER may make no trigger.
    #[error(
        "{what} can't be made again by this user: it takes SUPER, or log_bin_trust_function_creators = ON"
    )]
    NotTrusted {
        /// The trigger.
        what: String,
    },
    /// The change takes the index away that the key needs.
    #[error("{key} needs an index on ({columns}) that the altered table lacks")]
    NoIndex {
        /// The foreign key.
        key: Box<ForeignKey>,
        /// The columns that it must begin with.
        columns: String,
    },
    /// The statement itself adds a foreign key.
    #[error("the statement adds foreign key {name}")]
    Added {
        /// The constraint.
        name: String,
    },
    /// Its names can't be written in its character set.
    #[error("a trigger can't be made on the new table")]
    Charset(#[source] Box<ReadError>),
}

impl Objection {
    /// Says how to remove it, in words.
    #[must_use]
    pub const fn fix(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "change either so that both go together, or drop it first",
            Self::NotTrusted { .. } => {
                "SET GLOBAL log_bin_trust_function_creators = ON, or GRANT SUPER ON *.* TO the user"
            }
            Self::NoIndex { .. } => "keep such an index, or drop the foreign key first",
            Self::Added { .. } => "add it in a statement of its own, before or after this one",
            Self::Charset(_) => "create it again in a session in utf8mb4",
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Refused { source, .. } => match classify(source) {
                ErrorClass::DataRefused | ErrorClass::Fatal => Remedy::Usage,
                class => class.remedy(),
            },
            Self::NotTrusted { .. } => Remedy::Privileges,
            Self::NoIndex { .. } | Self::Added { .. } => Remedy::Usage,
            Self::Charset(source) => source.remedy(),
        }
    }
}

/// Tries on empty copies whether what hangs on `source` can hang on the table
/// that `alter` makes of it; `attached` has been followed through the change,
/// as by [`Attached::follow`]. `altered` are the statements that change other
/// tables at the same time.
///
/// The copies are [`ShadowNames::probe`] and [`ShadowNames::probe_other`], and
/// are dropped, on an error too. Neither the table nor one that a key ties to
/// it is locked; of the latter the user must be able to read the definition.
///
/// # Errors
///
/// [`ProbeError`] when it couldn't be tried; what is in the way is returned,
/// all of it.
pub async fn try_attached(
    conn: &mut Conn,
    (source, alter): (&Table, &Alter),
    attached: &Attached,
    altered: &[(&Table, &Alter)],
) -> Result<Vec<Objection>, ProbeError> {
    if attached.is_empty() {
        return Ok(Vec::new());
    }
    let mut trial = Trial {
        conn,
        names: &ShadowNames::beside(&source.name),
        altered,
        found: Vec::new(),
        tried: 0,
    };
    let tried = trial.begin(source, alter, attached).await;
    let dropped = trial.drop_copies().await;
    tried?;
    dropped?;
    Ok(trial.found)
}

struct Trial<'a> {
    conn: &'a mut Conn,
    names: &'a ShadowNames,
    altered: &'a [(&'a Table, &'a Alter)],
    found: Vec<Objection>,
    /// Keys tried so far: an index that the server makes for one keeps its name.
    tried: usize,
}

impl Trial<'_> {
    async fn begin(
        &mut self,
        source: &Table,
        alter: &Alter,
        attached: &Attached,
    ) -> Result<(), ProbeError> {
        let mut scratch = Scratch::new(self.conn, source, &self.names.probe, alter);
        scratch.renew().await?;
        scratch.alter().await?;
        self.all(attached).await
    }

    /// Both at once: one may refer to the other.
    async fn drop_copies(&mut self) -> Result<(), ProbeError> {
        let (probe, other) = (&self.names.probe, &self.names.probe_other);
        let drop = format!("DROP TABLE IF EXISTS {probe}, {other}");
        self.run("drop", drop).await
    }

    async fn all(&mut self, attached: &Attached) -> Result<(), ProbeError> {
        let probe = self.names.probe.clone();
        let added = Table::foreign_keys(self.conn, &probe).await;
        for key in added.map_err(|error| self.unread(error))? {
            self.found.push(Objection::Added {
                name: key.name.as_str().to_owned(),
            });
        }
        for key in &attached.foreign_keys {
            self.own_key(key).await?;
        }
        for key in &attached.children {
            self.child(key).await?;
        }
        if attached.triggers.is_empty() {
            return Ok(());
        }
        let mode = self
            .conn
            .query_first::<String, _>("SELECT @@SESSION.sql_mode");
        let mode = mode.await;
        let mode = mode.map_err(|e| self.failed("read sql_mode for", e))?;
        let tried = self.triggers(attached).await;
        // A trigger's statement leaves its own settings behind.
        self.run("reset the session of", "SET NAMES utf8mb4".to_owned())
            .await?;
        let reset = format!("SET SESSION sql_mode = '{}'", mode.unwrap_or_default());
        self.run("reset the session of", reset).await?;
        tried
    }

    /// The table refers to another one, or to itself.
    async fn own_key(&mut self, key: &CarriedKey) -> Result<(), ProbeError> {
        let child = self.names.probe.clone();
        if key.was.parent == key.was.child {
            return self.key(&key.becomes, &child, &child).await;
        }
        let other = self.names.probe_other.clone();
        self.copy_other(&key.was.parent).await?;
        self.key(&key.becomes, &child, &other).await?;
        self.drop_other().await
    }

    /// Another table refers to the table.
    async fn child(&mut self, key: &CarriedKey) -> Result<(), ProbeError> {
        let (probe, other) = (self.names.probe.clone(), self.names.probe_other.clone());
        self.copy_other(&key.was.child).await?;
        self.key(&key.becomes, &other, &probe).await?;
        self.drop_other().await
    }

    /// Adds the key between two copies, and takes it away again.
    async fn key(
        &mut self,
        key: &ForeignKey,
        child: &TableName,
        parent: &TableName,
    ) -> Result<(), ProbeError> {
        let before = self.index_columns(child).await?;
        self.tried += 1;
        let name = temporary_name(child, "fk", self.tried);
        let add = format!("ALTER TABLE {child} {}", key.add_clause(&name, parent));
        match self.conn.query_drop(add).await {
            Err(error @ mysql_async::Error::Server(_)) => {
                self.found.push(Objection::Refused {
                    what: key.to_string(),
                    source: error,
                });
                return Ok(());
            }
            done => done.map_err(|e| self.failed("add a foreign key to", e))?,
        }
        // The server makes an index that lacks, which would take as long as the
        // table is large.
        if self.index_columns(child).await?.len() > before.len() {
            let columns: Vec<&str> = key.columns.iter().map(Ident::as_str).collect();
            self.found.push(Objection::NoIndex {
                key: Box::new(key.clone()),
                columns: columns.join(", "),
            });
        }
        let remove = format!("ALTER TABLE {child} DROP FOREIGN KEY {name}");
        self.run("drop a foreign key of", remove).await
    }

    async fn triggers(&mut self, attached: &Attached) -> Result<(), ProbeError> {
        let probe = self.names.probe.clone();
        let name = temporary_name(&probe, "tr", 0);
        for trigger in &attached.triggers {
            let statement = match trigger.statement(self.conn, &name, &probe).await {
                Err(error @ ReadError::Charset { .. }) => {
                    self.found.push(Objection::Charset(Box::new(error)));
                    continue;
                }
                other => other.map_err(|error| self.unread(error))?,
            };
            let what = trigger.to_string();
            let made = self.conn.query_drop(statement.packet).await;
            self.run("reset the session of", "SET NAMES utf8mb4".to_owned())
                .await?;
            match made {
                Ok(()) => {
                    let schema = &probe.schema;
                    self.run("drop a trigger of", format!("DROP TRIGGER {schema}.{name}"))
                        .await?;
                }
                Err(error) if server_code(&error) == Some(ER_NEEDS_SUPER) => {
                    self.found.push(Objection::NotTrusted { what });
                }
                Err(source @ mysql_async::Error::Server(_)) => {
                    self.found.push(Objection::Refused { what, source });
                }
                Err(error) => return Err(self.failed("make a trigger on", error)),
            }
        }
        Ok(())
    }

    async fn copy_other(&mut self, table: &TableName) -> Result<(), ProbeError> {
        self.drop_other().await?;
        let other = &self.names.probe_other;
        let altered = self.altered.iter().find(|(one, _)| one.name == *table);
        if let Some((source, alter)) = altered {
            let mut scratch = Scratch::new(self.conn, source, other, alter);
            scratch.renew().await?;
            return scratch.alter().await;
        }
        let like = format!("CREATE TABLE {other} LIKE {table}");
        self.run("create", like).await
    }

    async fn drop_other(&mut self) -> Result<(), ProbeError> {
        let drop = format!("DROP TABLE IF EXISTS {}", self.names.probe_other);
        self.run("drop", drop).await
    }

    async fn index_columns(&mut self, table: &TableName) -> Result<Vec<Ident>, ProbeError> {
        let read = Table::read(self.conn, table).await;
        let table = read.map_err(|error| self.unread(error))?;
        let indexes = table.map(|table| table.indexes).unwrap_or_default();
        Ok(indexes.into_iter().map(|index| index.name).collect())
    }

    async fn run(&mut self, what: &'static str, statement: String) -> Result<(), ProbeError> {
        let done = self.conn.query_drop(statement).await;
        done.map_err(|error| self.failed(what, error))
    }

    fn failed(&self, what: &'static str, source: mysql_async::Error) -> ProbeError {
        ProbeError::Scratch {
            what,
            scratch: self.names.probe.plain(),
            source,
        }
    }

    fn unread(&self, source: ReadError) -> ProbeError {
        ProbeError::Read {
            table: self.names.probe.plain(),
            source: Box::new(source),
        }
    }
}

const ER_NEEDS_SUPER: u16 = 1419;

//! Foreign keys and triggers, which the target gets when all rows are there.

use mysql_async::{Conn, Params, Value, prelude::Queryable};

use super::{Blueprint, OWN_DDL_COMMENT, TableBlueprint};
use crate::{
    Alter, Attached, CarriedKey, ForeignKey, Ident, Objection, ProbeError, ReadError, Remedy,
    Table, TableName, Trigger, classify, try_attached,
};

/// Why foreign keys or triggers are not on the target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The server refuses a statement, or broke off.
    #[error("cannot {what} on the target")]
    Server {
        /// What was done: `add foreign key f of d.c to d.p`.
        what: String,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// What is there could not be read.
    #[error(transparent)]
    Read(Box<ReadError>),
    /// What is to be added could not be tried.
    #[error(transparent)]
    Try(Box<ProbeError>),
    /// A foreign key or trigger of the same name is another one.
    #[error("{what} on the target is another one than the source's")]
    Other {
        /// The foreign key or the trigger.
        what: String,
    },
}

impl FinishError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Server { source, .. } => classify(source).remedy(),
            Self::Read(source) => source.remedy(),
            Self::Try(source) => source.remedy(),
            Self::Other { .. } => Remedy::Usage,
        }
    }

    fn server(what: impl Into<String>) -> impl FnOnce(mysql_async::Error) -> Self {
        let what = what.into();
        |source| Self::Server { what, source }
    }
}

impl From<ReadError> for FinishError {
    fn from(source: ReadError) -> Self {
        Self::Read(Box::new(source))
    }
}

/// A child's row whose parent isn't there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphan {
    /// The key, as on the target.
    pub key: ForeignKey,
    /// The values of the child's columns in the key, as text.
    pub values: Vec<String>,
}

impl Blueprint {
    /// Tries on empty copies beside the target's tables whether all foreign
    /// keys and triggers can be added there at the end. The tables must exist;
    /// none of them is locked or changed.
    ///
    /// # Errors
    ///
    /// [`FinishError`] when it couldn't be tried; what is in the way is
    /// returned, all of it.
    pub async fn try_finish(&self, conn: &mut Conn) -> Result<Vec<Objection>, FinishError> {
        let Ok(unchanged) = Alter::clauses("ENGINE=InnoDB") else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for table in self.tables.iter().filter(|table| table.has_attachments()) {
            let Some(is) = Table::read(conn, &table.target).await? else {
                continue;
            };
            let attached = table.attached();
            let tried = try_attached(conn, (&is, &unchanged), &attached, &[]).await;
            found.extend(tried.map_err(|error| FinishError::Try(Box::new(error)))?);
        }
        Ok(found)
    }

    /// Adds the foreign keys that the target lacks, then the triggers, in the
    /// order in which they act. What is there already stays, so that a run that
    /// died in here is gone on with.
    ///
    /// Foreign keys are added without looking at rows, which takes no time; see
    /// [`Blueprint::orphans`].
    ///
    /// # Errors
    ///
    /// [`FinishError`]; what was added before it stays, see
    /// [`Blueprint::take_off`].
    pub async fn finish(&self, conn: &mut Conn) -> Result<(), FinishError> {
        let unchecked = conn.query_drop("SET SESSION foreign_key_checks = 0");
        unchecked
            .await
            .map_err(FinishError::server("turn off foreign_key_checks"))?;
        let keys = self.add_keys(conn).await;
        let checked = conn.query_drop("SET SESSION foreign_key_checks = 1");
        let checked = checked.await;
        keys?;
        checked.map_err(FinishError::server("turn on foreign_key_checks"))?;
        let mode: Option<String> = conn
            .query_first("SELECT @@SESSION.sql_mode")
            .await
            .map_err(FinishError::server("read sql_mode"))?;
        let triggers = self.add_triggers(conn).await;
        // A trigger's statement leaves its own settings behind.
        let restored = restore(conn, &mode.unwrap_or_default()).await;
        triggers?;
        restored
    }

    /// Looks for a row of a foreign key's child whose parent isn't there, one a
    /// key. Reads all of the child's rows, or those among them for which a
    /// condition is true that begins with ` AND`, or is empty.
    ///
    /// Where the parent is moved too ([`Blueprint::moves_parent`]) and both are
    /// equal to the source's, there is one only if the source has it.
    ///
    /// # Errors
    ///
    /// [`FinishError::Server`] when the server does not answer.
    pub async fn orphans<'a>(
        &self,
        conn: &mut Conn,
        keys: impl IntoIterator<Item = (&'a ForeignKey, (String, Vec<Value>))>,
    ) -> Result<Vec<Orphan>, FinishError> {
        let mut found = Vec::new();
        for (key, (among, params)) in keys {
            let first: Option<mysql_async::Row> = conn
                .exec_first(orphan_query(key, &among), Params::from(params))
                .await
                .map_err(FinishError::server(format!("look for orphans of {key}")))?;
            if let Some(row) = first {
                let value = |at| row.get_opt::<String, _>(at).and_then(Result::ok);
                found.push(Orphan {
                    key: key.clone(),
                    values: (0..key.columns.len()).filter_map(value).collect(),
                });
            }
        }
        Ok(found)
    }

    /// Takes the triggers and foreign keys off again that [`Blueprint::finish`]
    /// added: rows can be written again without them acting. Foreign keys that
    /// the target's tables had before, `kept`, stay.
    ///
    /// # Errors
    ///
    /// [`FinishError`]; calling it again goes on.
    pub async fn take_off(&self, conn: &mut Conn, kept: &[ForeignKey]) -> Result<(), FinishError> {
        for table in &self.tables {
            let present = Table::triggers(conn, &table.target).await?;
            for trigger in present
                .iter()
                .filter(|is| found_among(&table.triggers, is).is_some())
            {
                let schema = &table.target.schema;
                let drop = format!("DROP TRIGGER {schema}.{}", trigger.name);
                let dropped = conn.query_drop(drop).await;
                dropped.map_err(FinishError::server(format!("drop {trigger}")))?;
            }
            let present = Table::foreign_keys(conn, &table.target).await?;
            for key in present
                .iter()
                .filter(|key| !kept.contains(key) && table.foreign_keys.contains(key))
            {
                let name = &key.name;
                let drop = format!(
                    "ALTER TABLE {OWN_DDL_COMMENT} {} DROP FOREIGN KEY {name}",
                    table.target
                );
                let dropped = conn.query_drop(drop).await;
                dropped.map_err(FinishError::server(format!("drop {key}")))?;
            }
        }
        Ok(())
    }

    async fn add_keys(&self, conn: &mut Conn) -> Result<(), FinishError> {
        for table in &self.tables {
            let present = Table::foreign_keys(conn, &table.target).await?;
            if let Some(statement) = table.key_statement(&present)? {
                let what = format!("add the foreign keys of {}", table.target.plain());
                let added = conn.query_drop(statement).await;
                added.map_err(FinishError::server(what))?;
            }
        }
        Ok(())
    }

    async fn add_triggers(&self, conn: &mut Conn) -> Result<(), FinishError> {
        for table in self
            .tables
            .iter()
            .filter(|table| !table.triggers.is_empty())
        {
            let present = Table::triggers(conn, &table.target).await?;
            for trigger in table.missing_triggers(&present)? {
                let statement = trigger
                    .statement(conn, &trigger.name, &table.target)
                    .await?;
                let made = conn.query_drop(statement.packet).await;
                made.map_err(FinishError::server(format!("create {trigger}")))?;
            }
        }
        Ok(())
    }
}

impl TableBlueprint {
    const fn has_attachments(&self) -> bool {
        !self.foreign_keys.is_empty() || !self.triggers.is_empty()
    }

    fn attached(&self) -> Attached {
        let mut attached = Attached::none();
        attached.triggers.clone_from(&self.triggers);
        let keys = self.foreign_keys.iter().cloned();
        attached.foreign_keys = keys.map(CarriedKey::from).collect();
        attached
    }

    /// Returns the statement that adds all keys that aren't `present`; `None`
    /// when all are there.
    ///
    /// # Errors
    ///
    /// [`FinishError::Other`] when another key has the name of one.
    fn key_statement(&self, present: &[ForeignKey]) -> Result<Option<String>, FinishError> {
        let mut clauses = Vec::new();
        for key in &self.foreign_keys {
            match present.iter().find(|is| same_name(&is.name, &key.name)) {
                Some(is) if is == key => {}
                Some(is) => {
                    let what = is.to_string();
                    return Err(FinishError::Other { what });
                }
                None => clauses.push(key.add_clause(&key.name, &key.parent)),
            }
        }
        let clauses = (!clauses.is_empty()).then(|| clauses.join(", "));
        Ok(clauses
            .map(|clauses| format!("ALTER TABLE {OWN_DDL_COMMENT} {} {clauses}", self.target)))
    }

    /// Returns the triggers that aren't `present`, in their order.
    ///
    /// # Errors
    ///
    /// [`FinishError::Other`] when one that isn't the source's is on the table.
    fn missing_triggers(&self, present: &[Trigger]) -> Result<Vec<&Trigger>, FinishError> {
        let foreign = present
            .iter()
            .find(|is| found_among(&self.triggers, is).is_none());
        if let Some(is) = foreign {
            let what = is.to_string();
            return Err(FinishError::Other { what });
        }
        let absent = self
            .triggers
            .iter()
            .filter(|t| !present.iter().any(|is| same_trigger(t, is)));
        Ok(absent.collect())
    }
}

/// Finds the trigger that `is` is one of.
fn found_among<'a>(triggers: &'a [Trigger], is: &Trigger) -> Option<&'a Trigger> {
    triggers.iter().find(|trigger| same_trigger(trigger, is))
}

/// Their order apart: it is counted anew where one before them went.
fn same_trigger(one: &Trigger, other: &Trigger) -> bool {
    let Trigger { order, .. } = other;
    let one = Trigger {
        order: *order,
        ..one.clone()
    };
    one == *other
}

/// Names of constraints are compared without regard to letter case: seen on
/// MySQL 9.7.4.
fn same_name(one: &Ident, other: &Ident) -> bool {
    one.as_str().to_lowercase() == other.as_str().to_lowercase()
}

/// A key with a NULL in it refers to nothing. Source: MySQL 9.7 manual,
/// "FOREIGN KEY Constraints": only MATCH SIMPLE acts.
fn orphan_query(key: &ForeignKey, among: &str) -> String {
    let child = &key.child;
    let columns: Vec<String> = key.columns.iter().map(|c| format!("{child}.{c}")).collect();
    let texts: Vec<String> = columns
        .iter()
        .map(|c| format!("CAST({c} AS CHAR)"))
        .collect();
    let given: Vec<String> = columns.iter().map(|c| format!("{c} IS NOT NULL")).collect();
    let pairs = columns.iter().zip(&key.parent_columns);
    let same: Vec<String> = pairs.map(|(c, p)| format!("p.{p} = {c}")).collect();
    format!(
        "SELECT {} FROM {child} WHERE {}{among} \
         AND NOT EXISTS (SELECT 1 FROM {} p WHERE {}) LIMIT 1",
        texts.join(", "),
        given.join(" AND "),
        key.parent,
        same.join(" AND ")
    )
}

async fn restore(conn: &mut Conn, mode: &str) -> Result<(), FinishError> {
    for statement in [
        "SET NAMES utf8mb4".to_owned(),
        format!("SET SESSION sql_mode = '{mode}'"),
    ] {
        let done = conn.query_drop(statement).await;
        done.map_err(FinishError::server("reset the session"))?;
    }
    Ok(())
}

/// Returns the next automatic value of a table, `None` if it has no such
/// column. To be read while nobody writes to it: a lock on the table doesn't
/// keep this from being read (seen on MySQL 9.7.4).
///
/// # Errors
///
/// [`ReadError`] when the server does not answer.
pub async fn next_auto_increment(
    conn: &mut Conn,
    table: &TableName,
) -> Result<Option<u64>, ReadError> {
    let names = (table.schema.as_str(), table.table.as_str());
    let next: Option<Option<u64>> = conn.exec_first(NEXT, names).await.map_err(|source| {
        let table = table.plain();
        ReadError::Server {
            what: "the next automatic value",
            table,
            source,
        }
    })?;
    Ok(next.flatten())
}

/// Raises the next automatic value of a table of the target to at least `next`,
/// in a statement that is known as the move's own. The server never lowers it
/// below what the rows need.
///
/// # Errors
///
/// [`FinishError::Server`].
pub async fn raise_auto_increment(
    conn: &mut Conn,
    table: &TableName,
    next: u64,
) -> Result<(), FinishError> {
    let statement = format!("ALTER TABLE {OWN_DDL_COMMENT} {table} AUTO_INCREMENT = {next}");
    let what = format!(
        "set the next automatic value of {} to {next}",
        table.plain()
    );
    conn.query_drop(statement)
        .await
        .map_err(FinishError::server(what))
}

/// The server gives a number for tables that had such a column, too.
const NEXT: &str = "SELECT AUTO_INCREMENT FROM information_schema.TABLES t \
    WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND EXISTS (SELECT 1 \
    FROM information_schema.COLUMNS c WHERE c.TABLE_SCHEMA = t.TABLE_SCHEMA \
    AND c.TABLE_NAME = t.TABLE_NAME AND c.EXTRA LIKE '%auto_increment%')";

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Ident {
        Ident::new(text).unwrap()
    }

    fn key(named: &str, columns: &[&str], parents: &[&str]) -> ForeignKey {
        ForeignKey {
            name: name(named),
            child: TableName::new(name("d"), name("c")),
            parent: TableName::new(name("e"), name("p")),
            columns: columns.iter().map(|c| name(c)).collect(),
            parent_columns: parents.iter().map(|c| name(c)).collect(),
            on_delete: "NO ACTION".to_owned(),
            on_update: "CASCADE".to_owned(),
        }
    }

    fn trigger(named: &str, order: u32) -> Trigger {
        Trigger {
            name: name(named),
            table: TableName::new(name("d"), name("c")),
            when: "BEFORE INSERT".to_owned(),
            order,
            definer: "`a`@`%`".to_owned(),
            sql_mode: String::new(),
            client_charset: "utf8mb4".to_owned(),
            connection_collation: "utf8mb4_bin".to_owned(),
            database_collation: "utf8mb4_bin".to_owned(),
            body: b"SET @a = 1".to_vec(),
        }
    }

    fn table() -> TableBlueprint {
        TableBlueprint {
            source: TableName::new(name("s"), name("c")),
            target: TableName::new(name("d"), name("c")),
            create: None,
            foreign_keys: vec![key("f", &["a"], &["id"]), key("g", &["b"], &["id"])],
            triggers: vec![trigger("one", 1), trigger("two", 2)],
        }
    }

    #[test]
    fn only_the_keys_that_lack_are_added_in_one_statement() {
        let table = table();
        let all = table.key_statement(&[]).unwrap().unwrap();
        assert!(
            all.starts_with("ALTER TABLE /* oxferry */ `d`.`c` ADD CONSTRAINT `f` FOREIGN KEY")
        );
        assert!(all.contains(", ADD CONSTRAINT `g` FOREIGN KEY"));
        let one = table.key_statement(&table.foreign_keys[..1]).unwrap();
        assert!(!one.unwrap().contains("`f`"));
        assert_eq!(table.key_statement(&table.foreign_keys).unwrap(), None);
        let other = [key("F", &["b"], &["id"])];
        assert!(matches!(
            table.key_statement(&other),
            Err(FinishError::Other { .. })
        ));
    }

    #[test]
    fn triggers_are_gone_on_with_where_a_run_stopped() {
        let table = table();
        let names = |present: &[Trigger]| -> Vec<String> {
            let missing = table.missing_triggers(present).unwrap().into_iter();
            missing
                .map(|trigger| trigger.name.as_str().to_owned())
                .collect()
        };
        assert_eq!(names(&[]), ["one", "two"]);
        assert_eq!(names(&[trigger("one", 1)]), ["two"]);
        let others = table.missing_triggers(&[trigger("three", 1)]);
        assert!(matches!(others, Err(FinishError::Other { .. })));
    }

    #[test]
    fn an_orphan_is_looked_for_among_rows_without_a_null_in_the_key() {
        assert_eq!(
            orphan_query(&key("f", &["a", "b"], &["x", "y"]), " AND (`shop` = ?)"),
            "SELECT CAST(`d`.`c`.`a` AS CHAR), CAST(`d`.`c`.`b` AS CHAR) FROM `d`.`c` \
             WHERE `d`.`c`.`a` IS NOT NULL AND `d`.`c`.`b` IS NOT NULL AND (`shop` = ?) \
             AND NOT EXISTS (SELECT 1 FROM `e`.`p` p \
             WHERE p.`x` = `d`.`c`.`a` AND p.`y` = `d`.`c`.`b`) LIMIT 1"
        );
    }
}

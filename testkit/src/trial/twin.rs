//! The twin: the source as it was at the swap, changed by the server itself.

use mysql_async::{Conn, prelude::Queryable};

use super::{TrialError, definition::Definition, rows::Rows};
use crate::{server::Schema, tables::quote};

/// Strict as the tool is, with the zero dates and zero keys of old tables;
/// every `ALTER TABLE` copies.
const SETTINGS: &str = "SET SESSION time_zone = '+00:00', SESSION foreign_key_checks = 0, \
     SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES', \
     SESSION old_alter_table = 1, SESSION innodb_lock_wait_timeout = 20";

/// A database beside the trial's own, with clones of its tables.
#[derive(Debug)]
pub(super) struct Twin {
    conn: Conn,
    database: String,
    origin: String,
}

impl Twin {
    /// Makes the empty database `…_twin`.
    pub(super) async fn create(schema: &Schema) -> Result<Self, TrialError> {
        let origin = schema.name().to_owned();
        let database = format!("{origin}_twin");
        let mut conn = schema.server().conn().await?;
        let options = "SELECT CONCAT(' DEFAULT CHARACTER SET ', default_character_set_name, ' COLLATE ', \
                       default_collation_name) FROM information_schema.schemata WHERE schema_name = ?";
        let options: Option<String> = conn
            .exec_first(options, (&origin,))
            .await
            .map_err(TrialError::sql(options))?;
        let name = quote(&database);
        for statement in [
            SETTINGS.to_owned(),
            format!("DROP DATABASE IF EXISTS {name}"),
            format!("CREATE DATABASE {name}{}", options.unwrap_or_default()),
            format!("USE {name}"),
        ] {
            run(&mut conn, &statement).await?;
        }
        Ok(Self {
            conn,
            database,
            origin,
        })
    }

    /// The database's name.
    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// Makes a table by its definition and fills it with the rows of `from`
    /// in the trial's own database.
    pub(super) async fn clone_table(
        &mut self,
        table: &str,
        definition: &Definition,
        from: &str,
    ) -> Result<(), TrialError> {
        let definition = definition.with_database(&self.origin, &self.database);
        run(&mut self.conn, &definition.sql).await?;
        let query = "SELECT column_name FROM information_schema.columns WHERE table_schema = ? \
                     AND table_name = ? AND generation_expression = '' ORDER BY ordinal_position";
        let columns: Vec<String> = self
            .conn
            .exec(query, (&self.database, table))
            .await
            .map_err(TrialError::sql(query))?;
        let columns: Vec<String> = columns.iter().map(|name| quote(name)).collect();
        let columns = columns.join(", ");
        let (origin, from, table) = (quote(&self.origin), quote(from), quote(table));
        let copy = format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM {origin}.{from}");
        run(&mut self.conn, &copy).await
    }

    /// Runs the change itself.
    ///
    /// # Errors
    ///
    /// What the server says against it.
    pub(super) async fn change(&mut self, statements: &[String]) -> Result<(), mysql_async::Error> {
        for statement in statements {
            self.conn.query_drop(&**statement).await?;
        }
        Ok(())
    }

    /// Does again what was written after the swap.
    pub(super) async fn replay(&mut self, statements: &[String]) -> Result<(), TrialError> {
        for statement in statements {
            run(&mut self.conn, statement).await?;
            // A description of the format makes the session wait for a GTID.
            run(&mut self.conn, "SET SESSION gtid_next = 'AUTOMATIC'").await?;
        }
        Ok(())
    }

    /// What is wrong with the trial's own table, if the twin is right; and
    /// how many rows were compared.
    pub(super) async fn complaints(
        &mut self,
        table: &str,
    ) -> Result<(Vec<String>, usize), TrialError> {
        let mine = Definition::read(&mut self.conn, &self.origin, table).await?;
        let right = Definition::read(&mut self.conn, &self.database, table)
            .await?
            .with_database(&self.database, &self.origin);
        let mut wrong: Vec<String> = mine.complaint(&right).into_iter().collect();
        let mine = Rows::read(&mut self.conn, &self.origin, table).await?;
        let right = Rows::read(&mut self.conn, &self.database, table).await?;
        let names = ("in the new table", "by the server's own change");
        wrong.extend(mine.differences(&right, names));
        Ok((
            wrong
                .into_iter()
                .map(|text| format!("table {table}: {text}"))
                .collect(),
            mine.len(),
        ))
    }

    /// Removes the database.
    pub(super) async fn remove(mut self) -> Result<(), TrialError> {
        let drop = format!("DROP DATABASE {}", quote(&self.database));
        run(&mut self.conn, &drop).await
    }
}

async fn run(conn: &mut Conn, statement: &str) -> Result<(), TrialError> {
    conn.query_drop(statement)
        .await
        .map_err(TrialError::sql(statement))
}

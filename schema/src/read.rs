//! Reading a table's description from a server.

use mysql_async::{
    Conn, Row,
    prelude::{FromValue, Queryable},
};

use crate::{
    Column, Generated, Ident, Index, IndexPart, NameError, Remedy, Table, TableName, classify,
    members::members,
};

/// Why a table could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The server refused or broke off.
    #[error("cannot read {what} of table {table}")]
    Server {
        /// What was asked for.
        what: &'static str,
        /// The table.
        table: String,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// The name is a view's, or something else without rows of its own.
    #[error("{table} is a {kind}, not a table")]
    NotATable {
        /// The name as asked for.
        table: String,
        /// What it is, in the server's words and lower case.
        kind: String,
    },
    /// The server's answer does not read as this program expects it.
    #[error("the server's description of {table} cannot be understood: {field} is {found}")]
    Unexpected {
        /// The table.
        table: String,
        /// Which column of the answer.
        field: &'static str,
        /// What stands there.
        found: String,
    },
    /// The server gave a name that it would not take itself.
    #[error("the server's description of {table} holds a name that is none")]
    Name {
        /// The table.
        table: String,
        /// Why it is none.
        #[source]
        source: NameError,
    },
    /// A name can't be written in the character set that a trigger is in.
    #[error(
        "trigger {trigger} of {table} is written in {charset}, which has no way to write the names that it is to be made with"
    )]
    Charset {
        /// The table.
        table: String,
        /// The trigger.
        trigger: String,
        /// The trigger's `character_set_client`.
        charset: String,
    },
}

impl ReadError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Server { source, .. } => classify(source).remedy(),
            Self::NotATable { .. } | Self::Charset { .. } => Remedy::Usage,
            Self::Unexpected { .. } | Self::Name { .. } => Remedy::Bug,
        }
    }
}

impl Table {
    /// Reads a table's description, `None` if the server has no such table, or
    /// none that the user may see.
    ///
    /// Names are compared as the server compares them, never as patterns. The
    /// estimates are fresh on a connection made by [`connect`](crate::connect).
    /// The description is put together from several statements: a change of
    /// the table in between may show in parts.
    ///
    /// # Errors
    ///
    /// [`ReadError`]; a view or sequence is [`ReadError::NotATable`].
    pub async fn read(conn: &mut Conn, name: &TableName) -> Result<Option<Self>, ReadError> {
        let mut reader = Reader { conn, name };
        let Some(facts) = reader.facts().await? else {
            return Ok(None);
        };
        let name = facts.name.clone();
        let mut reader = Reader {
            conn: reader.conn,
            name: &name,
        };
        let columns = reader.columns().await?;
        let counts = columns.iter().any(|column| column.auto_increment);
        let indexes = reader.indexes().await?;
        let create_statement = reader.create_statement().await?;
        Ok(Some(Self {
            name,
            columns,
            indexes,
            engine: facts.engine,
            row_estimate: facts.row_estimate,
            size_bytes: facts.size_bytes,
            // The server gives a number for tables that had such a column, too.
            auto_increment: facts.auto_increment.filter(|_| counts),
            create_statement,
        }))
    }

    /// Returns the columns that a binlog row image holds, and a
    /// [`Row`](crate::Row) with it: all of [`Table::columns`], in their order.
    ///
    /// Virtual generated columns and invisible ones are in the image. Only the
    /// columns that the server hides behind functional indexes are not, and
    /// `information_schema` does not list them either. Observed on MySQL 9.7.4,
    /// test `row_images_hold_every_listed_column`.
    #[must_use]
    pub fn stored_columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns where the column of this name stands; letter case doesn't count,
    /// as on the server.
    #[must_use]
    pub fn ordinal_of(&self, column: &str) -> Option<usize> {
        let wanted = column.to_lowercase();
        self.columns
            .iter()
            .position(|c| c.name.as_str() == column || c.name.as_str().to_lowercase() == wanted)
    }

    /// Returns whether the table is split into partitions.
    #[must_use]
    pub fn is_partitioned(&self) -> bool {
        // The clause stands behind the closing parenthesis of the columns, on a
        // line of its own, in a comment for old servers.
        self.create_statement
            .rsplit("\n) ")
            .next()
            .is_some_and(|tail| {
                tail.contains("\n/*!50100 PARTITION BY")
                    || tail.contains("\n/*!50500 PARTITION BY")
                    || tail.contains("\n PARTITION BY")
            })
    }
}

struct Facts {
    name: TableName,
    engine: String,
    row_estimate: u64,
    size_bytes: u64,
    auto_increment: Option<u64>,
}

struct Reader<'a> {
    conn: &'a mut Conn,
    name: &'a TableName,
}

impl Reader<'_> {
    async fn facts(&mut self) -> Result<Option<Facts>, ReadError> {
        let rows = self
            .ask(
                "the estimates",
                "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_ROWS, DATA_LENGTH, \
                 INDEX_LENGTH, AUTO_INCREMENT FROM information_schema.TABLES \
                 WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
            )
            .await?;
        let exact = rows.iter().find(|row| self.is_exact(row));
        let Some(row) = exact.or_else(|| rows.first()) else {
            return Ok(None);
        };
        let kind: String = self.field(row, "TABLE_TYPE")?;
        if kind != "BASE TABLE" {
            return Err(ReadError::NotATable {
                table: self.name.plain(),
                kind: kind.to_lowercase(),
            });
        }
        let bytes = |field| self.field::<Option<u64>>(row, field);
        Ok(Some(Facts {
            name: TableName::new(
                self.ident(self.field(row, "TABLE_SCHEMA")?)?,
                self.ident(self.field(row, "TABLE_NAME")?)?,
            ),
            engine: self
                .field::<Option<String>>(row, "ENGINE")?
                .unwrap_or_default(),
            row_estimate: bytes("TABLE_ROWS")?.unwrap_or(0),
            size_bytes: bytes("DATA_LENGTH")?.unwrap_or(0) + bytes("INDEX_LENGTH")?.unwrap_or(0),
            auto_increment: bytes("AUTO_INCREMENT")?,
        }))
    }

    async fn columns(&mut self) -> Result<Vec<Column>, ReadError> {
        let rows = self
            .ask(
                "the columns",
                "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, \
                 IS_NULLABLE, EXTRA FROM information_schema.COLUMNS \
                 WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION",
            )
            .await?;
        rows.iter().map(|row| self.column(row)).collect()
    }

    fn column(&self, row: &Row) -> Result<Column, ReadError> {
        let extra = self
            .field::<Option<String>>(row, "EXTRA")?
            .unwrap_or_default()
            .to_lowercase();
        let data_type = self.field::<String>(row, "DATA_TYPE")?.to_lowercase();
        let column_type: String = self.field(row, "COLUMN_TYPE")?;
        let members = if matches!(data_type.as_str(), "enum" | "set") {
            members(&column_type).ok_or_else(|| self.unexpected("COLUMN_TYPE", &column_type))?
        } else {
            Vec::new()
        };
        Ok(Column {
            name: self.ident(self.field(row, "COLUMN_NAME")?)?,
            charset: self.field(row, "CHARACTER_SET_NAME")?,
            collation: self.field(row, "COLLATION_NAME")?,
            nullable: self.field::<String>(row, "IS_NULLABLE")? == "YES",
            invisible: extra.split(' ').any(|word| word == "invisible"),
            generated: generated(&extra),
            auto_increment: extra.contains("auto_increment"),
            data_type,
            column_type,
            members,
        })
    }

    /// `SHOW INDEX` rather than `information_schema`: only it keeps the
    /// server's own order.
    async fn indexes(&mut self) -> Result<Vec<Index>, ReadError> {
        let statement = format!("SHOW INDEX FROM {}", self.name);
        let rows: Vec<Row> = self
            .conn
            .query(statement)
            .await
            .map_err(|e| self.server("the indexes", e))?;
        let mut indexes: Vec<Index> = Vec::new();
        for row in &rows {
            let name = self.ident(self.field(row, "Key_name")?)?;
            let part = self.index_part(row)?;
            match indexes.last_mut() {
                Some(last) if last.name == name => last.parts.push(part),
                _ => indexes.push(Index {
                    unique: self.field::<u64>(row, "Non_unique")? == 0,
                    visible: is_visible(row),
                    kind: self.field(row, "Index_type")?,
                    parts: vec![part],
                    name,
                }),
            }
        }
        Ok(indexes)
    }

    fn index_part(&self, row: &Row) -> Result<IndexPart, ReadError> {
        let column: Option<String> = self.field(row, "Column_name")?;
        Ok(IndexPart {
            column: column.map(|name| self.ident(name)).transpose()?,
            prefix: self.field(row, "Sub_part")?,
            nullable: self.field::<Option<String>>(row, "Null")?.as_deref() == Some("YES"),
            descending: self.field::<Option<String>>(row, "Collation")?.as_deref() == Some("D"),
        })
    }

    async fn create_statement(&mut self) -> Result<String, ReadError> {
        let what = "the CREATE statement";
        let statement = format!("SHOW CREATE TABLE {}", self.name);
        let row: Option<Row> = self
            .conn
            .query_first(statement)
            .await
            .map_err(|e| self.server(what, e))?;
        let row = row.ok_or_else(|| self.unexpected("Create Table", "missing"))?;
        self.field(&row, "Create Table")
    }

    async fn ask(&mut self, what: &'static str, statement: &str) -> Result<Vec<Row>, ReadError> {
        let names = (self.name.schema.as_str(), self.name.table.as_str());
        self.conn
            .exec(statement, names)
            .await
            .map_err(|e| self.server(what, e))
    }

    fn is_exact(&self, row: &Row) -> bool {
        let field = |name| self.field::<String>(row, name).unwrap_or_default();
        field("TABLE_SCHEMA") == self.name.schema.as_str()
            && field("TABLE_NAME") == self.name.table.as_str()
    }

    fn field<T: FromValue>(&self, row: &Row, field: &'static str) -> Result<T, ReadError> {
        match row.get_opt::<T, _>(field) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(self.unexpected(field, &error.to_string())),
            None => Err(self.unexpected(field, "missing")),
        }
    }

    fn ident(&self, name: String) -> Result<Ident, ReadError> {
        Ident::new(name).map_err(|source| ReadError::Name {
            table: self.name.plain(),
            source,
        })
    }

    fn server(&self, what: &'static str, source: mysql_async::Error) -> ReadError {
        ReadError::Server {
            what,
            table: self.name.plain(),
            source,
        }
    }

    fn unexpected(&self, field: &'static str, found: &str) -> ReadError {
        ReadError::Unexpected {
            table: self.name.plain(),
            field,
            found: found.to_owned(),
        }
    }
}

fn generated(extra: &str) -> Option<Generated> {
    // MariaDB says `STORED GENERATED` too, and `VIRTUAL GENERATED`.
    if extra.contains("virtual generated") {
        Some(Generated::Virtual)
    } else if extra.contains("stored generated") || extra.contains("persistent generated") {
        Some(Generated::Stored)
    } else {
        None
    }
}

/// MySQL has the column `Visible`, MariaDB `Ignored`, which says the opposite.
fn is_visible(row: &Row) -> bool {
    let text = |name: &str| row.get_opt::<String, _>(name).and_then(Result::ok);
    text("Visible").is_none_or(|visible| visible == "YES")
        && text("Ignored").is_none_or(|ignored| ignored == "NO")
}

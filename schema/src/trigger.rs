//! Triggers: read byte by byte, and made again elsewhere.

use std::fmt;

use mysql_async::{Conn, Row, prelude::Queryable};
use serde::{Deserialize, Serialize};

use crate::{Ident, ReadError, Table, TableName, hex};

/// A trigger, with everything that makes it what it is.
///
/// Two are equal when nobody could tell one from the other, the moment of
/// their creation aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Trigger {
    /// The trigger's name, in its table's database.
    pub name: Ident,
    /// The table that it is on.
    pub table: TableName,
    /// `BEFORE` or `AFTER`, and `INSERT`, `UPDATE` or `DELETE`.
    pub when: String,
    /// Its place among the table's triggers of the same moment, from 1.
    pub order: u32,
    /// The account that it acts as, quoted: `` `user`@`host` ``.
    pub definer: String,
    /// The `sql_mode` that it was made with.
    pub sql_mode: String,
    /// The `character_set_client` that it was made with: what its body is
    /// written in.
    pub client_charset: String,
    /// The `collation_connection` that it was made with.
    pub connection_collation: String,
    /// Its database's default collation when it was made.
    pub database_collation: String,
    /// What stands behind `FOR EACH ROW`, in its client's character set.
    #[serde(with = "hex")]
    pub body: Vec<u8>,
}

/// What makes a trigger: one packet for the server.
///
/// It leaves the session with the trigger's `sql_mode` and character set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TriggerStatement {
    /// The session's settings, and behind them `CREATE TRIGGER`, as the last
    /// statement of the packet: what follows one, the server may take into its
    /// body (seen on MySQL 9.7.4).
    pub packet: Vec<u8>,
}

impl fmt::Display for Trigger {
    /// Writes `trigger x on d.t`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "trigger {} on {}",
            self.name.as_str(),
            self.table.plain()
        )
    }
}

impl Table {
    /// Reads the triggers on the table, in the order in which they act. Only a
    /// user with the privilege TRIGGER sees them.
    ///
    /// The session's `character_set_results` is changed meanwhile, and is
    /// utf8mb4 afterwards.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer, or not as expected.
    pub async fn triggers(conn: &mut Conn, name: &TableName) -> Result<Vec<Trigger>, ReadError> {
        let failed = |source| ReadError::Server {
            what: "the triggers",
            table: name.plain(),
            source,
        };
        let names = (name.schema.as_str(), name.table.as_str());
        let listed: Vec<Row> = conn.exec(TRIGGERS, names).await.map_err(failed)?;
        if listed.is_empty() {
            return Ok(Vec::new());
        }
        // The body comes as it is stored only when nothing is converted.
        let unconverted = conn.query_drop("SET SESSION character_set_results = NULL");
        unconverted.await.map_err(failed)?;
        let read = read_bodies(conn, name, &listed).await;
        let restored = conn.query_drop("SET SESSION character_set_results = utf8mb4");
        restored.await.map_err(failed)?;
        read
    }
}

async fn read_bodies(
    conn: &mut Conn,
    table: &TableName,
    listed: &[Row],
) -> Result<Vec<Trigger>, ReadError> {
    let mut triggers = Vec::with_capacity(listed.len());
    for row in listed {
        let field = |at: usize, field| text(table, row, at, field);
        let ident = |name: String| Ident::new(name).map_err(|source| name_error(table, source));
        let name = ident(field(0, "TRIGGER_NAME")?)?;
        let schema = ident(field(1, "EVENT_OBJECT_SCHEMA")?)?;
        let show = format!("SHOW CREATE TRIGGER {schema}.{name}");
        let shown: Option<Row> =
            conn.query_first(show)
                .await
                .map_err(|source| ReadError::Server {
                    what: "a trigger",
                    table: table.plain(),
                    source,
                })?;
        // Dropped in this moment: as if it had been before.
        let Some(shown) = shown else { continue };
        let statement: Vec<u8> = bytes(&shown, 2).unwrap_or_default();
        let Some((definer, body)) = split(&statement) else {
            return Err(ReadError::Unexpected {
                table: table.plain(),
                field: "SQL Original Statement",
                found: String::from_utf8_lossy(&statement).into_owned(),
            });
        };
        triggers.push(Trigger {
            name,
            table: TableName::new(schema, ident(field(2, "EVENT_OBJECT_TABLE")?)?),
            when: format!(
                "{} {}",
                field(3, "ACTION_TIMING")?,
                field(4, "EVENT_MANIPULATION")?
            ),
            order: field(5, "ACTION_ORDER")?.parse().unwrap_or(0),
            definer,
            sql_mode: text(table, &shown, 1, "sql_mode")?,
            client_charset: text(table, &shown, 3, "character_set_client")?,
            connection_collation: text(table, &shown, 4, "collation_connection")?,
            database_collation: text(table, &shown, 5, "Database Collation")?,
            body,
        });
    }
    Ok(triggers)
}

impl Trigger {
    /// Returns what makes this trigger under the name `name` on the table
    /// `on` of the same database, to act last of its moment.
    ///
    /// The names are put into the trigger's character set by the server, which
    /// is why it is asked.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer; [`ReadError::Charset`]
    /// when a name can't be written in the trigger's character set.
    pub async fn statement(
        &self,
        conn: &mut Conn,
        name: &Ident,
        on: &TableName,
    ) -> Result<TriggerStatement, ReadError> {
        let schema = &on.schema;
        let head = format!(
            "CREATE DEFINER={} TRIGGER {schema}.{name} {} ON {on} FOR EACH ROW ",
            self.definer, self.when,
        );
        let head = self.encode(conn, head).await?;
        let mut packet = format!(
            "SET SESSION sql_mode = '{}', character_set_client = {}, collation_connection = {};\n",
            self.sql_mode, self.client_charset, self.connection_collation,
        )
        .into_bytes();
        packet.extend(head);
        packet.extend(&self.body);
        Ok(TriggerStatement { packet })
    }

    async fn encode(&self, conn: &mut Conn, head: String) -> Result<Vec<u8>, ReadError> {
        // Every character set that a client may have holds ASCII as ASCII.
        // Source: MySQL 9.7 manual, "Connection Character Sets and Collations".
        if head.is_ascii() {
            return Ok(head.into_bytes());
        }
        let charset = &self.client_charset;
        let convert = format!(
            "SELECT HEX(CONVERT(? USING {charset})), \
             CAST(CONVERT(CONVERT(? USING {charset}) USING utf8mb4) AS BINARY) = CAST(? AS BINARY)"
        );
        let values = (head.as_str(), head.as_str(), head.as_str());
        let row: Option<(Option<String>, Option<i64>)> = conn
            .exec_first(convert, values)
            .await
            .map_err(|source| ReadError::Server {
                what: "the names for a trigger",
                table: self.table.plain(),
                source,
            })?;
        match row {
            Some((Some(digits), Some(1))) => hex::decode(&digits),
            _ => None,
        }
        .ok_or_else(|| ReadError::Charset {
            table: self.table.plain(),
            trigger: self.name.as_str().to_owned(),
            charset: charset.clone(),
        })
    }
}

/// Parts `CREATE DEFINER=… TRIGGER … FOR EACH ROW body` into the definer and
/// the body; `None` for anything else.
///
/// What stands before the body is the server's own writing, with the names in
/// backticks, whatever the user wrote (seen on MySQL 9.7.4).
fn split(statement: &[u8]) -> Option<(String, Vec<u8>)> {
    let rest = statement.strip_prefix(b"CREATE DEFINER=")?;
    let after_user = quoted(rest)?;
    let after_host = quoted(after_user.strip_prefix(b"@")?)?;
    let definer = rest.get(..rest.len() - after_host.len())?;
    let rest = quoted(after_host.strip_prefix(b" TRIGGER ")?)?;
    let on = find(rest, b" ON `")?;
    let rest = quoted(rest.get(on + 4..)?)?;
    let body = rest.strip_prefix(b" FOR EACH ROW ")?;
    Some((String::from_utf8(definer.to_vec()).ok()?, body.to_vec()))
}

/// Returns what follows a name in backticks.
fn quoted(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"`")?;
    loop {
        let end = rest.iter().position(|byte| *byte == b'`')?;
        rest = rest.get(end + 1..)?;
        match rest.strip_prefix(b"`") {
            Some(doubled) => rest = doubled,
            None => return Some(rest),
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn bytes(row: &Row, at: usize) -> Option<Vec<u8>> {
    row.get_opt::<Vec<u8>, _>(at).and_then(Result::ok)
}

fn text(table: &TableName, row: &Row, at: usize, field: &'static str) -> Result<String, ReadError> {
    let unexpected = |found: String| ReadError::Unexpected {
        table: table.plain(),
        field,
        found,
    };
    let found = row
        .get_opt::<String, _>(at)
        .and_then(Result::ok)
        .ok_or_else(|| unexpected("missing".to_owned()))?;
    Ok(found)
}

fn name_error(table: &TableName, source: crate::NameError) -> ReadError {
    ReadError::Name {
        table: table.plain(),
        source,
    }
}

const TRIGGERS: &str = "SELECT TRIGGER_NAME, EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, \
    ACTION_TIMING, EVENT_MANIPULATION, CAST(ACTION_ORDER AS CHAR) \
    FROM information_schema.TRIGGERS \
    WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ? \
    ORDER BY ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_taken_as_it_stands_behind_names_of_any_kind() {
        let statement = b"CREATE DEFINER=`a ``ON`@`%` TRIGGER `x`` ON `` FOR EACH ROW ` BEFORE \
            INSERT ON `t`` FOR EACH ROW ` FOR EACH ROW  SET NEW.v = '\xe9 ON `t` FOR EACH ROW '";
        let (definer, body) = split(statement).unwrap();
        assert_eq!(definer, "`a ``ON`@`%`");
        assert_eq!(body, b" SET NEW.v = '\xe9 ON `t` FOR EACH ROW '");
    }

    #[test]
    fn a_statement_of_another_shape_is_not_guessed_at() {
        for statement in [
            "",
            "CREATE TRIGGER `x` BEFORE INSERT ON `t` FOR EACH ROW SET @a = 1",
            "CREATE DEFINER=`a`@`%` TRIGGER `x",
            "CREATE DEFINER=`a`@`%` TRIGGER `x` BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
        ] {
            assert_eq!(split(statement.as_bytes()), None, "{statement}");
        }
    }

    #[test]
    fn a_kept_trigger_comes_back_with_every_byte() {
        let name = |text: &str| Ident::new(text).unwrap();
        let trigger = Trigger {
            name: name("x"),
            table: TableName::new(name("d"), name("t")),
            when: "BEFORE INSERT".to_owned(),
            order: 1,
            definer: "`a`@`%`".to_owned(),
            sql_mode: String::new(),
            client_charset: "latin1".to_owned(),
            connection_collation: "latin1_swedish_ci".to_owned(),
            database_collation: "utf8mb4_bin".to_owned(),
            body: (0..=255).collect(),
        };
        let kept = serde_json::to_string(&trigger).unwrap();
        assert_eq!(serde_json::from_str::<Trigger>(&kept).unwrap(), trigger);
    }
}

//! What the statements in a binary log mean for the watched tables.

mod token;

use token::{Token, Tokens};

use crate::watched::Watched;

/// What a statement in the log means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A transaction begins.
    Begin,
    /// A transaction begins with the creation of a table, whose rows follow.
    BeginCreating,
    /// The transaction is committed.
    Commit,
    /// The transaction is rolled back.
    Rollback,
    /// A part of the transaction is rolled back.
    RollbackTo,
    /// A transaction of this XA identifier begins.
    XaStart(Vec<u8>),
    /// The transaction of this XA identifier, prepared before, is committed
    /// or rolled back.
    XaEnd { xid: Vec<u8>, committed: bool },
    /// A watched table is changed, renamed, emptied or dropped.
    Ddl(usize),
    /// Rows are changed by the statement itself, which names a watched table.
    RowChange(usize),
    /// Nothing that concerns a watched table.
    Other,
}

/// A table's name in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    schema: Option<Vec<u8>>,
    table: Vec<u8>,
}

/// What a statement does to the structure of tables.
#[derive(Debug, Default)]
struct Targets {
    tables: Vec<Name>,
    schema: Option<Vec<u8>>,
}

impl Meaning {
    /// Finds out what a statement means.
    ///
    /// `schema` is the default database that it ran with. A statement that
    /// isn't understood, and that holds a watched table's name anywhere,
    /// counts as one that changes the table: it is never skipped.
    pub(crate) fn of(sql: &[u8], schema: &[u8], watched: &Watched) -> Self {
        let Some(tokens) = Tokens::lex(sql) else {
            return watched.find_in_text(sql).map_or(Self::Other, Self::Ddl);
        };
        let rest = tokens.rest();
        match rest.word().as_str() {
            "BEGIN" => Self::Begin,
            "START" if rest.after(1).is("TRANSACTION") => Self::Begin,
            "COMMIT" => Self::Commit,
            "ROLLBACK" if rest.after(1).skip("WORK").is("TO") => Self::RollbackTo,
            "ROLLBACK" => Self::Rollback,
            "XA" => xa(sql, rest.after(1)),
            "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" | "WITH" | "CALL" => tokens
                .mention(sql, watched)
                .map_or(Self::Other, Self::RowChange),
            "SAVEPOINT" | "RELEASE" | "GRANT" | "REVOKE" | "SET" | "FLUSH" | "ANALYZE"
            | "OPTIMIZE" | "REPAIR" | "CHECK" | "DO" | "INSTALL" | "UNINSTALL" => Self::Other,
            first => {
                let targets = match first {
                    "ALTER" => alter(rest.after(1)),
                    "RENAME" => rename(rest.after(1)),
                    "DROP" => drop(rest.after(1)),
                    "TRUNCATE" => one_table(rest.after(1).skip("TABLE")),
                    "CREATE" if tokens.ends_with_start_transaction() => {
                        return Self::BeginCreating;
                    }
                    "CREATE" => create(rest.after(1)),
                    _ => None,
                };
                let found = match targets {
                    Some(targets) => targets.find(schema, watched),
                    None => tokens.mention(sql, watched),
                };
                found.map_or(Self::Other, Self::Ddl)
            }
        }
    }
}

/// Returns whether a statement is a job's own: between its first words, before
/// anything quoted, stands the comment `/* oxferry */`.
///
/// A server logs a statement that changes a table with its comments, but writes
/// `DROP TABLE` anew without them. Observed on 9.7.4.
pub fn is_own(sql: &[u8]) -> bool {
    const COMMENT: &[u8] = b"/* oxferry */";
    let is_between = |byte: &u8| byte.is_ascii_alphabetic() || byte.is_ascii_whitespace();
    let words = sql.iter().take_while(|byte| is_between(byte)).count();
    sql.get(words..)
        .is_some_and(|rest| rest.starts_with(COMMENT))
}

impl Targets {
    fn find(&self, default: &[u8], watched: &Watched) -> Option<usize> {
        let by_schema = self.schema.as_deref();
        let by_schema = by_schema.and_then(|schema| watched.find_in_schema(schema));
        by_schema.or_else(|| {
            let mut names = self.tables.iter();
            names.find_map(|name| {
                watched.find(name.schema.as_deref().unwrap_or(default), &name.table)
            })
        })
    }
}

/// Reads `XA START|END|PREPARE|COMMIT|ROLLBACK identifier`.
///
/// A server writes the identifier in one form everywhere: `X'..',X'..',1`.
/// Source: MySQL 9.7, `sql/xa.h`, `serialize_xid`.
fn xa(sql: &[u8], rest: Rest<'_>) -> Meaning {
    let starts_at_identifier = |byte: &u8| byte.eq_ignore_ascii_case(&b'x');
    // The first `X` belongs to the word `XA`, the second starts the identifier.
    let mut places = sql
        .iter()
        .enumerate()
        .filter(|(_, byte)| starts_at_identifier(byte));
    let at = places.nth(1).map_or(sql.len(), |(at, _)| at);
    let xid = sql.get(at..).unwrap_or_default();
    let one_phase = b" ONE PHASE";
    let xid = xid
        .strip_suffix(one_phase)
        .unwrap_or(xid)
        .trim_ascii()
        .to_vec();
    match rest.word().as_str() {
        "START" | "BEGIN" => Meaning::XaStart(xid),
        "COMMIT" => Meaning::XaEnd {
            xid,
            committed: true,
        },
        "ROLLBACK" => Meaning::XaEnd {
            xid,
            committed: false,
        },
        _ => Meaning::Other,
    }
}

/// Reads what follows `ALTER`.
fn alter(rest: Rest<'_>) -> Option<Targets> {
    if !rest.is("TABLE") {
        // ALTER of a view, an event, a user: no table of ours.
        return Some(Targets::default());
    }
    let (name, mut rest) = rest.after(1).skip("IF").skip("EXISTS").name()?;
    let mut tables = vec![name];
    while !rest.is_empty() {
        if rest.is("RENAME") {
            let to = rest.after(1).skip("TO").skip("AS").skip_mark(b'=');
            if !["COLUMN", "INDEX", "KEY"].iter().any(|word| to.is(word)) {
                tables.push(to.name()?.0);
            }
        } else if rest.is("WITH") && rest.after(1).is("TABLE") {
            tables.push(rest.after(2).name()?.0);
        }
        rest = rest.after(1);
    }
    Some(Targets {
        tables,
        schema: None,
    })
}

/// Reads what follows `RENAME`.
fn rename(rest: Rest<'_>) -> Option<Targets> {
    if !rest.is("TABLE") && !rest.is("TABLES") {
        return rest.is("USER").then(Targets::default);
    }
    let mut rest = rest.after(1);
    let mut targets = Targets::default();
    loop {
        let (from, after) = rest.name()?;
        let (to, after) = after.is("TO").then(|| after.after(1).name())??;
        targets.tables.extend([from, to]);
        if !after.is_mark(b',') {
            return Some(targets);
        }
        rest = after.after(1);
    }
}

/// Reads what follows `DROP`.
fn drop(rest: Rest<'_>) -> Option<Targets> {
    match rest.word().as_str() {
        "TABLE" | "TABLES" => tables(rest.after(1).skip("IF").skip("EXISTS")),
        "INDEX" => on_table(rest.after(1)),
        "DATABASE" | "SCHEMA" => {
            let (name, _) = rest.after(1).skip("IF").skip("EXISTS").name()?;
            Some(Targets {
                tables: Vec::new(),
                schema: Some(name.table),
            })
        }
        // Temporary tables, views, users: no table of ours.
        _ => Some(Targets::default()),
    }
}

/// Reads what follows `CREATE`.
fn create(mut rest: Rest<'_>) -> Option<Targets> {
    const OTHERS: [&str; 14] = [
        "VIEW",
        "PROCEDURE",
        "FUNCTION",
        "EVENT",
        "DATABASE",
        "SCHEMA",
        "USER",
        "ROLE",
        "SERVER",
        "TABLESPACE",
        "LOGFILE",
        "REFERENCE",
        "RESOURCE",
        "TEMPORARY",
    ];
    while !rest.is_empty() {
        match rest.word().as_str() {
            "TABLE" => {
                let rest = rest.after(1);
                // The table is there, else its end had been reported before:
                // nothing is created.
                return if rest.is("IF") {
                    Some(Targets::default())
                } else {
                    one_table(rest)
                };
            }
            "INDEX" => return on_table(rest.after(1)),
            // Changes no table's structure; what it does to rows is in the log.
            "TRIGGER" => return Some(Targets::default()),
            word if OTHERS.contains(&word) => return Some(Targets::default()),
            _ => rest = rest.after(1),
        }
    }
    None
}

/// Reads one table's name.
fn one_table(rest: Rest<'_>) -> Option<Targets> {
    Some(Targets {
        tables: vec![rest.name()?.0],
        schema: None,
    })
}

/// Reads names with commas between them.
fn tables(mut rest: Rest<'_>) -> Option<Targets> {
    let mut targets = Targets::default();
    loop {
        let (name, after) = rest.name()?;
        targets.tables.push(name);
        if !after.is_mark(b',') {
            return Some(targets);
        }
        rest = after.after(1);
    }
}

/// Reads the table's name behind the first `ON`.
fn on_table(mut rest: Rest<'_>) -> Option<Targets> {
    while !rest.is_empty() {
        if rest.is("ON") {
            return one_table(rest.after(1));
        }
        rest = rest.after(1);
    }
    None
}

/// The tokens that are left.
#[derive(Clone, Copy, Debug)]
struct Rest<'a>(&'a [Token]);

impl Tokens {
    fn rest(&self) -> Rest<'_> {
        Rest(self.as_slice())
    }

    /// The first watched table that is named anywhere, in whichever database.
    ///
    /// Text that isn't UTF-8 is in a character set that isn't known here: its
    /// bytes are searched instead.
    fn mention(&self, sql: &[u8], watched: &Watched) -> Option<usize> {
        if std::str::from_utf8(sql).is_err() {
            return watched.find_in_text(sql);
        }
        let mut names = self.as_slice().iter().filter_map(Token::identifier);
        names.find_map(|name| watched.find_name(&name))
    }

    /// A table's creation together with its rows ends so in the log.
    ///
    /// Source: MySQL 9.7 manual, "Atomic Data Definition Statement Support".
    fn ends_with_start_transaction(&self) -> bool {
        match self.as_slice() {
            [.., start, transaction] => start.is("START") && transaction.is("TRANSACTION"),
            _ => false,
        }
    }
}

impl Rest<'_> {
    const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The first token, if it is an unquoted word, in capitals.
    fn word(self) -> String {
        match self.0.first() {
            Some(Token::Word(word)) => String::from_utf8_lossy(word).to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    fn is(self, word: &str) -> bool {
        self.0.first().is_some_and(|token| token.is(word))
    }

    fn is_mark(self, mark: u8) -> bool {
        self.0.first() == Some(&Token::Mark(mark))
    }

    fn after(self, count: usize) -> Self {
        Self(self.0.get(count..).unwrap_or_default())
    }

    fn skip(self, word: &str) -> Self {
        if self.is(word) { self.after(1) } else { self }
    }

    fn skip_mark(self, mark: u8) -> Self {
        if self.is_mark(mark) {
            self.after(1)
        } else {
            self
        }
    }

    /// Reads `table` or `schema.table`.
    fn name(self) -> Option<(Name, Self)> {
        let first = self.0.first()?.identifier()?;
        let rest = self.after(1);
        if !rest.is_mark(b'.') {
            let name = Name {
                schema: None,
                table: first,
            };
            return Some((name, rest));
        }
        let name = Name {
            schema: Some(first),
            table: rest.after(1).0.first()?.identifier()?,
        };
        Some((name, rest.after(2)))
    }
}

#[cfg(test)]
mod tests;

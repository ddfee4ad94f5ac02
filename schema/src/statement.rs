//! The statement that a job runs: one `ALTER TABLE`, its clauses alone, or an
//! index made or dropped.

mod clause;
mod constraint;
mod index;
mod lexeme;

use std::fmt;

use crate::{Ident, NameError, Remedy, TableName};

pub use clause::Refusal;
pub use lexeme::LexError;
use lexeme::{Kind, Lexeme};

/// An `ALTER TABLE` whose clauses make sense on a shadow table.
///
/// The clauses are kept as they were written and are the server's to
/// understand; here they are only cut apart at their commas, and admitted by
/// their leading words. What is not on the list is refused, so that a clause
/// that this program has never heard of is not run by accident.
///
/// # Gaps
///
/// Text is read as a server with this crate's session settings reads it
/// (`ANSI_QUOTES` and `NO_BACKSLASH_ESCAPES` off). Where the lexer and MySQL
/// are known to differ, or could, the text is refused: executable comments and
/// hints (`/*! */`, `/*M! */`, `/*+ */`), `--` without white space behind it,
/// a carriage return without a line feed, NUL, white space beyond ASCII,
/// dollar-quoted text, names that begin with `$`, names with `@`, parameters,
/// `b"…"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alter {
    table: Option<NamedTable>,
    clauses: Vec<String>,
    fingerprint: String,
    drops: Vec<String>,
    sets_auto_increment: bool,
    rebuilds: Option<String>,
    makes_index: Option<String>,
    dropped_foreign_keys: Vec<String>,
}

/// The table as the statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedTable {
    schema: Option<Ident>,
    table: Ident,
}

/// Why a statement can't be run on a shadow table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatementError {
    /// There is nothing to do.
    #[error("the statement changes nothing: write at least one clause, such as ADD COLUMN …")]
    Empty,
    /// The text can't be read without doubt.
    #[error("the statement cannot be read without doubt")]
    Lex(#[from] LexError),
    /// It does not begin with `ALTER TABLE`, nor with `CREATE` or `DROP INDEX`.
    #[error(
        "the statement begins with {found:?}: only ALTER TABLE, CREATE INDEX and DROP INDEX are understood"
    )]
    NotAlterTable {
        /// The first word or words.
        found: String,
    },
    /// Something follows the semicolon.
    #[error("more than one statement is given: {rest:?} follows the semicolon")]
    SeveralStatements {
        /// What follows.
        rest: String,
    },
    /// It makes or drops an index, but not as MySQL's grammar has it.
    #[error(
        "the statement does not read as CREATE [UNIQUE|FULLTEXT|SPATIAL] INDEX name ON table (…), nor as DROP INDEX name ON table"
    )]
    NotAnIndex,
    /// No table's name stands where one belongs.
    #[error("the statement names no table, but {found:?}")]
    NoTableName {
        /// What stands there instead.
        found: String,
    },
    /// The table's name is none.
    #[error("the statement names a table that no server has")]
    Name(#[from] NameError),
    /// Parentheses don't match.
    #[error("the parentheses of the statement do not match")]
    Parentheses,
    /// Two commas in a row, or one at an end.
    #[error("a clause is missing beside a comma of the statement")]
    MissingClause,
    /// A clause makes no sense on a shadow table.
    #[error("clause {clause:?} cannot be run on a shadow table: {refusal}")]
    Refused {
        /// The clause as written.
        clause: String,
        /// Why.
        refusal: Refusal,
    },
    /// The statement is about another table than the job.
    #[error("the statement changes {named}, but the job is about {job}")]
    OtherTable {
        /// The table as the statement names it.
        named: String,
        /// The job's table.
        job: String,
    },
}

impl StatementError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        Remedy::Usage
    }
}

impl Alter {
    /// Reads a whole statement: `ALTER TABLE [database.]table clauses`, or
    /// `CREATE INDEX` and `DROP INDEX`, which become the clauses that do the same.
    ///
    /// # Errors
    ///
    /// [`StatementError`] for anything but one such statement whose clauses are
    /// all admitted.
    pub fn parse(text: &str) -> Result<Self, StatementError> {
        let lexemes = lexeme::read(text)?;
        let words = [lexemes.first(), lexemes.get(1)].map(|l| l.map_or("", |l| l.text));
        let [first, second] = words.map(str::to_ascii_uppercase);
        match (first.as_str(), second.as_str()) {
            ("ALTER", "TABLE") => {
                let (named, rest) = table_name(lexemes.get(2..).unwrap_or_default())?;
                Self::from_lexemes(text, Some(named), rest)
            }
            ("CREATE", "INDEX" | "UNIQUE" | "FULLTEXT" | "SPATIAL") | ("DROP", "INDEX") => {
                let index = index::read(text, one_statement(text, &lexemes)?)?;
                let lexemes = lexeme::read(&index.clause)?;
                Self::from_lexemes(&index.clause, Some(index.table), &lexemes)
            }
            _ => {
                let found = words.join(" ").trim().to_owned();
                Err(StatementError::NotAlterTable { found })
            }
        }
    }

    /// Reads clauses alone, as `--alter` takes them.
    ///
    /// # Errors
    ///
    /// As [`Alter::parse`].
    pub fn clauses(text: &str) -> Result<Self, StatementError> {
        let lexemes = lexeme::read(text)?;
        Self::from_lexemes(text, None, &lexemes)
    }

    /// Checks that the statement is about `table`, where it names one.
    ///
    /// A missing database means the job's own. Letter case counts as far as
    /// `lower_case_table_names` lets it: give the name as the server has it,
    /// and `0` where names differ by letter case.
    ///
    /// # Errors
    ///
    /// [`StatementError::OtherTable`].
    pub fn check_table(
        &self,
        table: &TableName,
        lower_case_table_names: u8,
    ) -> Result<(), StatementError> {
        let Some(named) = &self.table else {
            return Ok(());
        };
        let same = |one: &Ident, two: &Ident| {
            one == two
                || (lower_case_table_names != 0
                    && one.as_str().to_lowercase() == two.as_str().to_lowercase())
        };
        let schema = named.schema.as_ref().unwrap_or(&table.schema);
        if same(schema, &table.schema) && same(&named.table, &table.table) {
            return Ok(());
        }
        Err(StatementError::OtherTable {
            named: TableName::new(schema.clone(), named.table.clone()).plain(),
            job: table.plain(),
        })
    }

    /// Returns the table that the statement names, in `database` where it
    /// names none; `None` when clauses alone were given, or no database is
    /// known.
    #[must_use]
    pub fn table(&self, database: Option<&Ident>) -> Option<TableName> {
        let named = self.table.as_ref()?;
        let schema = named.schema.as_ref().or(database)?;
        Some(TableName::new(schema.clone(), named.table.clone()))
    }

    /// Returns the clauses as written, one by one.
    #[must_use]
    pub fn clause_list(&self) -> &[String] {
        &self.clauses
    }

    /// Returns a text that is the same for two statements that ask for the
    /// same: white space, comments, the letter case of reserved words, and the
    /// table's name do not count; names and literals do.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns whether a clause drops the column; letter case doesn't count.
    #[must_use]
    pub fn drops(&self, column: &Ident) -> bool {
        self.drops.contains(&column.as_str().to_lowercase())
    }

    /// Returns whether the statement gives the table's next automatic value.
    #[must_use]
    pub const fn sets_auto_increment(&self) -> bool {
        self.sets_auto_increment
    }

    /// Returns a clause that asks for a table written anew, such as
    /// `ENGINE=InnoDB` or `FORCE`, if there is one.
    #[must_use]
    pub fn asks_for_rebuild(&self) -> Option<&str> {
        self.rebuilds.as_deref()
    }

    /// Returns a clause that makes an index, if there is one.
    #[must_use]
    pub fn makes_index(&self) -> Option<&str> {
        self.makes_index.as_deref()
    }

    /// Returns whether a clause `DROP FOREIGN KEY` drops the key of this name;
    /// letter case doesn't count.
    #[must_use]
    pub fn drops_foreign_key(&self, name: &Ident) -> bool {
        let name = name.as_str().to_lowercase();
        self.dropped_foreign_keys.contains(&name)
    }

    /// Returns the statement that does to `table` what this one asks for.
    #[must_use]
    pub fn statement_for(&self, table: &TableName) -> String {
        format!("ALTER TABLE {table} {self}")
    }

    fn from_lexemes(
        text: &str,
        table: Option<NamedTable>,
        lexemes: &[Lexeme<'_>],
    ) -> Result<Self, StatementError> {
        let lexemes = one_statement(text, lexemes)?;
        if lexemes.is_empty() {
            return Err(StatementError::Empty);
        }
        let mut alter = Self {
            table,
            clauses: Vec::new(),
            fingerprint: String::new(),
            drops: Vec::new(),
            sets_auto_increment: false,
            rebuilds: None,
            makes_index: None,
            dropped_foreign_keys: Vec::new(),
        };
        for lexemes in split(lexemes)? {
            let verbatim = verbatim(text, lexemes);
            clause::admit(lexemes).map_err(|refusal| StatementError::Refused {
                clause: verbatim.to_owned(),
                refusal,
            })?;
            alter.sets_auto_increment |= clause::sets_auto_increment(lexemes);
            alter.drops.extend(clause::dropped_column(lexemes));
            if clause::asks_for_rebuild(lexemes) {
                alter.rebuilds.get_or_insert_with(|| verbatim.to_owned());
            }
            if clause::makes_index(lexemes) {
                alter.makes_index.get_or_insert_with(|| verbatim.to_owned());
            }
            let key = clause::dropped_foreign_key(lexemes);
            alter
                .dropped_foreign_keys
                .extend(key.map(|name| name.to_lowercase()));
            let comma = if alter.fingerprint.is_empty() {
                ""
            } else {
                ", "
            };
            alter.fingerprint += comma;
            alter.fingerprint += &clause::fingerprint(lexemes);
            alter.clauses.push(verbatim.to_owned());
        }
        Ok(alter)
    }
}

impl fmt::Display for Alter {
    /// Writes the clauses as they were written, fit to follow
    /// `ALTER TABLE name`; more clauses may follow behind a comma.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.clauses.join(", "))
    }
}

fn table_name<'a, 't>(
    lexemes: &'a [Lexeme<'t>],
) -> Result<(NamedTable, &'a [Lexeme<'t>]), StatementError> {
    let no_name = || StatementError::NoTableName {
        found: lexemes.first().map_or(String::new(), |l| l.text.to_owned()),
    };
    let name = |lexeme: &Lexeme<'_>| -> Result<Ident, StatementError> {
        lexeme
            .name()
            .map_or_else(|| Err(no_name()), |name| Ok(Ident::new(name)?))
    };
    match lexemes {
        [schema, dot, table, rest @ ..] if dot.text == "." => {
            let schema = Some(name(schema)?);
            let table = name(table)?;
            Ok((NamedTable { schema, table }, rest))
        }
        [table, rest @ ..] => {
            let table = name(table)?;
            Ok((
                NamedTable {
                    schema: None,
                    table,
                },
                rest,
            ))
        }
        [] => Err(no_name()),
    }
}

/// Takes off a semicolon at the end; more behind it is an error.
fn one_statement<'a, 't>(
    text: &str,
    lexemes: &'a [Lexeme<'t>],
) -> Result<&'a [Lexeme<'t>], StatementError> {
    let Some(end) = lexemes.iter().position(|lexeme| lexeme.text == ";") else {
        return Ok(lexemes);
    };
    let (statement, rest) = lexemes.split_at(end);
    if let Some(more) = rest.iter().find(|lexeme| lexeme.text != ";") {
        let rest = text.get(more.start..).unwrap_or_default().to_owned();
        return Err(StatementError::SeveralStatements { rest });
    }
    Ok(statement)
}

/// Cuts the clauses apart at the commas outside of parentheses.
fn split<'a, 't>(lexemes: &'a [Lexeme<'t>]) -> Result<Vec<&'a [Lexeme<'t>]>, StatementError> {
    let mut depth = 0_usize;
    for lexeme in lexemes {
        match lexeme.text {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1).ok_or(StatementError::Parentheses)?,
            _ => {}
        }
    }
    if depth != 0 {
        return Err(StatementError::Parentheses);
    }
    let clauses: Vec<_> = lexemes
        .split(|lexeme| {
            match lexeme.text {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            depth == 0 && lexeme.text == ","
        })
        .collect();
    if clauses.iter().any(|clause| clause.is_empty()) {
        return Err(StatementError::MissingClause);
    }
    Ok(clauses)
}

/// What was written from the clause's first lexeme to its last.
fn verbatim<'t>(text: &'t str, lexemes: &[Lexeme<'_>]) -> &'t str {
    let start = lexemes.first().map_or(0, |lexeme| lexeme.start);
    let end = lexemes
        .last()
        .map_or(0, |lexeme| lexeme.start + lexeme.text.len());
    text.get(start..end).unwrap_or_default()
}

impl Lexeme<'_> {
    /// The bare name, where this is one.
    fn name(&self) -> Option<String> {
        match self.kind {
            Kind::Word => Some(self.text.to_owned()),
            Kind::QuotedName => {
                let inner = self.text.strip_prefix('`')?.strip_suffix('`')?;
                Some(inner.replace("``", "`"))
            }
            Kind::Literal | Kind::Symbol => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clauses(text: &str) -> Vec<String> {
        Alter::clauses(text).unwrap().clause_list().to_vec()
    }

    fn error(text: &str) -> StatementError {
        Alter::clauses(text).unwrap_err()
    }

    fn name(schema: &str, table: &str) -> TableName {
        TableName::new(Ident::new(schema).unwrap(), Ident::new(table).unwrap())
    }

    #[test]
    fn clauses_are_cut_at_their_own_commas_only() {
        assert_eq!(
            clauses(
                "ADD c ENUM('a,b','c''d,') , ADD INDEX (a, `b,c`),\n DROP COLUMN d -- why, not\n"
            ),
            [
                "ADD c ENUM('a,b','c''d,')",
                "ADD INDEX (a, `b,c`)",
                "DROP COLUMN d"
            ]
        );
    }

    #[test]
    fn a_whole_statement_names_its_table() {
        let alter = Alter::parse("alter table `my``db` . t drop a;").unwrap();
        assert_eq!(alter.table(None), Some(name("my`db", "t")));
        assert_eq!(alter.to_string(), "drop a");
        assert_eq!(
            alter.statement_for(&name("d", "x")),
            "ALTER TABLE `d`.`x` drop a"
        );
        let bare = Alter::parse("ALTER TABLE t FORCE").unwrap();
        assert_eq!(bare.table(None), None);
        assert_eq!(
            bare.table(Some(&Ident::new("d").unwrap())),
            Some(name("d", "t"))
        );
    }

    #[test]
    fn another_table_or_database_is_an_error() {
        let alter = Alter::parse("ALTER TABLE d.T FORCE").unwrap();
        assert_eq!(alter.check_table(&name("d", "T"), 0), Ok(()));
        assert_eq!(alter.check_table(&name("d", "t"), 1), Ok(()));
        assert_eq!(
            alter
                .check_table(&name("d", "t"), 0)
                .unwrap_err()
                .to_string(),
            "the statement changes d.T, but the job is about d.t"
        );
        assert!(alter.check_table(&name("e", "T"), 0).is_err());
        assert_eq!(
            Alter::clauses("FORCE")
                .unwrap()
                .check_table(&name("e", "T"), 0),
            Ok(())
        );
    }

    #[test]
    fn what_is_no_single_alter_table_is_refused() {
        for text in ["", " ", ";", "-- nothing\n"] {
            assert_eq!(error(text), StatementError::Empty, "{text:?}");
        }
        assert!(matches!(
            Alter::parse("ALTER TABLE t"),
            Err(StatementError::Empty)
        ));
        assert!(matches!(
            Alter::parse("CREATE TABLE t (a INT)"),
            Err(StatementError::NotAlterTable { .. })
        ));
        assert!(matches!(
            Alter::parse("ALTER TABLE"),
            Err(StatementError::NoTableName { .. })
        ));
        assert!(matches!(
            Alter::parse("ALTER TABLE 'x' FORCE"),
            Err(StatementError::NoTableName { .. })
        ));
        assert_eq!(
            error("FORCE; DROP TABLE t"),
            StatementError::SeveralStatements {
                rest: "DROP TABLE t".to_owned()
            }
        );
        assert_eq!(error("ADD INDEX (a"), StatementError::Parentheses);
        assert_eq!(error("ADD a INT)"), StatementError::Parentheses);
        assert_eq!(error("FORCE,, DROP a"), StatementError::MissingClause);
        assert_eq!(error("FORCE,"), StatementError::MissingClause);
    }

    #[test]
    fn words_inside_of_quotes_and_comments_do_not_confuse() {
        for text in [
            "ADD a INT COMMENT 'x, RENAME TO y'",
            "ADD a INT COMMENT \"it''s; \\\" LOCK=NONE\"",
            r"ADD a INT COMMENT 'back\\', ADD b INT COMMENT 'it\'s, 100 %'",
            "CHANGE `rename` `change` INT",
            "ADD `algorithm` INT /* , LOCK=NONE */ # , RENAME x\n",
            "COMMENT = 'a'",
            "ADD a INT DEFAULT 0x41, ADD b BIT(2) DEFAULT b'01', ADD c BINARY(1) DEFAULT x'41'",
            "ADD c VARCHAR(9) CHARACTER SET latin1 DEFAULT _latin1'\u{e9}'",
            "ADD `日本` INT, ADD ünicode INT",
        ] {
            let alter = Alter::clauses(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
            assert_eq!(
                Alter::clauses(&alter.to_string()).unwrap().clause_list(),
                alter.clause_list()
            );
        }
    }

    #[test]
    fn fingerprints_ignore_layout_and_reserved_words_case_only() {
        let same = |one: &str, two: &str| {
            Alter::clauses(one).unwrap().fingerprint() == Alter::clauses(two).unwrap().fingerprint()
        };
        assert!(same(
            "add column A int  not null",
            "ADD\nCOLUMN A INT /* x */ NOT NULL;"
        ));
        assert!(same("modify a INT", "MODIFY a INT"));
        assert!(same("ADD `a` INT, DROP `b`", "add a int, drop b"));
        assert!(!same("ADD `a b` INT", "ADD a b INT"));
        assert!(!same("DROP `index`", "DROP INDEX"));
        assert!(!same("ADD a INT", "ADD A INT"));
        assert!(!same("RENAME COLUMN a TO name", "RENAME COLUMN a TO NAME"));
        assert!(!same("COMMENT 'a b'", "COMMENT 'A b'"));
        assert!(!same("COMMENT 'a b'", "COMMENT 'a  b'"));
        let whole = Alter::parse("ALTER TABLE d.t ADD a INT").unwrap();
        assert_eq!(
            whole.fingerprint(),
            Alter::clauses("ADD a INT").unwrap().fingerprint()
        );
    }

    #[test]
    fn dropped_columns_are_told_from_dropped_indexes() {
        let alter =
            Alter::clauses("DROP a, DROP COLUMN `B`, DROP INDEX c, DROP PRIMARY KEY").unwrap();
        let drops = |name| alter.drops(&Ident::new(name).unwrap());
        assert!(drops("A") && drops("b"));
        assert!(!drops("c") && !drops("index") && !drops("primary"));
    }

    #[test]
    fn an_automatic_value_is_noticed_as_an_option_only() {
        let sets = |text| Alter::clauses(text).unwrap().sets_auto_increment();
        assert!(sets("AUTO_INCREMENT = 7"));
        assert!(sets("ENGINE=InnoDB AUTO_INCREMENT 7"));
        assert!(!sets("ADD id INT AUTO_INCREMENT PRIMARY KEY"));
    }
}

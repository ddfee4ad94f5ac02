//! `CREATE INDEX` and `DROP INDEX`, as the clauses of an ALTER TABLE.

use super::{NamedTable, Refusal, StatementError, lexeme::Lexeme, table_name, verbatim};

/// An index statement in other words.
pub(super) struct IndexStatement {
    pub(super) table: NamedTable,
    pub(super) clause: String,
}

/// Reads a statement that is known to begin with `CREATE … INDEX` or `DROP
/// INDEX`.
///
/// `ALTER TABLE t ADD` takes what stands between `CREATE` and `ON`, and behind
/// the table's name. Source: MySQL 9.7 manual, "CREATE INDEX Statement": it "is
/// mapped to an ALTER TABLE statement".
pub(super) fn read(text: &str, lexemes: &[Lexeme<'_>]) -> Result<IndexStatement, StatementError> {
    let on = lexemes.iter().position(|lexeme| lexeme.word() == "ON");
    let on = on.ok_or(StatementError::NotAnIndex)?;
    let (head, tail) = lexemes.split_at(on);
    let (table, rest) = table_name(tail.get(1..).unwrap_or_default())?;
    let (Some(verb), what) = (head.first(), head.get(1..).unwrap_or_default()) else {
        return Err(StatementError::NotAnIndex);
    };
    if let Some(option) = outside_parentheses(rest).find(|l| is_choice(l)) {
        return Err(StatementError::Refused {
            clause: text.get(option.start..).unwrap_or_default().to_owned(),
            refusal: Refusal::ChoosesAlgorithm,
        });
    }
    let creates = verb.word() == "CREATE";
    let fits = if creates {
        names_index(what) && is_list_with_options(rest)
    } else {
        what.len() == 2 && rest.is_empty()
    };
    if !fits {
        return Err(StatementError::NotAnIndex);
    }
    let verb = if creates { "ADD" } else { "DROP" };
    let clause = format!("{verb} {} {}", verbatim(text, what), verbatim(text, rest));
    Ok(IndexStatement {
        table,
        clause: clause.trim_end().to_owned(),
    })
}

/// `[UNIQUE] INDEX name [USING type]`.
fn names_index(what: &[Lexeme<'_>]) -> bool {
    let at = what.iter().position(|lexeme| lexeme.word() == "INDEX");
    matches!(at, Some(0 | 1)) && what.len() >= at.unwrap_or_default() + 2
}

/// One list in parentheses, and options without a comma behind it.
fn is_list_with_options(rest: &[Lexeme<'_>]) -> bool {
    let count = |text| outside_parentheses(rest).filter(|l| l.text == text).count();
    let first = rest.first().is_some_and(|lexeme| lexeme.text == "(");
    first && count("(") == 1 && count(",") == 0
}

/// The pieces outside of parentheses, and each parenthesis that opens there.
fn outside_parentheses<'a, 't>(lexemes: &'a [Lexeme<'t>]) -> impl Iterator<Item = &'a Lexeme<'t>> {
    lexemes
        .iter()
        .scan(0_i64, |depth, lexeme| {
            let outside = *depth <= 0;
            *depth += i64::from(lexeme.text == "(") - i64::from(lexeme.text == ")");
            Some((outside, lexeme))
        })
        .filter_map(|(outside, lexeme)| outside.then_some(lexeme))
}

fn is_choice(lexeme: &Lexeme<'_>) -> bool {
    matches!(lexeme.word().as_str(), "ALGORITHM" | "LOCK")
}

#[cfg(test)]
mod tests {
    use super::super::{Alter, Refusal, StatementError};
    use crate::Ident;

    fn told(statement: &str) -> String {
        let alter = Alter::parse(statement).unwrap_or_else(|e| panic!("{statement}: {e:?}"));
        let table = alter.table(Some(&Ident::new("d").unwrap())).unwrap();
        alter.statement_for(&table)
    }

    #[test]
    fn an_index_statement_becomes_the_clause_that_does_the_same() {
        for (statement, expected) in [
            (
                "CREATE INDEX i ON t (a)",
                "ALTER TABLE `d`.`t` ADD INDEX i (a)",
            ),
            (
                "create unique index `on` using btree on `e`.`t``x` (a(10) desc, (CAST(b AS CHAR(3)))) comment 'it''s, 5 %' /* x */ invisible;",
                "ALTER TABLE `e`.`t``x` ADD unique index `on` using btree (a(10) desc, (CAST(b AS CHAR(3)))) comment 'it''s, 5 %' /* x */ invisible",
            ),
            (
                "CREATE FULLTEXT INDEX f ON t(a, b) WITH PARSER ngram",
                "ALTER TABLE `d`.`t` ADD FULLTEXT INDEX f (a, b) WITH PARSER ngram",
            ),
            (
                "CREATE SPATIAL INDEX s ON t (g)",
                "ALTER TABLE `d`.`t` ADD SPATIAL INDEX s (g)",
            ),
            (
                "DROP INDEX -- the old one\n i ON d.t;",
                "ALTER TABLE `d`.`t` DROP INDEX -- the old one\n i",
            ),
            (
                "DROP INDEX `PRIMARY` ON t",
                "ALTER TABLE `d`.`t` DROP INDEX `PRIMARY`",
            ),
        ] {
            assert_eq!(told(statement), expected);
        }
    }

    #[test]
    fn an_index_statement_is_the_same_job_as_its_clause() {
        let one = Alter::parse("CREATE UNIQUE INDEX u ON t (a)").unwrap();
        let other = Alter::clauses("add unique index `u` (`a`)").unwrap();
        assert_eq!(one.fingerprint(), other.fingerprint());
    }

    #[test]
    fn algorithm_and_lock_are_refused_there_too() {
        for statement in [
            "CREATE INDEX i ON t (a) ALGORITHM=INPLACE",
            "CREATE INDEX i ON t (a) COMMENT 'x' LOCK NONE",
            "DROP INDEX i ON t LOCK=NONE",
        ] {
            let error = Alter::parse(statement).unwrap_err();
            assert!(
                matches!(
                    error,
                    StatementError::Refused {
                        refusal: Refusal::ChoosesAlgorithm,
                        ..
                    }
                ),
                "{statement}: {error:?}"
            );
        }
    }

    #[test]
    fn nothing_hides_behind_an_index() {
        for statement in [
            "CREATE INDEX i ON t (a), DROP COLUMN b",
            "CREATE INDEX i ON t (a) (b)",
            "CREATE INDEX ON t (a)",
            "CREATE INDEX i",
            "CREATE INDEX i ON t",
            "CREATE INDEX i ON t COMMENT 'x' (a)",
            "CREATE UNIQUE x INDEX i ON t (a)",
            "DROP INDEX i, DROP COLUMN a ON t",
            "DROP INDEX i ON t, DROP COLUMN a",
            "DROP INDEX ON t",
            "DROP INDEX i ON t; DROP TABLE t",
        ] {
            assert!(Alter::parse(statement).is_err(), "{statement}");
        }
    }
}

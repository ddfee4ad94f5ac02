//! Which clauses of an ALTER TABLE make sense on a shadow table.

use super::lexeme::{Kind, Lexeme};

/// Why a clause makes no sense on a shadow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// `RENAME TO` and its short forms.
    #[error("it renames the table, and the job itself renames the shadow table in the end")]
    RenamesTable,
    /// `ALGORITHM` and `LOCK`.
    #[error("ALGORITHM and LOCK are the job's to choose; leave them out")]
    ChoosesAlgorithm,
    /// `ORDER BY`.
    #[error("the order of rows in an InnoDB table is its primary key's; leave ORDER BY out")]
    OrdersRows,
    /// Statements about single partitions.
    #[error(
        "it works on single partitions of the live table; run it directly, or change the partitioning with PARTITION BY"
    )]
    MaintainsPartitions,
    /// `DISCARD` and `IMPORT TABLESPACE`.
    #[error("it works on the live table's files")]
    MovesTablespace,
    /// `ENABLE` and `DISABLE KEYS`.
    #[error("ENABLE KEYS and DISABLE KEYS do nothing on InnoDB tables")]
    TogglesKeys,
    /// Adding a foreign key.
    #[error(
        "a foreign key is checked against another live table, which no copy can prove; add it directly, when the job is done"
    )]
    ForeignKey,
    /// `UNION`, `INSERT_METHOD`, `CONNECTION` and so on.
    #[error("option {0} belongs to engines whose tables a job does not change")]
    OtherEngine(&'static str),
    /// `DATA DIRECTORY` and `INDEX DIRECTORY`.
    #[error("it places files on the server's disk")]
    PlacesFiles,
    /// A clause that the list of this program does not hold.
    #[error("no clause that begins like this is known; if the server knows it, run it directly")]
    Unknown,
}

/// Decides whether the clause may be run on a shadow table.
pub(super) fn admit(clause: &[Lexeme<'_>]) -> Result<(), Refusal> {
    let word = |at: usize| clause.get(at).map(Lexeme::word).unwrap_or_default();
    let (first, second, third) = (word(0), word(1), word(2));
    match first.as_str() {
        "ADD" => match second.as_str() {
            "PARTITION" => Err(Refusal::MaintainsPartitions),
            "FOREIGN" => Err(Refusal::ForeignKey),
            // Also `ADD COLUMN a INT REFERENCES p (id)`, which MySQL 9.x obeys.
            _ if has_word(clause, "REFERENCES") => Err(Refusal::ForeignKey),
            _ => no_files(clause),
        },
        "DROP" => match second.as_str() {
            "PARTITION" => Err(Refusal::MaintainsPartitions),
            "FOREIGN" if dropped_foreign_key(clause).is_none() => Err(Refusal::ForeignKey),
            _ => no_files(clause),
        },
        "MODIFY" | "CHANGE" if has_word(clause, "REFERENCES") => Err(Refusal::ForeignKey),
        "MODIFY" | "CHANGE" | "FORCE" | "ALTER" => no_files(clause),
        "RENAME" => match second.as_str() {
            "COLUMN" | "INDEX" | "KEY" => no_files(clause),
            _ => Err(Refusal::RenamesTable),
        },
        "CONVERT" if second == "TO" => no_files(clause),
        "PARTITION" if second == "BY" => no_files(clause),
        "REMOVE" if second == "PARTITIONING" => no_files(clause),
        "ORDER" => Err(Refusal::OrdersRows),
        "ALGORITHM" | "LOCK" => Err(Refusal::ChoosesAlgorithm),
        "ENABLE" | "DISABLE" if second == "KEYS" => Err(Refusal::TogglesKeys),
        "DISCARD" | "IMPORT" if second == "TABLESPACE" || third == "TABLESPACE" => {
            Err(Refusal::MovesTablespace)
        }
        "TRUNCATE" | "COALESCE" | "REORGANIZE" | "EXCHANGE" | "ANALYZE" | "CHECK" | "OPTIMIZE"
        | "REBUILD" | "REPAIR" | "DISCARD" | "IMPORT" | "UPGRADE" => {
            Err(Refusal::MaintainsPartitions)
        }
        _ => options(clause),
    }
}

/// Returns whether the clause is a list of table options with `AUTO_INCREMENT`.
pub(super) fn sets_auto_increment(clause: &[Lexeme<'_>]) -> bool {
    let is_option = clause
        .first()
        .is_some_and(|l| OPTIONS.contains(&l.word().as_str()));
    is_option && has_word(clause, "AUTO_INCREMENT")
}

/// Returns whether the clause asks for a table to be written anew, or for what
/// only new pages get, whatever the server could do at once.
pub(super) fn asks_for_rebuild(clause: &[Lexeme<'_>]) -> bool {
    let first = clause.first().map(Lexeme::word).unwrap_or_default();
    let is_option = OPTIONS.contains(&first.as_str());
    matches!(first.as_str(), "FORCE" | "PARTITION" | "REMOVE")
        // `ADD a INT PARTITION BY …` needs no comma.
        || clause
            .windows(2)
            .any(|two| matches!(two, [a, b] if a.word() == "PARTITION" && b.word() == "BY"))
        || is_option && REBUILDING.iter().any(|option| has_word(clause, option))
}

/// Returns whether the clause makes an index, by itself or with a column.
pub(super) fn makes_index(clause: &[Lexeme<'_>]) -> bool {
    let first = clause.first().map(Lexeme::word).unwrap_or_default();
    matches!(first.as_str(), "ADD" | "MODIFY" | "CHANGE")
        && clause.iter().any(|lexeme| {
            let word = lexeme.word();
            matches!(
                word.as_str(),
                "INDEX" | "KEY" | "UNIQUE" | "PRIMARY" | "FULLTEXT" | "SPATIAL"
            )
        })
}

/// Returns the foreign key that the clause drops: `DROP FOREIGN KEY name`.
pub(super) fn dropped_foreign_key(clause: &[Lexeme<'_>]) -> Option<String> {
    match clause {
        [drop, foreign, key, name]
            if drop.word() == "DROP" && foreign.word() == "FOREIGN" && key.word() == "KEY" =>
        {
            name.name()
        }
        _ => None,
    }
}

/// Returns the column that the clause drops, in lower case: `DROP [COLUMN] name`.
pub(super) fn dropped_column(clause: &[Lexeme<'_>]) -> Option<String> {
    let mut lexemes = clause.iter().filter(|lexeme| lexeme.word() != "COLUMN");
    let drop = lexemes.next()?;
    let name = lexemes.find(|l| !matches!(l.word().as_str(), "IF" | "EXISTS"))?;
    let is_other = matches!(
        name.word().as_str(),
        "INDEX" | "KEY" | "PRIMARY" | "FOREIGN" | "CHECK" | "CONSTRAINT"
    );
    if drop.word() != "DROP" || is_other {
        return None;
    }
    name.name().map(|name| name.to_lowercase())
}

/// Returns the clause with one space between its pieces, its first word and
/// reserved words in upper case, and no quotes around names that need none.
pub(super) fn fingerprint(clause: &[Lexeme<'_>]) -> String {
    let pieces: Vec<String> = clause
        .iter()
        .enumerate()
        .map(|(at, lexeme)| {
            let word = lexeme.word();
            if !word.is_empty() && (at == 0 || RESERVED.contains(&word.as_str())) {
                return word;
            }
            let bare = lexeme.name().filter(|name| needs_no_quotes(name));
            bare.unwrap_or_else(|| lexeme.text.to_owned())
        })
        .collect();
    pieces.join(" ")
}

fn needs_no_quotes(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(plain)
        && !RESERVED.contains(&name.to_ascii_uppercase().as_str())
}

/// Admits table options, which may follow each other without a comma.
fn options(clause: &[Lexeme<'_>]) -> Result<(), Refusal> {
    let first = clause.first().map(Lexeme::word).unwrap_or_default();
    if !OPTIONS.contains(&first.as_str()) && foreign_option(&first).is_none() {
        return Err(Refusal::Unknown);
    }
    for (at, lexeme) in clause.iter().enumerate() {
        let word = lexeme.word();
        if let Some(option) = foreign_option(&word).filter(|_| is_option_name(clause, at)) {
            return Err(Refusal::OtherEngine(option));
        }
        match word.as_str() {
            "RENAME" => return Err(Refusal::RenamesTable),
            "ORDER" => return Err(Refusal::OrdersRows),
            "ALGORITHM" | "LOCK" => return Err(Refusal::ChoosesAlgorithm),
            _ => {}
        }
    }
    no_files(clause)
}

/// Refuses `DATA DIRECTORY = '…'` and its kin, in partitions too.
fn no_files(clause: &[Lexeme<'_>]) -> Result<(), Refusal> {
    let places = clause.windows(3).any(|three| {
        let [kind, directory, value] = three else {
            return false;
        };
        matches!(kind.word().as_str(), "DATA" | "INDEX")
            && directory.word() == "DIRECTORY"
            && (value.text == "=" || value.kind == Kind::Literal)
    });
    if places {
        Err(Refusal::PlacesFiles)
    } else {
        Ok(())
    }
}

fn has_word(clause: &[Lexeme<'_>], word: &str) -> bool {
    clause.iter().any(|lexeme| lexeme.word() == word)
}

/// An option's name is followed by `=` or its value, and is no value itself.
fn is_option_name(clause: &[Lexeme<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| clause.get(at));
    before.is_none_or(|lexeme| lexeme.text != "=")
}

fn foreign_option(word: &str) -> Option<&'static str> {
    FOREIGN_OPTIONS.into_iter().find(|option| *option == word)
}

/// Options of tables that a job may change. Source: MySQL 9.7 manual, "ALTER
/// TABLE Statement", `table_option`.
const OPTIONS: [&str; 23] = [
    "AUTOEXTEND_SIZE",
    "AUTO_INCREMENT",
    "AVG_ROW_LENGTH",
    "CHARACTER",
    "CHARSET",
    "CHECKSUM",
    "COLLATE",
    "COMMENT",
    "COMPRESSION",
    "DEFAULT",
    "DELAY_KEY_WRITE",
    "ENCRYPTION",
    "ENGINE",
    "ENGINE_ATTRIBUTE",
    "KEY_BLOCK_SIZE",
    "MAX_ROWS",
    "MIN_ROWS",
    "PACK_KEYS",
    "ROW_FORMAT",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "TABLESPACE",
];

/// Options whose effect is in the table's pages: they are asked for a new table.
const REBUILDING: [&str; 6] = [
    "COMPRESSION",
    "ENCRYPTION",
    "ENGINE",
    "KEY_BLOCK_SIZE",
    "ROW_FORMAT",
    "TABLESPACE",
];

/// Options of tables that a job does not change.
const FOREIGN_OPTIONS: [&str; 7] = [
    "CONNECTION",
    "INSERT_METHOD",
    "PASSWORD",
    "SECONDARY_ENGINE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "STORAGE",
    "UNION",
];

/// Reserved words that clauses are made of: no name is one of them without
/// quotes, so their letter case means nothing. Source: MySQL 9.7 manual,
/// "Keywords and Reserved Words".
const RESERVED: [&str; 73] = [
    "ADD",
    "ALTER",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BIGINT",
    "BINARY",
    "BLOB",
    "BY",
    "CASE",
    "CHANGE",
    "CHAR",
    "CHARACTER",
    "CHECK",
    "COLLATE",
    "COLUMN",
    "CONSTRAINT",
    "CONVERT",
    "CURRENT_TIMESTAMP",
    "DECIMAL",
    "DEFAULT",
    "DESC",
    "DOUBLE",
    "DROP",
    "ELSE",
    "EXISTS",
    "FALSE",
    "FLOAT",
    "FOREIGN",
    "FROM",
    "FULLTEXT",
    "GENERATED",
    "IN",
    "INDEX",
    "INT",
    "INTEGER",
    "IS",
    "KEY",
    "KEYS",
    "LIKE",
    "LONGBLOB",
    "LONGTEXT",
    "MATCH",
    "MEDIUMBLOB",
    "MEDIUMINT",
    "MEDIUMTEXT",
    "NOT",
    "NULL",
    "NUMERIC",
    "ON",
    "OR",
    "PARTITION",
    "PRIMARY",
    "RANGE",
    "REFERENCES",
    "RENAME",
    "SET",
    "SMALLINT",
    "SPATIAL",
    "STORED",
    "THEN",
    "TINYBLOB",
    "TINYINT",
    "TINYTEXT",
    "TO",
    "TRUE",
    "UNIQUE",
    "UNSIGNED",
    "USING",
    "VARBINARY",
    "VARCHAR",
    "VIRTUAL",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::lexeme;

    fn admitted(clause: &str) -> Result<(), Refusal> {
        admit(&lexeme::read(clause).unwrap())
    }

    #[test]
    fn changes_of_columns_indexes_and_options_are_admitted() {
        for clause in [
            "ADD COLUMN a INT FIRST",
            "add (a INT, b INT)",
            "ADD UNIQUE KEY u (a, b DESC)",
            "ADD CONSTRAINT c CHECK (a > 0)",
            "ADD INDEX directory (a)",
            "DROP COLUMN a",
            "DROP PRIMARY KEY",
            "DROP partition_id",
            "MODIFY a BIGINT UNSIGNED",
            "CHANGE a b INT AFTER c",
            "RENAME COLUMN a TO b",
            "RENAME INDEX i TO j",
            "ALTER a SET DEFAULT 5",
            "ALTER INDEX i INVISIBLE",
            "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "DEFAULT CHARACTER SET = latin1",
            "CHARACTER SET latin1",
            "COLLATE utf8mb4_bin",
            "ENGINE=InnoDB ROW_FORMAT=DYNAMIC STATS_PERSISTENT 1",
            "COMMENT 'RENAME TO x'",
            "AUTO_INCREMENT=5",
            "FORCE",
            "PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)",
            "REMOVE PARTITIONING",
            "ENCRYPTION='Y'",
            "DROP FOREIGN KEY f",
            "DROP CHECK c",
            "DROP CONSTRAINT c",
            "ALTER CHECK c NOT ENFORCED",
        ] {
            assert_eq!(admitted(clause), Ok(()), "{clause}");
        }
    }

    #[test]
    fn what_makes_no_sense_on_a_shadow_table_is_refused_with_its_reason() {
        for (clause, refusal) in [
            ("RENAME TO x", Refusal::RenamesTable),
            ("RENAME AS x", Refusal::RenamesTable),
            ("RENAME x", Refusal::RenamesTable),
            ("RENAME = x", Refusal::RenamesTable),
            ("RENAME `column`", Refusal::RenamesTable),
            ("ENGINE=InnoDB RENAME x", Refusal::RenamesTable),
            ("ALGORITHM=INSTANT", Refusal::ChoosesAlgorithm),
            ("LOCK NONE", Refusal::ChoosesAlgorithm),
            ("ORDER BY a", Refusal::OrdersRows),
            ("DISCARD TABLESPACE", Refusal::MovesTablespace),
            ("IMPORT TABLESPACE", Refusal::MovesTablespace),
            (
                "DISCARD PARTITION p TABLESPACE",
                Refusal::MaintainsPartitions,
            ),
            (
                "ADD PARTITION (PARTITION p VALUES IN (1))",
                Refusal::MaintainsPartitions,
            ),
            ("DROP PARTITION p", Refusal::MaintainsPartitions),
            ("TRUNCATE PARTITION p", Refusal::MaintainsPartitions),
            ("COALESCE PARTITION 2", Refusal::MaintainsPartitions),
            (
                "REORGANIZE PARTITION p INTO (PARTITION q VALUES IN (1))",
                Refusal::MaintainsPartitions,
            ),
            (
                "EXCHANGE PARTITION p WITH TABLE x",
                Refusal::MaintainsPartitions,
            ),
            ("ENABLE KEYS", Refusal::TogglesKeys),
            ("disable keys", Refusal::TogglesKeys),
            ("ADD FOREIGN KEY (a) REFERENCES p (id)", Refusal::ForeignKey),
            (
                "ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id)",
                Refusal::ForeignKey,
            ),
            ("ADD a INT REFERENCES p (id)", Refusal::ForeignKey),
            ("DROP FOREIGN KEY", Refusal::ForeignKey),
            ("UNION=(a, b)", Refusal::OtherEngine("UNION")),
            (
                "ENGINE=MERGE INSERT_METHOD=LAST",
                Refusal::OtherEngine("INSERT_METHOD"),
            ),
            ("DATA DIRECTORY='/x'", Refusal::Unknown),
            ("ENGINE=InnoDB DATA DIRECTORY '/x'", Refusal::PlacesFiles),
            (
                "PARTITION BY HASH (a) (PARTITION p INDEX DIRECTORY = '/x')",
                Refusal::PlacesFiles,
            ),
            ("SECONDARY_LOAD", Refusal::Unknown),
            ("WITHOUT VALIDATION", Refusal::Unknown),
            ("WAIT 5 ADD a INT", Refusal::Unknown),
            ("`ADD` a INT", Refusal::Unknown),
            ("'ADD' a INT", Refusal::Unknown),
        ] {
            assert_eq!(admitted(clause), Err(refusal), "{clause}");
        }
    }
}

//! What stands in the way of a move's definitions.

use crate::Remedy;

/// One thing that is in the way of a move, found before anything is made.
///
/// All of them are found at once. [`EstateProblem::fix`] says what removes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EstateProblem {
    /// An option names what the source doesn't have, or what isn't moved.
    #[error("{option} {value} matches nothing that is moved")]
    NothingMatches {
        /// The option: `--exclude`.
        option: &'static str,
        /// Its value.
        value: String,
    },
    /// A table is asked for and excluded.
    #[error("table {table} is asked for by --table and left out by --exclude")]
    Contradiction {
        /// The table.
        table: String,
    },
    /// No table is left.
    #[error("there is no table to move")]
    NoTables,
    /// What is asked for has no rows of its own.
    #[error("{table} is a {kind}, not a table")]
    NotATable {
        /// The name.
        table: String,
        /// What it is, in lower case.
        kind: String,
    },
    /// A database of the server's own.
    #[error("database {database} is the server's own")]
    SystemDatabase {
        /// The database.
        database: String,
    },
    /// Another engine.
    #[error("{table} is a table of engine {engine}")]
    Engine {
        /// The table.
        table: String,
        /// Its engine.
        engine: String,
    },
    /// A name of the tool's own tables.
    #[error("{table} is called as oxferry's own tables are")]
    OwnTable {
        /// The table.
        table: String,
    },
    /// A database or table is renamed twice.
    #[error("{place} is renamed twice")]
    RenamedTwice {
        /// The database or table.
        place: String,
    },
    /// Two tables would become one.
    #[error("{one} and {other} would both be {target} on the target")]
    Collision {
        /// A table of the source.
        one: String,
        /// Another one.
        other: String,
        /// What both would be called.
        target: String,
    },
    /// A table would be moved onto a table of the same server that is moved.
    #[error("{source_table} would be moved onto {target} of the same server")]
    SameServer {
        /// The table of the source.
        source_table: String,
        /// What it would be called.
        target: String,
    },
    /// The source's definition isn't in the form that servers print.
    #[error("the definition of {table} cannot be understood")]
    Definition {
        /// The table.
        table: String,
    },
    /// The target has the table.
    #[error("table {table} exists on the target")]
    TargetExists {
        /// The target table.
        table: String,
    },
    /// The target has the table, with rows.
    #[error("table {table} on the target holds rows")]
    TargetNotEmpty {
        /// The target table.
        table: String,
    },
    /// The target's table is another one.
    #[error("table {table} on the target isn't as the source's: {difference}")]
    TargetDiffers {
        /// The target table.
        table: String,
        /// Which column or index, and how it is on both sides.
        difference: String,
    },
    /// A trigger of the target would act on the rows that are moved.
    #[error("{trigger} on the target would act on every row that is moved")]
    TargetTrigger {
        /// The trigger and its table.
        trigger: String,
    },
    /// A foreign key of the target that the source lacks.
    #[error("{key} is on the target only")]
    TargetForeignKey {
        /// The key.
        key: String,
    },
    /// Another table of the target refers to one that rows are moved into.
    #[error("{key} on the target refers to a table that rows are moved into")]
    TargetChild {
        /// The key.
        key: String,
    },
    /// A foreign key's parent is nowhere.
    #[error("{key} needs table {parent}, which is neither moved nor on the target")]
    ParentMissing {
        /// The key, as on the source.
        key: String,
        /// What the parent would be called on the target.
        parent: String,
    },
    /// A constraint's or trigger's name is taken in the target's database.
    #[error("{kind} {name} of {table} has a name that {database} on the target holds already")]
    NameTaken {
        /// `foreign key`, `check` or `trigger`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The source table.
        table: String,
        /// The target's database.
        database: String,
    },
    /// A trigger's database changes.
    #[error("{trigger} names {name}, which is called otherwise on the target")]
    TriggerNames {
        /// The trigger and its table.
        trigger: String,
        /// The name in its body.
        name: String,
    },
    /// A trigger's body can't be looked through.
    #[error("{trigger} is written in {charset}, and cannot be looked through for renamed tables")]
    TriggerUnreadable {
        /// The trigger and its table.
        trigger: String,
        /// Its client's character set.
        charset: String,
    },
    /// A trigger would be another one.
    #[error(
        "{trigger} was made in a database with collation {was}, and {database} on the target has {is}"
    )]
    TriggerCollation {
        /// The trigger and its table.
        trigger: String,
        /// The collation that it was made with.
        was: String,
        /// The target's database.
        database: String,
        /// That database's collation.
        is: String,
    },
}

impl EstateProblem {
    /// Says what removes the problem.
    #[must_use]
    pub const fn fix(&self) -> &'static str {
        match self {
            Self::NothingMatches { .. } => "correct the name; letter case may count",
            Self::Contradiction { .. } => "give one of the two",
            Self::NoTables => "name a database or a table that holds rows",
            Self::NotATable { .. } => "make it on the target by hand",
            Self::SystemDatabase { .. } => "name a database of your own",
            Self::Engine { .. } => {
                "change it to InnoDB first, or leave it out with --exclude: only InnoDB tables can be copied without locks"
            }
            Self::OwnTable { .. } => "rename it, or leave it out",
            Self::RenamedTwice { .. } => "give one --rename for it",
            Self::Collision { .. } => "rename one of them with --rename",
            Self::SameServer { .. } => "give it another name with --rename, or another target",
            Self::Definition { .. } => "report it with the output of SHOW CREATE TABLE",
            Self::TargetExists { .. } => {
                "drop it, rename with --rename, or allow it with --target-tables empty or matching"
            }
            Self::TargetNotEmpty { .. } => "empty it, or allow rows with --target-tables matching",
            Self::TargetDiffers { .. } => "make the two alike, or drop the target's",
            Self::TargetTrigger { .. } => {
                "drop it; a trigger that the source has too is made again at the end"
            }
            Self::TargetForeignKey { .. } => "drop it on the target, or add it on the source",
            Self::TargetChild { .. } => "drop it for the time of the move, or move its table too",
            Self::ParentMissing { .. } => {
                "move the parent too, make it on the target first, or drop the foreign key"
            }
            Self::NameTaken { .. } => "rename one of the two",
            Self::TriggerNames { .. } | Self::TriggerUnreadable { .. } => {
                "drop it on the source and make it on the target by hand, or don't rename"
            }
            Self::TriggerCollation { .. } => {
                "give the target's database the same default collation with ALTER DATABASE"
            }
        }
    }

    /// Says what to do about this problem: each is a wrong call, but one.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Definition { .. } => Remedy::Bug,
            _ => Remedy::Usage,
        }
    }
}

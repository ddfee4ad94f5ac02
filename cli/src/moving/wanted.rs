//! Which tables are wanted, as the options say.

use oxferry_schema::{Place, Rename, Wanted};

use crate::{args::SelectArgs, failure::Failure};

/// Reads which tables are wanted.
pub(crate) fn wanted(args: &SelectArgs) -> Result<Wanted, Failure> {
    let mut wanted = Wanted::default();
    for name in &args.database {
        match Place::parse(name)? {
            Place::Database(name) => wanted.databases.push(name),
            Place::Table(table) => {
                let message = format!(
                    "--database {} names a table: give it as --table",
                    table.plain()
                );
                return Err(Failure::usage(message));
            }
        }
    }
    for name in &args.table {
        match Place::parse(name)? {
            Place::Table(table) => wanted.tables.push(table),
            Place::Database(name) => {
                let message = format!("--table {0}: write it as DATABASE.{0}", name.as_str());
                return Err(Failure::usage(message));
            }
        }
    }
    for name in &args.exclude {
        wanted.exclude.push(Place::parse(name)?);
    }
    for rename in &args.rename {
        wanted.renames.push(Rename::parse(rename)?);
    }
    Ok(wanted)
}

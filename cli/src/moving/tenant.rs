//! A move of one tenant: which rows of which table are its.

use oxferry_schema::{Column, Generated, Ident, KeyKind, Remedy, RowKey, Table, TableName};
use serde::Deserialize;

use crate::{
    args::TenantArgs,
    failure::Failure,
    job::{JobTable, Own, Owned, Problem, Rows, TenantValue, refuse},
};

/// The tenant that moves, and what the operator says of tables that its
/// column doesn't tell about.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    column: Ident,
    value: String,
    joined: Vec<JoinedTable>,
    root: Vec<RootTable>,
    whole: Vec<TableName>,
}

/// A table whose rows belong to the tenant of their owner.
#[derive(Clone, Debug)]
struct JoinedTable {
    table: TableName,
    column: Ident,
    owner: TableName,
    owner_key: Ident,
}

/// The table of the tenant's own row.
#[derive(Clone, Debug)]
struct RootTable {
    table: TableName,
    column: Ident,
}

/// A joined table, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JoinedText {
    table: String,
    column: String,
    owner: String,
    owner_key: String,
}

/// A root table, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RootText {
    table: String,
    column: String,
}

impl Tenant {
    /// Reads the options; `None` where no tenant is asked for.
    ///
    /// # Errors
    ///
    /// A failure that names the option and how to write it.
    pub(super) fn parse(args: &TenantArgs) -> Result<Option<Self>, Failure> {
        let Some(text) = &args.tenant else {
            return Ok(None);
        };
        let wrong = || Failure::usage(format!("--tenant {text}: write COLUMN=VALUE"));
        let (column, value) = text.split_once('=').ok_or_else(wrong)?;
        if value.is_empty() {
            return Err(wrong());
        }
        let joined = args.joined.iter().map(|text| joined(text));
        let root = args.root.iter().map(|text| root(text));
        let whole = args.whole.iter().map(|text| table_name(text, "--whole"));
        Ok(Some(Self {
            column: name(column.trim(), "--tenant")?,
            value: value.to_owned(),
            joined: joined.collect::<Result<_, _>>()?,
            root: root.collect::<Result<_, _>>()?,
            whole: whole.collect::<Result<_, _>>()?,
        }))
    }

    /// Says for each table which of its rows are the tenant's. Tables whose
    /// rows have owners come behind the others.
    ///
    /// # Errors
    ///
    /// A failure that counts the tables that it isn't known of, each of which
    /// has been logged.
    pub(super) fn place(&self, tables: Vec<JobTable>) -> Result<Vec<JobTable>, Failure> {
        let is_joined = |table: &JobTable| {
            let mut joined = self.joined.iter();
            joined.any(|one| one.table == table.source.name)
        };
        let (joined, mut placed): (Vec<_>, Vec<_>) = tables.into_iter().partition(is_joined);
        placed.extend(joined);
        let rows: Vec<Result<Rows, Problem>> = placed
            .iter()
            .map(|table| self.rows_of(table, &placed))
            .collect();
        let mut problems = self.unknown_tables(&placed);
        for (table, rows) in placed.iter_mut().zip(rows) {
            match rows {
                Ok(rows) => table.rows = rows,
                Err(problem) => problems.push(problem),
            }
        }
        refuse(&problems)?;
        Ok(placed)
    }

    /// Tables that are named by an option and aren't moved.
    fn unknown_tables(&self, tables: &[JobTable]) -> Vec<Problem> {
        let named = self.joined.iter().map(|one| ("joined", &one.table));
        let named = named.chain(self.root.iter().map(|one| ("root", &one.table)));
        let named: Vec<_> = named
            .chain(self.whole.iter().map(|table| ("whole", table)))
            .collect();
        let is_moved = |name: &TableName| tables.iter().any(|table| table.source.name == *name);
        let absent = named.iter().filter(|(_, name)| !is_moved(name));
        let mut found: Vec<Problem> = absent
            .map(|(option, name)| {
                problem(
                    format!("{option} names {}, which isn't moved", name.plain()),
                    "write its name as the server does, or take it out",
                )
            })
            .collect();
        let twice = named.iter().enumerate().filter(|(at, (_, name))| {
            let mut before = named.iter().take(*at);
            before.any(|(_, other)| other == name)
        });
        found.extend(twice.map(|(_, (_, name))| {
            problem(
                format!("{} is named twice by joined, root and whole", name.plain()),
                "name it once",
            )
        }));
        found
    }

    fn rows_of(&self, table: &JobTable, tables: &[JobTable]) -> Result<Rows, Problem> {
        let name = &table.source.name;
        if let Some(root) = self.root.iter().find(|root| root.table == *name) {
            return Ok(Rows::Last(self.own(table, &root.column)?));
        }
        if let Some(joined) = self.joined.iter().find(|one| one.table == *name) {
            return Ok(Rows::Joined(Box::new(self.owned(table, joined, tables)?)));
        }
        if self.whole.contains(name) {
            return Ok(Rows::All);
        }
        if table.source.ordinal_of(self.column.as_str()).is_some() {
            return Ok(Rows::Own(self.own(table, &self.column)?));
        }
        Err(problem(
            format!(
                "table {} has no column {}: whose its rows are isn't known",
                name.plain(),
                self.column.as_str()
            ),
            "say by which column its rows find their owner (--joined), that it is the table of the tenant's \
             own row (--root), that all of it is wanted (--whole), or leave it out with --exclude",
        ))
    }

    fn own(&self, table: &JobTable, column: &Ident) -> Result<Own, Problem> {
        let source = &table.source;
        let (ordinal, column) = column_of(source, column)?;
        if column.generated == Some(Generated::Virtual) {
            return Err(problem(
                format!("column {} is computed when it is read", at(source, column)),
                "give another column, or exclude the table",
            ));
        }
        Ok(Own {
            ordinal,
            value: tenant_value(source, column, &self.value)?,
            index: index_on(source, &column.name, &table.key),
            column: column.name.clone(),
            key_index: table.key.index.clone(),
        })
    }

    fn owned(
        &self,
        table: &JobTable,
        joined: &JoinedTable,
        tables: &[JobTable],
    ) -> Result<Owned, Problem> {
        let (_, column) = column_of(&table.source, &joined.column)?;
        let found = tables.iter().enumerate();
        let mut found = found.filter(|(_, table)| table.source.name == joined.owner);
        let is_placed = |name: &TableName| {
            let joined = self.joined.iter().any(|one| one.table == *name);
            let root = self.root.iter().any(|one| one.table == *name);
            !joined && !root && !self.whole.contains(name)
        };
        let Some((owner, owners)) = found.next().filter(|(_, o)| is_placed(&o.source.name)) else {
            return Err(problem(
                format!(
                    "the owner of {}, {}, is no table that is moved by its own column {}",
                    table.source.name.plain(),
                    joined.owner.plain(),
                    self.column.as_str()
                ),
                "name the table that has the tenant's column as the owner",
            ));
        };
        let own = self.own(owners, &self.column)?;
        let owner_key = key_over(&owners.source, &joined.owner_key)?;
        let side = owner_key.side_in(&table.source, std::slice::from_ref(&column.name));
        let owner_side = side.map_err(|error| problem(error.to_string(), JOIN_ALIKE))?;
        Ok(Owned {
            index: index_on(&table.source, &column.name, &table.key),
            column: column.name.clone(),
            owner,
            owner_source: owners.source.name.clone(),
            owner_target: owners.target.clone(),
            owner_key,
            owner_side,
            owner_tenant: own.column,
            value: own.value,
        })
    }

    /// Returns what tells this move from one of other rows.
    pub(super) fn lines(&self) -> Vec<String> {
        let tenant = format!("tenant {}={}", self.column.as_str(), self.value);
        let joined = self.joined.iter().map(|one| {
            format!(
                "joined {}.{} to {}.{}",
                one.table.plain(),
                one.column.as_str(),
                one.owner.plain(),
                one.owner_key.as_str()
            )
        });
        let root = self.root.iter().map(|one| {
            let column = one.column.as_str();
            format!("root {}.{column}", one.table.plain())
        });
        let whole = self.whole.iter();
        let whole = whole.map(|table| format!("whole {}", table.plain()));
        [tenant]
            .into_iter()
            .chain(joined)
            .chain(root)
            .chain(whole)
            .collect()
    }
}

/// Notes for the operator about how the rows of `tables` are found.
pub(super) fn notes(tables: &[JobTable]) -> Vec<String> {
    let slow = |table: &JobTable, column: &Ident| {
        format!(
            "table {} has no index that begins with {}: each chunk reads over the rows of all tenants, by \
             the key",
            table.source.name.plain(),
            column.as_str()
        )
    };
    let note = |table: &JobTable| match &table.rows {
        Rows::Own(own) | Rows::Last(own) if own.index.is_none() => Some(slow(table, &own.column)),
        Rows::Joined(owned) if owned.index.is_none() => Some(slow(table, &owned.column)),
        _ => None,
    };
    tables.iter().filter_map(note).collect()
}

/// Says which of a table's rows move, and how they are found.
pub(super) fn told(table: &JobTable) -> (String, String) {
    let by = |index: Option<&Ident>, otherwise: &str| {
        index.map_or_else(|| otherwise.to_owned(), |index| index.as_str().to_owned())
    };
    match &table.rows {
        Rows::All => ("all".to_owned(), by(Some(&table.key.index), "")),
        Rows::Own(own) => (own.told(), by(own.index.as_ref(), own.key_index.as_str())),
        Rows::Last(own) => (
            format!("{}, last of all, while the source is shut", own.told()),
            by(own.index.as_ref(), own.key_index.as_str()),
        ),
        Rows::Joined(owned) => (
            format!(
                "those whose {} is in {}",
                owned.column.as_str(),
                owned.owner_source.plain()
            ),
            by(owned.index.as_ref(), "what the server chooses"),
        ),
    }
}

impl Own {
    fn told(&self) -> String {
        let column = self.column.as_str();
        match &self.value {
            TenantValue::Int(number) => format!("{column} = {number}"),
            TenantValue::Text { text, .. } => format!("{column} = {text:?}"),
        }
    }
}

const JOIN_ALIKE: &str = "join by columns of one type";

fn problem(what: String, fix: &str) -> Problem {
    Problem {
        what,
        fix: fix.to_owned(),
        remedy: Remedy::Usage,
    }
}

fn at(table: &Table, column: &Column) -> String {
    format!("{}.{}", table.name.plain(), column.name.as_str())
}

fn column_of<'a>(table: &'a Table, name: &Ident) -> Result<(usize, &'a Column), Problem> {
    let found = table.ordinal_of(name.as_str());
    let found = found.and_then(|at| Some((at, table.columns.get(at)?)));
    found.ok_or_else(|| {
        let table = table.name.plain();
        problem(
            format!("table {table} has no column {}", name.as_str()),
            "write its name as the table does",
        )
    })
}

/// Reads the tenant's value as one of `column`.
fn tenant_value(table: &Table, column: &Column, text: &str) -> Result<TenantValue, Problem> {
    let number = text.parse::<i64>().map(i128::from);
    let number = number.or_else(|_| text.parse::<u64>().map(i128::from));
    match column.data_type.as_str() {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => {
            number.map(TenantValue::Int).map_err(|_| {
                problem(
                    format!(
                        "the tenant {text:?} is no integer, which {} wants",
                        at(table, column)
                    ),
                    "give --tenant an integer",
                )
            })
        }
        "char" | "varchar" => text_value(table, column, text),
        other => Err(problem(
            format!("column {} is {other}", at(table, column)),
            "a tenant is told by an integer or a text; give another column, or exclude the table",
        )),
    }
}

/// Image and parameter must be the same bytes: the character set is part of
/// the one that the session speaks.
fn text_value(table: &Table, column: &Column, text: &str) -> Result<TenantValue, Problem> {
    let charset = column.charset.clone().unwrap_or_default();
    let fits = match charset.as_str() {
        "utf8mb4" => true,
        "utf8mb3" | "utf8" => text.chars().all(|c| c.len_utf8() < 4),
        "ascii" => text.is_ascii(),
        _ => false,
    };
    if !fits {
        return Err(problem(
            format!("column {} is in {charset}", at(table, column)),
            "a tenant's name is compared in utf8mb4, utf8mb3 or ascii: convert the column, or exclude the table",
        ));
    }
    Ok(TenantValue::Text {
        text: text.to_owned(),
        charset,
        collation: column.collation.clone().unwrap_or_default(),
    })
}

/// The index to read one value's rows by: in key order, if there is one.
fn index_on(table: &Table, column: &Ident, key: &RowKey) -> Option<Ident> {
    let begins = table.indexes.iter().filter(|index| {
        let first = index.parts.first();
        let is_it = first.is_some_and(|part| {
            part.column.as_ref() == Some(column) && part.prefix.is_none() && !part.descending
        });
        is_it && index.visible && index.kind == "BTREE"
    });
    let rank = |index: &&oxferry_schema::Index| {
        let second = index.parts.get(1).map(|part| part.column.as_ref());
        let in_order = match second {
            None => true,
            Some(second) => second == key.columns.first(),
        };
        (index.name != key.index, !in_order)
    };
    begins.min_by_key(rank).map(|index| index.name.clone())
}

/// The owner's column as a key of its rows.
fn key_over(table: &Table, column: &Ident) -> Result<RowKey, Problem> {
    let (ordinal, column) = column_of(table, column)?;
    let is_unique = table.indexes.iter().any(|index| {
        let mut parts = index.parts.iter();
        let first = parts.next().and_then(|part| part.column.as_ref());
        index.unique && first == Some(&column.name) && parts.next().is_none()
    });
    let kind = KeyKind::of(column).filter(|_| is_unique);
    let Some(kind) = kind else {
        return Err(problem(
            format!("column {} is no unique key of its own", at(table, column)),
            "join by a column that tells the owners apart",
        ));
    };
    Ok(RowKey {
        index: column.name.clone(),
        columns: vec![column.name.clone()],
        ordinals: vec![ordinal],
        kinds: vec![kind],
    })
}

fn inline<T: serde::de::DeserializeOwned>(text: &str, option: &str) -> Result<T, Failure> {
    let wrong = |error: toml::de::Error| {
        Failure::new(Remedy::Usage, error).context(format!("reading {option} {text}"))
    };
    let document: toml::Table = format!("it = {text}").parse().map_err(wrong)?;
    let it = document.get("it").cloned();
    let it = it.unwrap_or_else(|| toml::Value::Table(toml::Table::new()));
    it.try_into().map_err(wrong)
}

fn joined(text: &str) -> Result<JoinedTable, Failure> {
    const OPTION: &str = "--joined";
    let JoinedText {
        table,
        column,
        owner,
        owner_key,
    } = inline(text, OPTION)?;
    Ok(JoinedTable {
        table: table_name(&table, OPTION)?,
        column: name(&column, OPTION)?,
        owner: table_name(&owner, OPTION)?,
        owner_key: name(&owner_key, OPTION)?,
    })
}

fn root(text: &str) -> Result<RootTable, Failure> {
    const OPTION: &str = "--root";
    let RootText { table, column } = inline(text, OPTION)?;
    Ok(RootTable {
        table: table_name(&table, OPTION)?,
        column: name(&column, OPTION)?,
    })
}

fn name(text: &str, option: &str) -> Result<Ident, Failure> {
    let name = Ident::new(text);
    name.map_err(|error| Failure::new(Remedy::Usage, error).context(format!("reading {option}")))
}

fn table_name(text: &str, option: &str) -> Result<TableName, Failure> {
    use oxferry_schema::Place;
    match Place::parse(text)? {
        Place::Table(table) => Ok(table),
        Place::Database(_) => Err(Failure::usage(format!(
            "{option} names the table {text}: write it as DATABASE.NAME"
        ))),
    }
}

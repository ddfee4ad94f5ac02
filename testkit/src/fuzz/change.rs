//! Changes: one to four clauses, and the table that they make.

use fastrand::Rng;

use super::{
    another,
    kind::{Kind, one_of},
    table::{Column, Table},
    value,
};

/// Draws clauses, and the table as writers must know it afterwards.
pub(super) fn draw(table: &Table, rng: &mut Rng) -> (String, Table) {
    let mut after = table.clone();
    let mut clauses = Vec::new();
    let mut free: Vec<String> = table
        .columns
        .iter()
        .map(|column| column.name.clone())
        .collect();
    // Writers count in it, and another column may be generated from it.
    free.retain(|name| name != "n");
    for at in 0..rng.usize(1..5) {
        let clause = match rng.u32(0..20) {
            0..5 => add(&mut after, at, rng),
            5 | 6 => drop(&mut after, &mut free, rng),
            7..13 => modify(&mut after, &mut free, rng),
            13 | 14 => rename(&mut after, &mut free, rng),
            15 => add_index(&after, at, false, rng),
            16 => add_index(&after, at, true, rng),
            17 => drop_index(&mut after, rng),
            _ => option(rng),
        };
        clauses.extend(clause.filter(|clause| !clauses.contains(clause)));
    }
    if clauses.is_empty() {
        clauses.push("ENGINE=InnoDB".to_owned());
    }
    (clauses.join(", "), after)
}

/// Takes a column that no other clause is about.
fn take(free: &mut Vec<String>, rng: &mut Rng) -> Option<String> {
    let name = one_of(rng, free)?;
    free.retain(|other| *other != name);
    Some(name)
}

fn column<'a>(table: &'a mut Table, name: &str) -> Option<&'a mut Column> {
    table.columns.iter_mut().find(|column| column.name == name)
}

fn add(after: &mut Table, at: usize, rng: &mut Rng) -> Option<String> {
    let kind = Kind::draw(rng);
    let mut column = Column::plain(&format!("x{at}"), kind, rng.bool());
    if !column.nullable && column.kind.is_indexable() {
        let default = value::draw(&column.kind, rng);
        let sql = format!(
            "ADD COLUMN {} {} DEFAULT {}",
            column.name,
            column.sql(),
            default_of(&column.kind, &default)
        );
        after.columns.push(column);
        return Some(sql);
    }
    column.nullable = true;
    let place = if rng.bool() { "" } else { " FIRST" };
    let sql = format!("ADD COLUMN {} {}{place}", column.name, column.sql());
    after.columns.push(column);
    Some(sql)
}

/// A BIT's default is written in bits.
fn default_of(kind: &Kind, value: &str) -> String {
    match kind {
        Kind::Bit { .. } | Kind::Set { .. } => format!("({value})"),
        _ => value.to_owned(),
    }
}

fn drop(after: &mut Table, free: &mut Vec<String>, rng: &mut Rng) -> Option<String> {
    let name = take(free, rng)?;
    // Dropping a part of a unique index makes another one of it.
    let in_unique = after
        .indexes
        .iter()
        .any(|(_, columns, unique)| *unique && columns.contains(&name));
    if after.key.contains(&name) || in_unique {
        return None;
    }
    after.columns.retain(|column| column.name != name);
    Some(format!("DROP COLUMN {name}"))
}

fn rename(after: &mut Table, free: &mut Vec<String>, rng: &mut Rng) -> Option<String> {
    let name = take(free, rng)?;
    let to = if rng.u32(0..3) == 0 {
        name.to_uppercase()
    } else {
        format!("{name}_renamed")
    };
    column(after, &name)?.name.clone_from(&to);
    let columns = after.indexes.iter_mut().map(|(_, columns, _)| columns);
    for known in columns
        .chain([&mut after.key])
        .flatten()
        .filter(|known| **known == name)
    {
        known.clone_from(&to);
    }
    Some(format!("RENAME COLUMN {name} TO {to}"))
}

fn modify(after: &mut Table, free: &mut Vec<String>, rng: &mut Rng) -> Option<String> {
    let name = take(free, rng)?;
    let is_key = after.key.contains(&name);
    let column = column(after, &name)?;
    if column.generated.is_some() {
        return None;
    }
    column.kind = another::draw(&column.kind, rng)?;
    // NULL to NOT NULL is up to the rows, so it is rare.
    column.nullable = !is_key && (column.nullable || rng.u32(0..3) == 0) && rng.u32(0..12) > 0;
    column.auto_increment &= matches!(column.kind, Kind::Int { .. });
    let place = if rng.u32(0..4) == 0 { " FIRST" } else { "" };
    Some(format!("MODIFY {name} {}{place}", column.sql()))
}

fn add_index(after: &Table, at: usize, unique: bool, rng: &mut Rng) -> Option<String> {
    let fit = |column: &&Column| column.kind.is_indexable() && !column.name.starts_with('x');
    let names: Vec<String> = after
        .columns
        .iter()
        .filter(fit)
        .map(|c| c.name.clone())
        .collect();
    let mut columns: Vec<String> = one_of(rng, &names).into_iter().collect();
    if unique {
        // With the key in it there are no duplicates.
        if rng.u32(0..3) > 0 {
            let more = after.key.iter().filter(|name| !columns.contains(name));
            let more: Vec<String> = more.cloned().collect();
            columns.extend(more);
        }
    } else {
        columns.extend(one_of(rng, &names).filter(|name| !columns.contains(name)));
    }
    let word = if unique { "UNIQUE INDEX" } else { "INDEX" };
    Some(format!("ADD {word} new{at} ({})", columns.join(", ")))
}

fn drop_index(after: &mut Table, rng: &mut Rng) -> Option<String> {
    let (name, ..) = one_of(rng, &after.indexes)?;
    after.indexes.retain(|(other, ..)| *other != name);
    Some(format!("DROP INDEX {name}"))
}

fn option(rng: &mut Rng) -> Option<String> {
    let options = [
        "ENGINE=InnoDB",
        "ROW_FORMAT=DYNAMIC",
        "ROW_FORMAT=COMPACT",
        "COMMENT='a %s ''quoted'' `comment`, rename column'",
        "AUTO_INCREMENT=100000",
        "DEFAULT CHARACTER SET latin1",
        "ALTER COLUMN n SET DEFAULT 5",
        "ADD CONSTRAINT n_small CHECK (n < 2000000000)",
    ];
    one_of(rng, &options).map(str::to_owned)
}

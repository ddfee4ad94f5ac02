//! What writers do.

use fastrand::Rng;

use super::{
    kind::one_of,
    table::{MODE, Table},
    value,
};

/// Statements or transactions of one loop.
const STEPS: usize = 40;

/// Draws one writer's loop.
pub(super) fn draw(table: &Table, rng: &mut Rng) -> Vec<String> {
    let mut statements = vec![MODE.to_owned()];
    // Every loop changes something, whatever the others do.
    let always = known(table, rng);
    statements.push(format!(
        "UPDATE t SET n = {{n}} WHERE {}",
        is(table, &always)
    ));
    statements.push(insert(table, rng));
    for _ in 0..STEPS {
        match rng.u32(0..12) {
            0..2 => statements.push(insert(table, rng)),
            2..6 => statements.push(update(table, rng)),
            6..8 => statements.push(delete(table, rng)),
            8 => statements.push(move_key(table, rng)),
            9 => statements.push(some_rows(table, rng)),
            _ => transaction(table, rng, &mut statements),
        }
    }
    statements
}

/// A key that a row had, or may have got.
fn known(table: &Table, rng: &mut Rng) -> Vec<String> {
    one_of(rng, &table.known).unwrap_or_default()
}

fn fresh(table: &Table, rng: &mut Rng) -> Vec<String> {
    table
        .key_columns()
        .map(|column| value::draw(&column.kind, rng))
        .collect()
}

fn is(table: &Table, key: &[String]) -> String {
    let pairs = table.key.iter().zip(key);
    pairs
        .map(|(name, value)| format!("{name} = {value}"))
        .collect::<Vec<_>>()
        .join(" AND ")
}

fn insert(table: &Table, rng: &mut Rng) -> String {
    let key = if rng.bool() {
        fresh(table, rng)
    } else {
        known(table, rng)
    };
    let (names, row) = (table.written_names(), table.row(&key, rng));
    match rng.u32(0..3) {
        0 => format!("REPLACE INTO t ({names}) VALUES {row}"),
        1 => format!("INSERT INTO t ({names}) VALUES {row} ON DUPLICATE KEY UPDATE n = n + 1"),
        _ => format!("INSERT INTO t ({names}) VALUES {row}"),
    }
}

fn update(table: &Table, rng: &mut Rng) -> String {
    let columns = table.value_columns();
    let mut sets = Vec::new();
    for _ in 0..rng.usize(1..4) {
        if let Some(column) = one_of(rng, &columns) {
            sets.push(format!("{} = {}", column.name, column.value(rng)));
        }
    }
    let key = known(table, rng);
    format!("UPDATE t SET {} WHERE {}", sets.join(", "), is(table, &key))
}

fn delete(table: &Table, rng: &mut Rng) -> String {
    let key = known(table, rng);
    format!("DELETE FROM t WHERE {}", is(table, &key))
}

fn move_key(table: &Table, rng: &mut Rng) -> String {
    let (from, to) = (
        known(table, rng),
        if rng.bool() {
            fresh(table, rng)
        } else {
            known(table, rng)
        },
    );
    let pairs = table.key.iter().zip(&to);
    let sets: Vec<String> = pairs
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    format!(
        "UPDATE t SET {} WHERE {}",
        sets.join(", "),
        is(table, &from)
    )
}

/// Several rows at once, from some key on.
fn some_rows(table: &Table, rng: &mut Rng) -> String {
    let (key, names) = (known(table, rng), table.key.join(", "));
    let (first, from) = (table.key.first(), key.first());
    let from = first.zip(from).map_or_else(
        || "TRUE".to_owned(),
        |(name, value)| format!("{name} >= {value}"),
    );
    let count = rng.u32(1..8);
    if rng.u32(0..4) == 0 {
        return format!("DELETE FROM t WHERE {from} ORDER BY {names} LIMIT 2");
    }
    format!("UPDATE t SET n = n + 1 WHERE {from} ORDER BY {names} LIMIT {count}")
}

/// Several statements that are committed, or taken back, together. Values of
/// two rows may change places in it.
fn transaction(table: &Table, rng: &mut Rng, statements: &mut Vec<String>) {
    statements.push("BEGIN".to_owned());
    let unique = table
        .indexes
        .iter()
        .find(|(_, columns, unique)| *unique && columns.len() == 1);
    let column = unique.and_then(|(_, columns, _)| {
        let name = columns.first()?;
        table
            .value_columns()
            .into_iter()
            .find(|column| column.name == *name && column.nullable)
            .cloned()
    });
    if let Some(column) = column {
        let (one, other) = (known(table, rng), known(table, rng));
        let (name, first, second) = (
            &column.name,
            value::draw(&column.kind, rng),
            value::draw(&column.kind, rng),
        );
        for (key, value) in [
            (&one, "NULL"),
            (&other, &first),
            (&one, &second),
            (&other, "NULL"),
            (&one, &first),
        ] {
            statements.push(format!(
                "UPDATE t SET {name} = {value} WHERE {}",
                is(table, key)
            ));
        }
    }
    for _ in 0..rng.usize(1..5) {
        let statement = match rng.u32(0..4) {
            0 => insert(table, rng),
            1 => delete(table, rng),
            2 => move_key(table, rng),
            _ => update(table, rng),
        };
        statements.push(statement);
    }
    let end = if rng.u32(0..5) == 0 {
        "ROLLBACK"
    } else {
        "COMMIT"
    };
    statements.push(end.to_owned());
}

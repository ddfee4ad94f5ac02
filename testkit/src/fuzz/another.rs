//! Other types for a column that has values.

use fastrand::Rng;

use super::kind::{Kind, Text, one_of};

/// Another type that takes the values, or most of them, or some; nothing
/// where there is no such type.
pub(super) fn draw(kind: &Kind, rng: &mut Rng) -> Option<Kind> {
    let of_texts = |rng: &mut Rng| texts(kind, rng);
    numbers(kind, rng)
        .or_else(|| times(kind, rng))
        .or_else(|| of_texts(rng))
        .or_else(|| others(kind, rng))
}

fn varchar(length: usize, rng: &mut Rng) -> Kind {
    let text = Text::draw(rng);
    Kind::Varchar { length, text }
}

fn numbers(kind: &Kind, rng: &mut Rng) -> Option<Kind> {
    let int = |bytes, unsigned| Kind::Int { bytes, unsigned };
    let decimal = |digits, scale| Kind::Decimal { digits, scale };
    Some(match kind {
        Kind::Int { bytes, unsigned } => match rng.u32(0..6) {
            0 => decimal(25, 2),
            1 => varchar(30, rng),
            2 => int(*bytes, !unsigned),
            3 => int(4, *unsigned),
            _ => int(8, *unsigned),
        },
        Kind::Decimal { digits, scale } => match rng.u32(0..4) {
            0 => varchar(80, rng),
            1 => decimal(*digits, scale.saturating_sub(1)),
            _ => decimal(digits + 10, scale + rng.usize(0..5)),
        },
        Kind::Float => Kind::Double,
        Kind::Bit { .. } => Kind::Bit { width: 64 },
        Kind::Year => int(2, rng.bool()),
        _ => return None,
    })
}

fn times(kind: &Kind, rng: &mut Rng) -> Option<Kind> {
    let some = rng.usize(0..=6);
    Some(match kind {
        Kind::Date => Kind::DateTime { digits: some },
        Kind::DateTime { .. } => match rng.u32(0..3) {
            0 => varchar(30, rng),
            1 => Kind::DateTime { digits: some },
            _ => Kind::DateTime { digits: 6 },
        },
        Kind::Timestamp { .. } => match rng.u32(0..3) {
            0 => Kind::DateTime { digits: 6 },
            _ => Kind::Timestamp { digits: 6 },
        },
        Kind::Time { .. } => Kind::Time { digits: 6 },
        _ => return None,
    })
}

fn texts(kind: &Kind, rng: &mut Rng) -> Option<Kind> {
    let of = match kind {
        Kind::Char { text, .. } | Kind::Varchar { text, .. } | Kind::LongText { text } => *text,
        _ => return None,
    };
    let text = if rng.bool() { of } else { Text::draw(rng) };
    Some(match kind {
        Kind::Char { length, .. } if rng.u32(0..3) == 0 => Kind::Char {
            length: length + 5,
            text,
        },
        Kind::Varchar { length, .. } => match rng.u32(0..6) {
            0 => Kind::Varchar {
                length: length.saturating_sub(2).max(1),
                text: of,
            },
            1 => Kind::Char {
                length: (*length).max(4),
                text: of,
            },
            2 => Kind::Varbinary { length: length * 4 },
            _ => Kind::Varchar {
                length: length + rng.usize(0..60),
                text,
            },
        },
        Kind::Char { length, .. } => Kind::Varchar {
            length: length + 5,
            text,
        },
        _ => Kind::LongText { text },
    })
}

fn others(kind: &Kind, rng: &mut Rng) -> Option<Kind> {
    Some(match kind {
        Kind::Binary { length } => one_of(
            rng,
            &[
                Kind::Varbinary { length: length + 5 },
                Kind::Binary { length: length + 3 },
            ],
        )?,
        Kind::Varbinary { length } => match rng.u32(0..3) {
            0 => Kind::Binary { length: *length },
            _ => Kind::Varbinary {
                length: length + 200,
            },
        },
        Kind::Enum { members, text } => members_changed(members, *text, rng),
        Kind::Set { members } => match rng.u32(0..2) {
            0 => varchar(400, rng),
            _ => Kind::Set {
                members: (members + 3).min(64),
            },
        },
        Kind::Json => Kind::LongText {
            text: Text {
                charset: "utf8mb4",
                collation: "utf8mb4_bin",
            },
        },
        _ => return None,
    })
}

fn members_changed(members: &[String], text: Text, rng: &mut Rng) -> Kind {
    let mut members = members.to_vec();
    match rng.u32(0..5) {
        0 => return varchar(20, rng),
        1 => members.reverse(),
        2 => members.insert(0, "first".to_owned()),
        3 => {
            members.pop();
        }
        _ => members.push("last".to_owned()),
    }
    Kind::Enum { members, text }
}

//! Values, the awkward ones more often than others.

use fastrand::Rng;

use super::kind::{Kind, Text, one_of};

/// A value of this type as SQL; every one fits the type.
pub(super) fn draw(kind: &Kind, rng: &mut Rng) -> String {
    let awkward = pick(rng, awkward(kind));
    awkward.unwrap_or_else(|| ordinary(kind, rng))
}

/// Values of a type that tools have stumbled over; none where [`ordinary`] has
/// them among its own.
const fn awkward(kind: &Kind) -> &'static [&'static str] {
    match kind {
        Kind::Float => &[
            "-0e0",
            "0",
            "16777217",
            "3.402823e38",
            "-1.17549e-38",
            "0.1",
        ],
        Kind::Double => &[
            "-0e0",
            "0",
            "0.1234567890123456789",
            "1.7976931348623157e308",
            "4.9e-324",
            "0.30000000000000004",
        ],
        Kind::Year => &["0", "1901", "2155"],
        Kind::Date => &[
            "'0000-00-00'",
            "'1000-01-01'",
            "'9999-12-31'",
            "'2024-00-00'",
        ],
        Kind::DateTime { .. } => &[
            "'0000-00-00 00:00:00'",
            "'1000-01-01 00:00:00'",
            "'9999-12-31 23:59:59'",
        ],
        Kind::Timestamp { .. } => &["'1970-01-02 00:00:01'", "'2038-01-18 03:14:07'"],
        Kind::Time { .. } => &["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:01'"],
        Kind::Json => &[
            "'null'",
            "'1.0'",
            "'[1, 1.0, \"é😀\", null, true]'",
            "'{\"a\": {\"b\": [[], {}]}, \"\": 18446744073709551615}'",
            "'\"text\"'",
        ],
        _ => &[],
    }
}

fn ordinary(kind: &Kind, rng: &mut Rng) -> String {
    match kind {
        Kind::Int { bytes, unsigned } => integer(*bytes, *unsigned, rng),
        Kind::Decimal { digits, scale } => decimal(*digits, *scale, rng),
        Kind::Float => rng.i32(-1000..1000).to_string(),
        Kind::Double => format!("{}e{}", rng.i64(-1_000_000..1_000_000), rng.i32(-20..20)),
        Kind::Bit { width } => bits(*width, rng),
        Kind::Year => rng.u32(1901..=2155).to_string(),
        Kind::Date => format!("'{}'", day(rng)),
        Kind::DateTime { digits } => {
            format!("'{} {}{}'", day(rng), clock(rng), fraction(*digits, rng))
        }
        Kind::Timestamp { digits } => {
            let (year, day) = (rng.u32(0..37), month_and_day(rng));
            format!(
                "'20{year:02}-{day} {}{}'",
                clock(rng),
                fraction(*digits, rng)
            )
        }
        Kind::Time { digits } => {
            let sign = if rng.bool() { "-" } else { "" };
            format!("'{sign}{}{}'", clock(rng), fraction(*digits, rng))
        }
        Kind::Char { length, text } | Kind::Varchar { length, text } => words(*length, *text, rng),
        Kind::LongText { text } => {
            let length = one_of(rng, &[10, 100, 1500]).unwrap_or(10);
            words(length, *text, rng)
        }
        Kind::Binary { length } | Kind::Varbinary { length } => bytes(*length, rng),
        Kind::Blob => {
            let length = one_of(rng, &[5, 100, 900]).unwrap_or(5);
            bytes(length, rng)
        }
        Kind::Enum { members, .. } => {
            let member = one_of(rng, members).unwrap_or_default();
            format!("'{member}'")
        }
        Kind::Set { members } => (rng.u64(..) >> (64 - members)).to_string(),
        Kind::Json => {
            let (number, other) = (rng.i64(-1000..1000), rng.u32(0..100));
            format!("'{{\"n\": {number}, \"v\": [{other}.5, \"x\"]}}'")
        }
    }
}

/// One of the awkward ones in a fifth of all cases.
fn pick(rng: &mut Rng, awkward: &[&str]) -> Option<String> {
    if rng.u32(0..5) > 0 {
        return None;
    }
    one_of(rng, awkward).map(str::to_owned)
}

fn integer(bytes: u32, unsigned: bool, rng: &mut Rng) -> String {
    let bits = bytes * 8;
    let (least, most) = if unsigned {
        (0, (1_i128 << bits) - 1)
    } else {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    };
    let value = match rng.u32(0..10) {
        0 => least,
        1 => most,
        2 => most / 2 + 1,
        3 => 0,
        4 => -1,
        5 => rng.i128(least..=most),
        _ => rng.i128(-3000..3000),
    };
    value.clamp(least, most).to_string()
}

fn decimal(digits: usize, scale: usize, rng: &mut Rng) -> String {
    let figures = |count: usize, rng: &mut Rng| -> String {
        (0..count)
            .map(|_| char::from(b'0' + rng.u8(0..10)))
            .collect()
    };
    let whole = digits - scale;
    let used = if whole == 0 { 0 } else { rng.usize(1..=whole) };
    let whole = match rng.u32(0..8) {
        0 => "0".to_owned(),
        1 => "9".repeat(whole.max(1)),
        _ => figures(used.max(1), rng),
    };
    // Without digits in front of the point nothing but 0 stands there.
    let whole = if digits == scale {
        "0".to_owned()
    } else {
        whole
    };
    let sign = if rng.bool() { "-" } else { "" };
    if scale == 0 {
        return format!("{sign}{whole}");
    }
    format!("{sign}{whole}.{}", figures(scale, rng))
}

fn bits(width: u32, rng: &mut Rng) -> String {
    let all = u64::MAX >> (64 - width);
    let value = match rng.u32(0..6) {
        0 => 0,
        1 => all,
        2 => all / 2 + 1,
        _ => rng.u64(..) & all,
    };
    value.to_string()
}

fn month_and_day(rng: &mut Rng) -> String {
    format!("{:02}-{:02}", rng.u32(1..=12), rng.u32(1..=28))
}

fn day(rng: &mut Rng) -> String {
    format!("{:04}-{}", rng.u32(1000..=9999), month_and_day(rng))
}

fn clock(rng: &mut Rng) -> String {
    format!(
        "{:02}:{:02}:{:02}",
        rng.u32(0..24),
        rng.u32(0..60),
        rng.u32(0..60)
    )
}

fn fraction(digits: usize, rng: &mut Rng) -> String {
    if digits == 0 {
        return String::new();
    }
    let all = format!("{:06}", rng.u32(0..1_000_000));
    format!(".{}", all.get(..digits).unwrap_or_default())
}

fn words(length: usize, text: Text, rng: &mut Rng) -> String {
    let letters: &[&str] = match text.charset {
        "latin1" => &["a", "A", "é", "É", "ß", "ü", " ", "0", "ÿ", "z"],
        "gbk" => &["a", "B", "中", "文", " ", "9", "字"],
        "ucs2" | "utf8mb3" => &["a", "A", "é", "É", "中", " ", "ß", "я"],
        _ => &[
            "a", "A", "é", "É", "ß", "中", "😀", " ", "e\u{301}", "я", "ñ", "7",
        ],
    };
    let length = match rng.u32(0..6) {
        0 => 0,
        1 => length,
        _ => rng.usize(0..=length),
    };
    let mut all = String::new();
    while all.chars().count() < length {
        all.push_str(one_of(rng, letters).unwrap_or("a"));
    }
    let fitting: String = all.chars().take(length).collect();
    format!("'{fitting}'")
}

fn bytes(length: usize, rng: &mut Rng) -> String {
    let length = if rng.u32(0..5) == 0 {
        length
    } else {
        rng.usize(0..=length)
    };
    let byte = |rng: &mut Rng| one_of(rng, &[0, 0, 255, 32, 92, 39, 128]).unwrap_or(0);
    let all: String = (0..length)
        .map(|_| if rng.bool() { rng.u8(..) } else { byte(rng) })
        .map(|byte| format!("{byte:02X}"))
        .collect();
    format!("X'{all}'")
}

//! Values as the lines that `LOAD DATA` reads.

use std::io::Write;

use oxferry_schema::{Column, Value};

use crate::param;

/// How a column's values stand in a line.
#[derive(Clone, Debug)]
pub(super) struct Field {
    from: Column,
    to: Column,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// This many bytes, the highest first.
    Bits(usize),
    /// A year of four digits: `0` would be 2000.
    Year,
    /// A date alone.
    Date,
    /// As it is.
    Plain,
}

impl Field {
    pub(super) fn new(from: &Column, to: &Column) -> Self {
        let kind = match from.data_type.as_str() {
            "bit" => Kind::Bits(bits(&from.column_type).div_ceil(8)),
            "year" => Kind::Year,
            "date" => Kind::Date,
            _ => Kind::Plain,
        };
        Self {
            from: from.clone(),
            to: to.clone(),
            kind,
        }
    }

    /// Appends a value to a line.
    pub(super) fn encode(&self, value: &Value, line: &mut Vec<u8>) {
        match (self.kind, value) {
            (_, Value::NULL) => line.extend_from_slice(b"\\N"),
            (Kind::Bits(bytes), Value::UInt(bits)) => {
                let all = bits.to_be_bytes();
                let from = all.len().saturating_sub(bytes);
                escape(all.get(from..).unwrap_or(&all), line);
            }
            (Kind::Year, Value::Int(year)) => print(line, format_args!("{year:04}")),
            (Kind::Year, Value::UInt(year)) => print(line, format_args!("{year:04}")),
            (_, Value::Int(number)) => print(line, format_args!("{number}")),
            (_, Value::UInt(number)) => print(line, format_args!("{number}")),
            // The value itself and not its shortest text: the server reads a
            // double first.
            (_, Value::Float(number)) => print(line, format_args!("{:e}", f64::from(*number))),
            (_, Value::Double(number)) => print(line, format_args!("{number:e}")),
            (Kind::Date, Value::Date(y, mo, d, ..)) => {
                print(line, format_args!("{y:04}-{mo:02}-{d:02}"));
            }
            (_, Value::Date(y, mo, d, h, mi, s, us)) => print(
                line,
                format_args!("{y:04}-{mo:02}-{d:02} {h:02}:{mi:02}:{s:02}.{us:06}"),
            ),
            (_, Value::Bytes(bytes)) => escape(bytes, line),
            (_, Value::Time(..)) => {
                if let Value::Bytes(text) = param::parameter(value, &self.from, &self.to) {
                    escape(&text, line);
                }
            }
        }
    }
}

/// Writing to memory never fails.
fn print(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).unwrap_or_default();
}

/// Appends bytes so that none of them ends a field or a line.
fn escape(bytes: &[u8], line: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(byte, b'\\' | b'\t' | b'\n' | 0);
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(is_special) {
        let (plain, special) = rest.split_at(at);
        line.extend_from_slice(plain);
        let Some((byte, behind)) = special.split_first() else {
            return;
        };
        line.push(b'\\');
        line.push(match byte {
            b'\t' => b't',
            b'\n' => b'n',
            0 => b'0',
            other => *other,
        });
        rest = behind;
    }
    line.extend_from_slice(rest);
}

/// Reads the number of bits of `bit(n)`.
fn bits(column_type: &str) -> usize {
    let digits: String = column_type.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::column;

    #[track_caller]
    fn check(column_type: &str, value: &Value, expected: &[u8]) {
        let column = column("c", column_type);
        let mut line = Vec::new();
        Field::new(&column, &column).encode(value, &mut line);
        assert_eq!(
            String::from_utf8_lossy(&line),
            String::from_utf8_lossy(expected),
            "{column_type}"
        );
    }

    #[test]
    fn nothing_in_a_value_ends_its_field() {
        check(
            "blob",
            &Value::from(b"a\tb\nc\\N\0\r".to_vec()),
            b"a\\tb\\nc\\\\N\\0\r",
        );
        check("blob", &Value::NULL, b"\\N");
        check("text", &Value::from("NULL"), b"NULL");
        check("text", &Value::from(""), b"");
    }

    #[test]
    fn numbers_keep_every_digit() {
        check("float", &Value::Float(0.1), b"1.0000000149011612e-1");
        check("double", &Value::Double(-0.0), b"-0e0");
        check("double", &Value::Double(0.1), b"1e-1");
        check(
            "bigint unsigned",
            &Value::UInt(u64::MAX),
            b"18446744073709551615",
        );
        check("year", &Value::UInt(0), b"0000");
        check("bit(12)", &Value::UInt(0x0941), b"\\tA");
    }

    #[test]
    fn moments_are_whole() {
        let moment = Value::Date(2020, 2, 31, 1, 2, 3, 4);
        check("date", &moment, b"2020-02-31");
        check("datetime(6)", &moment, b"2020-02-31 01:02:03.000004");
        check(
            "time(6)",
            &Value::Time(true, 1, 0, 0, 0, 5),
            b"-240000.000005",
        );
    }
}

//! JSON documents in the server's binary form, to the text that it prints, and
//! to what that text doesn't tell.

use std::io::Write;

use mysql_async::Value;
use oxferry_schema::JsonValue;

use super::{DecodeError, Reader, decimal, temporal};

/// The deepest nesting that a server accepts.
///
/// Source: MySQL 9.7, `sql-common/json_syntax_check.h`, `JSON_DOCUMENT_MAX_DEPTH`.
const DEPTH_MAX: u8 = 100;

/// A document's text, and the values inside whose type it doesn't tell, each
/// with its path.
pub(crate) type Document = (Vec<u8>, Vec<(String, JsonValue)>);

/// Writes a binary document as the text that `SELECT` would show.
///
/// Numbers keep their type: a double is never written like an integer.
/// Source: MySQL 9.7, `sql-common/json_binary.h` (the format) and
/// `sql-common/json_dom.cc`, `wrapper_to_string` (the text).
pub(crate) fn read(document: &[u8]) -> Result<Document, DecodeError> {
    // An empty document stands for `null`, see `json_binary::parse_binary`.
    if document.is_empty() {
        return Ok((b"null".to_vec(), Vec::new()));
    }
    let mut writer = Writer {
        text: Vec::with_capacity(document.len() * 2),
        // No part of a document grows by more than this when it is printed.
        length_max: document.len() * 8 + 64,
        leaves: Vec::new(),
        legs: Vec::new(),
    };
    let mut reader = Reader::new(document);
    let kind = reader.byte(FIELD)?;
    writer.value(kind, reader.rest(), 0)?;
    Ok((writer.text, writer.leaves))
}

const FIELD: &str = "JSON";

const fn invalid(value: u64) -> DecodeError {
    DecodeError::Invalid {
        field: FIELD,
        value,
    }
}

/// How wide counts and offsets inside an array or object are.
#[derive(Clone, Copy)]
struct Width(u8);

impl Width {
    const SMALL: Self = Self(2);
    const LARGE: Self = Self(4);
}

struct Writer<'d> {
    text: Vec<u8>,
    length_max: usize,
    leaves: Vec<(String, JsonValue)>,
    /// The way to the value that is being written.
    legs: Vec<Leg<'d>>,
}

/// One step on the way to a value.
#[derive(Clone, Copy)]
enum Leg<'d> {
    Index(u64),
    Key(&'d [u8]),
}

impl<'d> Writer<'d> {
    /// Writes the value that stands at the start of `data`.
    fn value(&mut self, kind: u8, data: &'d [u8], depth: u8) -> Result<(), DecodeError> {
        // Entries of a broken document may share their values: without this
        // bound its text could grow without end.
        if depth > DEPTH_MAX || self.text.len() > self.length_max {
            return Err(invalid(depth.into()));
        }
        let mut reader = Reader::new(data);
        match kind {
            0x00 => self.object(data, Width::SMALL, depth),
            0x01 => self.object(data, Width::LARGE, depth),
            0x02 => self.array(data, Width::SMALL, depth),
            0x03 => self.array(data, Width::LARGE, depth),
            0x04 => self.literal(reader.byte(FIELD)?),
            0x05 => self.display(i16::from_le_bytes(reader.array(FIELD)?)),
            0x06 => self.display(u16::from_le_bytes(reader.array(FIELD)?)),
            0x07 => self.display(i32::from_le_bytes(reader.array(FIELD)?)),
            0x08 => self.display(u32::from_le_bytes(reader.array(FIELD)?)),
            0x09 => self.display(i64::from_le_bytes(reader.array(FIELD)?)),
            0x0A => self.display(u64::from_le_bytes(reader.array(FIELD)?)),
            0x0B => self.double(f64::from_le_bytes(reader.array(FIELD)?)),
            0x0C => {
                let length = variable_length(&mut reader)?;
                self.string(reader.take(length, FIELD)?);
                Ok(())
            }
            0x0F => {
                let kind = reader.byte(FIELD)?;
                let length = variable_length(&mut reader)?;
                self.opaque(kind, reader.take(length, FIELD)?)
            }
            other => Err(invalid(other.into())),
        }
    }

    fn display(&mut self, number: impl std::fmt::Display) -> Result<(), DecodeError> {
        write!(self.text, "{number}").map_err(|_| invalid(0))
    }

    fn literal(&mut self, literal: u8) -> Result<(), DecodeError> {
        let text: &[u8] = match literal {
            0 => b"null",
            1 => b"true",
            2 => b"false",
            other => return Err(invalid(other.into())),
        };
        self.text.extend_from_slice(text);
        Ok(())
    }

    fn array(&mut self, data: &'d [u8], width: Width, depth: u8) -> Result<(), DecodeError> {
        let (count, data, mut entries) = container(data, width)?;
        self.text.push(b'[');
        for at in 0..count {
            if at > 0 {
                self.text.extend_from_slice(b", ");
            }
            self.legs.push(Leg::Index(at));
            self.entry(data, &mut entries, width, depth)?;
            self.legs.pop();
        }
        self.text.push(b']');
        Ok(())
    }

    fn object(&mut self, data: &'d [u8], width: Width, depth: u8) -> Result<(), DecodeError> {
        let (count, data, mut keys) = container(data, width)?;
        let mut entries = keys;
        entries.take(count * u64::from(width.0 + 2), FIELD)?;
        self.text.push(b'{');
        for at in 0..count {
            if at > 0 {
                self.text.extend_from_slice(b", ");
            }
            let offset = keys.little(width.0, FIELD)?;
            let length = keys.little(2, FIELD)?;
            let key = slice(data, offset)?.take(length, FIELD)?;
            self.string(key);
            self.text.extend_from_slice(b": ");
            self.legs.push(Leg::Key(key));
            self.entry(data, &mut entries, width, depth)?;
            self.legs.pop();
        }
        self.text.push(b'}');
        Ok(())
    }

    /// Writes the value of one entry: it stands in the entry itself if it is
    /// small enough, else at the offset that the entry holds.
    fn entry(
        &mut self,
        data: &'d [u8],
        entries: &mut Reader<'d>,
        width: Width,
        depth: u8,
    ) -> Result<(), DecodeError> {
        let kind = entries.byte(FIELD)?;
        let inline = entries.take(width.0.into(), FIELD)?;
        let is_inline = match kind {
            0x04..=0x06 => true,
            0x07 | 0x08 => width.0 == Width::LARGE.0,
            _ => false,
        };
        if is_inline {
            return self.value(kind, inline, depth + 1);
        }
        let offset = Reader::new(inline).little(width.0, FIELD)?;
        self.value(kind, slice(data, offset)?.rest(), depth + 1)
    }

    /// Writes a quoted string.
    fn string(&mut self, bytes: &[u8]) {
        quote(&mut self.text, bytes);
    }

    /// Writes the shortest text that reads as the same double, with `.0`
    /// where it would else read as an integer.
    ///
    /// Plain digits are used where the decimal point stands no farther than
    /// 15 places from the first digit, or has digits behind it. Source:
    /// MySQL 9.7, `strings/dtoa.cc`, `my_gcvt`, and observed on 9.7.4.
    fn double(&mut self, number: f64) -> Result<(), DecodeError> {
        let text = format!("{number:e}");
        let split = text.split_once('e');
        let split = split.and_then(|(digits, e)| Some((digits, e.parse::<i32>().ok()?)));
        let Some((digits, exponent)) = split else {
            // Infinity and NaN have no text in JSON, and no server stores them.
            return Err(invalid(number.to_bits()));
        };
        let digits = digits.bytes().filter(u8::is_ascii_digit).count();
        let has_fraction = usize::try_from(exponent).is_ok_and(|places| digits > places + 1);
        if !(-15..=14).contains(&exponent) && !has_fraction {
            return self.display(text);
        }
        let plain = number.to_string();
        let point = if plain.contains('.') { "" } else { ".0" };
        self.display(format_args!("{plain}{point}"))
    }

    /// Writes a value of an SQL type, and notes which.
    fn opaque(&mut self, kind: u8, data: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(data);
        let value = match kind {
            246 => {
                let [digits, scale] = reader.array(FIELD)?;
                let text = decimal::read(&mut reader, digits, scale)?;
                let text = String::from_utf8(text).map_err(|_| invalid(kind.into()))?;
                self.text.extend_from_slice(text.as_bytes());
                JsonValue::Decimal {
                    text,
                    digits,
                    scale,
                }
            }
            7 | 10 | 12 => {
                let moment = temporal::packed_datetime(reader.little(8, FIELD)?);
                let text = moment_text(&moment, kind).ok_or_else(|| invalid(kind.into()))?;
                self.display(format_args!("\"{text}\""))?;
                match kind {
                    7 => JsonValue::Timestamp(text),
                    10 => JsonValue::Date(text),
                    _ => JsonValue::DateTime(text),
                }
            }
            11 => match temporal::packed_time(i64::from_le_bytes(reader.array(FIELD)?)) {
                Value::Time(negative, d, h, m, s, us) => {
                    let sign = if negative { "-" } else { "" };
                    let hours = d * 24 + u32::from(h);
                    let text = format!("{sign}{hours:02}:{m:02}:{s:02}.{us:06}");
                    self.display(format_args!("\"{text}\""))?;
                    JsonValue::Time(text)
                }
                _ => return Err(invalid(kind.into())),
            },
            type_code => {
                self.display(format_args!("\"base64:type{type_code}:"))?;
                self.base64(data);
                self.text.push(b'"');
                JsonValue::Bytes {
                    type_code,
                    bytes: data.into(),
                }
            }
        };
        let path = self.path()?;
        self.leaves.push((path, value));
        Ok(())
    }

    /// The path of the value that is being written.
    fn path(&self) -> Result<String, DecodeError> {
        let mut path = b"$".to_vec();
        for leg in &self.legs {
            match leg {
                Leg::Index(at) => path.extend_from_slice(format!("[{at}]").as_bytes()),
                Leg::Key(key) => {
                    path.push(b'.');
                    quote(&mut path, key);
                }
            }
        }
        String::from_utf8(path).map_err(|_| invalid(0))
    }

    fn base64(&mut self, data: &[u8]) {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for group in data.chunks(3) {
            let bits = group
                .iter()
                .fold(0_u32, |high, byte| high << 8 | u32::from(*byte));
            let bits = bits << (8 * (3 - group.len()));
            for place in 0..4 {
                let digit = bits >> (18 - 6 * place) & 63;
                let letter = ALPHABET.get(usize::try_from(digit).unwrap_or_default());
                let letter = letter.filter(|_| place <= group.len());
                self.text.push(letter.copied().unwrap_or(b'='));
            }
        }
    }
}

/// The text of a date (type 10), or of a date and a time.
fn moment_text(moment: &Value, kind: u8) -> Option<String> {
    let Value::Date(y, mo, d, h, mi, s, us) = moment else {
        return None;
    };
    Some(match kind {
        10 => format!("{y:04}-{mo:02}-{d:02}"),
        _ => format!("{y:04}-{mo:02}-{d:02} {h:02}:{mi:02}:{s:02}.{us:06}"),
    })
}

/// Appends a quoted string, escaped as `double_quote` of the server does.
fn quote(text: &mut Vec<u8>, bytes: &[u8]) {
    text.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
            0x08 => text.extend_from_slice(b"\\b"),
            0x09 => text.extend_from_slice(b"\\t"),
            0x0A => text.extend_from_slice(b"\\n"),
            0x0C => text.extend_from_slice(b"\\f"),
            0x0D => text.extend_from_slice(b"\\r"),
            0x00..=0x1F => {
                let escaped = format!("\\u{byte:04x}");
                text.extend_from_slice(escaped.as_bytes());
            }
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
}

/// Opens an array or object: its count, its bytes, and a reader of its entries.
fn container(data: &[u8], width: Width) -> Result<(u64, &[u8], Reader<'_>), DecodeError> {
    let mut reader = Reader::new(data);
    let count = reader.little(width.0, FIELD)?;
    let size = reader.little(width.0, FIELD)?;
    let data = Reader::new(data).take(size, FIELD)?;
    let mut entries = Reader::new(data);
    entries.take((2 * width.0).into(), FIELD)?;
    Ok((count, data, entries))
}

/// A reader of what stands behind the first `offset` bytes.
fn slice(data: &[u8], offset: u64) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader::new(data);
    reader.take(offset, FIELD)?;
    Ok(reader)
}

/// Reads a length of up to five bytes, seven bits each, the lowest first.
fn variable_length(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let mut length = 0;
    for place in 0..5 {
        let byte = reader.byte(FIELD)?;
        length |= u64::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(length);
        }
    }
    Err(invalid(length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(document: &[u8], expected: &str) {
        assert_eq!(
            String::from_utf8(read(document).unwrap().0).unwrap(),
            expected
        );
    }

    fn double(number: f64) -> Vec<u8> {
        [vec![0x0B], number.to_le_bytes().to_vec()].concat()
    }

    #[test]
    fn a_double_is_never_written_like_an_integer() {
        check(&double(1.0), "1.0");
        check(&double(-0.0), "-0.0");
        check(&double(1e300), "1e300");
        check(&double(0.1), "0.1");
        for (number, text) in [
            (1e15, "1e15"),
            (1e14, "100000000000000.0"),
            (1_234_567_890_123_456.0, "1.234567890123456e15"),
            (1_234_567_890_123_456.5, "1234567890123456.5"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (1.5e-7, "0.00000015"),
            (5e-324, "5e-324"),
        ] {
            check(&double(number), text);
        }
        check(&[0x05, 1, 0], "1");
    }

    #[test]
    fn a_small_object_keeps_the_order_of_its_keys() {
        // {"b": 1, "aa": null}: keys are ordered by length, then bytes.
        let document = [
            &[0x00, 2, 0, 21, 0][..],
            &[18, 0, 1, 0, 19, 0, 2, 0],
            &[0x05, 1, 0, 0x04, 0, 0],
            b"baa",
        ]
        .concat();
        check(&document, "{\"b\": 1, \"aa\": null}");
    }

    #[test]
    fn control_characters_are_escaped() {
        check(
            &[0x0C, 5, b'"', b'\\', 0x1F, b'\n', b'x'],
            r#""\"\\\u001f\nx""#,
        );
    }

    #[test]
    fn a_value_of_an_unknown_type_is_written_in_base64() {
        check(
            &[0x0F, 252, 4, b'a', b'b', b'c', b'd'],
            "\"base64:type252:YWJjZA==\"",
        );
    }

    #[test]
    fn a_value_of_an_sql_type_is_told_with_its_path() {
        // {"a\"": [1, <bytes>]}
        let array = [
            &[2, 0, 16, 0][..],
            &[0x05, 1, 0, 0x0F, 10, 0],
            &[252, 3],
            b"abc",
            &[0],
        ]
        .concat();
        let object = [
            &[0x00, 1, 0, 29, 0][..],
            &[11, 0, 2, 0, 0x02, 13, 0],
            b"a\"",
            &array,
        ]
        .concat();
        let (text, leaves) = read(&object).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"{"a\"": [1, "base64:type252:YWJj"]}"#
        );
        let value = JsonValue::Bytes {
            type_code: 252,
            bytes: b"abc"[..].into(),
        };
        assert_eq!(leaves, [(r#"$."a\""[1]"#.to_owned(), value)]);
    }

    #[test]
    fn an_empty_document_is_null() {
        check(&[], "null");
    }

    #[test]
    fn entries_that_share_a_value_again_and_again_end_in_an_error() {
        // Twenty arrays of eight entries, each of which is the next array.
        let mut document = vec![0x03];
        let levels = 20;
        for level in 0..levels {
            let size = (levels - level) * 48_u32;
            document.extend(8_u32.to_le_bytes());
            document.extend(size.to_le_bytes());
            for _ in 0..8 {
                let kind = if level + 1 == levels { 4 } else { 3 };
                let at: u32 = if level + 1 == levels { 0 } else { 48 };
                document.push(kind);
                document.extend(at.to_le_bytes());
            }
        }
        assert!(read(&document).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_without_panicking(
            kind in 0..16_u8,
            bytes in prop::collection::vec(prop_oneof![0..24_u8, any::<u8>()], 0..200),
        ) {
            let _ = read(&[vec![kind], bytes].concat());
        }
    }
}

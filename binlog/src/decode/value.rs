//! One column's value out of a row image.

use mysql_async::Value;
use oxferry_schema::JsonValue;

use super::{DecodeError, Reader, decimal, json, kind::Kind, temporal};

impl Kind {
    /// Reads a value that isn't NULL, in the form that
    /// [`Row`](oxferry_schema::Row) says, and appends to `leaves` what the text
    /// of a JSON document doesn't tell.
    pub(crate) fn read(
        &self,
        reader: &mut Reader<'_>,
        leaves: &mut Vec<(String, JsonValue)>,
    ) -> Result<Value, DecodeError> {
        match self {
            Self::Int { bytes, unsigned } => int(reader, *bytes, *unsigned),
            Self::Float => Ok(Value::Float(f32::from_le_bytes(reader.array("FLOAT")?))),
            Self::Double => Ok(Value::Double(f64::from_le_bytes(reader.array("DOUBLE")?))),
            Self::Decimal { precision, scale } => {
                decimal::read(reader, *precision, *scale).map(Value::Bytes)
            }
            Self::Year => temporal::year(reader),
            Self::Date => temporal::date(reader),
            Self::Time { digits } => temporal::time(reader, *digits),
            Self::Datetime { digits } => temporal::datetime(reader, *digits),
            Self::Timestamp { digits } => temporal::timestamp(reader, *digits),
            Self::Bit { bytes } => reader.big(*bytes, "BIT").map(Value::UInt),
            Self::Bytes { length_bytes } => {
                let bytes = bytes(reader, *length_bytes)?;
                Ok(Value::Bytes(bytes.to_vec()))
            }
            Self::Binary {
                length_bytes,
                length,
            } => {
                let mut bytes = bytes(reader, *length_bytes)?.to_vec();
                bytes.resize(*length.max(&bytes.len()), 0);
                Ok(Value::Bytes(bytes))
            }
            Self::Json { length_bytes } => {
                let document = bytes(reader, *length_bytes)?;
                let (text, found) = json::read(document)?;
                leaves.extend(found);
                Ok(Value::Bytes(text))
            }
            Self::Enum { bytes, members } => {
                let number = reader.little(*bytes, "ENUM")?;
                member(number, members).map(Value::Bytes)
            }
            Self::Set { bytes, members } => {
                let bits = reader.little(*bytes, "SET")?;
                set(bits, members).map(Value::Bytes)
            }
        }
    }
}

fn int(reader: &mut Reader<'_>, bytes: u8, unsigned: bool) -> Result<Value, DecodeError> {
    let raw = reader.little(bytes, "integer")?;
    if unsigned {
        return Ok(Value::UInt(raw));
    }
    let spare = 64 - 8 * u32::from(bytes);
    Ok(Value::Int((raw << spare).cast_signed() >> spare))
}

/// Takes the bytes behind a length.
fn bytes<'a>(reader: &mut Reader<'a>, length_bytes: u8) -> Result<&'a [u8], DecodeError> {
    let length = reader.little(length_bytes, "length of a value")?;
    reader.take(length, "value")
}

/// The text of an ENUM's member; number 0 is the empty text that stands for
/// an invalid value.
fn member(number: u64, members: &[Box<[u8]>]) -> Result<Vec<u8>, DecodeError> {
    let Some(index) = number.checked_sub(1) else {
        return Ok(Vec::new());
    };
    let member = usize::try_from(index)
        .ok()
        .and_then(|index| members.get(index));
    member
        .map(|member| member.to_vec())
        .ok_or(DecodeError::Invalid {
            field: "ENUM",
            value: number,
        })
}

/// The texts of a SET's members with a comma between them.
fn set(bits: u64, members: &[Box<[u8]>]) -> Result<Vec<u8>, DecodeError> {
    let mut text = Vec::new();
    let mut left = bits;
    for (place, member) in members.iter().enumerate().take(64) {
        let bit = 1_u64 << place;
        if left & bit != 0 {
            if left != bits {
                text.push(b',');
            }
            text.extend_from_slice(member);
            left &= !bit;
        }
    }
    if left != 0 {
        return Err(DecodeError::Invalid {
            field: "SET",
            value: bits,
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Box<[Box<[u8]>]> {
        ["a", "", "c"].map(|m| m.as_bytes().into()).into()
    }

    #[test]
    fn a_negative_mediumint_keeps_its_sign() {
        for (bytes, value) in [
            ([0xFF, 0xFF, 0xFF], -1),
            ([0, 0, 0x80], -8_388_608),
            ([0xFF, 0xFF, 0x7F], 8_388_607),
        ] {
            assert_eq!(
                int(&mut Reader::new(&bytes), 3, false),
                Ok(Value::Int(value))
            );
        }
        assert_eq!(
            int(&mut Reader::new(&[0, 0, 0x80]), 3, true),
            Ok(Value::UInt(8_388_608))
        );
        assert_eq!(
            int(&mut Reader::new(&[0xFF; 8]), 8, false),
            Ok(Value::Int(-1))
        );
    }

    #[test]
    fn an_enum_is_text_and_zero_is_the_empty_text() {
        assert_eq!(member(0, &members()), Ok(Vec::new()));
        assert_eq!(member(3, &members()), Ok(b"c".to_vec()));
        assert!(member(4, &members()).is_err());
    }

    #[test]
    fn a_set_is_its_members_with_commas() {
        assert_eq!(set(0, &members()), Ok(Vec::new()));
        assert_eq!(set(0b101, &members()), Ok(b"a,c".to_vec()));
        assert_eq!(set(0b111, &members()), Ok(b"a,,c".to_vec()));
        assert!(set(0b1000, &members()).is_err());
    }

    #[test]
    fn a_binary_is_padded_to_its_length() {
        let kind = Kind::Binary {
            length_bytes: 1,
            length: 4,
        };
        assert_eq!(
            kind.read(&mut Reader::new(&[2, 7, 8]), &mut Vec::new()),
            Ok(Value::Bytes(vec![7, 8, 0, 0]))
        );
    }
}

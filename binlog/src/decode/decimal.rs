//! DECIMAL values in the server's packed form.

use super::{DecodeError, Reader};

/// Digits in a full group of four bytes.
const GROUP_DIGITS: u8 = 9;

/// Bytes that a group of 0 to 9 digits takes.
///
/// Source: MySQL 9.7, `strings/decimal.cc`, `dig2bytes`.
const GROUP_BYTES: [u8; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// Reads a DECIMAL(`precision`, `scale`) as its text, as a server prints it.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    precision: u8,
    scale: u8,
) -> Result<Vec<u8>, DecodeError> {
    const FIELD: &str = "DECIMAL";
    let whole = precision
        .checked_sub(scale)
        .ok_or_else(|| DecodeError::Invalid {
            field: FIELD,
            value: scale.into(),
        })?;
    let mut bytes = [0; 40];
    let length = packed_length(whole) + packed_length(scale);
    let packed = reader.take(length, FIELD)?;
    for (byte, given) in bytes.iter_mut().zip(packed) {
        *byte = *given;
    }
    let negative = packed.first().is_some_and(|first| first & 0x80 == 0);
    if negative {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    if let Some(first) = bytes.first_mut() {
        *first ^= 0x80;
    }
    let mut unpacked = Reader::new(bytes.split_at_checked(packed.len()).unwrap_or_default().0);
    let mut text = Vec::with_capacity(usize::from(precision) + 3);
    if negative {
        text.push(b'-');
    }
    digits(&mut unpacked, whole, false, &mut text)?;
    if scale > 0 {
        text.push(b'.');
        digits(&mut unpacked, scale, true, &mut text)?;
    }
    Ok(text)
}

fn packed_length(digits: u8) -> u64 {
    let partial = GROUP_BYTES.get(usize::from(digits % GROUP_DIGITS));
    u64::from(digits / GROUP_DIGITS) * 4 + u64::from(partial.copied().unwrap_or_default())
}

/// Writes `count` digits. The short group stands first in front of the point,
/// and last behind it; leading zeros are left out in front of the point.
fn digits(
    reader: &mut Reader<'_>,
    count: u8,
    fraction: bool,
    text: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let (full, partial) = (count / GROUP_DIGITS, count % GROUP_DIGITS);
    let groups = std::iter::repeat_n(GROUP_DIGITS, full.into());
    let short = (partial > 0).then_some(partial);
    let (before, after) = if fraction {
        (None, short)
    } else {
        (short, None)
    };
    let mut leading = !fraction;
    for size in before.into_iter().chain(groups).chain(after) {
        let bytes = GROUP_BYTES
            .get(usize::from(size))
            .copied()
            .unwrap_or_default();
        let value = reader.big(bytes, "DECIMAL")?;
        if value >= 10_u64.pow(size.into()) {
            return Err(DecodeError::Invalid {
                field: "DECIMAL",
                value,
            });
        }
        for place in (0..u32::from(size)).rev() {
            let digit = value / 10_u64.pow(place) % 10;
            leading &= digit == 0;
            if !leading {
                text.push(b'0' + u8::try_from(digit).unwrap_or_default());
            }
        }
    }
    if leading {
        text.push(b'0');
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], precision: u8, scale: u8, text: &str) {
        let mut reader = Reader::new(bytes);
        let read = read(&mut reader, precision, scale).unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), text);
        assert!(reader.is_empty());
    }

    #[test]
    fn digits_are_read_as_the_server_packs_them() {
        // The example of `decimal2bin` in `strings/decimal.cc`: 1234567890.1234.
        check(
            &[0x81, 0x0D, 0xFB, 0x38, 0xD2, 0x04, 0xD2],
            14,
            4,
            "1234567890.1234",
        );
        check(
            &[0x7E, 0xF2, 0x04, 0xC7, 0x2D, 0xFB, 0x2D],
            14,
            4,
            "-1234567890.1234",
        );
    }

    #[test]
    fn a_number_without_whole_digits_has_a_zero_before_the_point() {
        check(&[0x80 | 5], 1, 1, "0.5");
        check(&[0x80, 0, 0, 0, 0], 10, 0, "0");
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_without_panicking(bytes: Vec<u8>, precision: u8, scale: u8) {
            let _ = read(&mut Reader::new(&bytes), precision % 66, scale);
        }
    }
}

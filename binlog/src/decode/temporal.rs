//! Dates and times.

use mysql_async::Value;

use super::{DecodeError, Reader};

/// Reads a DATE: 15 bits of year, 4 of month, 5 of day.
pub(crate) fn date(reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    let packed = reader.little(3, "DATE")?;
    Ok(Value::Date(
        narrow(packed >> 9),
        narrow(packed >> 5 & 15),
        narrow(packed & 31),
        0,
        0,
        0,
        0,
    ))
}

/// Reads a YEAR, where 0 is the year 0000 and 1 is 1901.
pub(crate) fn year(reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    let year = reader.byte("YEAR")?;
    let since = if year == 0 { 0 } else { 1900 };
    Ok(Value::UInt(since + u64::from(year)))
}

/// Reads a TIME with `digits` digits of a second's fraction.
///
/// A negative time is the negative of the *whole* number, fraction included.
/// Source: MySQL 9.7, `mysys/my_time.cc`, `my_time_packed_from_binary`.
pub(crate) fn time(reader: &mut Reader<'_>, digits: u8) -> Result<Value, DecodeError> {
    let fraction_bytes = digits.div_ceil(2);
    let raw = reader.big(3 + fraction_bytes, "TIME")?;
    let offset = 0x80_0000_u64 << (8 * fraction_bytes);
    let whole = raw.abs_diff(offset) >> (8 * fraction_bytes);
    let fraction = raw.abs_diff(offset) & low_bits(fraction_bytes);
    Ok(time_value(
        raw < offset,
        whole,
        micros(fraction, fraction_bytes)?,
    ))
}

fn time_value(negative: bool, whole: u64, micros: u32) -> Value {
    let hours = whole >> 12 & 0x3FF;
    Value::Time(
        negative,
        narrow(hours / 24),
        narrow(hours % 24),
        narrow(whole >> 6 & 0x3F),
        narrow(whole & 0x3F),
        micros,
    )
}

/// Reads a DATETIME with `digits` digits of a second's fraction.
///
/// Source: MySQL 9.7, `mysys/my_time.cc`, `my_datetime_packed_from_binary`.
pub(crate) fn datetime(reader: &mut Reader<'_>, digits: u8) -> Result<Value, DecodeError> {
    const FIELD: &str = "DATETIME";
    let raw = reader.big(5, FIELD)?;
    let whole = raw
        .checked_sub(0x80_0000_0000)
        .ok_or(DecodeError::Invalid {
            field: FIELD,
            value: raw,
        })?;
    let fraction_bytes = digits.div_ceil(2);
    let fraction = reader.big(fraction_bytes, FIELD)?;
    Ok(datetime_value(whole, micros(fraction, fraction_bytes)?))
}

fn datetime_value(whole: u64, micros: u32) -> Value {
    let month = whole >> 22;
    Value::Date(
        narrow(month / 13),
        narrow(month % 13),
        narrow(whole >> 17 & 31),
        narrow(whole >> 12 & 31),
        narrow(whole >> 6 & 63),
        narrow(whole & 63),
        micros,
    )
}

/// Reads a TIMESTAMP, in UTC, with `digits` digits of a second's fraction.
/// Zero is the "zero date".
pub(crate) fn timestamp(reader: &mut Reader<'_>, digits: u8) -> Result<Value, DecodeError> {
    const FIELD: &str = "TIMESTAMP";
    let seconds = reader.big(4, FIELD)?;
    let fraction_bytes = digits.div_ceil(2);
    let micros = micros(reader.big(fraction_bytes, FIELD)?, fraction_bytes)?;
    if seconds == 0 {
        return Ok(Value::Date(0, 0, 0, 0, 0, 0, micros));
    }
    let (year, month, day) = civil(seconds / 86_400);
    Ok(Value::Date(
        narrow(year),
        narrow(month),
        narrow(day),
        narrow(seconds / 3600 % 24),
        narrow(seconds / 60 % 60),
        narrow(seconds % 60),
        micros,
    ))
}

/// Turns the packed number of a JSON date and time into a value.
pub(crate) fn packed_datetime(packed: u64) -> Value {
    datetime_value(packed >> 24, narrow(packed & 0xFF_FFFF))
}

/// Turns the packed, signed number of a JSON time into a value.
pub(crate) fn packed_time(packed: i64) -> Value {
    let size = packed.unsigned_abs();
    time_value(packed < 0, size >> 24, narrow(size & 0xFF_FFFF))
}

/// Year, month and day of the `days`-th day after 1970-01-01.
///
/// Years are counted from March, so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    const ERA_DAYS: u64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let leaps = day_of_era / 1460;
    let centuries = day_of_era / 36_524;
    let year_of_era = (day_of_era + centuries - leaps - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// Turns a fraction of one to three bytes into microseconds.
fn micros(fraction: u64, bytes: u8) -> Result<u32, DecodeError> {
    let unit = 10_u64.pow(6 - 2 * u32::from(bytes.min(3)));
    let micros = fraction.saturating_mul(unit);
    let in_range = u32::try_from(micros)
        .ok()
        .filter(|micros| *micros < 1_000_000);
    in_range.ok_or(DecodeError::Invalid {
        field: "fraction of a second",
        value: fraction,
    })
}

const fn low_bits(bytes: u8) -> u64 {
    (1 << (8 * bytes)) - 1
}

/// Narrows a number whose bits were masked so that it fits.
fn narrow<T: TryFrom<u64> + Default>(value: u64) -> T {
    T::try_from(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_negative_time_keeps_its_fraction() {
        // -12:34:56.78 in a TIME(2): 0x800000.00 less 0x00C8B8.4E.
        let bytes = [0x7F, 0x37, 0x47, 0xB2];
        assert_eq!(
            time(&mut Reader::new(&bytes), 2),
            Ok(Value::Time(true, 0, 12, 34, 56, 780_000))
        );
    }

    #[test]
    fn a_time_may_pass_a_day() {
        let bytes = (0x80_0000_u32 + (838 << 12) + (59 << 6) + 59).to_be_bytes();
        assert_eq!(
            time(&mut Reader::new(&bytes[1..]), 0),
            Ok(Value::Time(false, 34, 22, 59, 59, 0))
        );
    }

    #[test]
    fn year_zero_is_not_1900() {
        assert_eq!(year(&mut Reader::new(&[0])), Ok(Value::UInt(0)));
        assert_eq!(year(&mut Reader::new(&[255])), Ok(Value::UInt(2155)));
    }

    #[test]
    fn a_timestamp_is_read_in_utc() {
        for (seconds, date) in [
            (1_u32, Value::Date(1970, 1, 1, 0, 0, 1, 0)),
            (951_827_696, Value::Date(2000, 2, 29, 12, 34, 56, 0)),
            (i32::MAX as u32, Value::Date(2038, 1, 19, 3, 14, 7, 0)),
            (0, Value::Date(0, 0, 0, 0, 0, 0, 0)),
        ] {
            assert_eq!(
                timestamp(&mut Reader::new(&seconds.to_be_bytes()), 0),
                Ok(date)
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_without_panicking(bytes: [u8; 9], digits in 0..=6_u8) {
            for read in [time, datetime, timestamp] {
                let _ = read(&mut Reader::new(&bytes), digits);
            }
            let _ = date(&mut Reader::new(&bytes));
            packed_time(i64::from_le_bytes(*bytes.first_chunk().unwrap()));
            packed_datetime(u64::from_le_bytes(*bytes.first_chunk().unwrap()));
        }
    }
}

//! Rows events: their head, without the rows.

use super::{DecodeError, Reader};

/// Which images a rows event holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowsKind {
    /// After images.
    Write,
    /// Before and after images, in pairs.
    Update,
    /// Before images.
    Delete,
}

/// The table id at the head of a rows event's body.
pub(crate) fn table_id(body: &[u8]) -> Result<u64, DecodeError> {
    Reader::new(body).little(6, "table id")
}

impl RowsKind {
    /// Skips a rows event's head, having checked that every image holds every
    /// one of `columns` columns. What is left are the rows.
    ///
    /// `extended` says that the head holds extra data, as in every rows event
    /// since MySQL 5.6.
    ///
    /// Source: MySQL 9.7, `libs/mysql/binlog/event/rows_event.h`, `Rows_event`.
    pub(crate) fn open(
        self,
        body: &[u8],
        extended: bool,
        columns: u64,
    ) -> Result<Reader<'_>, DecodeError> {
        let mut reader = Reader::new(body);
        reader.little(6, "table id")?;
        reader.little(2, "rows flags")?;
        if extended {
            let length = reader.little(2, "length of the extra data")?;
            let length = length.checked_sub(2).ok_or(DecodeError::Invalid {
                field: "length of the extra data",
                value: length,
            })?;
            reader.take(length, "extra data")?;
        }
        let logged = reader.length_encoded("number of columns")?;
        if logged != columns {
            return Err(DecodeError::ColumnCount {
                logged,
                described: columns,
            });
        }
        let bitmaps = if self == Self::Update { 2 } else { 1 };
        for _ in 0..bitmaps {
            let present = reader.take(columns.div_ceil(8), "columns of the image")?;
            let present = count_ones(present, columns);
            if present != columns {
                return Err(DecodeError::PartialImage { present, columns });
            }
        }
        Ok(reader)
    }
}

/// Counts the ones among the first `bits` bits, the lowest bit of a byte first.
fn count_ones(bytes: &[u8], bits: u64) -> u64 {
    let all: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let unused = u32::try_from((8 - bits % 8) % 8).unwrap_or_default();
    let last = bytes.last().copied().unwrap_or_default();
    all - u64::from((u16::from(last) >> (8 - unused)).count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_leaves_columns_out_is_refused() {
        let body = |bitmap: u8| [1, 0, 0, 0, 0, 0, 1, 0, 2, 0, 5, bitmap, 0xAA];
        let bytes = body(0xFF);
        let full = RowsKind::Write.open(&bytes, true, 5).unwrap();
        assert_eq!(full.rest(), [0xAA]);
        let error = RowsKind::Write
            .open(&body(0b1111_0101), true, 5)
            .unwrap_err();
        assert_eq!(
            error,
            DecodeError::PartialImage {
                present: 3,
                columns: 5
            }
        );
    }

    #[test]
    fn bits_behind_the_last_column_do_not_count() {
        assert_eq!(count_ones(&[0xFF, 0xFF], 9), 9);
        assert_eq!(count_ones(&[0xFF, 0xFE], 9), 8);
        assert_eq!(count_ones(&[0xFF, 0xFF], 16), 16);
        assert_eq!(count_ones(&[], 0), 0);
    }

    #[test]
    fn another_number_of_columns_is_refused() {
        let body = [1, 0, 0, 0, 0, 0, 1, 0, 2, 0, 4, 0xFF];
        assert!(matches!(
            RowsKind::Delete.open(&body, true, 5),
            Err(DecodeError::ColumnCount {
                logged: 4,
                described: 5
            })
        ));
    }
}

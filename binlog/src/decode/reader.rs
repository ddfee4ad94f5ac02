//! Checked reads from borrowed bytes.

use super::DecodeError;

/// What is left to read of some bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns everything that is left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `count` bytes.
    pub(crate) fn take(
        &mut self,
        count: u64,
        field: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        let split = usize::try_from(count)
            .ok()
            .and_then(|count| self.rest.split_at_checked(count));
        let Some((taken, rest)) = split else {
            return Err(DecodeError::Truncated {
                field,
                needed: count,
                left: self.rest.len() as u64,
            });
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(DecodeError::Truncated {
                field,
                needed: N as u64,
                left: self.rest.len() as u64,
            });
        };
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        let [byte] = self.array(field)?;
        Ok(byte)
    }

    /// Reads up to eight bytes, the lowest first.
    pub(crate) fn little(&mut self, count: u8, field: &'static str) -> Result<u64, DecodeError> {
        let bytes = self.take(count.into(), field)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |high, byte| high << 8 | u64::from(*byte)))
    }

    /// Reads up to eight bytes, the highest first.
    pub(crate) fn big(&mut self, count: u8, field: &'static str) -> Result<u64, DecodeError> {
        let bytes = self.take(count.into(), field)?;
        Ok(bytes
            .iter()
            .fold(0, |high, byte| high << 8 | u64::from(*byte)))
    }

    /// Reads a length-encoded integer.
    ///
    /// Source: MySQL internals documentation, "Protocol::LengthEncodedInteger".
    pub(crate) fn length_encoded(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        match self.byte(field)? {
            small @ 0..=250 => Ok(small.into()),
            252 => self.little(2, field),
            253 => self.little(3, field),
            254 => self.little(8, field),
            other => Err(DecodeError::Invalid {
                field,
                value: other.into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_runs_out_is_named() {
        let mut reader = Reader::new(&[1, 2]);
        let error = reader.little(4, "timestamp").unwrap_err();
        assert_eq!(
            error.to_string(),
            "timestamp needs 4 bytes, only 2 are left"
        );
        assert_eq!(reader.rest(), [1, 2]);
    }

    #[test]
    fn integers_are_read_in_both_byte_orders() {
        let bytes = [1, 2, 3, 4];
        assert_eq!(Reader::new(&bytes).little(3, "x"), Ok(0x03_0201));
        assert_eq!(Reader::new(&bytes).big(3, "x"), Ok(0x01_0203));
        assert_eq!(Reader::new(&[252, 1, 2]).length_encoded("x"), Ok(0x0201));
        assert_eq!(Reader::new(&[250]).length_encoded("x"), Ok(250));
        assert!(Reader::new(&[251]).length_encoded("x").is_err());
    }
}

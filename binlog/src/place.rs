//! Where in the log reading stands.

use crate::{FilePosition, PositionError};

/// Where in the log reading stands, kept from event to event.
///
/// An event says its end in four bytes. The upper four are kept here, so that
/// files above 4 GiB, which one huge transaction makes, are counted right.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    file: FilePosition,
}

impl Place {
    pub(crate) const fn new(file: FilePosition) -> Self {
        Self { file }
    }

    /// Goes to another file, as a rotation says.
    pub(crate) fn rotate(&mut self, file: &str, offset_bytes: u64) -> Result<(), PositionError> {
        self.file = FilePosition::new(file, offset_bytes)?;
        Ok(())
    }

    /// Goes to the end of an event, whose lower four bytes are `low`.
    pub(crate) const fn advance(&mut self, low: u32) {
        const WRAP: u64 = 1 << 32;
        let before = self.file.offset_bytes();
        let mut offset = before / WRAP * WRAP + low as u64;
        if offset < before {
            offset += WRAP;
        }
        self.file.set_offset(offset);
    }

    pub(crate) fn position(&self) -> FilePosition {
        self.file.clone()
    }

    /// The place of another offset in the same file.
    pub(crate) fn position_at(&self, offset_bytes: u64) -> FilePosition {
        let mut position = self.file.clone();
        position.set_offset(offset_bytes);
        position
    }

    pub(crate) const fn as_position(&self) -> &FilePosition {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_go_on_counting_above_four_gibibytes() {
        let mut place = Place::new("binlog.000001:4294967200".parse().unwrap());
        place.advance(4_294_967_290);
        place.advance(100);
        assert_eq!(place.as_position().offset_bytes(), (1 << 32) + 100);
        place.advance(200);
        assert_eq!(place.as_position().offset_bytes(), (1 << 32) + 200);
        place.rotate("binlog.000002", 4).unwrap();
        assert_eq!(place.position().to_string(), "binlog.000002:4");
    }
}

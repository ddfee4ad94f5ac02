//! A check that a compressed transaction was decompressed as a whole.

use std::io;

use mysql_common::binlog::events::{Event, TransactionPayloadEvent};

/// How much of a compressed transaction has come out.
///
/// The library decompresses, and swallows its own errors: a damaged payload
/// looks like an empty one. So its events are counted against the size that
/// the payload says.
#[derive(Debug)]
pub(super) struct Payload {
    left: u64,
    overrun: bool,
}

impl Payload {
    pub(super) fn open(event: &Event) -> io::Result<Self> {
        let payload = event.read_event::<TransactionPayloadEvent<'_>>()?;
        Ok(Self {
            left: payload.uncompressed_size(),
            overrun: false,
        })
    }

    /// Counts one of its events.
    pub(super) fn count(&mut self, event_size: u32) {
        match self.left.checked_sub(event_size.into()) {
            Some(left) => self.left = left,
            None => self.overrun = true,
        }
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.left == 0 && !self.overrun
    }
}

//! XA transactions that were prepared and wait for their end.

use std::collections::VecDeque;

/// XA transactions that were prepared without touching a watched table.
///
/// The end of one that isn't in here may bring changes to light that were
/// logged before reading began.
#[derive(Debug, Default)]
pub(crate) struct Prepared(VecDeque<Vec<u8>>);

impl Prepared {
    /// More than a server can hold prepared at once in practice; the oldest
    /// are forgotten above it, which can end a stream but never hide a change.
    const COUNT_MAX: usize = 10_000;

    pub(crate) fn insert(&mut self, xid: Vec<u8>) {
        if self.0.len() == Self::COUNT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(xid);
    }

    /// Takes one out; returns whether it was there.
    pub(crate) fn take(&mut self, xid: &[u8]) -> bool {
        let at = self.0.iter().position(|known| known == xid);
        at.and_then(|at| self.0.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut prepared = Prepared::default();
        for number in 0..=Prepared::COUNT_MAX {
            prepared.insert(number.to_string().into_bytes());
        }
        assert!(!prepared.take(b"0"));
        assert!(prepared.take(b"1"));
        assert!(!prepared.take(b"1"));
    }
}

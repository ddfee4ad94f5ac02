//! The ranges of a table whose keys only the server can order.
//!
//! Nothing here asks which of two keys is the lower one. Ranges come in key
//! order, each beginning with the very bound that the one before ended with,
//! so equality of bounds is enough to know where each belongs.

use oxferry_schema::{Key, KeyRange};

use super::ChunkId;

/// The whole key space as a list of ranges in key order: each begins where the
/// one before it ends.
#[derive(Debug)]
pub(super) struct Segments(Vec<Segment>);

#[derive(Debug)]
struct Segment {
    range: KeyRange,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unread,
    Open(ChunkId),
    Closed,
}

impl Segments {
    /// Begins with closed ranges in key order, no two of which touch.
    pub(super) fn new(closed: Vec<KeyRange>) -> Self {
        let mut segments = Vec::new();
        // Where the key space is unread from; `None` behind its end.
        let mut rest: Option<Option<Key>> = Some(None);
        for range in closed {
            if let Some(from) = rest
                && from != range.lower
            {
                segments.push(Segment::unread(from, range.lower.clone()));
            }
            rest = range.upper.clone().map(Some);
            segments.push(Segment {
                range,
                state: State::Closed,
            });
        }
        if let Some(from) = rest {
            segments.push(Segment::unread(from, None));
        }
        Self(segments)
    }

    /// Opens a range, which begins where one that is unread does.
    ///
    /// # Panics
    ///
    /// When none begins there: ranges came out of their order, and one of them
    /// would be counted in the wrong place.
    pub(super) fn open(&mut self, chunk: ChunkId, range: KeyRange) {
        let is_here =
            |held: &Segment| held.state == State::Unread && held.range.lower == range.lower;
        let at = self.0.iter().position(is_here);
        let at = at.expect("ranges come in key order, without gaps but for closed ones");
        let opened = Segment {
            range: range.clone(),
            state: State::Open(chunk),
        };
        let ends = self.0.get(at).and_then(|held| held.range.upper.clone());
        let left = (ends != range.upper).then(|| Segment::unread(range.upper, ends));
        self.0.splice(at..=at, std::iter::once(opened).chain(left));
    }

    /// Closes what was opened for a chunk; neighbours that are closed become
    /// one. A repair has opened nothing here.
    pub(super) fn close(&mut self, chunk: ChunkId) {
        if let Some(held) = self
            .0
            .iter_mut()
            .find(|held| held.state == State::Open(chunk))
        {
            held.state = State::Closed;
        }
        self.0.dedup_by(|next, held| {
            let both = held.state == State::Closed && next.state == State::Closed;
            if both {
                held.range.upper = next.range.upper.take();
            }
            both
        });
    }

    /// Returns the closed ranges in key order, no two of which touch.
    pub(super) fn closed(&self) -> Vec<KeyRange> {
        let closed = self.0.iter().filter(|held| held.state == State::Closed);
        closed.map(|held| held.range.clone()).collect()
    }

    /// Returns the open ranges in key order.
    pub(super) fn open_ranges(&self) -> Vec<(ChunkId, KeyRange)> {
        let open = self.0.iter().filter_map(|held| match held.state {
            State::Open(chunk) => Some((chunk, held.range.clone())),
            State::Unread | State::Closed => None,
        });
        open.collect()
    }
}

impl Segment {
    const fn unread(lower: Option<Key>, upper: Option<Key>) -> Self {
        Self {
            range: KeyRange { lower, upper },
            state: State::Unread,
        }
    }
}

#[cfg(test)]
mod tests {
    use oxferry_schema::KeyPart;

    use super::*;

    /// Bounds whose order here is not their order in the list.
    fn range(lower: Option<&str>, upper: Option<&str>) -> KeyRange {
        let key = |text: &str| Key::new([KeyPart::Text(text.as_bytes().into())]);
        KeyRange {
            lower: lower.map(key),
            upper: upper.map(key),
        }
    }

    #[test]
    fn ranges_are_put_where_the_one_before_ended() {
        let mut segments = Segments::new(Vec::new());
        segments.open(ChunkId(1), range(None, Some("z")));
        segments.open(ChunkId(2), range(Some("z"), Some("a")));
        segments.open(ChunkId(3), range(Some("a"), None));
        segments.close(ChunkId(3));
        segments.close(ChunkId(1));
        assert_eq!(
            segments.closed(),
            [range(None, Some("z")), range(Some("a"), None)]
        );
        assert_eq!(
            segments.open_ranges(),
            [(ChunkId(2), range(Some("z"), Some("a")))]
        );
        segments.close(ChunkId(2));
        assert_eq!(segments.closed(), [KeyRange::ALL]);
    }

    #[test]
    fn after_a_resume_ranges_fill_the_gaps() {
        let closed = vec![range(Some("z"), Some("a")), range(Some("Q"), None)];
        let mut segments = Segments::new(closed.clone());
        assert_eq!(segments.closed(), closed);
        segments.open(ChunkId(1), range(None, Some("m")));
        segments.open(ChunkId(2), range(Some("m"), Some("z")));
        segments.open(ChunkId(3), range(Some("a"), Some("Q")));
        segments.close(ChunkId(2));
        segments.close(ChunkId(3));
        assert_eq!(segments.closed(), [range(Some("m"), None)]);
        segments.close(ChunkId(1));
        assert_eq!(segments.closed(), [KeyRange::ALL]);
    }

    #[test]
    fn a_repair_closes_nothing() {
        let mut segments = Segments::new(vec![KeyRange::ALL]);
        segments.close(ChunkId(7));
        assert_eq!(segments.closed(), [KeyRange::ALL]);
    }
}

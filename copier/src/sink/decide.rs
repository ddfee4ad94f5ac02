//! What is done before rows are written, and how they are written.

use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_schema::server_code;

use super::CopiedRows;
use crate::{CopyPlan, engine::Mode, plan::Meeting};

/// How a written row meets one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// None may be there.
    Insert,
    /// It takes the place of every row that it shares a unique value with.
    Replace,
}

/// What goes before rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing.
    Nothing,
    /// The target's rows of the range are removed.
    Emptied,
    /// The target's rows of the keys that the source has in the range are
    /// removed, where the range means nothing on the target.
    KeysRemoved,
}

/// How a range is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) before: Before,
    pub(crate) how: Write,
}

impl Decision {
    /// Decides how a range is copied: `again` by the engine's wish, `unsure`
    /// where an earlier attempt may have been committed.
    pub(crate) fn of_range(
        plan: &CopyPlan,
        meeting: Meeting,
        (again, unsure): (bool, bool),
    ) -> Self {
        let is_clear = match plan.mode() {
            // The rows of an earlier attempt may be there.
            Mode::Ranged => !unsure,
            Mode::Ordered => meeting == Meeting::Replaces,
        };
        let before = match again || !is_clear {
            false => Before::Nothing,
            true if plan.may_empty() => Before::Emptied,
            true => Before::KeysRemoved,
        };
        let how = match (plan.mode(), meeting) {
            (_, Meeting::Exclusive) => Write::Insert,
            (Mode::Ranged, _) if !again && !unsure => Write::Insert,
            _ => Write::Replace,
        };
        Self { before, how }
    }
}

/// How the rows of some keys are copied; the target's are removed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeysDecision {
    /// Whether the keys of the rows to copy are looked up first, to be removed
    /// too: the source may take a key for another one that the target tells
    /// from it, `'A'` for `'a'`, and nothing replaces the row of that one.
    pub(crate) reads_keys: bool,
    pub(crate) how: Write,
}

impl KeysDecision {
    pub(crate) fn of(plan: &CopyPlan, meeting: Meeting) -> Self {
        Self {
            reads_keys: meeting != Meeting::Replaces && !plan.target_side().keeps_order(),
            how: match meeting {
                Meeting::Exclusive => Write::Insert,
                Meeting::Replaces | Meeting::RemovedFirst => Write::Replace,
            },
        }
    }
}

/// How often the keys to remove may be read again, before their rows are
/// copied: a key may come back in between.
pub(crate) struct Reads(u32);

impl Reads {
    /// Begins work that reads keys, or doesn't.
    pub(crate) const fn left(reads_keys: bool) -> Self {
        Self(if reads_keys { READS_MAX - 1 } else { 0 })
    }

    /// Commits what was done; `None` where it was taken back, to be done again.
    pub(crate) async fn end(
        &mut self,
        conn: &mut Conn,
        done: Result<CopiedRows, DriverError>,
    ) -> Result<Option<CopiedRows>, DriverError> {
        match done {
            Err(error) if server_code(&error) == Some(ER_DUP_ENTRY) && self.0 > 0 => {
                self.0 -= 1;
                conn.query_drop("ROLLBACK").await?;
                Ok(None)
            }
            done => {
                let copied = done?;
                conn.query_drop("COMMIT").await?;
                Ok(Some(copied))
            }
        }
    }
}

/// Source: MySQL 9.7 "Server Error Message Reference".
const ER_DUP_ENTRY: u16 = 1062;

/// How often a chunk's keys are read when one of them came back meanwhile.
const READS_MAX: u32 = 5;

//! A transaction as it comes out of the log, event after event.

use crate::{Gtid, error::TransactionName};

/// A transaction that has begun and not ended.
#[derive(Debug)]
pub(crate) struct Group {
    /// What it is known by.
    pub(crate) name: TransactionName,
    /// Its identifier and state, where it is an XA transaction.
    pub(crate) xid: Option<Vec<u8>>,
    /// Whether a statement has opened it. One that isn't opened consists of
    /// a single statement.
    pub(crate) open: bool,
    /// Whether its first rows are the mark's, once there were any rows.
    pub(crate) marked: Option<bool>,
    /// Rows events of watched tables seen since it (last) began.
    pub(crate) seen: u64,
    /// Rows events of watched tables handed out, on this connection or before.
    pub(crate) handed_out: u64,
}

impl Group {
    /// Begins a transaction; `replayed` is what a broken connection left of
    /// it, if anything.
    ///
    /// # Errors
    ///
    /// The name of the transaction that should have come instead.
    pub(crate) fn begin(
        name: TransactionName,
        replayed: Option<Replayed>,
    ) -> Result<Self, TransactionName> {
        let handed_out = match replayed {
            Some(replayed) if replayed.name != name => return Err(replayed.name),
            Some(replayed) => replayed.handed_out,
            None => 0,
        };
        Ok(Self {
            name,
            xid: None,
            open: false,
            marked: None,
            seen: 0,
            handed_out,
        })
    }

    /// Counts a rows event of a watched table; returns whether it is new.
    pub(crate) const fn count(&mut self) -> bool {
        self.seen += 1;
        if self.seen <= self.handed_out {
            return false;
        }
        self.handed_out = self.seen;
        true
    }

    pub(crate) fn gtid(&self) -> Option<Gtid> {
        match &self.name {
            TransactionName::Gtid(gtid) => Some(gtid.clone()),
            TransactionName::Start(_) => None,
        }
    }

    /// What must be remembered of it when the connection breaks now.
    pub(crate) fn into_replayed(self) -> Option<Replayed> {
        (self.handed_out > 0).then_some(Replayed {
            name: self.name,
            handed_out: self.handed_out,
        })
    }
}

/// A transaction that was handed out in part when the connection broke.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) name: TransactionName,
    pub(crate) handed_out: u64,
}

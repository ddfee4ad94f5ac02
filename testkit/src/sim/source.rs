//! The simulated source: tables, a binlog, and commits that become visible
//! later than they can be read from the binlog.

use fastrand::Rng;

use super::{
    order::Order,
    row::{RowChange, SimRow, Tables},
};

/// A row event: one change, or two where an update changed the key.
pub(super) type Event = Vec<RowChange>;

/// A place in one server's binlog, always between two transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// Counts up with every failover: positions of two servers mean nothing
    /// to each other.
    server: usize,
    file: usize,
    offset: usize,
}

/// The source server, and after a failover the one that took its place.
#[derive(Debug)]
pub(super) struct Source {
    base: Tables,
    /// With everything in the binlog.
    pub(super) now: Tables,
    /// With everything that a new snapshot sees.
    pub(super) seen: Tables,
    pub(super) log: Vec<Vec<Event>>,
    /// How many transactions of the log a new snapshot sees.
    pub(super) visible: usize,
    /// Which transaction each binlog file begins with.
    files: Vec<usize>,
    server: usize,
    keys: i64,
    orders: Vec<Order>,
    last_version: i64,
}

impl Source {
    /// Fills `tables` tables with about two thirds of `keys` keys.
    pub(super) fn new(rng: &mut Rng, orders: Vec<Order>, keys: i64) -> Self {
        let mut base = vec![std::collections::BTreeMap::new(); orders.len()];
        for (table, order) in base.iter_mut().zip(&orders) {
            for unique in 0..keys {
                let is_free = !table.keys().any(|held| order.same(*held, unique));
                if rng.u8(..3) > 0 && is_free {
                    let row = SimRow { version: 0, unique };
                    table.insert(unique, row);
                }
            }
        }
        Self {
            now: base.clone(),
            seen: base.clone(),
            base,
            log: Vec::new(),
            visible: 0,
            files: vec![0],
            server: 0,
            keys,
            orders,
            last_version: 0,
        }
    }

    /// Commits a transaction of one event or several.
    pub(super) fn write(&mut self, rng: &mut Rng) {
        let mut events = Vec::new();
        for _ in 0..rng.usize(1..5) {
            let table = rng.usize(..self.now.len());
            self.write_row(rng, table, &mut events);
        }
        self.log.push(events);
    }

    /// Commits a transaction that touches no watched table.
    pub(super) fn write_elsewhere(&mut self) {
        self.log.push(Vec::new());
    }

    /// Lets new snapshots see one more transaction.
    pub(super) fn show_next(&mut self) {
        if let Some(events) = self.log.get(self.visible) {
            for change in events.iter().flatten() {
                change.apply(&mut self.seen);
            }
            self.visible += 1;
        }
    }

    /// Begins a new binlog file.
    pub(super) fn rotate(&mut self) {
        self.files.push(self.log.len());
    }

    /// Puts another server into this one's place: the same transactions in
    /// other files.
    pub(super) fn fail_over(&mut self, rng: &mut Rng) {
        self.server += 1;
        self.files = vec![0];
        let mut start = 0;
        while start < self.log.len() {
            start += rng.usize(1..9);
            self.files.push(start.min(self.log.len()));
        }
    }

    /// Returns where transaction `index` of the log begins.
    pub(super) fn position(&self, index: usize) -> Position {
        let file = self.files.partition_point(|start| *start <= index) - 1;
        Position {
            server: self.server,
            file,
            offset: index - self.files[file],
        }
    }

    /// Returns the transaction that begins at a position, `None` if it is
    /// another server's.
    pub(super) fn index(&self, position: Position) -> Option<usize> {
        let start = self.files.get(position.file)?;
        (position.server == self.server).then_some(start + position.offset)
    }

    /// Returns the rows as they were after the first `count` transactions.
    pub(super) fn state_at(&self, count: usize) -> Tables {
        let mut state = self.base.clone();
        for change in self.log.iter().take(count).flatten().flatten() {
            change.apply(&mut state);
        }
        state
    }

    /// Returns the changes from transaction `index` on.
    pub(super) fn changes_from(&self, index: usize) -> impl Iterator<Item = &RowChange> {
        self.log.iter().skip(index).flatten().flatten()
    }

    fn write_row(&mut self, rng: &mut Rng, table: usize, events: &mut Vec<Event>) {
        let key = rng.i64(0..self.keys);
        // The row that has this key, in whatever spelling.
        let key = self.held(table, key).unwrap_or(key);
        match (self.now[table].get(&key).copied(), rng.u8(..20)) {
            (Some(_), 0..4) => self.commit(events, &[(table, key, None)]),
            (Some(row), 4..7) => self.move_row(rng, (table, key, row), events),
            (Some(row), 7..13) => self.swap_unique(rng, (table, key, row), events),
            _ => {
                let unique = self.free_unique(rng, table, key);
                let row = self.row(unique);
                self.commit(events, &[(table, key, Some(row))]);
            }
        }
    }

    /// Changes a row's key.
    fn move_row(&mut self, rng: &mut Rng, from: (usize, i64, SimRow), events: &mut Vec<Event>) {
        let (table, key, row) = from;
        let is_own = |to: i64| to != key && self.orders[table].same(to, key);
        let free = (0..self.keys).filter(|to| is_own(*to) || self.held(table, *to).is_none());
        if let Some(to) = rng.choice(free.collect::<Vec<_>>()) {
            let row = self.row(row.unique);
            self.commit(events, &[(table, key, None), (table, to, Some(row))]);
        }
    }

    /// Returns the key of the row that has `key`, or one that is the same.
    fn held(&self, table: usize, key: i64) -> Option<i64> {
        let mut held = self.now[table].keys().copied();
        held.find(|held| self.orders[table].same(*held, key))
    }

    /// Lets two rows swap their unique values, by way of a spare one.
    fn swap_unique(&mut self, rng: &mut Rng, one: (usize, i64, SimRow), events: &mut Vec<Event>) {
        let (table, key, row) = one;
        let others: Vec<_> = self.now[table].iter().map(|(k, r)| (*k, *r)).collect();
        let other = rng.choice(others).filter(|(other, _)| *other != key);
        if let Some((other_key, other)) = other {
            let spare = self.row(self.keys + 5);
            self.commit(events, &[(table, key, Some(spare))]);
            let taken = self.row(row.unique);
            self.commit(events, &[(table, other_key, Some(taken))]);
            let given = self.row(other.unique);
            self.commit(events, &[(table, key, Some(given))]);
        }
    }

    /// Returns a unique value that no other row of the table has.
    fn free_unique(&self, rng: &mut Rng, table: usize, key: i64) -> i64 {
        loop {
            let unique = rng.i64(0..self.keys + 2);
            let mut rows = self.now[table].iter();
            if rows.all(|(k, row)| *k == key || row.unique != unique) {
                return unique;
            }
        }
    }

    fn row(&mut self, unique: i64) -> SimRow {
        self.last_version += 1;
        SimRow {
            version: self.last_version,
            unique,
        }
    }

    fn commit(&mut self, events: &mut Vec<Event>, changes: &[(usize, i64, Option<SimRow>)]) {
        let changes = changes
            .iter()
            .map(|&(table, key, image)| RowChange { table, key, image });
        let event: Event = changes.collect();
        for change in &event {
            change.apply(&mut self.now);
        }
        events.push(event);
    }
}

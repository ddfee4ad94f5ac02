//! Which keys can't be trusted to be equal, because they changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use oxferry_schema::{Key, KeyRange};

use crate::{KeyOrder, coverage::Coverage};

/// Remembers, while a job verifies, which rows changed when.
///
/// Feed it with the key of every row that the stream dispatches, at once and
/// in order; a [`Pass`](crate::Pass) does the rest. An update that changes the
/// key is two calls.
///
/// Holds three things: open *windows* (a comparison that is going on, with the
/// keys of its scope that changed since it began), the ranges that have been
/// compared, and the *re-verify set*: keys that changed while or after their
/// range was compared. A key in a range that is still to be compared isn't
/// kept. The set is bounded: when it is full, ranges that hold much of it
/// count as not compared any more.
///
/// Where the client can't tell in which range a key lies ([`KeyOrder`]), every
/// change since the first comparison is kept, every window sees every change of
/// its table, and a full set means that nothing of the table counts as compared.
#[derive(Debug)]
pub struct Touched {
    tables: Vec<TableKeys>,
    windows: BTreeMap<WindowId, Window>,
    next_window: u64,
    limits: TouchedLimits,
    /// How many keys all re-verify sets hold.
    again_count: usize,
    /// How often a table had to be compared anew because its set was full.
    overflows: u32,
    /// Whether a difference was found since the last restart: then only a new
    /// full pass proves anything.
    has_differences: bool,
}

/// How much a [`Touched`] keeps; a key takes about 100 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "two plain limits")]
pub struct TouchedLimits {
    /// Keys in the re-verify sets of all tables. Too low: ranges are compared
    /// again and again. Too high: memory.
    pub keys_max: usize,
    /// Changed keys in one window. When there are more, its comparison is
    /// repeated with a smaller range.
    pub window_keys_max: usize,
}

/// A comparison's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId(u64);

/// What a window looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every key of a range.
    Range(KeyRange),
    /// These keys, taken out of the re-verify set.
    Keys(HashSet<Key>),
}

/// A window that was closed.
#[derive(Debug)]
pub(crate) struct Closed {
    /// What it looked at.
    pub(crate) scope: Scope,
    /// The keys of its scope that changed; `None`: too many, so any key may
    /// have.
    pub(crate) touched: Option<BTreeSet<Key>>,
}

#[derive(Debug)]
struct TableKeys {
    coverage: Coverage,
    /// Ranges that had been compared and have to be once more.
    stale: Vec<KeyRange>,
    /// The re-verify set.
    again: BTreeSet<Key>,
    /// The last key handed out of it: hot keys must not starve the others.
    cursor: Option<Key>,
    /// How often the whole table was taken as not compared any more: what was
    /// found in parts of a range before counts no longer.
    generation: u64,
}

#[derive(Debug)]
struct Window {
    table: usize,
    scope: Scope,
    is_located: bool,
    touched: Option<BTreeSet<Key>>,
}

impl Default for TouchedLimits {
    /// 200,000 keys, and 50,000 in a window: below 30 MB with four threads.
    fn default() -> Self {
        Self {
            keys_max: 200_000,
            window_keys_max: 50_000,
        }
    }
}

impl Touched {
    /// Begins with nothing compared, for table 0, 1 and so on, each with its
    /// keys' order.
    #[must_use]
    pub fn new(tables: impl IntoIterator<Item = KeyOrder>, limits: TouchedLimits) -> Self {
        Self {
            tables: tables.into_iter().map(TableKeys::new).collect(),
            windows: BTreeMap::new(),
            next_window: 0,
            limits,
            again_count: 0,
            overflows: 0,
            has_differences: false,
        }
    }

    /// Records that the stream dispatched a change of `key`.
    ///
    /// # Panics
    ///
    /// When there is no such table: a change that is forgotten here would let
    /// a difference pass.
    pub fn handle_change(&mut self, table: usize, key: &Key) {
        let mut is_in_flight = false;
        for window in self.windows.values_mut().filter(|w| w.table == table) {
            is_in_flight |= window.handle_change(key, self.limits.window_keys_max);
        }
        // A key that is being compared by name goes back when its window closes.
        if !is_in_flight && self.table(table).coverage.may_hold(key) {
            self.insert_again(table, key.clone());
        }
    }

    /// Returns how many keys must be compared again: the re-verify sets, and
    /// the keys that are being compared just now.
    #[must_use]
    pub fn remaining(&self) -> usize {
        let in_flight = self.windows.values().map(|window| match &window.scope {
            Scope::Keys(keys) => keys.len(),
            Scope::Range(_) => 0,
        });
        self.again_count + in_flight.sum::<usize>()
    }

    /// Returns whether the re-verify sets are half full: time to empty them.
    pub(crate) const fn is_filling(&self) -> bool {
        self.again_count > self.limits.keys_max / 2
    }

    /// Returns the first table of which some keys were never compared, or
    /// have to be compared again as part of a range.
    pub(crate) fn uncovered(&self) -> Option<usize> {
        self.tables.iter().position(|t| !t.coverage.is_whole())
    }

    /// Returns whether a difference was found since the last restart.
    pub(crate) const fn has_differences(&self) -> bool {
        self.has_differences
    }

    /// Returns how often a table had to be compared anew since the last restart.
    pub(crate) const fn overflows(&self) -> u32 {
        self.overflows
    }

    /// Returns how often all of a table was taken as not compared any more.
    pub(crate) fn generation(&self, table: usize) -> u64 {
        self.table(table).generation
    }

    /// Returns whether the client can tell in which range of a table a key lies.
    pub(crate) fn is_located(&self, table: usize) -> bool {
        self.table(table).coverage.is_located()
    }

    /// Returns whether a table's target is looked through as a whole.
    pub(crate) fn has_back(&self, table: usize) -> bool {
        self.table(table).coverage.is_apart()
    }

    /// Returns whether a comparison is going on.
    pub(crate) fn is_comparing(&self) -> bool {
        !self.windows.is_empty()
    }

    /// Returns each table's re-verify set, in key order.
    pub(crate) fn keys(&self) -> Vec<Vec<Key>> {
        let keys = |table: &TableKeys| table.again.iter().cloned().collect();
        self.tables.iter().map(keys).collect()
    }

    /// Records that a difference was found.
    pub(crate) const fn mark_different(&mut self) {
        self.has_differences = true;
    }

    /// Forgets everything: a full pass begins.
    pub(crate) fn restart(&mut self) {
        self.windows.clear();
        self.again_count = 0;
        self.overflows = 0;
        self.has_differences = false;
        for table in &mut self.tables {
            table.coverage.restart();
            table.stale.clear();
            table.again.clear();
            table.cursor = None;
        }
    }

    /// Takes back what a pass that was dropped had in its hands; after a
    /// difference, that is everything.
    pub(crate) fn recover(&mut self) {
        if self.has_differences {
            self.restart();
        }
        let orphans: Vec<WindowId> = self.windows.keys().copied().collect();
        for id in orphans {
            self.abandon(id);
        }
        for table in &mut self.tables {
            table.stale = table.coverage.take_gaps();
        }
    }

    /// Records that a range, found in the source's order, is to be compared.
    pub(crate) fn hand_out(&mut self, table: usize, range: &KeyRange) {
        self.table_mut(table).coverage.hand_out(range);
    }

    /// Opens a window on a range that doesn't count as compared.
    pub(crate) fn open_range(&mut self, table: usize, range: KeyRange) -> WindowId {
        self.open(table, Scope::Range(range))
    }

    /// Opens a window on keys, wherever they come from.
    pub(crate) fn open_named(&mut self, table: usize, keys: &[Key]) -> WindowId {
        self.open(table, Scope::Keys(keys.iter().cloned().collect()))
    }

    /// Takes what is left of a target to look through for rows that the source
    /// doesn't have, once a pass.
    pub(crate) fn open_back(&mut self) -> Option<(usize, KeyRange)> {
        let mut tables = self.tables.iter_mut().enumerate();
        tables.find_map(|(index, table)| Some((index, table.coverage.open_back()?)))
    }

    /// Records what is left of a target to look through.
    pub(crate) fn set_back(&mut self, table: usize, left: Option<KeyRange>) {
        self.table_mut(table).coverage.set_back(left);
    }

    /// Takes up to `max` keys of the fullest re-verify set and opens a window
    /// on them; the last value tells whether the set's end was reached.
    pub(crate) fn open_keys(&mut self, max: usize) -> Option<(WindowId, usize, Vec<Key>, bool)> {
        let fullest = self.tables.iter_mut().enumerate();
        let (index, table) = fullest.max_by_key(|(_, table)| table.again.len())?;
        let (keys, is_end) = table.take_again(max);
        if keys.is_empty() {
            return None;
        }
        self.again_count -= keys.len();
        let id = self.open(index, Scope::Keys(keys.iter().cloned().collect()));
        Some((id, index, keys, is_end))
    }

    /// Takes a range that has to be compared once more.
    pub(crate) fn take_stale(&mut self) -> Option<(usize, KeyRange)> {
        let tables = self.tables.iter_mut().enumerate();
        tables
            .filter_map(|(index, table)| Some((index, table.stale.pop()?)))
            .next()
    }

    /// Closes a window: its comparison is over, and the stream has dispatched
    /// whatever it can have seen. What it covered is not compared until
    /// [`Touched::mark_compared`] or [`Touched::put_back`] says so.
    pub(crate) fn close(&mut self, id: WindowId) -> Closed {
        let window = self.windows.remove(&id);
        let window = window.expect("a window is closed once, by the pass that opened it");
        Closed {
            scope: window.scope,
            touched: window.touched,
        }
    }

    /// Closes a window whose comparison came to nothing; a range is *not* put
    /// back among those to compare.
    pub(crate) fn abandon(&mut self, id: WindowId) {
        let Some(window) = self.windows.remove(&id) else {
            return;
        };
        if let Scope::Keys(keys) = window.scope {
            self.put_back(window.table, keys);
        }
    }

    /// Counts a range as compared, and its touched keys as to be compared again.
    pub(crate) fn mark_compared(&mut self, table: usize, range: KeyRange, touched: BTreeSet<Key>) {
        let coverage = &mut self.table_mut(table).coverage;
        let is_located = coverage.is_located();
        let again = touched.into_iter();
        let again: Vec<Key> = again
            .filter(|key| !is_located || range.contains(key))
            .collect();
        coverage.insert(range);
        self.put_back(table, again);
    }

    /// Counts a part of a range as compared; the range itself is not yet.
    pub(crate) fn mark_part(&mut self, table: usize, touched: BTreeSet<Key>) {
        self.table_mut(table).coverage.begin();
        self.put_back(table, touched);
    }

    /// Puts keys of compared ranges into the re-verify set.
    pub(crate) fn put_back(&mut self, table: usize, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            // In a range that has become stale meanwhile, it is covered there.
            if self.table(table).coverage.may_hold(&key) {
                self.insert_again(table, key);
            }
        }
    }

    fn open(&mut self, table: usize, scope: Scope) -> WindowId {
        let id = WindowId(self.next_window);
        self.next_window += 1;
        let window = Window {
            table,
            scope,
            is_located: self.table(table).coverage.is_located(),
            touched: Some(BTreeSet::new()),
        };
        self.windows.insert(id, window);
        id
    }

    fn insert_again(&mut self, table: usize, key: Key) {
        if self.table_mut(table).again.insert(key) {
            self.again_count += 1;
        }
        while self.again_count > self.limits.keys_max {
            self.overflows = self.overflows.saturating_add(1);
            self.again_count -= self.fullest_mut().make_stale();
        }
    }

    fn fullest_mut(&mut self) -> &mut TableKeys {
        let fullest = self.tables.iter_mut().max_by_key(|t| t.again.len());
        fullest.expect("a key that was counted is in a table")
    }

    fn table(&self, table: usize) -> &TableKeys {
        let found = self.tables.get(table);
        found.expect("the caller counts the tables that it names")
    }

    fn table_mut(&mut self, table: usize) -> &mut TableKeys {
        let found = self.tables.get_mut(table);
        found.expect("the caller counts the tables that it names")
    }
}

impl TableKeys {
    fn new(order: KeyOrder) -> Self {
        Self {
            coverage: Coverage::new(order),
            stale: Vec::new(),
            again: BTreeSet::new(),
            cursor: None,
            generation: 0,
        }
    }

    /// Takes up to `max` keys behind the cursor.
    fn take_again(&mut self, max: usize) -> (Vec<Key>, bool) {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = self.cursor.take().map_or(Unbounded, Excluded);
        let behind = self.again.range((from, Unbounded));
        let mut keys: Vec<Key> = behind.take(max).cloned().collect();
        let is_end = keys.len() < max;
        if keys.is_empty() {
            keys = self.again.iter().take(max).cloned().collect();
        }
        for key in &keys {
            self.again.remove(key);
        }
        self.cursor = if is_end { None } else { keys.last().cloned() };
        (keys, is_end)
    }

    /// Makes the ranges with the most keys stale until half of the set is
    /// gone, or everything where a key's range can't be told; returns how many
    /// keys that freed.
    fn make_stale(&mut self) -> usize {
        let compared = match &mut self.coverage {
            Coverage::Located(compared) => compared,
            Coverage::Handed(handed) => {
                self.stale.extend(handed.forget());
                self.generation += 1;
                return std::mem::take(&mut self.again).len();
            }
        };
        let mut counts: BTreeMap<Option<Key>, (KeyRange, usize)> = BTreeMap::new();
        for key in &self.again {
            if let Some(range) = compared.find(key) {
                counts.entry(range.lower.clone()).or_insert((range, 0)).1 += 1;
            }
        }
        let mut fullest: Vec<(KeyRange, usize)> = counts.into_values().collect();
        fullest.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let before = self.again.len();
        for (range, _) in fullest {
            if self.again.len() <= before / 2 {
                break;
            }
            self.again.retain(|key| !range.contains(key));
            compared.remove(&range.lower);
            self.stale.push(range);
        }
        before - self.again.len()
    }
}

impl Window {
    /// Notes a change in the scope; returns whether the key is one of those
    /// that are compared by name.
    fn handle_change(&mut self, key: &Key, max: usize) -> bool {
        let (is_inside, is_named) = match &self.scope {
            Scope::Range(range) => (!self.is_located || range.contains(key), false),
            Scope::Keys(keys) => (keys.contains(key), keys.contains(key)),
        };
        if let (true, Some(touched)) = (is_inside, &mut self.touched) {
            touched.insert(key.clone());
            if touched.len() > max && !is_named {
                self.touched = None;
            }
        }
        is_named
    }
}

//! The steps of copying: looking up ranges, barriers, reading and writing.

use oxferry_copier::engine::{BarrierId, ChunkId, Mode, Repair};

use super::{
    Failure, Fault, Invariant,
    row::RowChange,
    world::{Barrier, Copying, World},
};

impl World {
    /// Looks up the next range that the engine wants.
    pub(super) fn look_up(&mut self) {
        let Some(table) = self.job.engine.wanted_range() else {
            return;
        };
        match self.job.chunkers[table.0].next(&mut self.rng) {
            Some(range) => self.job.engine.handle_range(table, range),
            None => self.job.engine.handle_ranges_exhausted(table),
        }
    }

    /// Begins to wait until what was dispatched is visible.
    pub(super) fn start_barrier(&mut self, id: BarrierId) {
        self.stats.barriers += 1;
        if self.faults.has(Fault::BarrierSkipped) {
            self.job.engine.handle_barrier_passed(id);
            return;
        }
        let until = if self.params.gtid {
            self.job.stream.txn
        } else {
            self.source.write_elsewhere();
            self.source.log.len()
        };
        self.job.barrier = Some(Barrier { id, until });
    }

    /// Passes the barrier if everything that it waits for is visible.
    pub(super) fn pass_barrier(&mut self) {
        let visible = self.source.visible;
        let passed = self.job.barrier.take_if(|barrier| barrier.until <= visible);
        if let Some(barrier) = passed {
            self.job.engine.handle_barrier_passed(barrier.id);
        }
    }

    /// Begins to copy a chunk.
    pub(super) fn start_copy(&mut self, id: ChunkId, table: usize, what: Repair, again: bool) {
        self.stats.chunks += 1;
        if self.faults.has(Fault::ChunkClosedEarly) {
            self.job.engine.handle_chunk_copied(id, 0);
        }
        self.job.copies.push(Copying {
            id,
            table,
            what,
            empties: again && !self.faults.has(Fault::NotEmptied),
            is_emptied: false,
            rows: None,
            rows_read: 0,
        });
    }

    /// Goes on with one of the chunks that are being copied.
    pub(super) fn copy(&mut self) -> Result<(), Failure> {
        if self.job.copies.is_empty() {
            return Ok(());
        }
        let index = self.rng.usize(..self.job.copies.len());
        let mut copying = self.job.copies.swap_remove(index);
        if self.rng.u8(..30) == 0 {
            self.lose_copy(&mut copying);
        } else if copying.rows.is_none() {
            self.read_chunk(&mut copying)?;
        } else if self.write_rows(&mut copying)? {
            self.job.watch.note_written(copying.id);
            if !self.faults.has(Fault::ChunkClosedEarly) {
                self.job
                    .engine
                    .handle_chunk_copied(copying.id, copying.rows_read as u64);
            }
            return Ok(());
        }
        let is_torn = copying.is_emptied;
        self.job.copies.push(copying);
        if is_torn && self.rng.bool() {
            self.crash()?;
        }
        Ok(())
    }

    /// Reads a chunk's rows in one snapshot.
    fn read_chunk(&mut self, copying: &mut Copying) -> Result<(), Failure> {
        let checked = self
            .job
            .watch
            .check_snapshot(copying.id, self.source.visible);
        self.rule(checked)?;
        let order = self.params.orders[copying.table];
        let rows = self.source.seen[copying.table].iter();
        let inside = rows.filter(|(k, _)| order.holds(&copying.what, **k));
        let rows: Vec<_> = inside.map(|(k, row)| (*k, *row)).collect();
        copying.rows_read = rows.len();
        copying.rows = Some(rows);
        self.job.last_read = self.job.last_read.max(self.source.log.len());
        Ok(())
    }

    /// Writes one of a chunk's rows, or all; returns whether none is left.
    ///
    /// A range that is emptied first is written whole: if a crash could come
    /// between, an older checkpoint that calls it closed would lose its rows.
    pub(super) fn write_rows(&mut self, copying: &mut Copying) -> Result<bool, Failure> {
        let is_apart = self.faults.has(Fault::EmptiedApart);
        let is_whole = self.params.whole_writes || copying.empties;
        if copying.empties && !copying.is_emptied {
            let Copying { table, what, .. } = &*copying;
            let order = self.params.orders[*table];
            self.target.rows[*table].retain(|k, _| !order.holds(what, *k));
            self.damaged
                .retain(|(t, k)| t != table || !order.holds(what, *k));
            copying.is_emptied = is_apart;
            if is_apart {
                return Ok(false);
            }
        }
        let rows = copying.rows.get_or_insert_default();
        while !rows.is_empty() {
            let (key, row) = rows.swap_remove(self.rng.usize(..rows.len()));
            let table = copying.table;
            if self.job.modes[table] == Mode::Ordered {
                self.target.replace(RowChange {
                    table,
                    key,
                    image: Some(row),
                });
            } else if !self.target.insert(table, key, row) && !self.faults.outcome_only {
                return Err(Failure::new(
                    Invariant::PlainInsert,
                    format!("row {key} of table {table} was there already"),
                ));
            }
            if !is_whole {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

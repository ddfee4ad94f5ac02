//! The engine's rules, one by one.

use oxferry_schema::{Key, KeyPart, KeyRange, Row, Value};

use super::*;
use crate::KeyedChange;

const TABLE: TableId = TableId(0);

fn key(number: i128) -> Key {
    Key::new([KeyPart::Int(number)])
}

fn range(lower: i128, upper: i128) -> KeyRange {
    KeyRange {
        lower: Some(key(lower)),
        upper: Some(key(upper)),
    }
}

fn change(number: i128, version: i64) -> KeyedChange {
    KeyedChange {
        key: key(number),
        image: Some(Row::new([Value::Int(version)])),
    }
}

/// Begins with one table, `[0, 10)` closed and the rest to be looked up.
fn engine(mode: Mode) -> Engine {
    engine_with(mode, EngineConfig::default())
}

fn engine_with(mode: Mode, config: EngineConfig) -> Engine {
    Engine::new(config, vec![TablePlan::resume(mode, vec![range(0, 10)])])
}

/// Dispatches one transaction with one change.
fn dispatch(engine: &mut Engine, seq: u64, change: KeyedChange) {
    engine.handle_change(TxnSeq(seq), TABLE, change);
    engine.handle_commit(TxnSeq(seq));
}

/// Opens a chunk and passes its barrier.
fn copying(engine: &mut Engine, range: KeyRange) -> ChunkId {
    engine.handle_range(TABLE, range);
    let Some(Action::Barrier { id }) = engine.poll() else {
        panic!("a chunk that opens after a change needs a barrier");
    };
    engine.handle_barrier_passed(id);
    let Some(Action::Copy { chunk, .. }) = engine.poll() else {
        panic!("the barrier has been passed");
    };
    chunk
}

/// Returns the next batch's number and its versions by key.
fn batch(engine: &mut Engine) -> Option<(BatchId, Vec<KeyedChange>)> {
    match engine.poll() {
        None => None,
        Some(Action::Apply { id, batch, .. }) => Some((id, batch.changes)),
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_change_that_a_later_chunk_reads_is_thrown_away_only_in_ranged_mode() {
    for (mode, discarded) in [(Mode::Ranged, 1), (Mode::Ordered, 0)] {
        let mut engine = engine(mode);
        dispatch(&mut engine, 1, change(50, 1));
        let progress = engine.progress(TABLE).unwrap();
        assert_eq!(
            (progress.changes_dispatched, progress.changes_discarded),
            (1, discarded)
        );
        assert_eq!(engine.is_idle(), mode == Mode::Ranged);
    }
}

#[test]
fn in_ranged_mode_only_changes_of_an_open_chunk_wait() {
    let mut engine = engine(Mode::Ranged);
    let chunk = copying(&mut engine, range(10, 20));
    dispatch(&mut engine, 1, change(15, 1));
    dispatch(&mut engine, 2, change(5, 2));
    assert_eq!(batch(&mut engine).unwrap().1, [change(5, 2)]);
    assert_eq!(batch(&mut engine), None);
    engine.handle_chunk_copied(chunk, 3);
    assert_eq!(batch(&mut engine).unwrap().1, [change(15, 1)]);
}

#[test]
fn in_ordered_mode_every_change_waits_for_the_chunks_open_at_its_dispatch() {
    let mut engine = engine(Mode::Ordered);
    let first = copying(&mut engine, range(10, 20));
    dispatch(&mut engine, 1, change(5, 1));
    let second = copying(&mut engine, range(20, 30));
    dispatch(&mut engine, 2, change(5, 2));
    engine.handle_chunk_copied(first, 0);
    let (id, changes) = batch(&mut engine).unwrap();
    assert_eq!(
        changes,
        [change(5, 1)],
        "the chunk that opened later doesn't extend the wait"
    );
    engine.handle_batch_applied(id);
    assert_eq!(batch(&mut engine), None);
    engine.handle_chunk_copied(second, 0);
    assert_eq!(batch(&mut engine).unwrap().1, [change(5, 2)]);
}

#[test]
fn tables_are_copied_in_turn_or_one_after_the_other() {
    let looked_up = |in_order| {
        let config = EngineConfig {
            in_order,
            chunks_ready_max: 5,
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, vec![TablePlan::new(Mode::Ranged); 2]);
        let mut order = Vec::new();
        for at in 0..4 {
            let table = engine.wanted_range().unwrap();
            engine.handle_range(table, range(at * 10, at * 10 + 10));
            order.push(table.0);
        }
        order
    };
    assert_eq!(looked_up(false), [0, 1, 0, 1]);
    assert_eq!(looked_up(true), [0, 0, 0, 0]);
}

#[test]
fn where_rows_may_exchange_values_a_batch_holds_whole_transactions() {
    let config = EngineConfig {
        whole_transactions: true,
        buffer_rows_max: 3,
        ..EngineConfig::default()
    };
    let mut engine = engine_with(Mode::Ordered, config);
    engine.handle_change(TxnSeq(1), TABLE, change(5, 1));
    assert_eq!(batch(&mut engine), None);
    dispatch(&mut engine, 1, change(6, 1));
    let (id, changes) = batch(&mut engine).unwrap();
    assert_eq!(changes, [change(5, 1), change(6, 1)]);
    engine.handle_batch_applied(id);
    for number in [5, 6, 7] {
        assert_eq!(batch(&mut engine), None);
        engine.handle_change(TxnSeq(2), TABLE, change(number, 2));
    }
    assert!(!engine.accepts_changes());
    assert_eq!(batch(&mut engine).unwrap().1.len(), 3, "no room for more");
}

#[test]
fn a_chunk_does_not_open_inside_a_transaction_that_touched_its_table() {
    let mut engine = engine(Mode::Ranged);
    engine.handle_change(TxnSeq(1), TABLE, change(50, 1));
    engine.handle_range(TABLE, range(10, 60));
    assert_eq!(engine.poll(), None);
    engine.handle_commit(TxnSeq(1));
    assert!(matches!(engine.poll(), Some(Action::Barrier { .. })));
}

#[test]
fn chunks_that_open_while_a_barrier_runs_wait_for_the_next() {
    let mut engine = engine(Mode::Ranged);
    engine.handle_range(TABLE, range(10, 20));
    let Some(Action::Barrier { id: first }) = engine.poll() else {
        panic!()
    };
    dispatch(&mut engine, 1, change(5, 1));
    engine.handle_range(TABLE, range(20, 30));
    assert!(batch(&mut engine).is_some());
    engine.handle_barrier_passed(first);
    let Some(Action::Barrier { id: second }) = engine.poll() else {
        panic!()
    };
    assert_ne!(first, second);
    assert!(
        matches!(engine.poll(), Some(Action::Copy { .. })),
        "the first chunk goes on"
    );
    assert_eq!(engine.poll(), None);
    engine.handle_barrier_passed(second);
    assert!(matches!(engine.poll(), Some(Action::Copy { .. })));
}

#[test]
fn no_barrier_is_needed_while_nothing_was_dispatched_since_the_last() {
    let mut engine = engine(Mode::Ranged);
    copying(&mut engine, range(10, 20));
    engine.handle_range(TABLE, range(20, 30));
    assert!(matches!(engine.poll(), Some(Action::Copy { .. })));
}

#[test]
fn newer_images_of_a_key_in_flight_wait_for_the_batch() {
    let mut engine = engine(Mode::Ranged);
    dispatch(&mut engine, 1, change(5, 1));
    let (id, _) = batch(&mut engine).unwrap();
    dispatch(&mut engine, 2, change(5, 2));
    dispatch(&mut engine, 3, change(5, 3));
    assert_eq!(batch(&mut engine), None);
    assert_eq!(engine.resume_seq(), TxnSeq(1));
    engine.handle_batch_applied(id);
    assert_eq!(engine.resume_seq(), TxnSeq(2));
    assert_eq!(batch(&mut engine).unwrap().1, [change(5, 3)]);
}

/// One change a batch, two at once.
fn narrow() -> EngineConfig {
    EngineConfig {
        batch_rows_max: 1,
        apply_slots: 2,
        ..EngineConfig::default()
    }
}

fn deletion(number: i128) -> KeyedChange {
    KeyedChange {
        key: key(number),
        image: None,
    }
}

#[test]
fn in_ordered_mode_the_next_round_begins_when_the_last_is_done() {
    let mut engine = engine_with(Mode::Ordered, narrow());
    dispatch(&mut engine, 1, change(1, 1));
    dispatch(&mut engine, 2, change(2, 1));
    let (first, _) = batch(&mut engine).unwrap();
    dispatch(&mut engine, 3, change(3, 1));
    let (second, _) = batch(&mut engine).unwrap();
    engine.handle_batch_applied(first);
    assert_eq!(batch(&mut engine), None);
    engine.handle_batch_applied(second);
    assert_eq!(batch(&mut engine).unwrap().1, [change(3, 1)]);
}

#[test]
fn in_ordered_mode_a_rounds_deletes_come_before_its_upserts() {
    let mut engine = engine_with(Mode::Ordered, narrow());
    dispatch(&mut engine, 1, change(1, 1));
    dispatch(&mut engine, 2, deletion(2));
    dispatch(&mut engine, 3, deletion(3));
    let (first, changes) = batch(&mut engine).unwrap();
    assert_eq!(changes, [deletion(2)]);
    let (second, changes) = batch(&mut engine).unwrap();
    assert_eq!(changes, [deletion(3)]);
    engine.handle_batch_applied(second);
    assert_eq!(batch(&mut engine), None, "a delete is in flight");
    engine.handle_batch_applied(first);
    assert_eq!(batch(&mut engine).unwrap().1, [change(1, 1)]);
}

#[test]
fn in_ordered_mode_a_batch_of_deletes_and_upserts_runs_alone() {
    let config = EngineConfig {
        batch_rows_max: 2,
        ..narrow()
    };
    let mut engine = engine_with(Mode::Ordered, config);
    for seq in 1..=3 {
        dispatch(&mut engine, seq, change(seq.into(), 1));
    }
    dispatch(&mut engine, 4, deletion(4));
    let (mixed, changes) = batch(&mut engine).unwrap();
    assert_eq!(changes, [change(1, 1), deletion(4)]);
    assert_eq!(batch(&mut engine), None);
    engine.handle_batch_applied(mixed);
    assert_eq!(batch(&mut engine).unwrap().1, [change(2, 1), change(3, 1)]);
}

#[test]
fn keys_that_only_the_server_orders_are_never_compared() {
    let plan = TablePlan::resume(Mode::Ordered, vec![range(9, 5)]).ordered_by(KeyOrder::Server);
    let mut engine = Engine::new(EngineConfig::default(), vec![plan]);
    let first = KeyRange {
        lower: None,
        upper: Some(key(9)),
    };
    let chunk = copying(&mut engine, first);
    assert_eq!(engine.progress(TABLE).unwrap().closed, [range(9, 5)]);
    engine.handle_chunk_copied(chunk, 1);
    let closed = KeyRange {
        lower: None,
        upper: Some(key(5)),
    };
    assert_eq!(engine.progress(TABLE).unwrap().closed, [closed]);
}

#[test]
fn a_repair_by_keys_has_an_ordered_table_to_itself() {
    let mut engine = engine_with(Mode::Ordered, narrow());
    let chunk = copying(&mut engine, range(10, 20));
    engine.handle_range(TABLE, range(20, 30));
    engine.repair(TABLE, Repair::Keys(vec![key(3), key(25)]));
    assert_eq!(
        engine.poll(),
        None,
        "a chunk is open, and no other one opens"
    );
    engine.handle_chunk_copied(chunk, 1);
    dispatch(&mut engine, 1, change(1, 1));
    let Some(Action::Barrier { id }) = engine.poll() else {
        panic!()
    };
    engine.handle_barrier_passed(id);
    let Some(Action::CopyKeys { chunk, keys, .. }) = engine.poll() else {
        panic!()
    };
    assert_eq!(keys, [key(3), key(25)]);
    dispatch(&mut engine, 2, change(2, 1));
    assert_eq!(engine.poll(), None, "neither a chunk nor a batch");
    assert!(!engine.is_copied());
    engine.handle_chunk_copied(chunk, 2);
    assert!(matches!(engine.poll(), Some(Action::Barrier { .. })));
    assert!(batch(&mut engine).is_some());
}

#[test]
fn in_ranged_mode_each_key_to_repair_is_a_range() {
    let mut engine = engine(Mode::Ranged);
    engine.repair(TABLE, Repair::Keys(vec![key(3)]));
    let Some(Action::Barrier { id }) = engine.poll() else {
        panic!()
    };
    engine.handle_barrier_passed(id);
    let Some(Action::CopyKeys { chunk, keys, .. }) = engine.poll() else {
        panic!()
    };
    assert_eq!(keys, [key(3)]);
    let open: Vec<_> = engine.open_chunks(TABLE).collect();
    assert_eq!(open, [(chunk, range(3, 4))]);
    dispatch(&mut engine, 1, change(3, 1));
    assert_eq!(engine.poll(), None, "the change waits for the repair");
    engine.handle_chunk_copied(chunk, 1);
    assert_eq!(batch(&mut engine).unwrap().1, [change(3, 1)]);
}

#[test]
fn a_full_buffer_refuses_changes_until_some_are_applied() {
    let config = EngineConfig {
        buffer_rows_max: 2,
        ..EngineConfig::default()
    };
    let mut engine = engine_with(Mode::Ranged, config);
    dispatch(&mut engine, 1, change(1, 1));
    assert!(engine.accepts_changes());
    dispatch(&mut engine, 2, change(2, 1));
    assert!(!engine.accepts_changes());
    let (id, _) = batch(&mut engine).unwrap();
    engine.handle_batch_applied(id);
    assert!(engine.accepts_changes());
}

#[test]
fn a_repair_waits_for_batches_in_flight_and_holds_back_changes() {
    let mut engine = engine(Mode::Ranged);
    dispatch(&mut engine, 1, change(5, 1));
    let (id, _) = batch(&mut engine).unwrap();
    engine.repair(TABLE, Repair::Range(range(4, 6)));
    let Some(Action::Barrier { id: barrier }) = engine.poll() else {
        panic!()
    };
    engine.handle_barrier_passed(barrier);
    assert_eq!(engine.poll(), None, "the batch may write into the range");
    assert_eq!(
        engine.progress(TABLE).unwrap().closed,
        [range(0, 4), range(6, 10)]
    );
    engine.handle_batch_applied(id);
    let Some(Action::Copy {
        chunk, again: true, ..
    }) = engine.poll()
    else {
        panic!()
    };
    dispatch(&mut engine, 2, change(5, 2));
    assert_eq!(engine.poll(), None);
    engine.handle_chunk_copied(chunk, 1);
    assert_eq!(batch(&mut engine).unwrap().1, [change(5, 2)]);
    assert_eq!(engine.progress(TABLE).unwrap().closed, [range(0, 10)]);
}

#[test]
fn draining_hands_out_everything_that_is_buffered() {
    let mut engine = engine(Mode::Ordered);
    engine.handle_ranges_exhausted(TABLE);
    engine.set_applying(false);
    dispatch(&mut engine, 1, change(1, 1));
    dispatch(&mut engine, 2, change(2, 1));
    assert_eq!(engine.poll(), None);
    let drained = engine.drain().unwrap();
    assert_eq!(drained.len(), 1);
    assert!(!engine.is_idle() && engine.drain().is_none());
    engine.handle_drained();
    assert!(engine.is_idle() && engine.is_copied());
    assert_eq!(engine.settled_through(), TxnSeq(2));
}

#[test]
fn nothing_is_drained_while_a_batch_is_in_flight() {
    let mut engine = engine(Mode::Ranged);
    dispatch(&mut engine, 1, change(1, 1));
    assert!(batch(&mut engine).is_some());
    assert_eq!(engine.drain(), None);
}

#[test]
fn a_throttle_stops_new_chunks_and_lets_open_ones_end() {
    let mut engine = engine(Mode::Ranged);
    let chunk = copying(&mut engine, range(10, 20));
    engine.set_copying(false);
    engine.handle_range(TABLE, range(20, 30));
    assert_eq!((engine.poll(), engine.wanted_range()), (None, None));
    engine.handle_chunk_copied(chunk, 1);
    assert_eq!(engine.poll(), None);
    engine.set_copying(true);
    assert!(matches!(engine.poll(), Some(Action::Copy { .. })));
}

#[test]
fn tables_are_looked_up_by_turns() {
    let plan = TablePlan::new(Mode::Ranged);
    let mut engine = Engine::new(EngineConfig::default(), vec![plan.clone(), plan]);
    assert_eq!(engine.wanted_range(), Some(TableId(0)));
    engine.handle_range(TableId(0), range(0, 5));
    assert_eq!(engine.wanted_range(), Some(TableId(1)));
    engine.handle_ranges_exhausted(TableId(1));
    assert_eq!(engine.wanted_range(), Some(TableId(0)));
}

#[test]
fn once_its_unique_index_stands_a_table_goes_on_in_order() {
    let mut engine = engine(Mode::Ranged);
    engine.handle_ranges_exhausted(TABLE);
    engine.set_applying(false);
    dispatch(&mut engine, 1, change(1, 1));
    engine.handle_indexes_built(TABLE);
    engine.set_applying(true);
    let (id, _) = batch(&mut engine).unwrap();
    dispatch(&mut engine, 2, change(2, 1));
    assert_eq!(batch(&mut engine), None, "the round is under way");
    engine.handle_batch_applied(id);
    assert!(batch(&mut engine).is_some());
}

#[test]
fn rows_read_again_for_changes_hold_up_neither_the_copy_nor_its_end() {
    for mode in [Mode::Ranged, Mode::Ordered] {
        let mut engine = engine(mode);
        engine.handle_range(TABLE, range(10, 20));
        engine.handle_range(TABLE, range(20, 30));
        engine.handle_ranges_exhausted(TABLE);
        let mut copied = Vec::new();
        // After each one, the next change is there already.
        for turn in 0..40 {
            engine.repair_by_change(TABLE, vec![key(turn % 10)]);
            while let Some(action) = engine.poll() {
                match action {
                    Action::Barrier { id } => engine.handle_barrier_passed(id),
                    Action::Copy { chunk, range, .. } => {
                        copied.push(range);
                        engine.handle_chunk_copied(chunk, 1);
                        break;
                    }
                    Action::CopyKeys { chunk, .. } => {
                        engine.handle_chunk_copied(chunk, 1);
                        break;
                    }
                    Action::Apply { id, .. } => engine.handle_batch_applied(id),
                }
            }
        }
        assert!(copied.contains(&range(20, 30)), "{mode:?}");
        assert!(engine.is_copied(), "{mode:?}");
    }
}

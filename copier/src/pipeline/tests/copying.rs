//! Copying, applying, waiting for both, and where to resume.

use std::sync::atomic::Ordering;

use oxferry_binlog::{RowChange, StreamEvent};
use oxferry_schema::{KeyRange, Row, Value};

use super::{
    bench::{Bench, config, place},
    fakes::{Step, key},
};
use crate::engine::{EngineConfig, Repair, TableId};

#[tokio::test]
async fn all_ranges_are_copied_behind_a_barrier() {
    let mut bench = Bench::new(3);
    let mut copied = bench.ask(|handle| async move { handle.copied().await });
    assert_eq!(copied.value(), None);
    bench.world.allow(Step::Look, 9);
    bench.turn();
    assert_eq!(copied.value(), Some(&Ok(())));
    bench.assert_equal();
    let steps = bench.world.steps();
    let steps: Vec<_> = steps.iter().filter(|step| !step.contains("look")).collect();
    assert_eq!(
        steps,
        [
            "barrier 4",
            "barrier 4 done",
            "copy [min, 3)",
            "copy [min, 3) done",
            "copy [3, max]",
            "copy [3, max] done",
        ]
    );
}

#[tokio::test]
async fn a_chunk_that_opens_behind_a_commit_has_a_barrier_of_its_own() {
    let mut bench = Bench::new(4);
    bench.world.hold(Step::Copy);
    bench.world.allow(Step::Look, 9);
    bench.write(4, 41, 100);
    bench.turn();
    bench.write(3, 31, 200);
    bench.world.hold(Step::Barrier);
    bench.turn();
    bench.world.steps();
    bench.world.allow(Step::Copy, 9);
    bench.turn();
    let steps = bench.world.steps();
    assert_eq!(steps.last().unwrap(), "barrier 200", "{steps:?}");
    bench.world.allow(Step::Barrier, 1);
    bench.turn();
    bench.assert_equal();
}

#[tokio::test]
async fn a_change_waits_for_its_open_chunk_and_one_behind_is_left_to_its_chunk() {
    let mut bench = Bench::new(4);
    bench.world.hold(Step::Copy);
    bench.world.allow(Step::Look, 9);
    bench.turn();
    bench.write(2, 21, 100);
    bench.write(4, 41, 200);
    bench.turn();
    bench.world.steps();
    bench.world.allow(Step::Copy, 1);
    bench.turn();
    let steps = bench.world.steps();
    assert!(steps.contains(&"apply 2 done".to_owned()), "{steps:?}");
    bench.world.allow(Step::Copy, 1);
    bench.turn();
    let steps = bench.world.steps();
    assert!(!steps.contains(&"apply 4".to_owned()), "{steps:?}");
    bench.assert_equal();
    assert_eq!(bench.resume_at(), 200);
}

#[tokio::test]
async fn a_changed_key_frees_the_old_one() {
    let mut bench = Bench::copied(config());
    let row = |id| Some(Row::new([Value::Int(id), Value::Int(7)]));
    bench.send(StreamEvent::Rows {
        table: 0,
        changes: vec![RowChange {
            before: row(2),
            after: row(9),
        }],
    });
    bench.commit(100);
    bench.turn();
    assert_eq!((bench.target(2), bench.target(9)), (None, Some(7)));
}

#[tokio::test]
async fn settling_takes_applying_and_then_a_barrier() {
    let mut bench = Bench::copied(config());
    bench.world.hold(Step::Apply);
    bench.world.hold(Step::Barrier);
    bench.write(1, 11, 100);
    bench.turn();
    let mut settled = bench.ask(|handle| async move { handle.settle().await });
    assert_eq!(bench.world.steps(), ["apply 1"], "no barrier yet");
    bench.world.allow(Step::Apply, 1);
    bench.turn();
    assert_eq!(bench.world.steps(), ["apply 1 done", "barrier 100"]);
    assert_eq!(settled.value(), None, "the barrier is still to be passed");
    bench.world.allow(Step::Barrier, 1);
    bench.turn();
    assert_eq!(settled.value(), Some(&Ok(())));
}

#[tokio::test]
async fn settling_includes_a_transaction_whose_end_is_still_to_come() {
    let mut bench = Bench::copied(config());
    bench.row(1, 11);
    bench.turn();
    let mut settled = bench.ask(|handle| async move { handle.settle().await });
    assert_eq!(settled.value(), None);
    bench.commit(100);
    bench.turn();
    assert_eq!(settled.value(), Some(&Ok(())));
    let steps = bench.world.steps();
    assert_eq!(steps.last().unwrap(), "barrier 100 done");
}

#[tokio::test]
async fn a_position_is_reached_with_its_commit() {
    let mut bench = Bench::copied(config());
    let mut reached = bench.ask(|handle| async move { handle.reach(place(100)).await });
    bench.write(1, 11, 99);
    bench.turn();
    assert_eq!(reached.value(), None);
    bench.send(StreamEvent::Progress { end: place(100) });
    bench.turn();
    assert_eq!(reached.value(), Some(&Ok(())));
}

#[tokio::test]
async fn a_full_buffer_makes_the_stream_wait() {
    let mut bench = Bench::copied(EngineConfig {
        buffer_rows_max: 2,
        ..config()
    });
    bench.world.hold(Step::Apply);
    for id in 1..=4 {
        bench.write(id, 7, 100 * u64::try_from(id).unwrap());
    }
    bench.turn();
    let read = || bench.world.events_read.load(Ordering::Relaxed);
    assert_eq!(read(), 3, "two rows, and the first one's commit");
    bench.world.allow(Step::Apply, 1);
    bench.turn();
    let read = || bench.world.events_read.load(Ordering::Relaxed);
    assert_eq!(read(), 5);
    bench.world.allow(Step::Apply, 9);
    bench.turn();
    bench.assert_equal();
}

#[tokio::test]
async fn the_position_to_resume_at_follows_what_is_applied() {
    let mut bench = Bench::copied(config());
    bench.world.hold(Step::Apply);
    bench.write(1, 11, 100);
    bench.write(2, 21, 200);
    bench.commit(250);
    bench.row(3, 31);
    bench.turn();
    assert_eq!(bench.resume_at(), 4, "nothing is applied");
    bench.world.allow(Step::Apply, 1);
    bench.turn();
    assert_eq!(bench.resume_at(), 100);
    bench.world.allow(Step::Apply, 9);
    bench.turn();
    assert_eq!(bench.target(3), Some(31));
    assert_eq!(bench.resume_at(), 250, "never inside a transaction");
    bench.commit(300);
    bench.turn();
    assert_eq!(bench.resume_at(), 300);
}

#[tokio::test]
async fn a_range_to_repair_is_emptied_and_copied() {
    let mut bench = Bench::copied(config());
    bench.world.tables().target.insert(3, 0);
    bench.world.tables().target.insert(30, 0);
    let range = KeyRange {
        lower: Some(key(3)),
        upper: None,
    };
    let mut repaired =
        bench.ask(|handle| async move { handle.repair(TableId(0), Repair::Range(range)).await });
    assert_eq!(repaired.value(), Some(&Ok(())));
    let steps = bench.world.steps();
    assert_eq!(steps.last().unwrap(), "copy [3, max] again done");
    bench.assert_equal();
}

#[tokio::test]
async fn no_chunk_opens_while_copying_is_off() {
    let mut bench = Bench::new(4);
    bench.ask(|handle| async move { handle.set_copying(false).await });
    bench.world.allow(Step::Look, 9);
    bench.turn();
    assert!(bench.world.tables().target.is_empty());
    bench.ask(|handle| async move { handle.set_copying(true).await });
    bench.assert_equal();
}

#[tokio::test]
async fn the_status_is_renewed_on_a_quiet_server_too() {
    let mut bench = Bench::copied(config());
    bench.world.hold(Step::Apply);
    bench.write(1, 11, 100);
    bench.until(|status| status.changes_waiting == 1).await;
    let mut few = bench.ask(|handle| async move { handle.waiting_at_most(0).await });
    assert_eq!(few.value(), None);
    bench.world.allow(Step::Apply, 1);
    bench.until(|status| status.changes_waiting == 0).await;
    assert_eq!(few.value(), Some(&Ok(())));
    assert_eq!(bench.status().changes_applied, 1);
}

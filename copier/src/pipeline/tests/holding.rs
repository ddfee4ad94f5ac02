//! Holding back what would be applied.

use std::sync::atomic::Ordering;

use super::{
    bench::{Bench, config},
    fakes::Step,
};
use crate::pipeline::Stopped;

#[tokio::test]
async fn holding_waits_for_the_batch_in_flight() {
    let mut bench = Bench::copied(config());
    bench.world.hold(Step::Apply);
    bench.write(1, 11, 100);
    bench.turn();
    let mut held = bench.ask(|handle| async move { handle.hold().await });
    bench.write(2, 21, 200);
    bench.turn();
    assert_eq!(held.value(), None);
    bench.world.allow(Step::Apply, 9);
    bench.turn();
    assert_eq!(held.value(), Some(&Ok(())));
    assert_eq!(bench.target(2), Some(20), "what came later isn't applied");
    bench.ask(|handle| async move { handle.release().await });
    bench.assert_equal();
}

#[tokio::test]
async fn a_consistent_point_is_a_transactions_end_with_an_empty_buffer() {
    let mut bench = Bench::copied(config());
    bench.world.hold(Step::Apply);
    bench.row(1, 11);
    bench.turn();
    let mut held = bench.ask(|handle| async move { handle.hold_consistent().await });
    bench.world.allow(Step::Apply, 1);
    bench.turn();
    assert_eq!(bench.target(1), Some(11));
    assert_eq!(held.value(), None, "the transaction goes on");
    bench.row(2, 21);
    bench.commit(100);
    bench.write(3, 31, 200);
    bench.turn();
    assert_eq!(
        held.value(),
        None,
        "a change of the transaction is in flight"
    );
    let read = bench.world.events_read.load(Ordering::Relaxed);
    assert_eq!(read, 3, "the stream waits at the transaction's end");
    bench.world.allow(Step::Apply, 1);
    bench.turn();
    assert_eq!(held.value(), Some(&Ok(())));
    bench.world.allow(Step::Apply, 9);
    bench.turn();
    assert_eq!(bench.target(2), Some(21));
    assert_eq!(bench.target(3), Some(30), "nothing newer is applied");
    assert_eq!(bench.resume_at(), 100);
    bench.ask(|handle| async move { handle.release().await });
    bench.assert_equal();
}

#[tokio::test]
async fn two_may_look_for_a_consistent_point() {
    let mut bench = Bench::copied(config());
    bench.row(1, 11);
    bench.turn();
    let mut first = bench.ask(|handle| async move { handle.hold_consistent().await });
    let mut second = bench.ask(|handle| async move { handle.hold_consistent().await });
    bench.commit(100);
    bench.turn();
    assert_eq!(first.value(), Some(&Ok(())));
    assert_eq!(second.value(), Some(&Ok(())));
}

#[tokio::test]
async fn a_release_gives_up_a_point_that_is_still_looked_for() {
    let mut bench = Bench::copied(config());
    bench.row(1, 11);
    bench.turn();
    let mut held = bench.ask(|handle| async move { handle.hold_consistent().await });
    bench.ask(|handle| async move { handle.release().await });
    assert_eq!(held.value(), Some(&Err(Stopped)));
    bench.commit(100);
    bench.write(2, 21, 200);
    bench.turn();
    bench.assert_equal();
}

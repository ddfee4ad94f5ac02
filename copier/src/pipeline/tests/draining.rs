//! Handing out what waits, and taking it back.

use std::sync::atomic::Ordering;

use super::{
    bench::{Bench, Polled, config},
    fakes::Step,
};
use crate::{
    Batch,
    engine::TableId,
    pipeline::{Handle, Stopped},
};

type Drained = Result<Option<Vec<(TableId, Batch)>>, Stopped>;

fn hold(bench: &mut Bench) {
    let mut held = bench.ask(|handle| async move { handle.hold().await });
    assert_eq!(held.value(), Some(&Ok(())));
}

fn release(bench: &mut Bench) {
    let mut released = bench.ask(|handle| async move { handle.release().await });
    assert_eq!(released.value(), Some(&Ok(())));
}

fn drain(bench: &mut Bench) -> Polled<Drained> {
    bench.ask(|handle: Handle| async move { handle.drain().await })
}

/// The keys that are handed out, `None` when nothing can be.
fn drained_keys(bench: &mut Bench) -> Option<Vec<String>> {
    let mut drained = drain(bench);
    let batches = drained.value().expect("an answer").as_ref().unwrap();
    let batches = batches.as_ref()?;
    let changes = batches.iter().flat_map(|(_, batch)| &batch.changes);
    Some(changes.map(|change| change.key.to_string()).collect())
}

/// A bench of which a change of row 1 is drained, and a newer one waits in
/// the log.
fn drained() -> Bench {
    let mut bench = Bench::copied(config());
    hold(&mut bench);
    bench.write(1, 11, 100);
    bench.turn();
    assert_eq!(drained_keys(&mut bench), Some(vec!["1".to_owned()]));
    bench.write(1, 12, 200);
    bench.turn();
    bench
}

#[tokio::test]
async fn the_stream_rests_from_a_drain_until_the_release() {
    let mut bench = drained();
    let read = || bench.world.events_read.load(Ordering::Relaxed);
    assert_eq!(read(), 2);
    bench.ask(|handle| async move { handle.drained().await });
    let read = || bench.world.events_read.load(Ordering::Relaxed);
    assert_eq!(read(), 2);
    release(&mut bench);
    assert_eq!(bench.world.steps(), ["apply 1", "apply 1 done"]);
    assert_eq!(bench.target(1), Some(12));
}

#[tokio::test]
async fn what_was_drained_counts_as_applied_once_the_caller_says_so() {
    let mut bench = drained();
    assert_eq!(bench.resume_at(), 4);
    bench.ask(|handle| async move { handle.drained().await });
    assert_eq!(bench.resume_at(), 100);
}

#[tokio::test]
async fn what_was_drained_in_vain_is_applied_before_anything_newer() {
    let mut bench = drained();
    bench.world.hold(Step::Apply);
    release(&mut bench);
    let read = bench.world.events_read.load(Ordering::Relaxed);
    assert_eq!(read, 4, "the stream goes on");
    assert_eq!(bench.world.steps(), ["apply 1"], "only the drained one");
    assert_eq!(bench.resume_at(), 4);
    bench.world.allow(Step::Apply, 1);
    bench.turn();
    assert_eq!(bench.target(1), Some(11));
    assert_eq!(bench.world.steps(), ["apply 1 done", "apply 1"]);
    bench.world.allow(Step::Apply, 1);
    bench.turn();
    assert_eq!(bench.target(1), Some(12));
    assert_eq!(bench.resume_at(), 200);
}

#[tokio::test]
async fn holding_waits_for_what_was_drained_in_vain_and_holds_the_rest() {
    let mut bench = drained();
    bench.world.hold(Step::Apply);
    release(&mut bench);
    let mut held = bench.ask(|handle| async move { handle.hold().await });
    assert_eq!(held.value(), None, "it is being applied again");
    assert_eq!(drained_keys(&mut bench), None);
    bench.world.allow(Step::Apply, 9);
    bench.turn();
    assert_eq!(held.value(), Some(&Ok(())));
    assert_eq!(bench.target(1), Some(11), "the newer one is held");
    assert_eq!(drained_keys(&mut bench), Some(vec!["1".to_owned()]));
}

#[tokio::test]
async fn a_second_drain_does_not_forget_the_first() {
    let mut bench = drained();
    assert_eq!(drained_keys(&mut bench), None);
    release(&mut bench);
    let steps = bench.world.steps();
    assert_eq!(steps.iter().filter(|step| *step == "apply 1").count(), 2);
    bench.assert_equal();
    assert_eq!(bench.resume_at(), 200);
}

#[tokio::test]
async fn a_late_word_does_not_let_newer_changes_overtake() {
    let mut bench = drained();
    bench.world.hold(Step::Apply);
    release(&mut bench);
    bench.ask(|handle| async move { handle.drained().await });
    assert_eq!(bench.world.steps(), ["apply 1"]);
    assert_eq!(bench.resume_at(), 4);
}

#[tokio::test]
async fn nothing_is_handed_out_while_a_batch_is_in_flight() {
    let mut bench = Bench::copied(config());
    bench.world.hold(Step::Apply);
    bench.write(1, 11, 100);
    bench.turn();
    assert_eq!(drained_keys(&mut bench), None);
    bench.write(2, 21, 200);
    bench.world.allow(Step::Apply, 9);
    bench.turn();
    bench.assert_equal();
}

#[tokio::test]
async fn nothing_is_handed_out_while_a_chunk_is_open() {
    let mut bench = Bench::new(2);
    bench.world.hold(Step::Copy);
    bench.world.allow(Step::Look, 9);
    bench.turn();
    assert_eq!(drained_keys(&mut bench), None);
    bench.world.allow(Step::Copy, 9);
    bench.turn();
    bench.assert_equal();
}

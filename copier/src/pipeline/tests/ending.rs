//! How a driver ends.

use std::time::Duration;

use oxferry_binlog::{StreamError, StreamEvent};

use super::{
    bench::{Bench, config, place},
    fakes::Step,
};
use crate::{CopyError, pipeline::Stopped};

#[tokio::test]
async fn foreign_ddl_ends_it() {
    let mut bench = Bench::copied(config());
    bench.send(StreamEvent::Ddl {
        table: 0,
        statement: "TRUNCATE t".to_owned(),
        end: place(100),
        gtid: None,
    });
    bench.turn();
    let mut settled = bench.ask(|handle| async move { handle.settle().await });
    let error = bench.error();
    let CopyError::ForeignDdl { table, statement } = error else {
        panic!("{error}");
    };
    assert_eq!(table.unwrap().to_string(), "`d`.`t`");
    assert_eq!(statement, "TRUNCATE t");
    assert_eq!(settled.value(), Some(&Err(Stopped)));
}

#[tokio::test]
async fn an_error_of_the_stream_ends_it() {
    let bench = Bench::copied(config());
    bench.send_error(StreamError::Silent { seconds: 7 });
    let error = bench.error();
    assert!(
        matches!(
            &error,
            CopyError::Stream {
                source: StreamError::Silent { seconds: 7 }
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn an_error_of_any_work_ends_it() {
    for step in [Step::Look, Step::Barrier, Step::Copy, Step::Apply] {
        let mut bench = Bench::new(2);
        bench.world.fail(step);
        bench.world.allow(Step::Look, 9);
        if step == Step::Apply {
            assert!(bench.turn().is_none());
            bench.write(1, 11, 100);
        }
        let error = bench.error();
        let CopyError::BarrierTimeout { waited } = error else {
            panic!("{step:?}: {error}");
        };
        assert_eq!(waited, Duration::from_secs(step as u64));
    }
}

#[tokio::test]
async fn what_was_drained_in_vain_may_fail_again() {
    let mut bench = Bench::copied(config());
    bench.ask(|handle| async move { handle.hold().await });
    bench.write(1, 11, 100);
    bench.turn();
    bench.ask(|handle| async move { handle.drain().await });
    bench.world.fail(Step::Apply);
    bench.ask(|handle| async move { handle.release().await });
    assert!(matches!(bench.error(), CopyError::BarrierTimeout { .. }));
}

#[tokio::test]
async fn stopping_finishes_what_is_in_flight_and_starts_nothing() {
    let mut bench = Bench::new(4);
    bench.world.hold(Step::Copy);
    bench.world.allow(Step::Look, 9);
    bench.turn();
    bench.write(1, 11, 100);
    bench.turn();
    bench.ask(|handle| async move { handle.stop().await });
    assert!(bench.turn().is_none(), "a chunk is in flight");
    bench.world.allow(Step::Copy, 9);
    bench.turn();
    let steps = bench.world.steps();
    assert_eq!(steps.last().unwrap(), "copy [min, 3) done");
    let mut late = bench.ask(|handle| async move { handle.progress().await });
    assert_eq!(late.value(), Some(&Err(Stopped)));
    let progress = bench.outcome().unwrap();
    assert_eq!(progress.position.file, place(4), "the change isn't applied");
    let table = &progress.tables[0];
    assert_eq!(table.closed.len(), 1);
    assert_eq!(table.closed[0].to_string(), "[min, 3)");
    assert_eq!(table.rows_copied, 2);
}

#[tokio::test]
async fn stopping_waits_for_the_batch_in_flight() {
    let mut bench = Bench::copied(config());
    bench.world.hold(Step::Apply);
    bench.write(1, 11, 100);
    bench.write(2, 21, 200);
    bench.turn();
    let mut settled = bench.ask(|handle| async move { handle.settle().await });
    bench.ask(|handle| async move { handle.stop().await });
    bench.write(3, 31, 300);
    assert!(bench.turn().is_none());
    bench.world.allow(Step::Apply, 9);
    bench.turn();
    assert_eq!((bench.target(1), bench.target(2)), (Some(11), Some(20)));
    assert_eq!(settled.value(), Some(&Err(Stopped)));
    assert_eq!(bench.outcome().unwrap().position.file, place(100));
}

#[tokio::test]
async fn stopping_with_something_drained_resumes_in_front_of_it() {
    let mut bench = Bench::copied(config());
    bench.ask(|handle| async move { handle.hold().await });
    bench.write(1, 11, 100);
    bench.turn();
    bench.ask(|handle| async move { handle.drain().await });
    bench.ask(|handle| async move { handle.stop().await });
    assert_eq!(bench.outcome().unwrap().position.file, place(4));
}

#[tokio::test]
async fn it_ends_when_every_handle_is_gone() {
    let mut bench = Bench::copied(config());
    bench.write(1, 11, 100);
    assert!(bench.turn().is_none());
    bench.drop_handle();
    let progress = bench.outcome().unwrap();
    assert_eq!(progress.position.file, place(100));
    assert_eq!(progress.tables[0].changes_applied, 1);
}

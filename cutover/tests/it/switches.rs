//! Switches under writers: nobody writes to a locked source, no write is lost.

use std::sync::Arc;

use mysql_async::{Opts, prelude::Queryable};
use oxferry_cutover::{
    AfterSwitch, Hooks, Leftover, SourceLock, SwitchError, SwitchReport, switch, undo_leftover,
};
use oxferry_schema::Remedy;
use oxferry_testkit::server::{Schema, Server};

use crate::{
    listener::Listener,
    mover::{Do, Mover, Writers},
    toy::Place,
};

/// A server to move to, which no lock of a source concerns.
async fn target() -> (Schema, Opts) {
    let schema = Server::fresh_schema().await.unwrap();
    let opts = Opts::from_url(&schema.url()).unwrap();
    (schema, opts)
}

/// Switches under four writers, who go where they are sent; returns the report and
/// the number of rows that the target has got.
async fn under_writers(place: &Place, lock: SourceLock) -> (SwitchReport, Mover) {
    let (_schema, target) = target().await;
    let writers = Writers::start(place).await;
    let listener = Listener::start("", &[], Some(Arc::clone(&writers.told))).await;
    let hooks = Hooks {
        switched: Some(listener.hook("/switched")),
        unlock_source: Some(listener.hook("/unlock")),
        ..Hooks::default()
    };
    let plan = place.switch_plan(lock).with_hooks(hooks);
    let mut mover = Mover::new(place, Do::Count);
    mover.writers = Some(Arc::clone(&writers.told));
    let report = switch(&place.opts(), &target, &plan, &mut mover)
        .await
        .unwrap();
    assert_eq!(mover.rows, writers.told.committed());
    assert_eq!(listener.paths(), ["/switched", "/unlock"]);
    assert_eq!((report.attempts, mover.finished, mover.released), (1, 1, 0));
    assert!(report.afterwards.is_empty());
    (report, mover)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_source_takes_no_write_and_stays_read_only() {
    let place = Place::alone().await;
    let (report, mover) = under_writers(&place, SourceLock::ReadOnly).await;
    assert_eq!(report.remains, Some("source set read-only"));
    assert_eq!(settings(&place).await, (true, true));
    let told = ["read-only=0,0", "announced read-only=0,0"].map(|text| Some(text.to_owned()));
    assert_eq!(mover.remembered[..2], told);
    assert_eq!(mover.remembered[2..], [None]);
    place.write().await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_tables_take_no_write_until_the_switch_is_announced() {
    let place = Place::new().await;
    let (report, _) = under_writers(&place, SourceLock::LockTables).await;
    assert_eq!(report.remains, None);
    place.expect_writes_flow().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renamed_tables_take_no_write_and_keep_their_new_names() {
    let place = Place::new().await;
    let (report, _) = under_writers(&place, SourceLock::Rename).await;
    assert_eq!(report.remains, Some("source tables renamed"));
    assert_eq!(place.tables().await, ["_t_oxnew", "_t_oxold"]);
}

#[tokio::test]
async fn after_the_switch_read_only_is_what_the_plan_says() {
    for (after, expected) in [
        (AfterSwitch::AdminsWrite, (true, false)),
        (AfterSwitch::Restore, (false, false)),
    ] {
        let place = Place::alone().await;
        let (_schema, target) = target().await;
        let plan = place.switch_plan(SourceLock::ReadOnly).with_after(after);
        let mut mover = Mover::new(&place, Do::Count);
        switch(&place.opts(), &target, &plan, &mut mover)
            .await
            .unwrap();
        assert_eq!(settings(&place).await, expected);
    }
}

#[tokio::test]
async fn a_source_that_was_read_only_before_is_so_after_a_failure() {
    let place = Place::alone().await;
    let (_schema, target) = target().await;
    for before in [(true, false), (true, true), (false, false)] {
        place
            .run(&format!(
                "SET GLOBAL read_only = {}, GLOBAL super_read_only = {}",
                before.0, before.1
            ))
            .await;
        let mut mover = Mover::new(&place, Do::Fail(Remedy::Data));
        let plan = place.switch_plan(SourceLock::ReadOnly);
        let error = switch(&place.opts(), &target, &plan, &mut mover)
            .await
            .unwrap_err();
        assert_eq!(error.remedy(), Remedy::Data);
        assert_eq!(settings(&place).await, before);
    }
}

#[tokio::test]
async fn a_failure_under_each_lock_leaves_the_source_as_it_was() {
    let place = Place::alone().await;
    let (_schema, target) = target().await;
    for lock in LOCKS {
        let mut mover = Mover::new(&place, Do::Fail(Remedy::Retry));
        let plan = place
            .switch_plan(lock)
            .with_attempts_max(2.try_into().unwrap());
        let error = switch(&place.opts(), &target, &plan, &mut mover)
            .await
            .unwrap_err();
        let SwitchError::GivenUp {
            attempts: 2,
            aftermath,
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(aftermath.done, aftermath.undone);
        assert!(
            aftermath.done.len() == 1 && aftermath.left.is_empty(),
            "{aftermath}"
        );
        assert_eq!(error.remedy(), Remedy::Retry);
        assert_eq!((mover.finished, mover.released), (2, 2));
        assert_eq!(mover.remembered.last(), Some(&None));
        place.expect_writes_flow().await;
    }
}

#[tokio::test]
async fn each_attempt_reads_the_sources_position_anew_also_where_no_server_locks() {
    let (_schema, target) = target().await;
    for lock in [SourceLock::Hook, SourceLock::None] {
        let place = Place::new().await;
        let listener = Listener::start("", &[], None).await;
        let hooks = Hooks {
            lock_source: Some(listener.hook("/lock")),
            unlock_source: Some(listener.hook("/unlock")),
            ..Hooks::default()
        };
        let late = Do::BesideOnce("INSERT INTO t VALUES (77, 77)");
        let mut mover = Mover::new(&place, late);
        let plan = place.switch_plan(lock).with_hooks(hooks);
        let plan = plan.with_attempts_max(2.try_into().unwrap());
        switch(&place.opts(), &target, &plan, &mut mover)
            .await
            .unwrap();
        let [first, second] = mover.through.as_slice() else {
            panic!("{:?}", mover.through);
        };
        assert!(first < second, "{lock:?}: {first} {second}");
    }
}

#[tokio::test]
async fn a_lock_that_somebody_takes_away_ends_the_attempt() {
    let place = Place::alone().await;
    let (_schema, target) = target().await;
    for (lock, statement) in [
        (SourceLock::ReadOnly, "SET GLOBAL super_read_only = OFF"),
        (SourceLock::Rename, "RENAME TABLE _t_oxold TO t"),
    ] {
        let mut mover = Mover::new(&place, Do::Beside(statement));
        if lock == SourceLock::Rename {
            // Under its new name the table is not there any more.
            mover.way = Do::Hang(None);
        }
        let plan = place.switch_plan(lock);
        let (opts, mut beside) = (place.opts(), place.conn().await);
        let switching = switch(&opts, &target, &plan, &mut mover);
        let meddling = async {
            if lock == SourceLock::Rename {
                let renamed = async || beside.query_drop(statement).await.ok();
                oxferry_testkit::wait::eventually(crate::mover::LONG, "the rename", renamed)
                    .await
                    .unwrap();
            }
        };
        let (ended, ()) = tokio::join!(switching, meddling);
        let SwitchError::GivenUp { cause, .. } = ended.unwrap_err() else {
            panic!("another error");
        };
        assert!(matches!(*cause, SwitchError::LockLost { .. }), "{cause}");
        place.expect_writes_flow().await;
        place.run("SET GLOBAL read_only = OFF").await;
    }
}

#[tokio::test]
async fn a_prepared_xa_transaction_keeps_the_source_from_being_locked() {
    let place = Place::alone().await;
    let (_schema, target) = target().await;
    let mut other = place.conn().await;
    for statement in [
        "XA START 'x'",
        "INSERT INTO t VALUES (1, 1)",
        "XA END 'x'",
        "XA PREPARE 'x'",
    ] {
        other.query_drop(statement).await.unwrap();
    }
    let mut mover = Mover::new(&place, Do::Count);
    let plan = place.switch_plan(SourceLock::ReadOnly);
    let error = switch(&place.opts(), &target, &plan, &mut mover)
        .await
        .unwrap_err();
    let SwitchError::GivenUp { cause, .. } = error else {
        panic!("{error}");
    };
    assert!(matches!(*cause, SwitchError::PreparedXa { .. }), "{cause}");
    assert_eq!(settings(&place).await, (false, false));
    other.query_drop("XA ROLLBACK 'x'").await.unwrap();
}

#[tokio::test]
async fn what_a_killed_run_left_is_undone_and_doing_so_twice_is_harmless() {
    let place = Place::alone().await;
    let left = [
        ("renamed", SourceLock::Rename, "RENAME TABLE t TO _t_oxold"),
        (
            "read-only=0,0",
            SourceLock::ReadOnly,
            "SET GLOBAL super_read_only = ON",
        ),
    ];
    for (text, lock, statement) in left {
        place.run(statement).await;
        let leftover: Leftover = text.parse().unwrap();
        for _ in 0..2 {
            undo_leftover(&place.opts(), &place.switch_plan(lock), &leftover)
                .await
                .unwrap();
            place.expect_writes_flow().await;
        }
    }
    let announced: Leftover = "renamed announced".parse().unwrap();
    let plan = place.switch_plan(SourceLock::Rename);
    let error = undo_leftover(&place.opts(), &plan, &announced)
        .await
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::Ambiguous);
}

#[tokio::test]
async fn who_holds_the_lock_up_is_named_and_old_transactions_are_waited_for_first() {
    let place = Place::alone().await;
    let (_schema, target) = target().await;
    let mut holder = place.conn().await;
    holder.query_drop("BEGIN").await.unwrap();
    holder
        .query_drop("INSERT INTO t VALUES (1, 1)")
        .await
        .unwrap();
    for lock in [SourceLock::LockTables, SourceLock::Rename] {
        let mut mover = Mover::new(&place, Do::Count);
        let mut plan = place.switch_plan(lock);
        let error = switch(&place.opts(), &target, &plan, &mut mover)
            .await
            .unwrap_err();
        let chain = format!("{error:?}");
        assert!(chain.contains("LockTimeout"), "{chain}");
        assert!(chain.contains(&format!("id: {}", holder.id())), "{chain}");
        plan.transaction_age_max = std::time::Duration::ZERO;
        let old = async || {
            let error = switch(&place.opts(), &target, &plan, &mut mover)
                .await
                .unwrap_err();
            format!("{error:?}")
                .contains("OldTransactions")
                .then_some(())
        };
        oxferry_testkit::wait::eventually(crate::mover::LONG, "a second to pass", old)
            .await
            .unwrap();
    }
    holder.query_drop("LOCK TABLES t WRITE").await.unwrap();
    let plan = place.switch_plan(SourceLock::ReadOnly);
    let mut mover = Mover::new(&place, Do::Count);
    let error = switch(&place.opts(), &target, &plan, &mut mover)
        .await
        .unwrap_err();
    assert!(
        format!("{error:?}").contains(&format!("id: {}", holder.id())),
        "{error:?}"
    );
    holder.query_drop("UNLOCK TABLES").await.unwrap();
    place.expect_writes_flow().await;
}

#[tokio::test]
async fn a_read_only_target_is_refused() {
    let place = Place::alone().await;
    place.run("SET GLOBAL read_only = ON").await;
    let source = Place::new().await;
    let mut mover = Mover::new(&source, Do::Count);
    let plan = source.switch_plan(SourceLock::LockTables);
    let error = switch(&source.opts(), &place.opts(), &plan, &mut mover)
        .await
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::Privileges);
    assert_eq!(mover.released, 1);
}

pub(crate) const LOCKS: [SourceLock; 3] = [
    SourceLock::ReadOnly,
    SourceLock::LockTables,
    SourceLock::Rename,
];

async fn settings(place: &Place) -> (bool, bool) {
    let query = "SELECT @@GLOBAL.read_only, @@GLOBAL.super_read_only";
    place
        .conn()
        .await
        .query_first(query)
        .await
        .unwrap()
        .unwrap()
}

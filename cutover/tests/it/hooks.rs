//! Hooks that fail, hang, and are called again; switches that are broken off.

use std::{sync::Arc, time::Duration};

use mysql_async::Opts;
use oxferry_cutover::{Hook, HookName, Hooks, SourceLock, SwitchError, switch};
use oxferry_schema::Remedy;
use oxferry_testkit::{
    server::{Schema, Server, ServerOptions},
    wait::eventually,
};
use tokio::sync::{Notify, oneshot};

use crate::{
    listener::{Answer, Listener},
    mover::{Do, LONG, Mover},
    switches::LOCKS,
    toy::Place,
};

fn all(listener: &Listener) -> Hooks {
    Hooks {
        lock_source: Some(listener.hook("/lock")),
        switched: Some(listener.hook("/switched")),
        unlock_source: Some(listener.hook("/unlock")),
    }
}

/// Switches with every hook, and one path's answers; returns the outcome, the paths
/// called, and how often the workers were released.
async fn with_answers(
    path: &str,
    script: &[Answer],
    lock: SourceLock,
) -> (
    Result<oxferry_cutover::SwitchReport, SwitchError>,
    Vec<String>,
    u32,
) {
    let place = Place::new().await;
    let listener = Listener::start(path, script, None).await;
    let plan = place.switch_plan(lock).with_hooks(all(&listener));
    let mut mover = Mover::new(&place, Do::Count);
    let ended = switch(&place.opts(), &place.opts(), &plan, &mut mover).await;
    if lock == SourceLock::LockTables {
        place.expect_writes_flow().await;
    }
    (ended, listener.paths(), mover.released)
}

#[tokio::test]
async fn hooks_alone_lock_announce_and_unlock_in_order() {
    let (ended, paths, released) = with_answers("", &[], SourceLock::Hook).await;
    assert!(ended.unwrap().afterwards.is_empty());
    assert_eq!(paths, ["/lock", "/switched", "/unlock"]);
    assert_eq!(released, 0);
}

#[tokio::test]
async fn a_hook_that_fails_once_is_called_again() {
    let (ended, paths, _) = with_answers("/lock", &[Answer::Status(503)], SourceLock::Hook).await;
    ended.unwrap();
    assert_eq!(paths, ["/lock", "/lock", "/switched", "/unlock"]);
}

#[tokio::test]
async fn a_lock_hook_that_fails_as_often_as_it_may_is_unlocked_and_ends_the_switch() {
    let script = [Answer::Status(503), Answer::Status(503)];
    let (ended, paths, released) = with_answers("/lock", &script, SourceLock::LockTables).await;
    let error = ended.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Retry);
    assert_eq!(paths, ["/lock", "/lock", "/unlock"]);
    assert_eq!(released, 1);
    assert!(
        error.to_string().contains("calling hook lock-source"),
        "{error}"
    );
}

#[tokio::test]
async fn a_lock_hook_that_hangs_may_have_locked_and_is_unlocked() {
    let script = [Answer::Silence, Answer::Silence];
    let (ended, paths, _) = with_answers("/lock", &script, SourceLock::Hook).await;
    assert_eq!(ended.unwrap_err().remedy(), Remedy::Retry);
    assert_eq!(paths, ["/lock", "/lock", "/unlock"]);
}

#[tokio::test]
async fn a_refused_announcement_unlocks_the_source() {
    let script = [Answer::Status(409), Answer::Status(409)];
    let (ended, paths, released) = with_answers("/switched", &script, SourceLock::LockTables).await;
    let error = ended.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Retry);
    assert_eq!(paths.last().unwrap(), "/unlock");
    assert_eq!(released, 1);
}

#[tokio::test]
async fn an_announcement_whose_answer_is_lost_is_ambiguous_and_unlocks_nothing() {
    let script = [Answer::Close, Answer::Status(409)];
    let (ended, paths, released) = with_answers("/switched", &script, SourceLock::Hook).await;
    let error = ended.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Ambiguous);
    assert!(
        error
            .to_string()
            .contains("NOT undone: hook lock-source called"),
        "{error}"
    );
    assert_eq!(paths, ["/lock", "/switched", "/switched"]);
    assert_eq!(released, 0);
}

#[tokio::test]
async fn an_unlock_hook_that_fails_is_told_beside_the_cause() {
    let place = Place::new().await;
    let script = [Answer::Status(500), Answer::Status(500)];
    let listener = Listener::start("/unlock", &script, None).await;
    let plan = place
        .switch_plan(SourceLock::Hook)
        .with_hooks(all(&listener));
    let mut mover = Mover::new(&place, Do::Fail(Remedy::Data));
    let error = switch(&place.opts(), &place.opts(), &plan, &mut mover)
        .await
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::Data);
    let text = error.to_string();
    assert!(
        text.contains("NOT undone: hook lock-source called") && text.contains("HTTP 500"),
        "{text}"
    );
    assert!(mover.remembered.iter().all(Option::is_some));
}

#[tokio::test]
async fn an_unlock_hook_that_fails_after_the_switch_does_not_take_it_back() {
    let script = [Answer::Status(500), Answer::Status(500)];
    let (ended, _, released) = with_answers("/unlock", &script, SourceLock::Hook).await;
    let report = ended.unwrap();
    assert_eq!((report.afterwards.len(), released), (1, 0));
}

#[tokio::test]
async fn an_address_gets_the_payload_and_the_login_and_tells_neither() {
    let script = [Answer::Status(418), Answer::Status(418)];
    let listener = Listener::start("/lock", &script, None).await;
    let hook = listener.hook("/lock").with_header("X-Job: shop").unwrap();
    let error = hook.run(HookName::LockSource).await.unwrap_err();
    let told = format!("{error} {error:?}");
    assert!(
        told.contains("418") && !told.contains("secret") && !told.contains("PAYLOAD"),
        "{told}"
    );
    let heard = listener.heard()[0].to_ascii_lowercase();
    for part in [
        "post /lock",
        "authorization: basic",
        "x-job: shop",
        "x-oxferry-hook: lock-source",
    ] {
        assert!(heard.contains(part), "{heard}");
    }
}

#[tokio::test]
async fn a_command_gets_the_payload_and_its_words_are_in_the_error() {
    let text = "sh -c 'test \"$(cat)\" = go && test $OXFERRY_HOOK = switched && echo enough >&2 && exit 3'";
    let one = |hook: Hook, seconds| {
        hook.with_limits(
            1.try_into().unwrap(),
            Duration::from_secs(seconds),
            Duration::ZERO,
        )
    };
    let hook = one(Hook::parse(text).unwrap().with_payload("go"), 30);
    let error = hook.run(HookName::Switched).await.unwrap_err();
    let why = error.source.to_string();
    assert!(
        why.contains("exit code 3") && why.contains("enough") && !error.may_be_done,
        "{why}"
    );
    let missing = one(Hook::parse("/no/such/command").unwrap(), 30);
    let error = missing.run(HookName::Switched).await.unwrap_err();
    assert!(!error.may_be_done && error.remedy() == Remedy::Privileges);
    let done = one(
        Hook::parse("true")
            .unwrap()
            .with_payload("x".repeat(1 << 20)),
        30,
    );
    done.run(HookName::Switched).await.unwrap();
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_with_all_that_it_started() {
    let folder = std::env::temp_dir().join(format!("oxferry-hook-{}", std::process::id()));
    let path = folder.display();
    let text = format!("sh -c 'sleep 1000 & echo $! > {path}; wait'");
    let hook = Hook::parse(&text).unwrap();
    let hook = hook.with_limits(
        1.try_into().unwrap(),
        Duration::from_secs(1),
        Duration::ZERO,
    );
    let error = hook.run(HookName::Switched).await.unwrap_err();
    assert!(error.may_be_done);
    let child = std::fs::read_to_string(&folder).unwrap();
    std::fs::remove_file(&folder).unwrap();
    let gone = async || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        state
            .map_or(true, |state| state.contains(") Z "))
            .then_some(())
    };
    eventually(LONG, "the grandchild to end", gone)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_that_is_dropped_under_each_lock_leaves_the_source_open() {
    let place = Place::alone().await;
    let target = Place::new().await;
    for lock in LOCKS {
        let listener = Listener::start("", &[], None).await;
        let plan = place.switch_plan(lock).with_hooks(all(&listener));
        let (reached, under_lock) = oneshot::channel();
        let mut mover = Mover::new(&place, Do::Hang(Some(reached)));
        let (source, target) = (place.opts(), target.opts());
        let mut switching = Box::pin(switch(&source, &target, &plan, &mut mover));
        tokio::select! {
            ended = &mut switching => panic!("{ended:?}"),
            told = under_lock => told.unwrap(),
        }
        place.write().await.unwrap_err();
        drop(switching);
        place.expect_writes_flow().await;
        assert_eq!(listener.paths(), ["/lock", "/unlock"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_that_is_dropped_while_it_waits_for_the_lock_never_gets_it() {
    use mysql_async::prelude::Queryable;
    let place = Place::alone().await;
    let target = Place::new().await;
    for lock in LOCKS {
        let mut holder = place.conn().await;
        holder.query_drop("LOCK TABLES t WRITE").await.unwrap();
        let plan = place.switch_plan(lock).with_lock_wait(LONG);
        let mut mover = Mover::new(&place, Do::Count);
        let (source, target) = (place.opts(), target.opts());
        let mut switching = Box::pin(switch(&source, &target, &plan, &mut mover));
        let mut beside = Place::conn(&place).await;
        let waits = async || {
            let query = "SELECT 1 FROM performance_schema.metadata_locks \
                         WHERE LOCK_STATUS = 'PENDING' LIMIT 1";
            beside.query_first::<u8, _>(query).await.unwrap()
        };
        tokio::select! {
            ended = &mut switching => panic!("{ended:?}"),
            seen = eventually(LONG, "the lock to be waited for", waits) => seen.map(drop).unwrap(),
        }
        drop(switching);
        holder.query_drop("UNLOCK TABLES").await.unwrap();
        place.expect_writes_flow().await;
        assert_eq!(place.tables().await, ["_t_oxnew", "t"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_switch_undoes_what_it_did_and_says_so() {
    let place = Place::new().await;
    let (reached, under_lock) = oneshot::channel();
    let mut mover = Mover::new(&place, Do::Hang(Some(reached)));
    let interrupt = Arc::new(Notify::new());
    mover.interrupt = Some(Arc::clone(&interrupt));
    let plan = place.switch_plan(SourceLock::Rename);
    let (opts, target) = (place.opts(), place.opts());
    let switching = switch(&opts, &target, &plan, &mut mover);
    let (ended, ()) = tokio::join!(switching, async {
        under_lock.await.unwrap();
        interrupt.notify_one();
    });
    let error = ended.unwrap_err();
    assert_eq!(error.remedy(), Remedy::Interrupted);
    assert!(
        error.to_string().contains("undone: source tables renamed"),
        "{error}"
    );
    assert_eq!(place.tables().await, ["_t_oxnew", "t"]);
    assert_eq!(mover.released, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_dies_under_its_lock_ends_the_attempt_and_the_next_one_works() {
    for lock in LOCKS {
        let mut server = Server::start(ServerOptions::default()).await.unwrap();
        let opts = Opts::from_url(&server.url_for("root", "", "app")).unwrap();
        server
            .execute(&[
                "CREATE DATABASE app",
                "CREATE TABLE app.t (id INT PRIMARY KEY)",
            ])
            .await
            .unwrap();
        let schema: Schema = Server::fresh_schema().await.unwrap();
        let target = Opts::from_url(&schema.url()).unwrap();
        let name = |text| oxferry_schema::Ident::new(text).unwrap();
        let table = oxferry_schema::TableName::new(name("app"), name("t"));
        let (reached, under_lock) = oneshot::channel();
        let mut mover = Mover::of(opts.clone(), table.clone(), Do::Hang(Some(reached)));
        let plan =
            oxferry_cutover::SwitchPlan::new(table, lock).with_attempts_max(1.try_into().unwrap());
        let switching = switch(&opts, &target, &plan, &mut mover);
        let (ended, ()) = tokio::join!(switching, async {
            under_lock.await.unwrap();
            server.kill();
            server.start_again().await.unwrap();
        });
        let error = ended.unwrap_err();
        let SwitchError::GivenUp { aftermath, .. } = &error else {
            panic!("{error}");
        };
        assert!(aftermath.left.is_empty(), "{error}");
        assert_ne!(error.remedy(), Remedy::Ambiguous);
        server
            .execute(&["INSERT INTO app.t VALUES (1)"])
            .await
            .unwrap();
        mover.way = Do::Count;
        switch(&opts, &target, &plan, &mut mover).await.unwrap();
        assert_eq!(mover.rows, 1);
    }
}

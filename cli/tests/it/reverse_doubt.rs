//! Moves that die while they send the applications back.

use oxferry_testkit::tool::{Oxferry, Signal};

use crate::{
    held::Called,
    way::Way,
    world::{LIMIT, check_code},
};

/// A way back that is killed while hook `switched` calls the applications back
/// to the source, and the move with that hook.
async fn killed_on_its_way() -> (Way, Called) {
    let way = Way::new(500).await;
    let switched = Called::new().await;
    let moves = with(&switched, way.moves());
    let mut running = moves.spawn().unwrap();
    switched.next().await.answer().await;
    running
        .wait_line("both sides were compared", LIMIT)
        .await
        .unwrap();
    let there = way.writers_there(67).await.stop().await;
    assert_eq!(there.errors, 0, "{:?}", there.last_error);
    way.there("CREATE TABLE _t_oxreverse (a INT)").await;
    let call = switched.next().await;
    running.signal(Signal::SIGKILL).unwrap();
    assert_eq!(running.wait_exit(LIMIT).await.unwrap().code, None);
    drop(call);
    let unsaid = with(&switched, way.moves()).run(LIMIT).await.unwrap();
    check_code(&unsaid, 76);
    assert!(unsaid.text().contains("--announced"), "{}", unsaid.text());
    (way, switched)
}

fn with(switched: &Called, moves: Oxferry) -> Oxferry {
    moves.arg("--hook-switched").arg(switched.address())
}

#[tokio::test(flavor = "multi_thread")]
async fn applications_that_were_sent_back_stay_on_the_source() {
    let (way, switched) = killed_on_its_way().await;
    let here = way.writers_here(71).await;
    let said = with(&switched, way.moves())
        .arg("--announced")
        .arg("source");
    check_code(&said.run(LIMIT).await.unwrap(), 0);
    let report = here.stop().await;
    assert_eq!(report.errors, 0, "{:?}", report.last_error);
    let (here, there) = way.far.tables().await;
    assert_eq!(
        (here, there),
        (vec!["t".to_owned()], vec!["_t_oxold".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn applications_that_were_not_sent_back_go_on_on_the_target() {
    let (way, switched) = killed_on_its_way().await;
    way.there("DROP TABLE _t_oxreverse").await;
    let said = with(&switched, way.moves())
        .arg("--announced")
        .arg("target");
    let mut running = said.spawn().unwrap();
    running
        .wait_line("both sides were compared", LIMIT)
        .await
        .unwrap();
    let there = way.writers_there(73).await;
    let back = async {
        let (code, text) = way.ctl(&["cutover", "--reverse"]).await;
        assert_eq!(code, Some(0), "{text}");
        switched.next().await.answer().await;
    };
    back.await;
    check_code(&running.wait_exit(LIMIT).await.unwrap(), 0);
    way.check_back(there, "_t_oxold").await;
}

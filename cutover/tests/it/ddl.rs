//! Statements that the server carries out at once.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_cutover::{CutoverError, DdlPlan, DdlReport, DdlSeen, run_ddl};
use oxferry_schema::Remedy;

use crate::{
    proxy::{Cut, Proxy},
    toy::Place,
};

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

/// Which tables are there tells what became of the rename that is sent.
async fn seen(conn: &mut Conn) -> Result<DdlSeen, mysql_async::Error> {
    let tables: Vec<String> = conn.query("SHOW TABLES").await?;
    Ok(match tables.join(" ").as_str() {
        "_t_oxnew t" => DdlSeen::NotDone,
        "_t_oxnew _t_oxold" => DdlSeen::Done,
        _ => DdlSeen::Neither,
    })
}

fn plan(place: &Place, statement: String) -> DdlPlan {
    DdlPlan::new(place.pair.source.clone(), statement, SECOND, None)
}

async fn rename_through(place: &Place, cut: Cut) -> Result<DdlReport, CutoverError> {
    let proxy = Proxy::start(place.opts(), Some(cut)).await;
    let (source, old) = (&place.pair.source, &place.pair.old);
    let plan = plan(place, format!("RENAME TABLE {source} TO {old}"));
    run_ddl(&proxy.opts(), &plan, seen).await
}

#[tokio::test]
async fn a_statement_whose_answer_is_lost_is_found_done() {
    let place = Place::new().await;
    let report = rename_through(&place, Cut::After).await.unwrap();
    assert!(report.looked_up);
    assert_eq!(place.tables().await, ["_t_oxnew", "_t_oxold"]);
}

#[tokio::test]
async fn a_statement_that_never_arrived_is_found_not_done_and_may_be_sent_again() {
    let place = Place::new().await;
    let error = rename_through(&place, Cut::Before).await.unwrap_err();
    assert!(error.is_passing(), "{error:?}");
    assert_eq!(error.refusal(), None);
    assert_eq!(place.tables().await, ["_t_oxnew", "t"]);
}

#[tokio::test]
async fn a_table_that_is_neither_is_ambiguous() {
    let place = Place::new().await;
    let meddle = Cut::Meddle(format!("DROP TABLE {}", place.pair.source));
    let error = rename_through(&place, meddle).await.unwrap_err();
    assert!(
        matches!(error, CutoverError::DdlAmbiguous { .. }),
        "{error:?}"
    );
    assert_eq!(error.remedy(), Remedy::Ambiguous);
    assert!(!error.is_passing());
}

#[tokio::test]
async fn a_refusal_is_told_in_the_servers_words() {
    let place = Place::new().await;
    let statement = format!("ALTER TABLE {} ALGORITHM=INSTANT, FORCE", place.pair.source);
    let plan = plan(&place, statement);
    let error = run_ddl(&place.opts(), &plan, seen).await.unwrap_err();
    let refusal = error.refusal().unwrap();
    assert!(refusal.contains("ALGORITHM=INSTANT"), "{refusal}");
}

#[tokio::test]
async fn a_lock_that_is_not_granted_ends_in_time_and_names_its_holder() {
    let place = Place::new().await;
    let mut holder = place.conn().await;
    holder.query_drop("BEGIN").await.unwrap();
    let read = format!("SELECT * FROM {}", place.pair.source);
    holder.query_drop(read).await.unwrap();
    let statement = format!("ALTER TABLE {} ADD x INT", place.pair.source);
    let plan = plan(&place, statement);
    let error = run_ddl(&place.opts(), &plan, seen).await.unwrap_err();
    let CutoverError::LockTimeout { blockers, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(blockers.iter().any(|b| b.id == u64::from(holder.id())));
    assert!(error.is_passing());
    place.expect_writes_flow().await;
}

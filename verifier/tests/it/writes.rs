//! Comparisons while rows change.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use mysql_async::prelude::Queryable;
use oxferry_binlog::FilePosition;
use oxferry_schema::{Key, KeyRange, KeySide, Predicate, Remedy};
use oxferry_verifier::{
    Clean, CompareError, Feed, FeedError, FixedRanges, KeyOrder, PassLimits, Repair, RepairRows,
    Touched, TouchedLimits, Verify, VerifyConfig,
};
use tokio::sync::{mpsc, watch};

use crate::place::{Place, key};

/// A job with one writer, whose changes are the stream.
///
/// `begun` counts writes that may be visible, `dispatched` those that were
/// given to `touched`, `applied` those that are on the target.
pub(crate) struct Job {
    place: Arc<Place>,
    begun: watch::Sender<u64>,
    dispatched: watch::Sender<u64>,
    applied: watch::Sender<u64>,
    pub(crate) repairs: Mutex<Vec<Repair>>,
    sides: Option<(KeySide, KeySide)>,
}

impl Job {
    pub(crate) fn new(place: Arc<Place>) -> Arc<Self> {
        Arc::new(Self {
            place,
            begun: watch::Sender::new(0),
            dispatched: watch::Sender::new(0),
            applied: watch::Sender::new(0),
            repairs: Mutex::default(),
            sides: None,
        })
    }

    /// A job that repairs whatever keys its tables have.
    pub(crate) async fn with_keys(place: Arc<Place>) -> Arc<Self> {
        let sides = place.key_sides().await;
        let mut job = Self::new(place);
        Arc::get_mut(&mut job).unwrap().sides = Some(sides);
        job
    }

    /// Removes the rows from the target and copies what the source has.
    async fn copy_again(&self, rows: &RepairRows, (source, target): &(KeySide, KeySide)) {
        let predicate = |side| match rows {
            RepairRows::Range(range) => Predicate::range(range, side),
            RepairRows::Keys(keys) => Predicate::keys(keys, side),
        };
        let mut conn = self.place.conn().await;
        conn.query_drop("BEGIN").await.unwrap();
        for (sql, predicate) in [
            ("DELETE FROM t WHERE ", predicate(target)),
            ("REPLACE INTO t SELECT * FROM s WHERE ", predicate(source)),
        ] {
            let sql = format!("{sql}{}", predicate.sql());
            conn.exec_drop(sql, predicate.into_params()).await.unwrap();
        }
        conn.query_drop("COMMIT").await.unwrap();
    }

    /// Writes rows of 0..1000 until told to end.
    async fn write(&self, log: mpsc::Sender<i64>, is_over: &AtomicBool) {
        let mut conn = self.place.conn().await;
        let mut n: u64 = 0;
        while !is_over.load(SeqCst) {
            n += 1;
            let id = i64::try_from(n * 7919 % 1000).unwrap();
            self.begun.send_modify(|count| *count += 1);
            let done = if n.is_multiple_of(5) {
                conn.exec_drop("DELETE FROM s WHERE id=?", (id,)).await
            } else {
                conn.exec_drop("REPLACE INTO s VALUES (?, ?)", (id, n))
                    .await
            };
            done.unwrap();
            log.send(id).await.unwrap();
        }
    }

    /// Dispatches and applies what was written.
    async fn follow(&self, mut log: mpsc::Receiver<i64>, touched: &Mutex<Touched>) {
        let mut conn = self.place.conn().await;
        while let Some(id) = log.recv().await {
            touched.lock().unwrap().handle_change(0, &key(&[id]));
            self.dispatched.send_modify(|count| *count += 1);
            // One writer: what the source holds now is this image or a later one.
            conn.exec_drop("DELETE FROM t WHERE id=?", (id,))
                .await
                .unwrap();
            let copy = "INSERT INTO t SELECT * FROM s WHERE id=?";
            conn.exec_drop(copy, (id,)).await.unwrap();
            self.applied.send_modify(|count| *count += 1);
        }
    }
}

async fn until(counter: &watch::Sender<u64>, count: u64) {
    let mut seen = counter.subscribe();
    seen.wait_for(|reached| *reached >= count).await.unwrap();
}

impl Feed for Job {
    async fn settle(&self) -> Result<(), FeedError> {
        let dispatched = *self.dispatched.borrow();
        until(&self.applied, dispatched).await;
        Ok(())
    }

    async fn source_position(&self) -> Result<FilePosition, FeedError> {
        let begun = *self.begun.borrow();
        FilePosition::new("binlog.000001", begun)
            .map_err(|e| FeedError::new("reading the position", Remedy::Bug, e))
    }

    async fn reach(&self, position: &FilePosition) -> Result<(), FeedError> {
        until(&self.dispatched, position.offset_bytes()).await;
        Ok(())
    }

    async fn repair(&self, repair: &Repair) -> Result<(), FeedError> {
        self.repairs.lock().unwrap().push(repair.clone());
        if let Some(sides) = &self.sides {
            self.copy_again(&repair.rows, sides).await;
            return Ok(());
        }
        let RepairRows::Range(range) = &repair.rows else {
            panic!("{repair:?}");
        };
        let key = range.lower.as_ref().unwrap();
        // The other table of these tests has a composite key, and is not mended.
        if let ([_], Some(id)) = (
            key.parts(),
            key.parts().first().map(oxferry_schema::KeyPart::to_value),
        ) {
            let mut conn = self.place.conn().await;
            let delete = "DELETE FROM t WHERE id=?";
            conn.exec_drop(delete, (id.clone(),)).await.unwrap();
            let copy = "INSERT INTO t SELECT * FROM s WHERE id=?";
            conn.exec_drop(copy, (id,)).await.unwrap();
        }
        Ok(())
    }

    async fn pause_point(&self) {}
}

pub(crate) fn ranges(borders: &[i64]) -> FixedRanges {
    let bounds: Vec<_> = std::iter::once(None)
        .chain(borders.iter().map(|n| Some(key(&[*n]))))
        .chain(std::iter::once(None))
        .collect();
    let range = |w: &[Option<Key>]| KeyRange {
        lower: w[0].clone(),
        upper: w[1].clone(),
    };
    FixedRanges::new(bounds.windows(2).map(|w| (0, range(w))).collect())
}

pub(crate) fn touched() -> Arc<Mutex<Touched>> {
    touched_in(KeyOrder::Shared)
}

pub(crate) fn touched_in(order: KeyOrder) -> Arc<Mutex<Touched>> {
    Arc::new(Mutex::new(Touched::new([order], TouchedLimits::default())))
}

/// The ranges in front of a key, and from it on.
pub(crate) fn split_at(border: Option<Key>) -> Vec<(usize, KeyRange)> {
    let (lower, upper) = (None, border.clone());
    let first = (0, KeyRange { lower, upper });
    let rest = border.map(|border| {
        let (lower, upper) = (Some(border), None);
        (0, KeyRange { lower, upper })
    });
    std::iter::once(first).chain(rest).collect()
}

pub(crate) fn config() -> VerifyConfig {
    VerifyConfig {
        limits: PassLimits {
            remaining_max: 20,
            ..PassLimits::default()
        },
        ..VerifyConfig::default()
    }
}

async fn thousand_rows() -> Arc<Place> {
    let place = Arc::new(Place::start().await);
    place
        .run("CREATE TABLE s (id INT PRIMARY KEY, v BIGINT)")
        .await;
    place
        .run(
            "INSERT INTO s WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n \
             WHERE i<999) SELECT i, i FROM n",
        )
        .await;
    place.run("CREATE TABLE t LIKE s").await;
    place.run("INSERT INTO t SELECT * FROM s").await;
    place
}

/// Trims until the rest is small enough, as a job does between lock attempts.
async fn finish(
    verify: &Verify<oxferry_verifier::TableSide, oxferry_verifier::TableSide, Arc<Job>>,
    mut clean: Clean,
    place: &Place,
) -> Result<oxferry_verifier::Verified, CompareError> {
    verify.trim(&mut clean, &mut ranges(&[])).await?;
    let mut conn = place.conn().await;
    conn.query_drop("LOCK TABLES s WRITE, t WRITE")
        .await
        .unwrap();
    let verified = verify.finish_under_lock(&clean, &mut conn).await;
    conn.query_drop("UNLOCK TABLES").await.unwrap();
    verified
}

#[tokio::test]
async fn a_busy_table_is_verified_without_a_false_difference() {
    let place = thousand_rows().await;
    // One row that nobody writes to differs, and is repaired.
    place.run("INSERT INTO s VALUES (5000, 1)").await;
    let (job, touched) = (Job::new(Arc::clone(&place)), touched());
    let is_over = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel(50);
    let sides = place.sides("s", "t", &["id"]).await;
    let verify = Verify::new(
        vec![sides],
        Arc::clone(&job),
        Arc::clone(&touched),
        config(),
    );
    let compare = async {
        let clean = verify.run(&mut ranges(&[250, 500, 750])).await;
        is_over.store(true, SeqCst);
        clean
    };
    let (clean, (), ()) = tokio::join!(
        compare,
        job.write(sender, &is_over),
        job.follow(receiver, &touched)
    );
    let clean = clean.unwrap();
    assert_eq!((clean.passes(), clean.repaired_count()), (2, 1));
    assert_eq!(verify.progress().mismatches(), 1);
    let repaired = job.repairs.lock().unwrap()[0].rows.clone();
    let range = KeyRange {
        lower: Some(key(&[5000])),
        upper: Some(key(&[5001])),
    };
    assert_eq!(repaired, RepairRows::Range(range));
    let verified = finish(&verify, clean, &place).await.unwrap();
    assert!(verified.rows_compared() >= 1000);
}

#[tokio::test]
async fn a_row_spoiled_behind_the_pass_is_found_under_the_lock() {
    let place = thousand_rows().await;
    let (job, touched) = (Job::new(Arc::clone(&place)), touched());
    let sides = place.sides("s", "t", &["id"]).await;
    let verify = Verify::new(vec![sides], job, Arc::clone(&touched), config());
    let mut clean = verify.run(&mut ranges(&[250])).await.unwrap();
    // The change is streamed, and a trigger on the target spoils it.
    touched.lock().unwrap().handle_change(0, &key(&[7]));
    place.run("UPDATE t SET v=-1 WHERE id=7").await;
    let mut conn = place.conn().await;
    conn.query_drop("LOCK TABLES s WRITE, t WRITE")
        .await
        .unwrap();
    let error = verify
        .finish_under_lock(&clean, &mut conn)
        .await
        .unwrap_err();
    conn.query_drop("UNLOCK TABLES").await.unwrap();
    let CompareError::Diverged { found } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(found.listed()[0].key, key(&[7]));
    assert_eq!(error.remedy(), Remedy::Data);
    // The same evidence is worth nothing now; a new pass repairs the row.
    let again = verify.finish_under_lock(&clean, &mut conn).await;
    assert!(matches!(again, Err(CompareError::Outdated)), "{again:?}");
    verify.trim(&mut clean, &mut ranges(&[250])).await.unwrap();
    let verified = verify.finish_under_lock(&clean, &mut conn).await.unwrap();
    assert_eq!(verified.repaired_count(), 1);
}

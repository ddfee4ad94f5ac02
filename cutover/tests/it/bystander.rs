//! Applications beside the swap: writers, and readers that hold a lock.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use mysql_async::{Conn, prelude::Queryable};
use tokio::{sync::watch, task::JoinHandle};

use crate::toy::Place;

/// A writer that inserts row after row, each in its own transaction.
pub(crate) struct Writer {
    task: JoinHandle<u64>,
    committed: watch::Receiver<u64>,
    stop: Arc<AtomicBool>,
}

impl Writer {
    pub(crate) async fn start(place: &Place, number: u32) -> Self {
        let mut conn = place.conn().await;
        let insert = format!("INSERT INTO {} VALUES (?, ?)", place.pair.source);
        let (told, committed) = watch::channel(0);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut count = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                conn.exec_drop(&insert, (number, count)).await.unwrap();
                count += 1;
                told.send_replace(count);
            }
            count
        });
        Self {
            task,
            committed,
            stop,
        }
    }

    /// Waits until so many more rows are committed.
    pub(crate) async fn commits(&mut self, more: u64) {
        let goal = *self.committed.borrow() + more;
        self.committed
            .wait_for(|count| *count >= goal)
            .await
            .unwrap();
    }

    /// Stops; returns how many rows were committed.
    pub(crate) async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

/// Opens a transaction that has read the table, and changed `rows` rows of
/// another one.
pub(crate) async fn holder(place: &Place, rows: usize) -> Conn {
    let mut conn = place.conn().await;
    conn.query_drop("CREATE TABLE IF NOT EXISTS other (id INT AUTO_INCREMENT PRIMARY KEY)")
        .await
        .unwrap();
    conn.query_drop("BEGIN").await.unwrap();
    let read = format!("SELECT COUNT(*) FROM {}", place.pair.source);
    conn.query_drop(read).await.unwrap();
    for _ in 0..rows {
        conn.query_drop("INSERT INTO other VALUES ()")
            .await
            .unwrap();
    }
    conn
}

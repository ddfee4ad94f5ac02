//! The rest of a comparison, on the connection that holds the lock.

use mysql_async::Conn;

use crate::{Clean, CompareError, Feed, TableSide, Verified, Verify};

impl<F: Feed> Verify<TableSide, TableSide, F> {
    /// Compares the rest on `conn`, which holds write locks on the source and
    /// on the target of every table, on one server.
    ///
    /// # Errors
    ///
    /// As [`Verify::finish`].
    pub async fn finish_under_lock(
        &self,
        clean: &Clean,
        conn: &mut Conn,
    ) -> Result<Verified, CompareError> {
        let conn = tokio::sync::Mutex::new(conn);
        let locked: Vec<_> = self
            .sides
            .iter()
            .map(|(s, t)| (s.locked(&conn), t.locked(&conn)))
            .collect();
        self.finish(clean, &locked).await
    }
}

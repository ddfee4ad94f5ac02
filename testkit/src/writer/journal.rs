//! What every touched key must look like.

use std::collections::HashMap;

use mysql_async::{Conn, Row, Value, prelude::Queryable};

use crate::tables::{TableSpec, quote};

/// How many keys one statement speaks of.
const BATCH: usize = 1000;

/// The last committed image of every key that a writer touched.
#[derive(Debug, Default, Clone)]
pub struct Journal {
    /// All columns but the key; nothing where the row doesn't exist.
    images: HashMap<u64, Option<Vec<Value>>>,
}

/// Why a table doesn't agree with the journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// A row isn't what its writer committed last.
    #[error("row {key} of {table} is {found:?}, its writer committed {committed:?} last")]
    Differs {
        /// The quoted table.
        table: String,
        /// The row's key.
        key: u64,
        /// What is in the table.
        found: Option<Vec<Value>>,
        /// What must be there.
        committed: Option<Vec<Value>>,
    },
    /// The server refused.
    #[error("reading the written rows failed: {0}")]
    Sql(#[from] mysql_async::Error),
}

impl Journal {
    /// How many keys were touched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether nothing was ever touched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.images.extend(other.images);
    }

    /// Takes note of what `keys` look like from now on.
    pub(super) fn record(&mut self, keys: &[u64], mut images: HashMap<u64, Vec<Value>>) {
        for key in keys {
            self.images.insert(*key, images.remove(key));
        }
    }

    /// Checks every touched key in `table`, whose name may be another one than the written table's.
    ///
    /// # Errors
    ///
    /// [`JournalError::Differs`] with the first row that isn't as committed.
    pub async fn check(&self, conn: &mut Conn, table: &TableSpec) -> Result<(), JournalError> {
        for keys in self.sorted_keys().chunks(BATCH) {
            let mut found = read_images(conn, table, keys).await?;
            for key in keys {
                let (found, committed) = (found.remove(key), self.images.get(key));
                if Some(&found) != committed {
                    let committed = committed.cloned().flatten();
                    let table = table.quoted();
                    return Err(JournalError::Differs {
                        table,
                        key: *key,
                        found,
                        committed,
                    });
                }
            }
        }
        Ok(())
    }

    /// Writes all touched keys into a temporary table of this connection.
    ///
    /// # Errors
    ///
    /// What the server said.
    pub async fn store_keys(
        &self,
        conn: &mut Conn,
        name: &str,
        key: &str,
    ) -> Result<(), mysql_async::Error> {
        let (name, key) = (quote(name), quote(key));
        let create = format!("CREATE TEMPORARY TABLE {name} ({key} BIGINT PRIMARY KEY)");
        conn.query_drop(create).await?;
        for keys in self.sorted_keys().chunks(BATCH) {
            let rows: Vec<String> = keys.iter().map(|key| format!("({key})")).collect();
            conn.query_drop(format!("INSERT INTO {name} VALUES {}", rows.join(",")))
                .await?;
        }
        Ok(())
    }

    fn sorted_keys(&self) -> Vec<u64> {
        let mut keys: Vec<u64> = self.images.keys().copied().collect();
        keys.sort_unstable();
        keys
    }
}

/// Reads the rows of `keys` that there are, all columns but the key.
pub(super) async fn read_images(
    conn: &mut Conn,
    table: &TableSpec,
    keys: &[u64],
) -> Result<HashMap<u64, Vec<Value>>, mysql_async::Error> {
    let listed: Vec<String> = keys.iter().map(u64::to_string).collect();
    let names: Vec<String> = table.column_names().into_iter().map(quote).collect();
    let sql = format!(
        "SELECT {names} FROM {table} WHERE {key} IN ({keys})",
        names = names.join(", "),
        table = table.quoted(),
        key = quote(table.key),
        keys = listed.join(","),
    );
    let mut images = HashMap::new();
    for row in conn.query::<Row, _>(sql).await? {
        let mut values = row.unwrap().into_iter();
        if let Some(Ok(key)) = values.next().map(mysql_async::from_value_opt::<u64>) {
            images.insert(key, values.collect());
        }
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_an_image_is_recorded_as_gone() {
        let mut journal = Journal::default();
        let images = HashMap::from([(1, vec![Value::from("a")])]);
        journal.record(&[1, 2], images);
        assert_eq!(journal.images[&1], Some(vec![Value::from("a")]));
        assert_eq!(journal.images[&2], None);
        journal.record(&[1], HashMap::new());
        assert_eq!((journal.images[&1].clone(), journal.len()), (None, 2));
    }
}

//! Named server locks, by which a session is found again when its connection is
//! gone.

use mysql_async::{
    Conn, Error as DriverError, Row, Value, from_value_opt,
    prelude::{FromValue, Queryable},
};
use oxferry_schema::TableName;

/// Names an owner in its sessions' locks; the next version must find it too.
pub(super) fn owner_name(owner: &TableName) -> String {
    format!("oxferry.{:016x}", fnv1a(owner.plain().as_bytes()))
}

pub(super) fn lock_name(owner: &str, number: usize) -> String {
    format!("{owner}.{number}")
}

/// Takes a named lock, waiting a second at most. A session's end, for whatever
/// reason, frees its locks, and only after its transaction has ended.
/// Source: MySQL 9.7 manual, "Locking Functions"; MySQL source, `THD::cleanup`.
pub(super) async fn take_lock(conn: &mut Conn, name: &str) -> Result<bool, DriverError> {
    let taken: Option<Option<i64>> = conn.exec_first("SELECT GET_LOCK(?, 1)", (name,)).await?;
    Ok(taken.flatten() == Some(1))
}

/// Has the server work out an expression for each name, in one statement.
pub(super) async fn each<T: FromValue>(
    conn: &mut Conn,
    expression: &str,
    names: &[String],
) -> Result<Vec<T>, DriverError> {
    let list = vec![expression; names.len()].join(", ");
    let params: Vec<Value> = names.iter().map(Value::from).collect();
    let row: Option<Row> = conn.exec_first(format!("SELECT {list}"), params).await?;
    let row = row.map(Row::unwrap).unwrap_or_default();
    row.into_iter()
        .map(|value| from_value_opt(value).map_err(|error| DriverError::Other(Box::new(error))))
        .collect()
}

/// Tells the session that holds a named lock to end; returns whether there is
/// one.
pub(super) async fn end_holder(conn: &mut Conn, name: &str) -> Result<bool, DriverError> {
    let holder: Option<Option<u64>> = conn.exec_first("SELECT IS_USED_LOCK(?)", (name,)).await?;
    let Some(id) = holder.flatten() else {
        return Ok(false);
    };
    tracing::warn!(id, "a session of a lost connection is ended");
    match conn.query_drop(format!("KILL CONNECTION {id}")).await {
        Err(DriverError::Server(error)) if error.code == ER_NO_SUCH_THREAD => Ok(true),
        done => done.map(|()| true),
    }
}

/// The hash of Fowler, Noll and Vo: short, and the same in every release.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Source: MySQL 9.7 "Server Error Message Reference".
const ER_NO_SUCH_THREAD: u16 = 1094;

/// How many locks one statement asks for.
pub(super) const LOCKS_AT_ONCE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_name_fits_and_never_changes() {
        // From the reference tables of the hash's authors.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}

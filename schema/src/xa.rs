//! XA transactions that wait for their end.

use mysql_async::{Conn, Row, prelude::Queryable};

use crate::{ServerInfoError, server_code};

/// Returns the XA transactions that are prepared and neither committed nor
/// rolled back, each as `XA COMMIT` and `XA ROLLBACK` take it.
///
/// Their changes are in the binary log already, but not in the tables: who
/// copies a table now and follows the log from now on misses them. A prepared
/// transaction outlives its session and the server.
///
/// Needs the privilege XA_RECOVER_ADMIN. The list is empty without it: the
/// server doesn't tell this account, and a job whose account isn't allowed
/// to look must still be able to run where nobody uses XA. The stream of
/// changes refuses the commit of such a transaction when it comes to one.
///
/// Source: MySQL 9.7 manual, "XA Transaction SQL Statements"; the refusal's
/// number: "Server Error Message Reference".
///
/// # Errors
///
/// [`ServerInfoError::Server`] when the server does not answer.
pub async fn prepared_xa(conn: &mut Conn) -> Result<Vec<String>, ServerInfoError> {
    let rows: Result<Vec<Row>, _> = conn.query("XA RECOVER CONVERT XID").await;
    match rows {
        Ok(rows) => Ok(rows.iter().map(xid).collect()),
        Err(error) if server_code(&error) == Some(DENIED) => Ok(Vec::new()),
        Err(source) => Err(ServerInfoError::Server {
            what: "the prepared XA transactions",
            source,
        }),
    }
}

/// `ER_XAER_RMERR`, which stands for a missing privilege here.
const DENIED: u16 = 1401;

/// The parts of an identifier, in hexadecimal: they may be any bytes.
fn xid(row: &Row) -> String {
    let number = |name: &str| row.get_opt::<u64, _>(name).and_then(Result::ok);
    let data = row.get_opt::<String, _>("data").and_then(Result::ok);
    let data = data.unwrap_or_default();
    let digits = data.strip_prefix("0x").unwrap_or(&data);
    let length = number("gtrid_length").and_then(|bytes| usize::try_from(bytes).ok());
    let split = length.and_then(|bytes| digits.split_at_checked(bytes.saturating_mul(2)));
    let (global, branch) = split.unwrap_or((digits, ""));
    let format = number("formatID").unwrap_or(1);
    format!("X'{global}',X'{branch}',{format}")
}

//! What a server's error means for whoever sent the statement.

use mysql_async::Error;

use crate::Remedy;

/// What an error from a server means for whoever sent the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new class must reach every place that acts on one"
)]
pub enum ErrorClass {
    /// The transaction lost against another one: roll back, send it again.
    RetryTransaction,
    /// The connection is gone; whether the last statement took effect is open.
    ConnectionLost,
    /// The data do not fit: too long, out of range, NULL, a duplicate.
    DataRefused,
    /// A privilege or a server setting stands in the way.
    Privileges,
    /// The server gave up waiting, or cut the statement short, without a fault
    /// of its own: a later try may succeed.
    Timeout,
    /// Nothing that another try would mend.
    Fatal,
}

impl ErrorClass {
    /// Says what to do about an error of this class.
    #[must_use]
    pub const fn remedy(self) -> Remedy {
        match self {
            Self::RetryTransaction | Self::Timeout => Remedy::Retry,
            Self::ConnectionLost => Remedy::Unreachable,
            Self::DataRefused => Remedy::Data,
            Self::Privileges => Remedy::Privileges,
            Self::Fatal => Remedy::Bug,
        }
    }
}

/// Classifies what the client library reports.
///
/// Errors of the library itself (a value that can't be converted, a statement
/// with the wrong number of parameters) are [`ErrorClass::Fatal`]: this
/// program's own fault.
#[must_use]
pub fn classify(error: &Error) -> ErrorClass {
    match error {
        Error::Server(error) => classify_code(error.code),
        Error::Io(_) => ErrorClass::ConnectionLost,
        Error::Driver(error) => match error {
            mysql_async::DriverError::ConnectionClosed
            | mysql_async::DriverError::PoolDisconnected
            | mysql_async::DriverError::PacketOutOfOrder => ErrorClass::ConnectionLost,
            _ => ErrorClass::Fatal,
        },
        Error::Other(_) | Error::Url(_) => ErrorClass::Fatal,
    }
}

/// Classifies a server's error number.
///
/// Source: MySQL 9.7 "Server Error Message Reference"; the numbers below 1900
/// mean the same on MariaDB.
#[must_use]
pub const fn classify_code(code: u16) -> ErrorClass {
    match code {
        // ER_LOCK_WAIT_TIMEOUT (row and metadata locks alike), ER_LOCK_DEADLOCK,
        // ER_XA_RBDEADLOCK, ER_XA_RBTIMEOUT
        1205 | 1213 | 1613 | 1614 => ErrorClass::RetryTransaction,
        // ER_SERVER_SHUTDOWN, ER_NORMAL_SHUTDOWN, ER_NET_READ_ERROR,
        // ER_NET_READ_INTERRUPTED, ER_NET_ERROR_ON_WRITE, ER_NET_WRITE_INTERRUPTED,
        // ER_NEW_ABORTING_CONNECTION, ER_CLIENT_INTERACTION_TIMEOUT,
        // ER_CONNECTION_KILLED (MariaDB), ER_SESSION_WAS_KILLED
        1053 | 1077 | 1158..=1161 | 1184 | 1927 | 3169 | 4031 => ErrorClass::ConnectionLost,
        // ER_CON_COUNT_ERROR, ER_QUERY_INTERRUPTED, ER_TOO_MANY_USER_CONNECTIONS,
        // ER_USER_LIMIT_REACHED, ER_OPTION_PREVENTS_STATEMENT is a setting (below),
        // ER_STATEMENT_TIMEOUT (MariaDB), ER_QUERY_TIMEOUT, ER_LOCK_NOWAIT,
        // ER_DISK_FULL, ER_RECORD_FILE_FULL
        1021 | 1040 | 1114 | 1203 | 1226 | 1317 | 1969 | 3024 | 3572 => ErrorClass::Timeout,
        // ER_BAD_NULL_ERROR, ER_DUP_ENTRY, ER_PRIMARY_CANT_HAVE_NULL,
        // ER_INVALID_USE_OF_NULL, ER_NO_REFERENCED_ROW and ER_ROW_IS_REFERENCED
        // with their _2 forms, ER_WARN_NULL_TO_NOTNULL, ER_WARN_DATA_OUT_OF_RANGE,
        // WARN_DATA_TRUNCATED, ER_TRUNCATED_WRONG_VALUE, ER_DIVISION_BY_ZERO,
        // ER_NO_DEFAULT_FOR_FIELD, ER_TRUNCATED_WRONG_VALUE_FOR_FIELD,
        // ER_CANNOT_CONVERT_CHARACTER, ER_DATA_TOO_LONG, ER_WRONG_VALUE_FOR_TYPE,
        // ER_CANT_CREATE_GEOMETRY_OBJECT, ER_NO_PARTITION_FOR_GIVEN_VALUE,
        // ER_DUP_ENTRY_AUTOINCREMENT_CASE, ER_DUP_ENTRY_WITH_KEY_NAME, ER_DATA_OUT_OF_RANGE
        1048
        | 1062
        | 1138
        | 1171
        | 1216
        | 1217
        | 1263..=1265
        | 1292
        | 1364..=1366
        | 1406
        | 1411
        | 1416
        | 1451
        | 1452
        | 1526
        | 1569
        | 1586
        | 1690
        | 1748 => ErrorClass::DataRefused,
        // ER_INVALID_JSON_TEXT, _IN_PARAM, ER_INVALID_JSON_BINARY_DATA,
        // _PATH, _CHARSET, ER_INVALID_JSON_VALUE_FOR_CAST, ER_JSON_DOCUMENT_TOO_DEEP,
        // ER_CHECK_CONSTRAINT_VIOLATED, ER_WRONG_SRID_FOR_COLUMN,
        // ER_CANNOT_CONVERT_STRING, ER_IMPOSSIBLE_STRING_CONVERSION,
        // ER_CONSTRAINT_FAILED (MariaDB),
        // ER_CHECK_CONSTRAINT_VIOLATED's SRID cousins
        3140..=3144 | 3146 | 3147 | 3157 | 3643 | 3819 | 3854 | 3988 | 4025 => {
            ErrorClass::DataRefused
        }
        // ER_DBACCESS_DENIED, ER_ACCESS_DENIED, ER_TABLEACCESS_DENIED,
        // ER_COLUMNACCESS_DENIED, ER_SPECIFIC_ACCESS_DENIED, ER_PROCACCESS_DENIED,
        // ER_KILL_DENIED, ER_OPTION_PREVENTS_STATEMENT (read_only),
        // ER_ACCESS_DENIED_NO_PASSWORD, ER_MUST_CHANGE_PASSWORD and its login form,
        // ER_ACCOUNT_HAS_BEEN_LOCKED, ER_SECURE_TRANSPORT_REQUIRED,
        // ER_HOST_NOT_PRIVILEGED, ER_READ_ONLY_MODE, ER_TABLE_WITHOUT_PK,
        // ER_NOT_SUPPORTED_AUTH_MODE, ER_PERSIST_ONLY_ACCESS_DENIED
        1044 | 1045 | 1095 | 1130 | 1142 | 1143 | 1227 | 1251 | 1290 | 1370 | 1698 | 1820
        | 1836 | 1862 | 3118 | 3159 | 3630 | 3750 => ErrorClass::Privileges,
        _ => ErrorClass::Fatal,
    }
}

/// Returns the server's error number, `None` where the error is not a server's.
#[must_use]
pub const fn server_code(error: &Error) -> Option<u16> {
    match error {
        Error::Server(error) => Some(error.code),
        Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: u16) -> Error {
        Error::Server(mysql_async::ServerError {
            code,
            message: String::new(),
            state: String::new(),
        })
    }

    #[test]
    fn deadlocks_and_lock_waits_are_tried_again() {
        for code in [1213, 1205] {
            assert_eq!(classify(&server(code)), ErrorClass::RetryTransaction);
        }
    }

    #[test]
    fn values_that_do_not_fit_are_the_datas_fault() {
        for code in [
            1062, 1264, 1265, 1366, 1406, 1292, 1048, 3819, 1690, 3140, 1411, 1586,
        ] {
            assert_eq!(classify(&server(code)), ErrorClass::DataRefused, "{code}");
            assert_eq!(classify(&server(code)).remedy(), Remedy::Data);
        }
    }

    #[test]
    fn missing_privileges_and_read_only_servers_are_told_apart_from_data() {
        for code in [1142, 1044, 1045, 1227, 1290, 1836] {
            assert_eq!(classify(&server(code)), ErrorClass::Privileges, "{code}");
        }
    }

    #[test]
    fn a_broken_pipe_is_a_lost_connection() {
        let error = Error::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(classify(&error), ErrorClass::ConnectionLost);
        assert_eq!(classify(&server(1053)), ErrorClass::ConnectionLost);
        assert_eq!(server_code(&error), None);
    }

    #[test]
    fn what_nobody_listed_is_fatal() {
        assert_eq!(classify(&server(1064)), ErrorClass::Fatal);
        assert_eq!(server_code(&server(1064)), Some(1064));
    }
}

//! Sessions on a server, all with the same settings.

use std::time::Duration;

use mysql_async::{Conn, DriverError, Error, IoError, Opts, OptsBuilder, SslOpts};

use crate::{ErrorClass, Remedy, ServerUrl, SslMode, classify};

/// How long a connection may take, login and session settings included.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// The most bytes of one packet that this program accepts and sends.
///
/// Source: MySQL 9.7 manual, "Server System Variables", the largest
/// `max_allowed_packet`.
pub const PACKET_BYTES_MAX: usize = 1 << 30;

/// Sets the character set and SQL mode that [`connect`] gives every session:
/// for one that had to work in others for a moment.
pub const CHARSET_AND_MODE: &str = "SET NAMES utf8mb4, SESSION sql_mode = \
     'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES'";

/// What every session is set to, in one round trip.
///
/// - Values: UTC; strict, but with the zero and impossible dates that old
///   tables hold; key 0 stays 0. The modes that the list leaves out
///   (`ANSI_QUOTES`, `NO_BACKSLASH_ESCAPES`) would change how text is read.
/// - Waits: a metadata lock for 10 s, a row lock for 5 s; the network for
///   600 s, since a throttled reader may pause; idle for 8 h, the server's own
///   default, since the global value may be a minute.
/// - Odd global settings that would cut a result short, or turn a check off,
///   are overruled.
/// - The comments are for MySQL only: MariaDB reads those of versions 50700 to
///   99999 as comments (MariaDB documentation, "Comment Syntax").
const SETTINGS: [&str; 2] = [
    CHARSET_AND_MODE,
    "SET SESSION time_zone = '+00:00', \
     SESSION autocommit = 1, SESSION completion_type = 0, \
     SESSION lock_wait_timeout = 10, SESSION innodb_lock_wait_timeout = 5, \
     SESSION net_read_timeout = 600, SESSION net_write_timeout = 600, SESSION wait_timeout = 28800, \
     SESSION sql_select_limit = 18446744073709551615, SESSION sql_big_selects = 1, \
     SESSION sql_safe_updates = 0, SESSION sql_auto_is_null = 0, SESSION sql_quote_show_create = 1, \
     SESSION foreign_key_checks = 1, SESSION unique_checks = 1 \
     /*!80000 , SESSION max_execution_time = 0, SESSION information_schema_stats_expiry = 0 */ \
     /*!80030 , SESSION show_gipk_in_create_table_and_information_schema = ON */",
];

/// Not a variable by one name on all servers, but a statement on all.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// Why no session was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nothing answers there.
    #[error("cannot reach {server} for {purpose}: is the server up, and are host and port right?")]
    Unreachable {
        /// User, host and port.
        server: String,
        /// What the connection was for.
        purpose: String,
        /// What the system or the server says.
        #[source]
        source: Error,
    },
    /// Nothing answered in time.
    #[error("{server} did not answer within {} s, asked for {purpose}", CONNECT_DEADLINE.as_secs())]
    Timeout {
        /// User, host and port.
        server: String,
        /// What the connection was for.
        purpose: String,
    },
    /// The server refuses the login.
    #[error("{server} refuses the login: check user, password and the account's privileges")]
    Denied {
        /// User, host and port.
        server: String,
        /// What the server says.
        #[source]
        source: Error,
    },
    /// The server has no database of that name.
    #[error("{server} has no database {database:?}")]
    UnknownDatabase {
        /// User, host and port.
        server: String,
        /// The database's name.
        database: String,
        /// What the server says.
        #[source]
        source: Error,
    },
    /// No encrypted connection came about.
    #[error("no encrypted connection to {server}: check ssl-mode, ssl-ca, ssl-cert and ssl-key")]
    Tls {
        /// User, host and port.
        server: String,
        /// What the TLS library says.
        #[source]
        source: Error,
    },
    /// The server refuses a setting that every session needs, or something
    /// else that is neither of the above.
    #[error("{server} let the user in, but the session could not be set up for {purpose}")]
    Session {
        /// User, host and port.
        server: String,
        /// What the connection was for.
        purpose: String,
        /// What the server says.
        #[source]
        source: Error,
    },
}

impl ConnectError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => Remedy::Unreachable,
            Self::Denied { .. } => Remedy::Privileges,
            Self::UnknownDatabase { .. } | Self::Tls { .. } => Remedy::Usage,
            Self::Session { source, .. } => classify(source).remedy(),
        }
    }

    fn of(url: &ServerUrl, purpose: &str, source: Error) -> Self {
        let server = url.to_string();
        let purpose = purpose.to_owned();
        let code = crate::server_code(&source);
        if code == Some(1049) {
            let database = url.database().map(|name| name.as_str().to_owned());
            return Self::UnknownDatabase {
                server,
                database: database.unwrap_or_default(),
                source,
            };
        }
        if is_tls(&source) || (url.socket.is_none() && is_file(&source)) {
            return Self::Tls { server, source };
        }
        if is_unknown_plugin(&source) {
            return Self::Denied { server, source };
        }
        match classify(&source) {
            ErrorClass::Privileges => Self::Denied { server, source },
            ErrorClass::ConnectionLost | ErrorClass::Timeout => Self::Unreachable {
                server,
                purpose,
                source,
            },
            ErrorClass::RetryTransaction | ErrorClass::DataRefused | ErrorClass::Fatal => {
                Self::Session {
                    server,
                    purpose,
                    source,
                }
            }
        }
    }
}

/// Opens a session and gives it the settings that every part relies on.
///
/// `purpose` says what the connection is for, in a word or two; it shows in
/// errors and, as `oxferry_purpose` beside `program_name`, in the server's
/// `performance_schema.session_connect_attrs`.
///
/// Values: UTC, utf8mb4, strict but for the dates that old tables hold, key 0
/// stays 0. READ COMMITTED, autocommit, `foreign_key_checks` on. A metadata lock
/// is waited for 10 s, a row lock 5 s. Estimates come fresh.
///
/// # Errors
///
/// [`ConnectError`], within [`CONNECT_DEADLINE`]; no error shows the password.
///
/// # Cancel safety
///
/// Dropped, it closes what it opened.
pub async fn connect(url: &ServerUrl, purpose: &str) -> Result<Conn, ConnectError> {
    tokio::time::timeout(CONNECT_DEADLINE, open(url, purpose))
        .await
        .unwrap_or_else(|_| {
            Err(ConnectError::Timeout {
                server: url.to_string(),
                purpose: purpose.to_owned(),
            })
        })
}

impl ServerUrl {
    /// Returns the client library's options for a session as [`connect`]'s,
    /// with TLS as the URL asks for it (`preferred` as `required`).
    ///
    /// For streams that need a connection of their own kind.
    #[must_use]
    pub fn opts(&self, purpose: &str) -> Opts {
        self.builder(purpose, self.tls.mode != SslMode::Disabled)
            .into()
    }

    fn builder(&self, purpose: &str, encrypted: bool) -> OptsBuilder {
        let socket = self
            .socket
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned());
        let encrypted = encrypted && socket.is_none();
        let setup: Vec<&str> = SETTINGS.into_iter().chain([ISOLATION]).collect();
        OptsBuilder::default()
            .ip_or_hostname(self.host.clone())
            .tcp_port(self.port)
            .user(Some(self.user.clone()))
            .pass(self.password().map(str::to_owned))
            .db_name(self.database.as_ref().map(|name| name.as_str().to_owned()))
            // The library would leave TCP for the server's own socket otherwise.
            .prefer_socket(false)
            .socket(socket)
            .tcp_keepalive(Some(Duration::from_secs(60)))
            .max_allowed_packet(Some(PACKET_BYTES_MAX))
            .connect_attribute("program_name", "oxferry")
            .connect_attribute("oxferry_purpose", purpose)
            .setup(setup)
            .ssl_opts(encrypted.then(|| self.ssl_opts()))
    }

    fn ssl_opts(&self) -> SslOpts {
        let tls = &self.tls;
        let identity = tls
            .cert
            .clone()
            .zip(tls.key.clone())
            .map(|(cert, key)| mysql_async::ClientIdentity::new(cert.into(), key.into()));
        let verifies = matches!(tls.mode, SslMode::VerifyCa | SslMode::VerifyIdentity);
        SslOpts::default()
            .with_client_identity(identity)
            .with_root_certs(tls.ca.clone().map(Into::into).into_iter().collect())
            .with_disable_built_in_roots(tls.ca.is_some())
            .with_danger_accept_invalid_certs(!verifies)
            .with_danger_skip_domain_validation(tls.mode != SslMode::VerifyIdentity)
    }
}

async fn open(url: &ServerUrl, purpose: &str) -> Result<Conn, ConnectError> {
    let first = Conn::new(url.opts(purpose)).await;
    let opened = match first {
        Err(error) if url.tls.mode == SslMode::Preferred && lacks_tls(&error) => {
            Conn::new(url.builder(purpose, false)).await
        }
        first => first,
    };
    opened.map_err(|source| ConnectError::of(url, purpose, source))
}

const fn lacks_tls(error: &Error) -> bool {
    matches!(error, Error::Driver(DriverError::NoClientSslFlagFromServer))
}

/// A login by a method that the client library lacks. A server asks for one
/// of its methods at random when it doesn't know the user, so as not to tell.
/// Source: MySQL source, `sql_authentication.cc`, `decoy_user`; seen on 9.7.4.
const fn is_unknown_plugin(error: &Error) -> bool {
    matches!(error, Error::Driver(DriverError::UnknownAuthPlugin { .. }))
}

/// A file that can't be read; by TCP that can only be one of the certificates.
fn is_file(error: &Error) -> bool {
    let Error::Io(IoError::Io(error)) = error else {
        return false;
    };
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied
    )
}

/// An encrypted connection that failed, however the library reports it.
///
/// The certificate's fault arrives as an I/O error around the TLS library's
/// own; a file that can't be read as a plain I/O error.
fn is_tls(error: &Error) -> bool {
    match error {
        Error::Io(IoError::Tls(_)) => true,
        Error::Io(IoError::Io(error)) => matches!(
            error.kind(),
            std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput
        ),
        _ => lacks_tls(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url() -> ServerUrl {
        ServerUrl::parse("mysql://me:geheim@db:3307/shop", None).unwrap()
    }

    fn server(code: u16) -> Error {
        Error::Server(mysql_async::ServerError {
            code,
            message: "said the server".to_owned(),
            state: "HY000".to_owned(),
        })
    }

    #[test]
    fn errors_say_what_to_do() {
        let remedy = |code| ConnectError::of(&url(), "tests", server(code)).remedy();
        assert_eq!(remedy(1045), Remedy::Privileges);
        assert_eq!(remedy(1044), Remedy::Privileges);
        assert_eq!(remedy(1049), Remedy::Usage);
        assert_eq!(remedy(1040), Remedy::Unreachable);
    }

    #[test]
    fn errors_name_user_host_and_port_but_no_password() {
        let refused = Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        let error = ConnectError::of(&url(), "tests", refused);
        assert_eq!(
            error.to_string(),
            "cannot reach me@db:3307 for tests: is the server up, and are host and port right?"
        );
        assert_eq!(error.remedy(), Remedy::Unreachable);
        assert!(!format!("{error:?}").contains("geheim"));
    }

    #[test]
    fn a_session_says_who_it_is_and_what_for() {
        let opts = url().opts("tests");
        let attributes = opts.connect_attributes().unwrap();
        assert_eq!(attributes["program_name"], "oxferry");
        assert_eq!(attributes["oxferry_purpose"], "tests");
    }

    #[test]
    fn a_bad_certificate_is_a_matter_of_tls() {
        let bad = Error::from(std::io::Error::from(std::io::ErrorKind::InvalidData));
        assert!(matches!(
            ConnectError::of(&url(), "tests", bad),
            ConnectError::Tls { .. }
        ));
    }

    #[test]
    fn a_disabled_mode_or_a_socket_asks_for_no_encryption() {
        let plain = ServerUrl::parse("mysql://me@db?ssl-mode=disabled", None).unwrap();
        assert!(plain.opts("tests").ssl_opts().is_none());
        let socket = ServerUrl::parse("mysql://me@db?socket=/s", None).unwrap();
        assert!(socket.opts("tests").ssl_opts().is_none());
        assert!(url().opts("tests").ssl_opts().is_some());
    }
}

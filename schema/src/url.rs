//! Where a server is and who logs in: `mysql://user:password@host:port/database`.

use std::{fmt, path::PathBuf};

use crate::{Ident, NameError, Remedy};

/// A server, a login, and how the connection is protected.
///
/// Parsed from `mysql://user:password@host:port/database?socket=…&ssl-mode=…`.
/// Neither `Debug` nor `Display` shows the password.
///
/// Without `ssl-mode`, a server on this machine's loopback is talked to in
/// plain, since what is said doesn't leave the machine, and any other as
/// [`SslMode::Preferred`] says.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    password: Option<Password>,
    pub(crate) database: Option<Ident>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) tls: Tls,
    /// Whether the URL says how the connection is protected.
    is_mode_given: bool,
}

/// How a connection is protected; the `ssl-` parameters of a [`ServerUrl`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// What is demanded of the server.
    pub mode: SslMode,
    /// PEM file with the authorities that may vouch for the server.
    pub ca: Option<PathBuf>,
    /// PEM file with the client's certificate.
    pub cert: Option<PathBuf>,
    /// PEM file with the client's private key.
    pub key: Option<PathBuf>,
}

/// What is demanded of a connection's encryption, as the `mysql` client's
/// option of the same name.
///
/// Source: MySQL 9.7 manual, "Command Options for Encrypted Connections".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "MySQL's clients know these five")]
pub enum SslMode {
    /// No encryption.
    Disabled,
    /// Encryption where the server offers it, else none.
    #[default]
    Preferred,
    /// Encryption; the server's certificate is not checked.
    Required,
    /// Encryption; an authority must vouch for the certificate.
    VerifyCa,
    /// As `VerifyCa`, and the certificate must name the host.
    VerifyIdentity,
}

/// A password that no formatting shows.
#[derive(Clone, PartialEq, Eq)]
struct Password(Box<str>);

/// Why a text is not a [`ServerUrl`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerUrlError {
    /// The text is no URL at all.
    #[error("the server's URL cannot be read ({reason}): write mysql://user@host:port/database")]
    Malformed {
        /// What is wrong, without the text itself: it may hold a password.
        reason: url::ParseError,
    },
    /// The scheme is not `mysql`.
    #[error("the server's URL begins with {scheme:?}: it must begin with mysql://")]
    Scheme {
        /// The scheme as given.
        scheme: String,
    },
    /// No host is given.
    #[error("the server's URL names no host: write mysql://user@host:port/database")]
    Host,
    /// No user is given.
    #[error("the server's URL names no user: write mysql://user@{host}")]
    User {
        /// The host as given.
        host: String,
    },
    /// The port is zero.
    #[error("port {port} in the server's URL is none: write a number from 1 to 65535")]
    Port {
        /// The port as given.
        port: u16,
    },
    /// A part holds percent signs that encode no UTF-8 text.
    #[error("the {part} in the server's URL is no UTF-8 text once its percent signs are decoded")]
    Encoding {
        /// Which part.
        part: &'static str,
    },
    /// The path is no database name.
    #[error("the database in the server's URL is none")]
    Database(#[source] NameError),
    /// A parameter that nobody reads.
    #[error(
        "parameter {name:?} in the server's URL is unknown: socket, ssl-mode, ssl-ca, ssl-cert and ssl-key are known"
    )]
    UnknownParameter {
        /// The parameter's name.
        name: String,
    },
    /// A parameter stands twice.
    #[error("parameter {name} stands more than once in the server's URL")]
    RepeatedParameter {
        /// The parameter's name.
        name: String,
    },
    /// A parameter has no value.
    #[error("parameter {name} in the server's URL has no value")]
    EmptyParameter {
        /// The parameter's name.
        name: String,
    },
    /// A word that is no `ssl-mode`.
    #[error(
        "ssl-mode {mode:?} is unknown: write disabled, preferred, required, verify_ca or verify_identity"
    )]
    UnknownSslMode {
        /// The word as given.
        mode: String,
    },
    /// A client certificate without its key, or the other way round.
    #[error("ssl-cert and ssl-key in the server's URL need each other")]
    CertWithoutKey,
    /// `verify_ca` and `verify_identity` check against authorities.
    #[error("ssl-mode=verify_ca and verify_identity need ssl-ca=FILE")]
    VerifyWithoutCa,
    /// Text behind a `#`.
    #[error(
        "the server's URL has a part behind #: write %23 for a # that belongs to a name or password"
    )]
    Fragment,
}

impl ServerUrl {
    /// MySQL's port where the URL names none.
    pub const PORT_DEFAULT: u16 = 3306;

    /// Reads a URL; `password`, where given, wins over the URL's own.
    ///
    /// # Errors
    ///
    /// [`ServerUrlError`] on the first thing that is wrong. No error repeats
    /// the URL's text, so none shows a password.
    pub fn parse(text: &str, password: Option<&str>) -> Result<Self, ServerUrlError> {
        let url = url::Url::parse(text).map_err(|reason| ServerUrlError::Malformed { reason })?;
        if url.scheme() != "mysql" {
            let scheme = url.scheme().to_owned();
            return Err(ServerUrlError::Scheme { scheme });
        }
        if url.fragment().is_some() {
            return Err(ServerUrlError::Fragment);
        }
        let (socket, mut tls, is_mode_given) = parameters(&url)?;
        let host = match url.host_str() {
            None | Some("") if socket.is_some() => "localhost".to_owned(),
            None | Some("") => return Err(ServerUrlError::Host),
            Some(host) => decode(host.trim_matches(['[', ']']), "host")?,
        };
        let port = url.port().unwrap_or(Self::PORT_DEFAULT);
        if port == 0 {
            return Err(ServerUrlError::Port { port });
        }
        let user = decode(url.username(), "user")?;
        if user.is_empty() {
            return Err(ServerUrlError::User { host });
        }
        if !is_mode_given {
            tls.mode = mode_for(&host);
        }
        let own = url.password().map(|p| decode(p, "password")).transpose()?;
        Ok(Self {
            host,
            port,
            user,
            password: password.map(str::to_owned).or(own).map(Password::new),
            database: database(&url)?,
            socket,
            tls,
            is_mode_given,
        })
    }

    /// Returns the host, without brackets where it is an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the TCP port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the user who logs in.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the database that the URL names, if any.
    #[must_use]
    pub const fn database(&self) -> Option<&Ident> {
        self.database.as_ref()
    }

    /// Returns how the connection is protected.
    #[must_use]
    pub const fn tls(&self) -> &Tls {
        &self.tls
    }

    /// Returns whether a password is known.
    #[must_use]
    pub const fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Returns the same login on another server, such as a replica, by TCP.
    #[must_use]
    pub fn with_address(&self, host: &str, port: u16) -> Self {
        let mut other = Self {
            host: host.to_owned(),
            port,
            socket: None,
            ..self.clone()
        };
        if !self.is_mode_given {
            other.tls.mode = mode_for(host);
        }
        other
    }

    /// Returns the same URL, with `ssl-mode=preferred` settled as it came out
    /// for `conn`, a connection that [`connect`](crate::connect) opened.
    ///
    /// [`ServerUrl::opts`] can't try both ways.
    #[must_use]
    pub fn settled(mut self, conn: &mysql_async::Conn) -> Self {
        if self.tls.mode == SslMode::Preferred && conn.opts().ssl_opts().is_none() {
            self.tls.mode = SslMode::Disabled;
        }
        self
    }

    /// Returns the password for the login itself, and nothing else.
    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_ref().map(|password| &*password.0)
    }
}

impl ServerUrlError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        Remedy::Usage
    }
}

impl Password {
    fn new(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl fmt::Display for ServerUrl {
    /// Writes `user@host:port` or `user@host (socket)`: what a person needs to
    /// tell one server from another.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(socket) => write!(f, "{}@{} ({})", self.user, self.host, socket.display()),
            None if self.host.contains(':') => {
                write!(f, "{}@[{}]:{}", self.user, self.host, self.port)
            }
            None => write!(f, "{}@{}:{}", self.user, self.host, self.port),
        }
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerUrl")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("password", &self.password)
            .field("database", &self.database)
            .field("socket", &self.socket)
            .field("tls", &self.tls)
            .finish()
    }
}

impl std::str::FromStr for SslMode {
    type Err = ServerUrlError;

    fn from_str(mode: &str) -> Result<Self, ServerUrlError> {
        match mode.to_ascii_lowercase().replace('-', "_").as_str() {
            "disabled" => Ok(Self::Disabled),
            "preferred" => Ok(Self::Preferred),
            "required" => Ok(Self::Required),
            "verify_ca" => Ok(Self::VerifyCa),
            "verify_identity" => Ok(Self::VerifyIdentity),
            _ => Err(ServerUrlError::UnknownSslMode {
                mode: mode.to_owned(),
            }),
        }
    }
}

/// What a connection to `host` needs where the URL doesn't say.
fn mode_for(host: &str) -> SslMode {
    let is_loopback = host.parse::<std::net::IpAddr>().map_or_else(
        |_| host.eq_ignore_ascii_case("localhost"),
        |ip| ip.is_loopback(),
    );
    if is_loopback {
        SslMode::Disabled
    } else {
        SslMode::Preferred
    }
}

fn parameters(url: &url::Url) -> Result<(Option<PathBuf>, Tls, bool), ServerUrlError> {
    let (mut socket, mut mode, mut ca, mut cert, mut key) = (None, None, None, None, None);
    for pair in url.query().unwrap_or_default().split('&') {
        if pair.is_empty() {
            continue;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let slot = match name {
            "socket" => &mut socket,
            "ssl-mode" => &mut mode,
            "ssl-ca" => &mut ca,
            "ssl-cert" => &mut cert,
            "ssl-key" => &mut key,
            _ => {
                let name = name.to_owned();
                return Err(ServerUrlError::UnknownParameter { name });
            }
        };
        let name = name.to_owned();
        let value = decode(value, "parameter")?;
        if value.is_empty() {
            return Err(ServerUrlError::EmptyParameter { name });
        }
        if slot.replace(value).is_some() {
            return Err(ServerUrlError::RepeatedParameter { name });
        }
    }
    let is_mode_given = mode.is_some();
    let tls = Tls {
        mode: mode
            .as_deref()
            .map_or_else(|| Ok(SslMode::default()), str::parse)?,
        ca: ca.map(PathBuf::from),
        cert: cert.map(PathBuf::from),
        key: key.map(PathBuf::from),
    };
    if tls.cert.is_some() != tls.key.is_some() {
        return Err(ServerUrlError::CertWithoutKey);
    }
    let verifies = matches!(tls.mode, SslMode::VerifyCa | SslMode::VerifyIdentity);
    if verifies && tls.ca.is_none() {
        return Err(ServerUrlError::VerifyWithoutCa);
    }
    Ok((socket.map(PathBuf::from), tls, is_mode_given))
}

fn database(url: &url::Url) -> Result<Option<Ident>, ServerUrlError> {
    let path = url.path().trim_start_matches('/');
    if path.is_empty() {
        return Ok(None);
    }
    let name = decode(path, "database")?;
    Ident::new(name).map(Some).map_err(ServerUrlError::Database)
}

/// Decodes `%41`, as a URL's parts need it; a `+` stays a plus.
fn decode(text: &str, part: &'static str) -> Result<String, ServerUrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = (*first == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|two| std::str::from_utf8(two).ok())
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(hex.unwrap_or(*first));
        rest = if hex.is_some() {
            tail.get(2..).unwrap_or_default()
        } else {
            tail
        };
    }
    String::from_utf8(bytes).map_err(|_| ServerUrlError::Encoding { part })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ServerUrl, ServerUrlError> {
        ServerUrl::parse(text, None)
    }

    #[test]
    fn every_part_is_read_and_decoded() {
        let url =
            parse("mysql://us%40er:p%3Aw%23@db.example:3307/my%2Fdb?ssl-mode=required").unwrap();
        assert_eq!(url.host(), "db.example");
        assert_eq!(url.port(), 3307);
        assert_eq!(url.user(), "us@er");
        assert_eq!(url.password(), Some("p:w#"));
        assert_eq!(url.database().unwrap().as_str(), "my/db");
        assert_eq!(url.tls().mode, SslMode::Required);
    }

    #[test]
    fn the_port_defaults_to_3306_and_the_rest_to_nothing() {
        let url = parse("mysql://root@[::1]").unwrap();
        assert_eq!((url.host(), url.port()), ("::1", 3306));
        assert_eq!(url.password(), None);
        assert_eq!(url.database(), None);
        assert_eq!(url.to_string(), "root@[::1]:3306");
    }

    #[test]
    fn a_given_password_wins_over_the_urls_own() {
        let url = ServerUrl::parse("mysql://u:one@h", Some("two")).unwrap();
        assert_eq!(url.password(), Some("two"));
    }

    #[test]
    fn no_formatting_shows_the_password() {
        let url = parse("mysql://u:geheim@h/d?ssl-mode=disabled").unwrap();
        for text in [format!("{url:?}"), format!("{url:#?}"), url.to_string()] {
            assert!(!text.contains("geheim"), "{text}");
        }
    }

    #[test]
    fn no_error_shows_the_password() {
        for text in [
            "postgres://u:geheim@h",
            "mysql://u:geheim@h:99999",
            "mysql://u:geheim@h:0",
            "mysql://u:geheim@h?compress=1",
            "mysql://u:geheim@h?ssl-mode=maybe",
            "mysql://:geheim@h",
            "mysql://u:geheim%FF@h",
            "mysql://u:geheim@h/#x",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("geheim"), "{error}");
            assert_eq!(error.remedy(), Remedy::Usage);
        }
    }

    #[test]
    fn an_unknown_parameter_is_an_error() {
        assert_eq!(
            parse("mysql://u@h?ssl_mode=required"),
            Err(ServerUrlError::UnknownParameter {
                name: "ssl_mode".to_owned()
            })
        );
    }

    #[test]
    fn parameters_that_contradict_are_errors() {
        assert_eq!(
            parse("mysql://u@h?socket=/a&socket=/b"),
            Err(ServerUrlError::RepeatedParameter {
                name: "socket".to_owned()
            })
        );
        assert_eq!(
            parse("mysql://u@h?ssl-cert=/a"),
            Err(ServerUrlError::CertWithoutKey)
        );
        assert_eq!(
            parse("mysql://u@h?ssl-mode=verify_ca"),
            Err(ServerUrlError::VerifyWithoutCa)
        );
        assert!(parse("mysql://u@h?socket").is_err());
    }

    #[test]
    fn only_what_leaves_the_machine_is_encrypted_unasked() {
        let mode = |text: &str| parse(text).unwrap().tls().mode;
        for host in ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"] {
            assert_eq!(mode(&format!("mysql://u@{host}/d")), SslMode::Disabled);
        }
        assert_eq!(mode("mysql://u@db.example/d"), SslMode::Preferred);
        assert_eq!(
            mode("mysql://u@localhost/d?ssl-mode=required"),
            SslMode::Required
        );
        let local = parse("mysql://u@localhost/d").unwrap();
        assert_eq!(
            local.with_address("db2", 3306).tls().mode,
            SslMode::Preferred
        );
        let asked = parse("mysql://u@localhost/d?ssl-mode=disabled").unwrap();
        assert_eq!(
            asked.with_address("db2", 3306).tls().mode,
            SslMode::Disabled
        );
    }

    #[test]
    fn a_socket_needs_no_host() {
        let url = parse("mysql://root@/d?socket=/run/my%20sql.sock");
        let url = url
            .or_else(|_| parse("mysql://root@localhost/d?socket=/run/my%20sql.sock"))
            .unwrap();
        assert_eq!(url.to_string(), "root@localhost (/run/my sql.sock)");
    }

    #[test]
    fn a_replica_gets_the_same_login() {
        let url = parse("mysql://u:p@h/d?socket=/s")
            .unwrap()
            .with_address("r", 3399);
        assert_eq!(url.to_string(), "u@r:3399");
        assert_eq!(url.password(), Some("p"));
    }
}

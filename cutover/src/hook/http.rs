//! A hook that is an address.

use std::{io::Read, time::Duration};

use tokio::{task::spawn_blocking, time::timeout};
use ureq::{
    Agent,
    http::{HeaderName, HeaderValue},
    tls::{RootCerts, TlsConfig},
};
use url::Url;

use super::{Hook, HookFailure, HookName, READ_MAX, excerpt};

/// Splits `Name: value`, and refuses what HTTP would.
pub(super) fn header(text: &str) -> Result<(String, String), HookFailure> {
    let unreadable = || HookFailure::Unreadable {
        why: "a header must be `Name: value`".into(),
    };
    let (name, value) = text.split_once(':').ok_or_else(unreadable)?;
    let (name, value) = (name.trim(), value.trim());
    HeaderName::from_bytes(name.as_bytes()).map_err(|_refused| unreadable())?;
    HeaderValue::from_str(value).map_err(|_refused| unreadable())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Calls the address once.
pub(super) async fn post(url: &Url, hook: &Hook, name: HookName) -> Result<(), HookFailure> {
    let (url, hook) = (url.clone(), hook.clone());
    let limit = hook.timeout;
    let posting = spawn_blocking(move || post_blocking(&url, &hook, name));
    // The client's own limit comes first, unless a name is looked up for ever.
    match timeout(limit.saturating_add(GRACE), posting).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(lost)) => Err(HookFailure::Lost {
            why: lost.to_string(),
        }),
        Err(_) => Err(HookFailure::TimedOut { waited: limit }),
    }
}

fn post_blocking(url: &Url, hook: &Hook, name: HookName) -> Result<(), HookFailure> {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .build();
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(hook.timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .tls_config(tls)
        .build()
        .into();
    let mut request = agent
        .post(url.as_str())
        .header("X-Oxferry-Hook", name.as_str())
        .header("X-Oxferry-Direction", hook.direction.as_str());
    let own_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
    if !hook.headers.iter().any(own_type) {
        request = request.header("Content-Type", content_type(&hook.payload));
    }
    for (name, value) in &hook.headers {
        request = request.header(name, value);
    }
    let answer = request.send(hook.payload.as_bytes());
    let mut answer = answer.map_err(|error| failure(&error, hook.timeout))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let mut said = Vec::new();
    let body = answer.body_mut().as_reader();
    if let Err(error) = body.take(READ_MAX).read_to_end(&mut said) {
        tracing::debug!(%error, "the rest of a hook's answer is lost");
    }
    Err(HookFailure::Refused {
        answer: format!("HTTP {}", status.as_u16()),
        said: excerpt(&said),
    })
}

fn content_type(payload: &str) -> &'static str {
    if payload.trim_start().starts_with(['{', '[']) {
        "application/json"
    } else {
        "text/plain; charset=utf-8"
    }
}

/// Tells calls that never left from those that may have been heard. The text of
/// an error that may quote the address is not passed on.
fn failure(error: &ureq::Error, limit: Duration) -> HookFailure {
    let not_reached = |why: &str| HookFailure::NotReached { why: why.into() };
    match error {
        ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
            not_reached("no connection in time")
        }
        ureq::Error::Timeout(_) => HookFailure::TimedOut { waited: limit },
        ureq::Error::HostNotFound => not_reached("its host is not found"),
        ureq::Error::ConnectionFailed => not_reached("no connection"),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => not_reached("it is no address for HTTP"),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            not_reached("connection refused")
        }
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => {
            not_reached("no secure connection, is its certificate one that this host trusts?")
        }
        ureq::Error::Io(error) => HookFailure::Lost {
            why: error.kind().to_string(),
        },
        _ => HookFailure::Lost {
            why: "no whole HTTP answer".into(),
        },
    }
}

/// Beyond the client's own limit.
const GRACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_looks_like_json_is_sent_as_json() {
        assert_eq!(content_type(" {\"a\":1}"), "application/json");
        assert_eq!(content_type("go"), "text/plain; charset=utf-8");
    }

    #[test]
    fn a_header_that_would_smuggle_another_one_is_refused() {
        assert!(header("X-Key: a\r\nX-Other: b").is_err());
        assert!(header("no colon").is_err());
        assert!(header("X-Key: a: b").is_ok_and(|(_, value)| value == "a: b"));
    }
}

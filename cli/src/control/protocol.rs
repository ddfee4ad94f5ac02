//! What is said on the socket.

use serde::{Deserialize, Serialize};

/// What somebody asks of a job: one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Request {
    /// How far it is.
    Status,
    /// Begin no further chunk.
    Pause,
    /// Go on.
    Resume,
    /// Take over as soon as everything is ready, whatever postpones it.
    Cutover {
        /// Take a move back, whose switch has been made.
        #[serde(default)]
        reverse: bool,
    },
    /// End at the next safe point, with the checkpoint kept.
    Abort,
    /// Change a setting.
    Set {
        /// As the option is called, without dashes.
        key: String,
        /// As the option takes it.
        value: String,
    },
}

/// What the job says to it: one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// It is done; or what was asked for.
    Done(serde_json::Value),
    /// It can't be done, and why.
    Refused(String),
}

/// Bytes of a line, its end included; neither side reads a longer one.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;

impl Answer {
    /// Says in words that something is done.
    pub(crate) fn said(what: impl Into<String>) -> Self {
        Self::Done(serde_json::Value::String(what.into()))
    }
}

/// Writes a line; neither of the types can fail to become JSON.
pub(crate) fn line(said: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(said).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_as_a_person_would_write_them() {
        let read = |text| serde_json::from_str::<Request>(text);
        assert_eq!(read(r#"{"command":"pause"}"#).unwrap(), Request::Pause);
        let set = read(r#"{"command":"set","key":"max-lag","value":"5s"}"#).unwrap();
        assert_eq!(
            line(&set),
            b"{\"command\":\"set\",\"key\":\"max-lag\",\"value\":\"5s\"}\n"
        );
        let cutover = |reverse| Request::Cutover { reverse };
        assert_eq!(read(r#"{"command":"cutover"}"#).unwrap(), cutover(false));
        let back = r#"{"command":"cutover","reverse":true}"#;
        assert_eq!(read(back).unwrap(), cutover(true));
        for wrong in [
            r#"{"command":"stop"}"#,
            r#"{"command":"set","key":"a"}"#,
            "pause",
            "",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

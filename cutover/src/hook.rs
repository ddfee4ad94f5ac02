//! Calls to what the operator runs: a command, or an address.

mod command;
mod error;
mod http;

use std::{fmt, num::NonZeroU32, time::Duration};

pub use error::{HookError, HookFailure};
use tokio::time::sleep;
use url::Url;

/// Which moment a hook is called at: of the switch, or of the job around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an option of the command line each"
)]
pub enum HookName {
    /// Before the source is locked: have the application stop writing.
    LockSource,
    /// All is on the target and compared: send the application there.
    Switched,
    /// Afterwards, and after a failure: have the application write again.
    UnlockSource,
    /// Now and then while a job runs; never by a switch.
    Progress,
    /// When a job ends with an error; never by a switch.
    Error,
}

/// Which way a switch goes; hooks are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there and back")]
pub enum Direction {
    /// From the source to the target.
    #[default]
    Forward,
    /// Back again: what is called source and target in the hooks' names stays
    /// what it was on the way there, so `lock-source` shuts the writers out of
    /// the target now.
    Reverse,
}

impl Direction {
    /// Returns the word that hooks are told: `forward` or `reverse`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }
}

/// What a switch calls, and when. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "an option of the command line each"
)]
pub struct Hooks {
    /// Shuts the application's writers out, before the lock of the switch's own.
    pub lock_source: Option<Hook>,
    /// Announces the switch; it counts as made when this has succeeded.
    pub switched: Option<Hook>,
    /// Lets writers go on: on the target after a switch, or else on the source.
    pub unlock_source: Option<Hook>,
}

/// One command or address, and how it is called.
///
/// It may be called more than once, also when an earlier call had its effect and
/// only the answer was lost: it must do the same then. Exit code 0 and the HTTP
/// codes 200 to 299 mean that it is done.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hook {
    call: Call,
    /// What a command gets on its standard input, and an address as the body.
    pub payload: String,
    /// Headers of the HTTP call, beside `Content-Type`.
    pub headers: Vec<(String, String)>,
    /// Calls before it is given up.
    pub attempts_max: NonZeroU32,
    /// How long one call may take.
    pub timeout: Duration,
    /// The pause after the first failed call; it doubles up to half a minute.
    pub pause: Duration,
    /// Which way the switch goes: a command finds it in `OXFERRY_DIRECTION`, an
    /// address in the header `X-Oxferry-Direction`.
    pub direction: Direction,
}

/// What is called.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Call {
    /// A program and its arguments, without a shell.
    Command(Vec<String>),
    /// `POST` to an address.
    Post(Url),
}

impl Hook {
    /// Reads `http://…` and `https://…` as an address, and all else as a command
    /// whose words are split as a shell does; no shell runs it.
    ///
    /// The default limits: five calls of 30 s at most, a pause of 1 s.
    ///
    /// # Errors
    ///
    /// [`HookFailure::Unreadable`] when it is neither.
    pub fn parse(text: &str) -> Result<Self, HookFailure> {
        let unreadable = |why: &str| HookFailure::Unreadable { why: why.into() };
        if text.starts_with("http://") || text.starts_with("https://") {
            let url = Url::parse(text).map_err(|error| unreadable(&error.to_string()))?;
            return Ok(Self::new(Call::Post(url)));
        }
        let words =
            shlex::split(text).ok_or_else(|| unreadable("a quotation mark is left open"))?;
        Self::command(words)
    }

    /// Takes a command's words as they are.
    ///
    /// # Errors
    ///
    /// [`HookFailure::Unreadable`] when there is none.
    pub fn command(words: Vec<String>) -> Result<Self, HookFailure> {
        if words.first().is_none_or(String::is_empty) {
            let why = "there is no program in it".into();
            return Err(HookFailure::Unreadable { why });
        }
        Ok(Self::new(Call::Command(words)))
    }

    const fn new(call: Call) -> Self {
        Self {
            call,
            payload: String::new(),
            headers: Vec::new(),
            attempts_max: ATTEMPTS_DEFAULT,
            timeout: Duration::from_secs(30),
            pause: Duration::from_secs(1),
            direction: Direction::Forward,
        }
    }

    /// Sets what is passed on.
    #[must_use]
    pub fn with_payload(mut self, payload: impl Into<String>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Adds a header, `Name: value`; it replaces `Content-Type` where it is one.
    ///
    /// # Errors
    ///
    /// [`HookFailure::Unreadable`] when there is no colon in it, or it can't be
    /// one; the value isn't named.
    pub fn with_header(mut self, header: &str) -> Result<Self, HookFailure> {
        let (name, value) = http::header(header)?;
        self.headers.push((name, value));
        Ok(self)
    }

    /// Sets how often it is called, how long one call may take, and the first
    /// pause.
    #[must_use]
    pub const fn with_limits(
        mut self,
        attempts_max: NonZeroU32,
        timeout: Duration,
        pause: Duration,
    ) -> Self {
        self.attempts_max = attempts_max;
        self.timeout = timeout;
        self.pause = pause;
        self
    }

    /// Sets which way the switch goes.
    #[must_use]
    pub const fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// Calls it, again if it must be, until it says that it is done.
    ///
    /// # Errors
    ///
    /// [`HookError`] of the last call.
    ///
    /// # Cancel safety
    ///
    /// Dropped, a command is killed; a `POST` ends at its own time limit. Either
    /// may have had its effect.
    pub async fn run(&self, name: HookName) -> Result<(), HookError> {
        let mut may_be_done = false;
        let mut attempts = 0;
        let mut pause = self.pause;
        loop {
            attempts += 1;
            let failure = match self.once(name).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            may_be_done |= failure.may_be_done();
            let error = HookError {
                name,
                call: self.to_string(),
                attempts,
                may_be_done,
                source: failure,
            };
            if attempts >= self.attempts_max.get() {
                return Err(error);
            }
            let cause: &(dyn std::error::Error + 'static) = &error.source;
            tracing::warn!(hook = %name, call = %self, attempts, error = cause, "hook failed, called again");
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE_LONGEST);
        }
    }

    async fn once(&self, name: HookName) -> Result<(), HookFailure> {
        match &self.call {
            Call::Command(words) => command::run(words, self, name).await,
            Call::Post(url) => http::post(url, self, name).await,
        }
    }
}

impl fmt::Display for Hook {
    /// Writes the program's name alone, or the address without login and query:
    /// the rest may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.call {
            Call::Command(words) => f.write_str(words.first().map_or("", String::as_str)),
            Call::Post(url) => {
                let port = url
                    .port()
                    .map(|port| format!(":{port}"))
                    .unwrap_or_default();
                let host = url.host_str().unwrap_or_default();
                write!(f, "{}://{host}{port}{}", url.scheme(), url.path())
            }
        }
    }
}

impl fmt::Debug for Hook {
    /// Writes no argument, header, login or payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hook({self})")
    }
}

impl HookName {
    /// Returns the name that the options use: `lock-source`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LockSource => "lock-source",
            Self::Switched => "switched",
            Self::UnlockSource => "unlock-source",
            Self::Progress => "progress",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for HookName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Keeps what a hook said at a length for one log line, without what a terminal
/// would act on.
pub(crate) fn excerpt(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let printable = text.trim().chars().take(SAID_MAX).map(|c| match c {
        '\n' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    });
    printable.collect()
}

const ATTEMPTS_DEFAULT: NonZeroU32 = NonZeroU32::new(5).expect("5 is not zero");
const PAUSE_LONGEST: Duration = Duration::from_secs(30);
/// Characters of a hook's words that an error quotes.
const SAID_MAX: usize = 300;
/// Bytes of a hook's words that are read at all.
pub(crate) const READ_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_does() {
        let hook = Hook::parse("/bin/freeze --app 'my shop' a\\ b").unwrap();
        let words = ["/bin/freeze", "--app", "my shop", "a b"].map(String::from);
        assert!(hook.call == Call::Command(words.to_vec()));
    }

    #[test]
    fn a_text_without_a_program_is_refused() {
        for text in ["", "  ", "'open", "''"] {
            assert!(Hook::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn neither_login_nor_query_nor_argument_is_ever_shown() {
        let hook = Hook::parse("https://me:secret@ops.example:8443/lock?token=secret").unwrap();
        let hook = hook
            .with_payload("secret")
            .with_header("X-Key: secret")
            .unwrap();
        assert_eq!(hook.to_string(), "https://ops.example:8443/lock");
        let command = Hook::parse("freeze --key secret").unwrap();
        assert!(!format!("{hook:?} {command:?} {command}").contains("secret"));
    }

    #[test]
    fn what_a_hook_says_is_cut_and_kept_on_one_line() {
        let said = format!("no\nway\u{1b}[2J{}", "x".repeat(1000));
        let short = excerpt(said.as_bytes());
        assert!(short.starts_with("no way\u{fffd}[2J"), "{short}");
        assert_eq!(short.chars().count(), 300);
    }
}

//! Global transaction identifiers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One transaction's identifier: `uuid:7`, or `uuid:tag:7`.
///
/// Ordered by UUID, tag and number, which says nothing about the order in
/// which transactions ran.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Gtid {
    pub(crate) origin: Origin,
    pub(crate) number: u64,
}

/// Who numbers transactions: a server, and one of its tags.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Origin {
    pub(crate) uuid: Uuid,
    pub(crate) tag: Option<Box<str>>,
}

/// A server's UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

/// Why a text is not a GTID or a GTID set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a GTID set such as 3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5: {part:?} is no {expected}"
)]
#[non_exhaustive]
pub struct GtidError {
    /// The whole text.
    pub text: String,
    /// The part of it that isn't understood.
    pub part: String,
    /// What should stand there.
    pub expected: &'static str,
}

impl Gtid {
    /// The highest transaction number that a server gives.
    ///
    /// Source: observed on 9.7.4, which refuses 2^63 - 1 as "out of range".
    pub const NUMBER_MAX: u64 = (1 << 63) - 2;

    /// Puts a server's UUID, a tag and a number together.
    ///
    /// # Errors
    ///
    /// [`GtidError`] when the tag or the number is one that no server gives.
    pub fn new(uuid: [u8; 16], tag: Option<&str>, number: u64) -> Result<Self, GtidError> {
        let uuid = Uuid(uuid);
        let wrong = |part: String, expected| GtidError {
            text: format!("{uuid}:{number}"),
            part,
            expected,
        };
        let tag = match tag.filter(|tag| !tag.is_empty()) {
            Some(text) => Some(parse_tag(text).ok_or_else(|| wrong(text.to_owned(), "tag"))?),
            None => None,
        };
        if !(1..=Self::NUMBER_MAX).contains(&number) {
            return Err(wrong(number.to_string(), "transaction number"));
        }
        Ok(Self {
            origin: Origin { uuid, tag },
            number,
        })
    }

    /// Returns the bytes of the UUID of the server that first committed it.
    #[must_use]
    pub const fn uuid(&self) -> [u8; 16] {
        self.origin.uuid.0
    }

    /// Returns its tag, in lower case.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.origin.tag.as_deref()
    }

    /// Returns its number.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }
}

/// Reads a tag: up to 32 letters, digits and underscores, no digit first.
///
/// Source: MySQL 9.7 manual, "GTID Format and Storage".
pub(crate) fn parse_tag(text: &str) -> Option<Box<str>> {
    const LENGTH_MAX: usize = 32;
    let mut bytes = text.bytes();
    let first = bytes.next()?;
    let rest_fits = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let fits = (first.is_ascii_alphabetic() || first == b'_') && rest_fits;
    (fits && text.len() <= LENGTH_MAX).then(|| text.to_ascii_lowercase().into())
}

/// Reads a transaction number; white space around it is the caller's.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits)?;
    (1..=Gtid::NUMBER_MAX).contains(&number).then_some(number)
}

impl Uuid {
    /// Reads 32 hexadecimal digits, with the usual four dashes or none.
    ///
    /// With dashes, braces around it are allowed. Source: observed on 9.7.4.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let braced = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        let bare = braced.unwrap_or(text).as_bytes();
        let dashed = bare.len() == 36;
        if !dashed && (bare.len() != 32 || braced.is_some()) {
            return None;
        }
        let mut digits = Vec::with_capacity(32);
        for (at, byte) in bare.iter().enumerate() {
            if dashed && [8, 13, 18, 23].contains(&at) {
                (*byte == b'-').then_some(())?;
            } else {
                digits.push(u8::try_from(char::from(*byte).to_digit(16)?).ok()?);
            }
        }
        let mut uuid = [0; 16];
        for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |high, digit| high << 4 | digit);
        }
        Some(Self(uuid))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if [4, 6, 8, 10].contains(&at) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.origin.uuid)?;
        if let Some(tag) = &self.origin.tag {
            write!(f, "{tag}:")?;
        }
        write!(f, "{}", self.number)
    }
}

impl FromStr for Gtid {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Self, GtidError> {
        let wrong = |part: &str, expected| GtidError {
            text: text.to_owned(),
            part: part.to_owned(),
            expected,
        };
        let mut parts = text.split(':').map(str::trim);
        let uuid = parts.next().unwrap_or_default();
        let (tag, number) = match (parts.next(), parts.next(), parts.next()) {
            (Some(number), None, None) => (None, number),
            (Some(tag), Some(number), None) => (Some(tag), number),
            _ => return Err(wrong(text, "single transaction")),
        };
        let uuid = Uuid::parse(uuid).ok_or_else(|| wrong(uuid, "UUID"))?;
        let tag = match tag {
            Some(tag) => Some(parse_tag(tag).ok_or_else(|| wrong(tag, "tag"))?),
            None => None,
        };
        let number = parse_number(number).ok_or_else(|| wrong(number, "transaction number"))?;
        Ok(Self {
            origin: Origin { uuid, tag },
            number,
        })
    }
}

impl TryFrom<String> for Gtid {
    type Error = GtidError;

    fn try_from(text: String) -> Result<Self, GtidError> {
        text.parse()
    }
}

impl From<Gtid> for String {
    fn from(gtid: Gtid) -> Self {
        gtid.to_string()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn some_gtid() -> impl Strategy<Value = Gtid> {
        let tag = prop::option::of("[a-z_][a-z0-9_]{0,3}");
        (0..3_u8, tag, 1..60_u64)
            .prop_map(|(uuid, tag, number)| Gtid::new([uuid; 16], tag.as_deref(), number).unwrap())
    }

    #[test]
    fn a_tag_is_read_in_lower_case() {
        let gtid: Gtid = "{3E11FA47-71CA-11E1-9E33-C80AA9429562}:Tag_1: 7"
            .parse()
            .unwrap();
        assert_eq!(
            gtid.to_string(),
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:tag_1:7"
        );
        assert_eq!((gtid.tag(), gtid.number()), (Some("tag_1"), 7));
    }

    #[test]
    fn what_no_server_gives_is_refused() {
        let uuid = "3E11FA47-71CA-11E1-9E33-C80AA9429562";
        for rest in [
            "",
            ":",
            ":0",
            ":9223372036854775807",
            ":1-2",
            ":1:2",
            ":tag",
            ":tag:1:2",
            ":9tag:1",
            ":+1",
        ] {
            assert!(format!("{uuid}{rest}").parse::<Gtid>().is_err(), "{rest}");
        }
        assert!("3E11FA47:1".parse::<Gtid>().is_err());
        assert!(Gtid::new([0; 16], Some("no space"), 1).is_err());
        assert!(Gtid::new([0; 16], None, 0).is_err());
    }

    proptest! {
        #[test]
        fn parsing_reads_what_printing_wrote(gtid in some_gtid()) {
            prop_assert_eq!(gtid.to_string().parse::<Gtid>().unwrap(), gtid);
        }

        #[test]
        fn any_text_parses_or_fails_without_panicking(text: String) {
            let _ = text.parse::<Gtid>();
        }
    }
}

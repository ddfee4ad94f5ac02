//! What a run that dies under its own lock leaves on the source.

use std::{fmt, str::FromStr};

/// What must be undone on the source if the run that did it has died.
///
/// Its text is kept in a checkpoint; it is the same in later versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// The hook `lock-source` may have been called.
    pub hook: bool,
    /// The tables may have been renamed.
    pub renamed: bool,
    /// The hook `switched` may have been called: nobody knows where the
    /// application writes.
    pub announced: bool,
    /// The server may have been set read-only; what it was before.
    pub read_only: Option<ReadOnly>,
}

/// The two settings that make a server read-only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a server has these two settings")]
pub struct ReadOnly {
    /// `read_only`: nobody without CONNECTION_ADMIN may write.
    pub read_only: bool,
    /// `super_read_only`: nobody may.
    pub super_read_only: bool,
}

/// A text that is no [`Leftover`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read what an earlier run left to undo on the source: {text:?} is not understood")]
#[non_exhaustive]
pub struct LeftoverError {
    /// The text.
    pub text: String,
}

impl fmt::Display for Leftover {
    /// Writes `hook renamed announced read-only=0,0`, each where it applies, or `nothing`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if self.hook {
            words.push("hook".to_owned());
        }
        if self.renamed {
            words.push("renamed".to_owned());
        }
        if self.announced {
            words.push("announced".to_owned());
        }
        if let Some(before) = self.read_only {
            let (read, super_read) = (before.read_only, before.super_read_only);
            words.push(format!(
                "read-only={},{}",
                u8::from(read),
                u8::from(super_read)
            ));
        }
        if words.is_empty() {
            return f.write_str("nothing");
        }
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Leftover {
    type Err = LeftoverError;

    fn from_str(text: &str) -> Result<Self, LeftoverError> {
        let mut leftover = Self::default();
        for word in text.split_whitespace() {
            match word {
                "nothing" => {}
                "hook" => leftover.hook = true,
                "renamed" => leftover.renamed = true,
                "announced" => leftover.announced = true,
                _ => {
                    let before = word.strip_prefix("read-only=").and_then(read_only);
                    let before = before.ok_or_else(|| LeftoverError {
                        text: text.to_owned(),
                    })?;
                    leftover.read_only = Some(before);
                }
            }
        }
        Ok(leftover)
    }
}

fn read_only(text: &str) -> Option<ReadOnly> {
    let switch = |text| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    let (read, super_read) = text.split_once(',')?;
    Some(ReadOnly {
        read_only: switch(read)?,
        super_read_only: switch(super_read)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leftover_survives_its_text() {
        for bits in 0..40_u8 {
            let read_only = bits.checked_sub(8).map(|rest| ReadOnly {
                read_only: rest & 8 > 0,
                super_read_only: rest & 16 > 0,
            });
            let leftover = Leftover {
                hook: bits & 1 > 0,
                renamed: bits & 2 > 0,
                announced: bits & 4 > 0,
                read_only,
            };
            assert_eq!(leftover.to_string().parse(), Ok(leftover));
        }
    }

    #[test]
    fn a_text_that_is_not_understood_is_never_taken_for_nothing() {
        for text in ["frozen", "read-only=2,0", "hook read-only"] {
            assert!(text.parse::<Leftover>().is_err(), "{text}");
        }
    }
}

//! Global transaction identifiers and sets of them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One transaction's identifier: `uuid:7`, or `uuid:tag:7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Gtid(String);

/// A set of transactions: `uuid:1-5:7,uuid:tag:1-3`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GtidSet(String);

/// Why a text is not a GTID or a GTID set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a GTID set such as 3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5")]
pub struct GtidError(pub String);

macro_rules! text {
    ($type:ident) => {
        impl FromStr for $type {
            type Err = GtidError;
            fn from_str(text: &str) -> Result<Self, GtidError> {
                Ok(Self(text.to_owned()))
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl TryFrom<String> for $type {
            type Error = GtidError;
            fn try_from(text: String) -> Result<Self, GtidError> {
                text.parse()
            }
        }
        impl From<$type> for String {
            fn from(set: $type) -> Self {
                set.to_string()
            }
        }
    };
}
text!(Gtid);
text!(GtidSet);

//! Names of tables, columns and indexes, quoted in one place.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An unqualified identifier: a column, an index, a database or a table.
///
/// `Display` writes it quoted for SQL; [`Ident::as_str`] gives the bare name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ident(Box<str>);

/// Why a text is not an identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name has no characters.
    #[error("a name is empty")]
    Empty,
    /// The name is longer than a server accepts.
    #[error("name {name:?} has {length} characters, MySQL accepts 64")]
    TooLong {
        /// The name as given.
        name: String,
        /// Its length in characters.
        length: usize,
    },
    /// The name holds a character that MySQL does not accept, even quoted.
    #[error("name {name:?} holds the character {character:?}, which MySQL accepts in no name")]
    Forbidden {
        /// The name as given.
        name: String,
        /// The character.
        character: char,
    },
}

impl Ident {
    /// The most characters that a server accepts in a name.
    ///
    /// Source: MySQL 9.7 manual, "Identifier Length Limits".
    pub const LENGTH_MAX: usize = 64;

    /// Takes a bare, unquoted name.
    ///
    /// # Errors
    ///
    /// [`NameError`] when no server would accept the name, quoted or not.
    /// Source: MySQL 9.7 manual, "Schema Object Names".
    pub fn new(name: impl Into<Box<str>>) -> Result<Self, NameError> {
        let name = name.into();
        let length = name.chars().count();
        if length == 0 {
            return Err(NameError::Empty);
        }
        if length > Self::LENGTH_MAX {
            return Err(NameError::TooLong {
                name: name.into(),
                length,
            });
        }
        if let Some(character) = name.chars().find(|c| *c == '\0' || u32::from(*c) > 0xFFFF) {
            return Err(NameError::Forbidden {
                name: name.into(),
                character,
            });
        }
        Ok(Self(name))
    }

    /// Returns the bare name, not fit for SQL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0.replace('`', "``"))
    }
}

impl TryFrom<String> for Ident {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl From<Ident> for String {
    fn from(name: Ident) -> Self {
        name.0.into()
    }
}

/// A table's full name. `Display` writes it quoted for SQL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableName {
    /// The database that holds the table.
    pub schema: Ident,
    /// The table's name inside its database.
    pub table: Ident,
}

impl TableName {
    /// Puts a database and a table together.
    #[must_use]
    pub const fn new(schema: Ident, table: Ident) -> Self {
        Self { schema, table }
    }

    /// Returns the name as a person writes it: `database.table`, unquoted.
    #[must_use]
    pub fn plain(&self) -> String {
        format!("{}.{}", self.schema.as_str(), self.table.as_str())
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtick_in_a_name_is_doubled() {
        let name = TableName::new(Ident::new("a`b").unwrap(), Ident::new("c.d").unwrap());
        assert_eq!(name.to_string(), "`a``b`.`c.d`");
    }

    #[test]
    fn a_name_no_server_accepts_is_refused() {
        assert_eq!(Ident::new(""), Err(NameError::Empty));
        assert!(Ident::new("x".repeat(64)).is_ok());
        assert_eq!(
            Ident::new("x".repeat(65)),
            Err(NameError::TooLong {
                name: "x".repeat(65),
                length: 65
            })
        );
        assert!(matches!(
            Ident::new("a\0"),
            Err(NameError::Forbidden {
                character: '\0',
                ..
            })
        ));
    }
}

//! How databases and tables are named in options.

use crate::{Ident, NameError, Remedy, TableName};

/// A database or a table, as an option names it.
///
/// `shop` or `shop.orders`; a name with a dot, an equals sign or a backtick
/// stands in backticks, with its own doubled, as in SQL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing else to name")]
pub enum Place {
    /// All of a database.
    Database(Ident),
    /// One table.
    Table(TableName),
}

/// A database or a table that is called otherwise on the target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rename {
    /// What it is called on the source.
    pub from: Place,
    /// What it is called on the target: a database for a database, a table
    /// for a table.
    pub to: Place,
}

/// Why a text names nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Neither `DATABASE` nor `DATABASE.TABLE`.
    #[error(
        "{text:?} is neither DATABASE nor DATABASE.TABLE: put a name with a dot, an equals sign or a backtick in backticks"
    )]
    Shape {
        /// The text as given.
        text: String,
    },
    /// Not `FROM=TO` with two of a kind.
    #[error("{text:?} is no rename: give DATABASE=DATABASE or DATABASE.TABLE=DATABASE.TABLE")]
    Rename {
        /// The text as given.
        text: String,
    },
    /// A part is no name.
    #[error("{text:?} holds a name that no server takes")]
    Name {
        /// The text as given.
        text: String,
        /// Why it is none.
        #[source]
        source: NameError,
    },
}

impl PlaceError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        Remedy::Usage
    }
}

impl Place {
    /// Reads `DATABASE` or `DATABASE.TABLE`.
    ///
    /// # Errors
    ///
    /// [`PlaceError`] when it is neither.
    pub fn parse(text: &str) -> Result<Self, PlaceError> {
        match Self::prefix(text, text)? {
            (place, "") => Ok(place),
            _ => Err(shape(text)),
        }
    }

    /// Returns the name as a person writes it, unquoted.
    #[must_use]
    pub fn plain(&self) -> String {
        match self {
            Self::Database(name) => name.as_str().to_owned(),
            Self::Table(name) => name.plain(),
        }
    }

    /// Reads the place at the beginning of `rest`, and returns what follows.
    fn prefix<'t>(rest: &'t str, whole: &str) -> Result<(Self, &'t str), PlaceError> {
        let (schema, rest) = name(rest, whole)?;
        match rest.strip_prefix('.') {
            None => Ok((Self::Database(schema), rest)),
            Some(rest) => {
                let (table, rest) = name(rest, whole)?;
                Ok((Self::Table(TableName::new(schema, table)), rest))
            }
        }
    }
}

impl Rename {
    /// Reads `FROM=TO`.
    ///
    /// # Errors
    ///
    /// [`PlaceError`] when it isn't two databases or two tables.
    pub fn parse(text: &str) -> Result<Self, PlaceError> {
        let refused = || PlaceError::Rename {
            text: text.to_owned(),
        };
        let (from, rest) = Place::prefix(text, text)?;
        let rest = rest.strip_prefix('=').ok_or_else(refused)?;
        let (to, rest) = Place::prefix(rest, text)?;
        match (&from, &to, rest) {
            (Place::Database(_), Place::Database(_), "")
            | (Place::Table(_), Place::Table(_), "") => Ok(Self { from, to }),
            _ => Err(refused()),
        }
    }
}

/// Reads one name, quoted or up to the next dot or equals sign.
fn name<'t>(text: &'t str, whole: &str) -> Result<(Ident, &'t str), PlaceError> {
    let (bare, rest) = if let Some(quoted) = text.strip_prefix('`') {
        unquote(quoted).ok_or_else(|| shape(whole))?
    } else {
        let end = text.find(['.', '=']).unwrap_or(text.len());
        let (bare, rest) = text.split_at(end);
        if bare.is_empty() || bare.contains('`') {
            return Err(shape(whole));
        }
        (bare.to_owned(), rest)
    };
    let name = Ident::new(bare).map_err(|source| PlaceError::Name {
        text: whole.to_owned(),
        source,
    })?;
    Ok((name, rest))
}

/// Takes a name whose opening backtick is gone, and returns it bare with what
/// follows its closing one.
pub(super) fn unquote(text: &str) -> Option<(String, &str)> {
    let mut bare = String::new();
    let mut rest = text;
    loop {
        let (part, behind) = rest.split_once('`')?;
        bare.push_str(part);
        match behind.strip_prefix('`') {
            Some(more) => {
                bare.push('`');
                rest = more;
            }
            None => return Some((bare, behind)),
        }
    }
}

fn shape(text: &str) -> PlaceError {
    PlaceError::Shape {
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(schema: &str, table: &str) -> Place {
        Place::Table(TableName::new(
            Ident::new(schema).unwrap(),
            Ident::new(table).unwrap(),
        ))
    }

    #[test]
    fn databases_and_tables_are_told_apart_by_the_dot_outside_backticks() {
        let database = |name: &str| Place::Database(Ident::new(name).unwrap());
        assert_eq!(Place::parse("shop").unwrap(), database("shop"));
        assert_eq!(Place::parse("`a.b`").unwrap(), database("a.b"));
        assert_eq!(
            Place::parse("shop.orders").unwrap(),
            table("shop", "orders")
        );
        assert_eq!(Place::parse("`a.b`.`c``=d`").unwrap(), table("a.b", "c`=d"));
    }

    #[test]
    fn what_is_not_a_place_is_refused() {
        for text in [
            "", ".", "a.", ".b", "a.b.c", "a`b", "`a", "`a`b", "a=b", "``",
        ] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
        let long = "x".repeat(65);
        assert!(matches!(Place::parse(&long), Err(PlaceError::Name { .. })));
    }

    #[test]
    fn a_rename_keeps_its_kind() {
        let rename = Rename::parse("shop.`a=b`=shop2.c").unwrap();
        assert_eq!(rename.from, table("shop", "a=b"));
        assert_eq!(rename.to, table("shop2", "c"));
        assert!(Rename::parse("shop=shop2").is_ok());
        for text in ["shop", "shop=", "shop=a.b", "a.b=c", "a=b=c", "=b"] {
            assert!(Rename::parse(text).is_err(), "{text}");
        }
    }
}

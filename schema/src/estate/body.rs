//! Which names a trigger's body holds.

use std::collections::BTreeSet;

use crate::Trigger;

/// Character sets of clients in which a byte of a longer character may look
/// like a quote or a backslash. Source: MySQL 9.7 manual, "The big5 Chinese
/// Character Set", "The cp932 Character Set" and "The gbk Character Set".
const AMBIGUOUS: [&str; 5] = ["big5", "cp932", "gb18030", "gbk", "sjis"];

/// Returns the words and quoted names of the trigger's body, in lower case,
/// except those behind `NEW.` and `OLD.`, which are columns; `None` if the
/// body is in a character set that can't be looked through.
///
/// Finds too much rather than too little: keywords and columns are among them.
pub(super) fn names(trigger: &Trigger) -> Option<BTreeSet<String>> {
    if AMBIGUOUS.contains(&trigger.client_charset.as_str()) {
        return None;
    }
    let ansi = trigger
        .sql_mode
        .split(',')
        .any(|mode| mode == "ANSI_QUOTES");
    let escapes = !trigger
        .sql_mode
        .split(',')
        .any(|mode| mode == "NO_BACKSLASH_ESCAPES");
    // In every other set a byte below 0x80 is the ASCII character. A name with
    // others is compared in UTF-8, which is what nearly all clients speak.
    let body = String::from_utf8_lossy(&trigger.body);
    Some(Scan::new(&body, ansi, escapes).names())
}

struct Scan<'t> {
    rest: &'t str,
    ansi: bool,
    escapes: bool,
    found: BTreeSet<String>,
    /// The piece before this one, and the one before that.
    before: (String, String),
}

impl<'t> Scan<'t> {
    const fn new(body: &'t str, ansi: bool, escapes: bool) -> Self {
        Self {
            rest: body,
            ansi,
            escapes,
            found: BTreeSet::new(),
            before: (String::new(), String::new()),
        }
    }

    fn names(mut self) -> BTreeSet<String> {
        while let Some(first) = self.rest.chars().next() {
            match first {
                '\'' => self.text(first),
                '"' if !self.ansi => self.text(first),
                '"' | '`' => self.quoted(first),
                '#' => self.skip_past("\n"),
                _ if self.rest.starts_with("/*!") => self.advance(3),
                _ if self.rest.starts_with("/*") => self.skip_past("*/"),
                _ if self.rest.starts_with("-- ") || self.rest.starts_with("--\n") => {
                    self.skip_past("\n");
                }
                _ if is_of_word(first) => self.word(),
                _ => {
                    if !first.is_whitespace() {
                        self.remember(first.to_string());
                    }
                    self.advance(first.len_utf8());
                }
            }
        }
        self.found
    }

    fn word(&mut self) {
        let rest = self.rest;
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default().to_lowercase();
        self.name(word);
        self.advance(end);
    }

    fn quoted(&mut self, quote: char) {
        let (name, length) = self.closed(quote, false);
        self.name(name.to_lowercase());
        self.advance(length);
    }

    fn text(&mut self, quote: char) {
        let (_, length) = self.closed(quote, self.escapes);
        self.remember(String::new());
        self.advance(length);
    }

    fn name(&mut self, name: String) {
        let (dot, row) = (&self.before.1, &self.before.0);
        let is_column = dot == "." && matches!(row.as_str(), "new" | "old");
        if !is_column {
            self.found.insert(name.clone());
        }
        self.remember(name);
    }

    fn remember(&mut self, piece: String) {
        let last = std::mem::replace(&mut self.before.1, piece);
        self.before.0 = last;
    }

    /// Returns the quoted text at the beginning, and its length with quotes.
    fn closed(&self, quote: char, escapes: bool) -> (String, usize) {
        let mut bare = String::new();
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\\' && escapes {
                chars.next();
            } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
                return (bare, at + 1);
            } else {
                bare.push(c);
            }
        }
        (bare, self.rest.len())
    }

    fn skip_past(&mut self, end: &str) {
        let length = self
            .rest
            .find(end)
            .map_or(self.rest.len(), |at| at + end.len());
        self.advance(length);
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ident, TableName};

    fn found(body: &str, sql_mode: &str, charset: &str) -> Option<Vec<String>> {
        let name = |text: &str| Ident::new(text).unwrap();
        let trigger = Trigger {
            name: name("x"),
            table: TableName::new(name("d"), name("t")),
            when: "BEFORE INSERT".to_owned(),
            order: 1,
            definer: "`a`@`%`".to_owned(),
            sql_mode: sql_mode.to_owned(),
            client_charset: charset.to_owned(),
            connection_collation: "utf8mb4_bin".to_owned(),
            database_collation: "utf8mb4_bin".to_owned(),
            body: body.as_bytes().to_vec(),
        };
        names(&trigger).map(|names| names.into_iter().collect())
    }

    #[test]
    fn names_are_found_outside_strings_and_comments() {
        let body = "BEGIN -- hid\n# hid\n/* hid */ SET @a='hid\\' hid', \"hid\"=1; \
                    INSERT INTO Shop.`or``ders` /*!50000 seen */ VALUES (NEW.hid, OLD . hid2); END";
        assert_eq!(
            found(body, "", "utf8mb4").unwrap(),
            [
                "50000", "a", "begin", "end", "insert", "into", "new", "old", "or`ders", "seen",
                "set", "shop", "values", "1"
            ]
            .into_iter()
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_triggers_own_mode_says_what_quotes_mean() {
        let has = |mode, body: &str, name: &str| {
            found(body, mode, "latin1")
                .unwrap()
                .contains(&name.to_owned())
        };
        assert!(has("ANSI_QUOTES", "SET \"shop\".x = 1", "shop"));
        assert!(!has("", "SET \"shop\".x = 1", "shop"));
        assert!(has(
            "NO_BACKSLASH_ESCAPES",
            "SET @a = '\\', b = shop",
            "shop"
        ));
    }

    #[test]
    fn a_set_in_which_bytes_may_be_taken_for_quotes_is_not_looked_through() {
        assert_eq!(found("SET @a = 1", "", "sjis"), None);
    }
}

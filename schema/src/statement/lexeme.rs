//! Cutting SQL text into words, names, literals and symbols.

use std::any::TypeId;

use sqlparser::{
    dialect::{Dialect, MySqlDialect},
    tokenizer::{Location, Token, Tokenizer, Whitespace},
};

/// A piece of SQL text that is neither white space nor comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lexeme<'t> {
    pub(super) kind: Kind,
    /// As written, quotes included.
    pub(super) text: &'t str,
    /// Where it begins in the whole text, in bytes.
    pub(super) start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword, or a name without quotes.
    Word,
    /// A name in backticks.
    QuotedName,
    /// A string, a number, a hexadecimal or bit literal.
    Literal,
    /// Anything else.
    Symbol,
}

/// Why a text can't be cut into pieces without doubt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LexError {
    /// A quote or comment has no end, or a character belongs nowhere.
    #[error("{reason}")]
    Malformed {
        /// What the lexer says, with line and column.
        reason: String,
    },
    /// A comment that servers execute.
    #[error("comment {comment:?} is code to some servers: write its content without the comment")]
    ExecutableComment {
        /// The comment.
        comment: String,
    },
    /// Text that this program and a server might read differently.
    #[error("{text:?} may mean something else to the server: write it in another way")]
    Doubtful {
        /// The text.
        text: String,
    },
}

impl<'t> Lexeme<'t> {
    /// The upper-case word, where this is an unquoted one; else nothing.
    pub(super) fn word(&self) -> String {
        if self.kind == Kind::Word {
            self.text.to_ascii_uppercase()
        } else {
            String::new()
        }
    }
}

/// Cuts `text` into pieces.
pub(super) fn read(text: &str) -> Result<Vec<Lexeme<'_>>, LexError> {
    doubtful_line_ends(text)?;
    let tokens = Tokenizer::new(&Session, text)
        .with_unescape(false)
        .tokenize_with_location()
        .map_err(|error| LexError::Malformed {
            reason: error.to_string().to_lowercase(),
        })?;
    let mut cursor = Cursor::new(text);
    let mut lexemes: Vec<Lexeme<'_>> = Vec::new();
    for token in tokens {
        let start = cursor.at;
        let piece = cursor.advance(token.span.start, token.span.end)?;
        let Some(kind) = kind(&token.token, piece)? else {
            continue;
        };
        if let Some(last) = lexemes.last()
            && (last.text, piece) == ("-", "-")
            && last.start + 1 == start
        {
            return Err(doubtful("--"));
        }
        lexemes.push(Lexeme {
            kind,
            text: piece,
            start,
        });
    }
    if cursor.at != text.len() {
        return Err(doubtful(text.get(cursor.at..).unwrap_or_default()));
    }
    Ok(lexemes)
}

/// Returns what a token is, `None` for white space and comments.
fn kind(token: &Token, piece: &str) -> Result<Option<Kind>, LexError> {
    let known = match token {
        Token::Whitespace(Whitespace::MultiLineComment(comment)) => {
            if comment.starts_with(['!', '+']) || comment.starts_with("M!") {
                return Err(LexError::ExecutableComment {
                    comment: piece.to_owned(),
                });
            }
            return Ok(None);
        }
        Token::Whitespace(Whitespace::SingleLineComment { .. }) | Token::EOF => return Ok(None),
        Token::Whitespace(Whitespace::Space | Whitespace::Tab | Whitespace::Newline) => {
            // MySQL knows ASCII white space only, and takes the rest for names.
            let ascii = |c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
            return if piece.chars().all(ascii) {
                Ok(None)
            } else {
                Err(doubtful(piece))
            };
        }
        Token::Word(word) if word.quote_style.is_some() => {
            is_quoted(piece, '`').then_some(Kind::QuotedName)
        }
        Token::Word(_) => is_plain_word(piece).then_some(Kind::Word),
        Token::Number(..) => Some(Kind::Literal),
        Token::SingleQuotedString(_) => is_quoted(piece, '\'').then_some(Kind::Literal),
        Token::DoubleQuotedString(_) => is_quoted(piece, '"').then_some(Kind::Literal),
        Token::NationalStringLiteral(_) => piece
            .get(1..)
            .is_some_and(|rest| is_quoted(rest, '\''))
            .then_some(Kind::Literal),
        Token::SingleQuotedByteStringLiteral(digits) => digits
            .chars()
            .all(|c| matches!(c, '0' | '1'))
            .then_some(Kind::Literal),
        Token::HexStringLiteral(digits) => digits
            .chars()
            .all(|c| c.is_ascii_hexdigit())
            .then_some(Kind::Literal),
        _ => is_symbol(piece).then_some(Kind::Symbol),
    };
    known.map(Some).ok_or_else(|| doubtful(piece))
}

fn is_quoted(piece: &str, quote: char) -> bool {
    piece.len() >= 2 && piece.starts_with(quote) && piece.ends_with(quote)
}

fn is_plain_word(piece: &str) -> bool {
    !piece.starts_with('$')
        && !piece.contains('@')
        && !piece.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Operators and punctuation that clauses can hold: expressions of generated
/// columns, defaults, checks and partitions.
fn is_symbol(piece: &str) -> bool {
    !piece.is_empty() && piece.chars().all(|c| "(),.;=<>!+-*/%&|^~".contains(c))
}

/// A comment ends at a line feed for MySQL, and for others also at a carriage
/// return; a NUL ends the text for some.
fn doubtful_line_ends(text: &str) -> Result<(), LexError> {
    if text.replace("\r\n", "\n").contains('\r') || text.contains('\0') {
        return Err(doubtful("a lone carriage return or NUL"));
    }
    Ok(())
}

fn doubtful(text: &str) -> LexError {
    LexError::Doubtful {
        text: text.to_owned(),
    }
}

/// Turns the lexer's lines and columns, which count characters, into bytes,
/// and makes sure that the tokens leave no gap.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    location: Location,
}

impl<'t> Cursor<'t> {
    const fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            location: Location { line: 1, column: 1 },
        }
    }

    fn advance(&mut self, start: Location, end: Location) -> Result<&'t str, LexError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if start != self.location {
            return Err(doubtful(rest));
        }
        let mut length = 0;
        for c in rest.chars() {
            if self.location >= end {
                break;
            }
            if c == '\n' {
                self.location = Location::new(self.location.line + 1, 1);
            } else {
                self.location.column += 1;
            }
            length += c.len_utf8();
        }
        if self.location != end {
            return Err(doubtful(rest));
        }
        self.at += length;
        Ok(rest.get(..length).unwrap_or_default())
    }
}

/// MySQL's dialect, but with executable comments left as comments, so that
/// they are seen, and refused.
#[derive(Debug)]
struct Session;

const MYSQL: MySqlDialect = MySqlDialect {};

impl Dialect for Session {
    fn dialect(&self) -> TypeId {
        TypeId::of::<MySqlDialect>()
    }

    fn is_identifier_start(&self, c: char) -> bool {
        MYSQL.is_identifier_start(c)
    }

    fn is_identifier_part(&self, c: char) -> bool {
        MYSQL.is_identifier_part(c)
    }

    fn is_delimited_identifier_start(&self, c: char) -> bool {
        MYSQL.is_delimited_identifier_start(c)
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        true
    }

    fn ignores_wildcard_escapes(&self) -> bool {
        true
    }

    fn supports_numeric_prefix(&self) -> bool {
        true
    }

    fn supports_literal_prefix_in_qualified_name(&self) -> bool {
        true
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    fn requires_single_line_comment_whitespace(&self) -> bool {
        true
    }

    fn supports_hash_comment(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        read(text)
            .unwrap()
            .into_iter()
            .map(|lexeme| lexeme.text)
            .collect()
    }

    #[test]
    fn pieces_are_as_written() {
        assert_eq!(
            texts(
                "ADD `a``b`\tINT -- c\n DEFAULT 'it''s\\'' # d\n, x'4F' 0xAB b'1' 1.5e3 \"q\"\"\""
            ),
            [
                "ADD",
                "`a``b`",
                "INT",
                "DEFAULT",
                "'it''s\\''",
                ",",
                "x'4F'",
                "0xAB",
                "b'1'",
                "1.5e3",
                "\"q\"\"\""
            ]
        );
    }

    #[test]
    fn a_backslash_at_the_end_of_a_string_does_not_eat_the_quote_behind_it() {
        assert_eq!(texts(r"'\\' , 'b'"), [r"'\\'", ",", "'b'"]);
        assert_eq!(texts(r"`a\` , b"), [r"`a\`", ",", "b"]);
    }

    #[test]
    fn characters_are_not_bytes() {
        assert_eq!(texts("'日本' é, 'x'"), ["'日本'", "é", ",", "'x'"]);
    }

    #[test]
    fn executable_comments_are_refused() {
        for text in [
            "/*! RENAME TO x */",
            "/*!80000 x*/",
            "/*+ x */",
            "/*M! x */",
            "/*M!100100 x */",
        ] {
            assert!(
                matches!(read(text), Err(LexError::ExecutableComment { .. })),
                "{text}"
            );
        }
        assert_eq!(texts("/* ! */ a /**/"), ["a"]);
    }

    #[test]
    fn what_a_server_may_read_otherwise_is_refused() {
        for text in [
            "a --b",
            "a --",
            "a\rb",
            "a\0b",
            "a\u{a0}b",
            "a\u{2003}b",
            "$$ , $$",
            "$a",
            "@a",
            "a@b",
            "?",
            ":a",
            "b\"01\"",
            "x'4\\''",
            "b'2'",
            "\\N",
            "[a]",
            "{a}",
            "'a",
            "`a",
            "/* a",
            "\"a",
        ] {
            assert!(read(text).is_err(), "{text:?} gave {:?}", read(text));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r#"[ a-z'"`\\(),;#/*!\n\r$@é-]{0,40}"#) {
            if let Ok(lexemes) = read(&text) {
                for lexeme in lexemes {
                    prop_assert_eq!(&text[lexeme.start..][..lexeme.text.len()], lexeme.text);
                }
            }
        }
    }
}

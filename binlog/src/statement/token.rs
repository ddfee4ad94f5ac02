//! SQL text as words, names and marks.

/// A piece of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// An unquoted word: a keyword or a name.
    Word(Vec<u8>),
    /// A name in backticks, or a text in double quotes, which is a name under
    /// the SQL mode `ANSI_QUOTES`.
    Quoted(Vec<u8>),
    /// A text in single quotes.
    Text,
    /// Any other character.
    Mark(u8),
}

impl Token {
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(bytes) if bytes.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// The name that it is, if it may be one.
    pub(super) fn identifier(&self) -> Option<Vec<u8>> {
        match self {
            Self::Word(name) | Self::Quoted(name) => Some(name.clone()),
            Self::Text | Self::Mark(_) => None,
        }
    }
}

/// A statement's pieces, without white space and comments.
#[derive(Debug)]
pub(super) struct Tokens(Vec<Token>);

impl Tokens {
    /// Takes a statement apart; `None` when a quote or comment has no end.
    ///
    /// What stands in a comment that servers execute (`/*! … */`) is part of
    /// the statement. Source: MySQL 9.7 manual, "Comments".
    pub(super) fn lex(sql: &[u8]) -> Option<Self> {
        let mut lexer = Lexer {
            rest: sql,
            tokens: Vec::new(),
        };
        while let Some(first) = lexer.rest.first() {
            lexer.step(*first)?;
        }
        Some(Self(lexer.tokens))
    }

    pub(super) fn as_slice(&self) -> &[Token] {
        &self.0
    }
}

struct Lexer<'a> {
    rest: &'a [u8],
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn step(&mut self, first: u8) -> Option<()> {
        match first {
            b'#' => self.skip_line(),
            b'-' if self.rest.starts_with(b"--") && self.dashes_are_comment() => self.skip_line(),
            b'/' if self.rest.starts_with(b"/*!") => {
                self.skip(3);
                while self.rest.first().is_some_and(u8::is_ascii_digit) {
                    self.skip(1);
                }
            }
            b'/' if self.rest.starts_with(b"/*") => {
                let end = self.rest.windows(2).skip(2).position(|two| two == b"*/")?;
                self.skip(end + 4);
            }
            b'*' if self.rest.starts_with(b"*/") => self.skip(2),
            b'`' => {
                let name = self.quoted(b'`', false)?;
                self.tokens.push(Token::Quoted(name));
            }
            b'"' => {
                let name = self.quoted(b'"', true)?;
                self.tokens.push(Token::Quoted(name));
            }
            b'\'' => {
                self.quoted(b'\'', true)?;
                self.tokens.push(Token::Text);
            }
            byte if is_word(byte) => {
                let end = self.rest.iter().position(|byte| !is_word(*byte));
                let (word, rest) = self.rest.split_at_checked(end.unwrap_or(self.rest.len()))?;
                self.tokens.push(Token::Word(word.to_vec()));
                self.rest = rest;
            }
            byte => {
                if !byte.is_ascii_whitespace() && byte != 0x0B {
                    self.tokens.push(Token::Mark(byte));
                }
                self.skip(1);
            }
        }
        Some(())
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    fn skip_line(&mut self) {
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        self.skip(end.map_or(self.rest.len(), |end| end + 1));
    }

    /// Two dashes start a comment only in front of white space.
    fn dashes_are_comment(&self) -> bool {
        self.rest
            .get(2)
            .is_none_or(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
    }

    /// Takes a quoted part, the quote doubled or, where `escapes`, escaped.
    fn quoted(&mut self, quote: u8, escapes: bool) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        self.skip(1);
        loop {
            match self.rest {
                [b'\\', next, ..] if escapes => {
                    content.push(*next);
                    self.skip(2);
                }
                [first, second, ..] if *first == quote && *second == quote => {
                    content.push(quote);
                    self.skip(2);
                }
                [first, ..] if *first == quote => {
                    self.skip(1);
                    return Some(content);
                }
                [first, ..] => {
                    content.push(*first);
                    self.skip(1);
                }
                [] => return None,
            }
        }
    }
}

/// Source: MySQL 9.7 manual, "Schema Object Names".
const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

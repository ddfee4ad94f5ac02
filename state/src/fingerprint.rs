//! When two spellings of a statement are the same statement.

use std::{iter::Peekable, str::Chars};

/// Returns the statement without what doesn't change its meaning.
///
/// White space between words becomes one space, and white space and
/// semicolons at the ends go. Everything in quotes and in comments stays as it
/// is, and so does letter case: where this function doubts, two spellings are
/// two statements. A backslash escapes the next character in `'…'` and `"…"`,
/// as it does unless `sql_mode` has `NO_BACKSLASH_ESCAPES`.
#[must_use]
pub fn fingerprint(statement: &str) -> String {
    let mut chars = statement.trim().chars().peekable();
    let mut text = String::with_capacity(statement.len());
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' | '`' => quoted(c, &mut chars, &mut text),
            '#' => line_comment(c, &mut chars, &mut text),
            '-' if starts_comment(&chars) => line_comment(c, &mut chars, &mut text),
            '/' if chars.peek() == Some(&'*') => block_comment(&mut chars, &mut text),
            c if c.is_ascii_whitespace() => {
                if !text.ends_with([' ', '\n']) {
                    text.push(' ');
                }
            }
            c => text.push(c),
        }
    }
    text.trim_end_matches([';', ' ']).to_owned()
}

/// Returns whether a `-` that was just read begins a comment: `-- `.
fn starts_comment(rest: &Peekable<Chars<'_>>) -> bool {
    let mut ahead = rest.clone();
    ahead.next() == Some('-') && ahead.next().is_none_or(|c| c.is_whitespace())
}

/// Copies up to the closing quote. A doubled quote closes and opens again,
/// which comes out the same.
fn quoted(quote: char, chars: &mut Peekable<Chars<'_>>, text: &mut String) {
    text.push(quote);
    while let Some(c) = chars.next() {
        text.push(c);
        if c == quote {
            return;
        }
        if c == '\\' && quote != '`' {
            text.extend(chars.next());
        }
    }
}

/// Copies up to the end of the line, which ends the comment.
fn line_comment(first: char, chars: &mut Peekable<Chars<'_>>, text: &mut String) {
    text.push(first);
    for c in chars.by_ref() {
        text.push(c);
        if c == '\n' {
            return;
        }
    }
}

/// Copies up to the closing `*/`.
fn block_comment(chars: &mut Peekable<Chars<'_>>, text: &mut String) {
    text.push('/');
    let mut star = false;
    for (i, c) in chars.by_ref().enumerate() {
        text.push(c);
        if star && c == '/' {
            return;
        }
        // The star that opens the comment does not close it: `/*/`.
        star = c == '*' && i > 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(statement: &str, expected: &str) {
        assert_eq!(fingerprint(statement), expected);
    }

    #[test]
    fn spaces_between_words_do_not_count() {
        check(" ALTER  TABLE\n t\tADD x INT ; ", "ALTER TABLE t ADD x INT");
    }

    #[test]
    fn spaces_inside_quotes_count() {
        check("DEFAULT 'a  b'", "DEFAULT 'a  b'");
        check("DEFAULT 'it''s  a'  NULL", "DEFAULT 'it''s  a' NULL");
        check(r"DEFAULT 'a\'  b'  NULL", r"DEFAULT 'a\'  b' NULL");
        check("ADD `a  b`  INT", "ADD `a  b` INT");
        check(r"ADD `a\`  INT", r"ADD `a\` INT");
    }

    #[test]
    fn a_line_comment_keeps_its_end() {
        let two = "ADD a INT, -- note\n ADD b INT";
        let one = "ADD a INT, -- note ADD b INT";
        assert_ne!(fingerprint(two), fingerprint(one));
        check(
            "ADD a INT # it's\n  ,  ADD b INT",
            "ADD a INT # it's\n, ADD b INT",
        );
    }

    #[test]
    fn a_quote_in_a_comment_opens_nothing() {
        check("ADD /* it's  */  a  INT", "ADD /* it's  */ a INT");
        check("ADD /*/ it's */  a  INT", "ADD /*/ it's */ a INT");
    }

    #[test]
    fn a_minus_is_no_comment() {
        check("DEFAULT  5--3", "DEFAULT 5--3");
    }

    #[test]
    fn letter_case_counts() {
        assert_ne!(fingerprint("ADD A INT"), fingerprint("ADD a INT"));
    }

    proptest! {
        #[test]
        fn a_fingerprint_is_its_own_fingerprint(statement: String) {
            let once = fingerprint(&statement);
            // An unfinished comment or quote may end in what trimming removes.
            prop_assert_eq!(fingerprint(&format!("{once} ")), once);
        }
    }
}

//! Files of SQL, cut apart into statements.

/// Cuts a text into its statements, without their semicolons.
///
/// Understands quotes, comments, and lines `DELIMITER X` as the client
/// program does, so that bodies of triggers can be written down.
#[must_use]
pub fn statements(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut delimiter = ";".to_owned();
    let mut statement = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if statement.trim().is_empty()
            && let Some(line) = rest.strip_prefix("DELIMITER ")
        {
            let end = line.find('\n').unwrap_or(line.len());
            let (word, after) = line.split_at(end);
            word.trim().clone_into(&mut delimiter);
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix(&*delimiter) {
            keep(&mut found, &statement);
            statement.clear();
            rest = after;
            continue;
        }
        let taken = piece(rest, next);
        let (text, after) = rest.split_at(taken);
        if !is_comment(text) {
            statement.push_str(text);
        }
        rest = after;
    }
    keep(&mut found, &statement);
    found
}

fn keep(found: &mut Vec<String>, statement: &str) {
    let statement = statement.trim();
    if !statement.is_empty() {
        found.push(statement.to_owned());
    }
}

fn is_comment(text: &str) -> bool {
    text.starts_with("-- ") || text == "--" || text.starts_with("--\n") || text.starts_with('#')
}

/// The length of what begins the text: a quoted text, a comment, a character.
fn piece(text: &str, first: char) -> usize {
    match first {
        '\'' | '"' | '`' => quoted(text, first),
        '#' => line(text),
        '-' if text.starts_with("-- ") || text.starts_with("--\n") => line(text),
        '/' if text.starts_with("/*") => text.find("*/").map_or(text.len(), |end| end + 2),
        other => other.len_utf8(),
    }
}

fn line(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

fn quoted(text: &str, quote: char) -> usize {
    let mut inside = text.char_indices().skip(1);
    while let Some((at, letter)) = inside.next() {
        if letter == '\\' && quote != '`' {
            inside.next();
        } else if letter == quote {
            // A doubled quote begins the next piece, which ends at once.
            return at + letter.len_utf8();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_in_quotes_and_comments_end_nothing() {
        let text =
            "INSERT INTO t VALUES ('a;''b\\';', \"c;\", `d;`); -- x;\n# y;\nSELECT 1 /* ; */;\n";
        assert_eq!(
            statements(text),
            [
                "INSERT INTO t VALUES ('a;''b\\';', \"c;\", `d;`)",
                "SELECT 1 /* ; */"
            ]
        );
    }

    #[test]
    fn another_delimiter_lets_bodies_hold_semicolons() {
        let text = "A;\nDELIMITER //\nBEGIN x; y; END//\nDELIMITER ;\nB";
        assert_eq!(statements(text), ["A", "BEGIN x; y; END", "B"]);
    }

    #[test]
    fn nothing_but_comments_is_no_statement() {
        assert!(statements("-- a\n\n# b\n;;").is_empty());
    }
}

//! The members of an ENUM or SET, out of the column's type.

/// Reads `enum('a','b')` or `set('a','b')` as `information_schema` prints it.
///
/// The server doubles quotes and writes NUL, line feed, carriage return and
/// backslash with a backslash. Source: `append_unescaped()` in the server's
/// `sql/sql_show.cc`; checked in the test
/// `enum_members_come_with_quotes_commas_and_backslashes`.
/// Returns `None` for any other type, and for text that ends too early.
pub(crate) fn members(column_type: &str) -> Option<Vec<String>> {
    let list = column_type
        .strip_prefix("enum(")
        .or_else(|| column_type.strip_prefix("set("))?;
    let mut chars = list.chars().peekable();
    let mut members = Vec::new();
    loop {
        if chars.next()? != '\'' {
            return None;
        }
        let mut member = String::new();
        loop {
            match chars.next()? {
                '\'' if chars.next_if_eq(&'\'').is_some() => member.push('\''),
                '\'' => break,
                '\\' => member.push(unescape(chars.next()?)),
                c => member.push(c),
            }
        }
        members.push(member);
        match chars.next()? {
            ',' => {}
            ')' => return Some(members),
            _ => return None,
        }
    }
}

const fn unescape(c: char) -> char {
    match c {
        '0' => '\0',
        'n' => '\n',
        'r' => '\r',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_commas_and_parentheses_belong_to_a_member() {
        assert_eq!(
            members(r"enum('x''y','a,b','c)','back\\slash','nl\n','')").unwrap(),
            ["x'y", "a,b", "c)", r"back\slash", "nl\n", ""]
        );
        assert_eq!(members("set('a','b')").unwrap(), ["a", "b"]);
    }

    #[test]
    fn other_types_have_no_members() {
        assert_eq!(members("varchar(20)"), None);
        assert_eq!(members("enum('a"), None);
        assert_eq!(members("enum('a';"), None);
    }

    proptest! {
        #[test]
        fn what_the_server_prints_is_read_back(all in prop::collection::vec(".*", 1..5)) {
            let printed: Vec<String> = all
                .iter()
                .map(|m: &String| {
                    let m = m.replace('\\', r"\\").replace('\'', "''").replace('\0', r"\0");
                    format!("'{}'", m.replace('\n', r"\n").replace('\r', r"\r"))
                })
                .collect();
            let read = members(&format!("enum({})", printed.join(",")));
            prop_assert_eq!(read, Some(all));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = members(&format!("enum({text}"));
        }
    }
}

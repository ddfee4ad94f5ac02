//! Where the server is, and with which login.

use std::path::Path;

use oxferry_schema::{Ident, ServerUrl, TableName};

use crate::{
    args::ServerArgs,
    failure::{Failure, remedied},
};

remedied!(oxferry_schema::ServerUrlError);

/// The environment variable that may hold the source's password.
const SOURCE_PASSWORD: &str = "OXFERRY_SOURCE_PASSWORD";

/// The environment variable that may hold the target's password.
const TARGET_PASSWORD: &str = "OXFERRY_TARGET_PASSWORD";

/// Reads the source's URL and its login: user from the URL; password from the
/// environment, else the option file, else the URL.
///
/// # Errors
///
/// A failure that says what is wrong with the URL or the file; it never shows
/// a password.
pub(crate) fn source_url(args: &ServerArgs) -> Result<ServerUrl, Failure> {
    let text = args.source.as_deref().ok_or_else(|| {
        Failure::usage("no server given: add --source mysql://user@host:port/database")
    })?;
    Ok(ServerUrl::parse(text, password(args)?.as_deref())?)
}

/// Reads the target's URL and its login: the password from the environment,
/// else from the URL.
///
/// # Errors
///
/// As [`source_url`].
pub(crate) fn target_url(text: Option<&str>) -> Result<ServerUrl, Failure> {
    let text =
        text.ok_or_else(|| Failure::usage("no target given: add --target mysql://user@host:port"))?;
    let password = std::env::var(TARGET_PASSWORD).ok();
    Ok(ServerUrl::parse(text, password.as_deref())?)
}

/// Reads the URL of a replica, or of a primary; where it names no password, the source's is used.
///
/// # Errors
///
/// As [`source_url`].
pub(crate) fn replica_url(text: &str, args: &ServerArgs) -> Result<ServerUrl, Failure> {
    let own = ServerUrl::parse(text, None)?;
    if own.has_password() {
        return Ok(own);
    }
    Ok(ServerUrl::parse(text, password(args)?.as_deref())?)
}

fn password(args: &ServerArgs) -> Result<Option<String>, Failure> {
    let from_file = args
        .defaults_file
        .as_deref()
        .map(client_password)
        .transpose()?
        .flatten();
    Ok(std::env::var(SOURCE_PASSWORD).ok().or(from_file))
}

/// Reads `password` of the `[client]` section of a MySQL option file.
fn client_password(file: &Path) -> Result<Option<String>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(oxferry_schema::Remedy::Usage, error)
            .context(format!("reading the option file {}", file.display()))
    })?;
    Ok(password_in(&text))
}

/// Source of the syntax: MySQL 9.7 manual, "Using Option Files": `#` or `;`
/// begins a comment line, quotes around a value are taken off, and a backslash
/// escapes `b t n r \ s`. The last of several settings wins.
fn password_in(text: &str) -> Option<String> {
    let mut in_client = false;
    let mut password = None;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            in_client = section.trim_end_matches(']').trim() == "client";
        } else if in_client
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == "password"
        {
            password = Some(unescape(unquote(value.trim())));
        }
    }
    password
}

fn unquote(value: &str) -> &str {
    let quoted = |quote| {
        value
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote))
    };
    quoted('"').or_else(|| quoted('\'')).unwrap_or(value)
}

fn unescape(value: &str) -> String {
    let mut text = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('b') => text.push('\u{8}'),
            Some('t') => text.push('\t'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('s') => text.push(' '),
            Some('\\') => text.push('\\'),
            other => text.extend(['\\'].into_iter().chain(other)),
        }
    }
    text
}

/// Reads a table's name as typed: `t`, `d.t`, or with backticks around names
/// that hold dots. Without a database, the URL's is meant.
///
/// # Errors
///
/// A failure that says what is missing.
pub(crate) fn table_name(text: &str, url: &ServerUrl) -> Result<TableName, Failure> {
    let wrong = |why: String| Failure::usage(format!("table name {text:?}: {why}"));
    let parts = name_parts(text).ok_or_else(|| wrong("write NAME or DATABASE.NAME".to_owned()))?;
    let ident = |part: &String| Ident::new(part.as_str()).map_err(|error| wrong(error.to_string()));
    match parts.as_slice() {
        [table] => {
            let schema = url.database().cloned().ok_or_else(|| {
                wrong("write DATABASE.NAME, or name the database in the URL".to_owned())
            })?;
            Ok(TableName::new(schema, ident(table)?))
        }
        [schema, table] => Ok(TableName::new(ident(schema)?, ident(table)?)),
        _ => Err(wrong(
            "write NAME or DATABASE.NAME; put backticks around a name with dots".to_owned(),
        )),
    }
}

/// Splits a name at its dots; backticks go around names that hold dots.
pub(crate) fn name_parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, after) = match rest.strip_prefix('`') {
            Some(quoted) => quoted_part(quoted)?,
            None => {
                let (part, after) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
                (part.to_owned(), after)
            }
        };
        parts.push(part);
        match after.strip_prefix('.') {
            Some(more) => rest = more,
            None if after.is_empty() => return Some(parts),
            None => return None,
        }
    }
}

fn quoted_part(quoted: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = quoted;
    loop {
        let (before, after) = rest.split_once('`')?;
        part.push_str(before);
        match after.strip_prefix('`') {
            Some(more) => {
                part.push('`');
                rest = more;
            }
            None => return Some((part, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_sections_password_is_read() {
        let text = "# c\n[mysqld]\npassword=no\n[client]\nuser = u\npassword = \"a\\sb#\"\n[mysql]\npassword=x\n";
        assert_eq!(password_in(text).as_deref(), Some("a b#"));
        assert_eq!(password_in("[client]\nuser=u\n"), None);
    }

    #[test]
    fn names_may_be_qualified_and_quoted() {
        let parts = |text| name_parts(text).map(|parts| parts.join("|"));
        assert_eq!(parts("t").as_deref(), Some("t"));
        assert_eq!(parts("d.t").as_deref(), Some("d|t"));
        assert_eq!(parts("`a.b`.`c``d`").as_deref(), Some("a.b|c`d"));
        assert_eq!(parts("a.b.c").as_deref(), Some("a|b|c"));
        assert_eq!(parts("`a"), None);
        assert_eq!(parts("`a`b"), None);
    }
}

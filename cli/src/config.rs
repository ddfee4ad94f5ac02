//! Settings from a TOML file, under the same names as the options.
//!
//! A file is turned into options that stand before those typed, for every
//! option that was not typed; so a value is read and checked in one place,
//! whichever way it came.

use std::{ffi::OsString, path::Path};

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};
use oxferry_schema::Remedy;

use crate::failure::Failure;

/// Returns the options that a file adds to those typed.
///
/// `command` is the subcommand that takes the options, `typed` what was typed.
///
/// # Errors
///
/// A failure that names the file and the key: when it can't be read, isn't
/// TOML, has a key that is no option, or a value of the wrong kind.
pub(crate) fn options_from_file(
    path: &Path,
    command: &Command,
    typed: &ArgMatches,
) -> Result<Vec<OsString>, Failure> {
    let attempted = format!("reading settings from {}", path.display());
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Remedy::Usage, error).context(attempted.clone()))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        Failure::new(Remedy::Usage, error).context(attempted.clone())
    })?;
    let mut options = Vec::new();
    for (key, value) in &table {
        let arg = option_named(command, key).ok_or_else(|| {
            Failure::usage(format!(
                "unknown key {key:?}: `oxferry {} --help` lists the names",
                command.get_name()
            ))
            .context(attempted.clone())
        })?;
        if typed.value_source(arg.get_id().as_str()) != Some(ValueSource::CommandLine) {
            let words = words(arg, value).map_err(|wanted| {
                Failure::usage(format!("{key} = {value}: {wanted}")).context(attempted.clone())
            })?;
            options.extend(words.into_iter().map(OsString::from));
        }
    }
    Ok(options)
}

/// Returns a line for each option of `command`: its name, its value, where it
/// comes from. Passwords in URLs are hidden.
pub(crate) fn lines(
    command: &Command,
    matches: &ArgMatches,
    from_file: &[OsString],
) -> Vec<String> {
    let options = command
        .get_arguments()
        .filter(|arg| arg.get_long().is_some());
    options
        .filter(|arg| !matches!(arg.get_action(), ArgAction::Help | ArgAction::Version))
        .filter_map(|arg| {
            let name = arg.get_long()?;
            let id = arg.get_id().as_str();
            let values = matches.get_raw(id).map(|values| {
                values
                    .map(|v| hide_password(&v.to_string_lossy()))
                    .collect::<Vec<_>>()
                    .join(", ")
            });
            let flag = format!("--{name}");
            let source = match matches.value_source(id) {
                _ if from_file.iter().any(|word| *word == *flag) => "file",
                Some(ValueSource::CommandLine) => "option",
                Some(ValueSource::EnvVariable) => "environment",
                Some(_) => "default",
                None => "not set",
            };
            Some(format!(
                "{name} = {}  # {source}",
                values.unwrap_or_default()
            ))
        })
        .collect()
}

fn option_named<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(key) && key != "config" && key != "help")
}

/// Returns the words that say on the command line what `value` says.
fn words(arg: &Arg, value: &toml::Value) -> Result<Vec<String>, &'static str> {
    let flag = format!("--{}", arg.get_long().unwrap_or_default());
    let scalar = |value: &toml::Value| match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        // [[joined]]: as an inline table.
        toml::Value::Table(_) => Some(value.to_string()),
        _ => None,
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, toml::Value::Boolean(true)) => Ok(vec![flag]),
        (ArgAction::SetTrue, toml::Value::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("write true or false"),
        (ArgAction::Append, toml::Value::Array(values)) => {
            let values = values.iter().map(scalar).collect::<Option<Vec<_>>>();
            let values = values.ok_or("write a list of texts")?;
            Ok(values
                .into_iter()
                .flat_map(|value| [flag.clone(), value])
                .collect())
        }
        (_, value) => scalar(value)
            .map(|value| vec![flag, value])
            .ok_or("write a text or a number"),
    }
}

/// Replaces the password of a URL by dots.
pub(crate) fn hide_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let Some((login, host)) = rest.rsplit_once('@') else {
        return text.to_owned();
    };
    match login.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:...@{host}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Cli;

    fn options(toml: &str, typed: &[&str]) -> Result<Vec<String>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), toml).unwrap();
        let words = [&["oxferry", "migrate"], typed].concat();
        let matches = Cli::command().get_matches_from(words);
        let command = Cli::command();
        let migrate = command.find_subcommand("migrate").unwrap();
        options_from_file(
            file.path(),
            migrate,
            matches.subcommand_matches("migrate").unwrap(),
        )
        .map(|options| {
            options
                .iter()
                .map(|o| o.to_string_lossy().into_owned())
                .collect()
        })
        .map_err(|failure| failure.line())
    }

    #[test]
    fn a_file_says_what_options_say() {
        let toml = "threads = 4\nkeep-old-table = true\nreplica = ['mysql://a', 'mysql://b']\n";
        let words = options(toml, &[]).unwrap();
        let cli = Cli::try_parse_from(
            ["oxferry", "migrate"]
                .map(String::from)
                .into_iter()
                .chain(words),
        );
        let crate::args::Command::Migrate(args) = cli.unwrap().command else {
            panic!()
        };
        assert_eq!(args.copy.threads.get(), 4);
        assert!(args.cutover.keep_old_table);
        assert_eq!(args.throttle.replica, ["mysql://a", "mysql://b"]);
    }

    #[test]
    fn what_is_typed_wins() {
        assert_eq!(
            options("threads = 4", &["--threads", "8"]).unwrap(),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        assert!(
            options("thread = 4", &[])
                .unwrap_err()
                .contains("unknown key \"thread\"")
        );
        assert!(
            options("keep-old-table = 3", &[])
                .unwrap_err()
                .contains("write true or false")
        );
        assert!(options("threads = ", &[]).is_err());
    }

    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(hide_password("mysql://u:p:w@h:1/d"), "mysql://u:...@h:1/d");
        assert_eq!(hide_password("mysql://u@h/d"), "mysql://u@h/d");
    }
}
